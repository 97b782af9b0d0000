#!/usr/bin/env python3
"""Runs the tests of stomp.py. They were written for several brokers at once; Hermod stands in for each."""

import shutil

import judge
import pytest_suite

PACKAGES = ["pytest==9.2.0", "pytest-timeout==2.4.0", "pytest-mock", "pytest-ordering", "docopt-ng", "websocket-client"]
# The IPv6 test has this user written into it.
USER, PASSWORD = "admin", "password"
WEB_STOMP = "15674"
STANDS_IN_FOR = ["STD", "RABBITMQ", "STOMPSERVER", "ARTEMIS"]


def body():
    options = judge.arguments("stomp", __doc__)
    python = judge.virtual_environment(options, PACKAGES)
    checkout = judge.copy_of(options)
    name_ipv6_host(checkout / "tests" / "setup.ini")
    environment = {"IPV6_HOST": "::1"}
    settings = {"HERMOD_DEFAULT_USER": USER, "HERMOD_DEFAULT_PASS": PASSWORD}
    # One test logs in without a name.
    settings |= {"HERMOD_STOMP_DEFAULT_USER": USER, "HERMOD_STOMP_DEFAULT_PASS": PASSWORD}
    # Where one test looks for STOMP over WebSocket.
    settings["HERMOD_PORTS_WEB_STOMP"] = WEB_STOMP
    made = judge.certificates(options)
    settings |= judge.tls(*(made / name for name in ("server.pem", "server.key", "ca.pem")))
    install(made, checkout / "tmp")
    if options.own_network:
        # Where one test looks for a proxy that routes by the name in TLS; the broker's certificate has the name.
        settings |= judge.BIND_SECOND_ADDRESS
    with judge.Broker(options, settings) as broker:
        for name in STANDS_IN_FOR:
            environment |= {f"{name}_HOST": "127.0.0.1", f"{name}_PORT": str(broker.stomp)}
            environment |= {f"{name}_USER": USER, f"{name}_PASSWORD": PASSWORD}
        environment["IPV6_PORT"] = str(broker.stomp)
        environment["STD_SSL_PORT"] = environment["SNI_SSL_PORT"] = str(broker.stomps)
        outcomes = pytest_suite.run(options, python, folder=checkout, tests=["tests"], environment=environment, limit_per_test=20)
    return judge.report(options, judge.version_of(options), outcomes)


def install(made, folder):
    """Puts the client's certificate, the broker's authority and one that is not the broker's where the tests look for them."""
    folder.mkdir()
    for source, name in (("client.key", "client.key"), ("client.pem", "client.pem"), ("ca.pem", "broker.pem"), ("client.pem", "broker2.pem")):
        shutil.copy(made / source, folder / name)


def name_ipv6_host(settings):
    """The suite's settings have no IPv6 host; without one it asks docker for the address of its container."""
    text = settings.read_text()
    if "[ipv6]\nhost" not in text:
        settings.write_text(text.replace("[ipv6]\n", "[ipv6]\nhost = ::1\n"))


judge.main(body)
