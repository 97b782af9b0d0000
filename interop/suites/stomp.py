#!/usr/bin/env python3
"""Runs the tests of stomp.py. They were written for several brokers at once; Hermod stands in for each."""

import judge
import pytest_suite

PACKAGES = ["pytest==9.2.0", "pytest-timeout==2.4.0", "pytest-mock", "pytest-ordering", "docopt-ng", "websocket-client"]
# The IPv6 test has this user written into it.
USER, PASSWORD = "admin", "password"
STANDS_IN_FOR = ["STD", "RABBITMQ", "STOMPSERVER", "ARTEMIS"]


def body():
    options = judge.arguments("stomp", __doc__)
    python = judge.virtual_environment(options, PACKAGES)
    checkout = judge.copy_of(options)
    name_ipv6_host(checkout / "tests" / "setup.ini")
    environment = {"IPV6_HOST": "::1"}
    with judge.Broker(options, {"HERMOD_DEFAULT_USER": USER, "HERMOD_DEFAULT_PASS": PASSWORD}) as broker:
        for name in STANDS_IN_FOR:
            environment |= {f"{name}_HOST": "127.0.0.1", f"{name}_PORT": str(broker.stomp)}
            environment |= {f"{name}_USER": USER, f"{name}_PASSWORD": PASSWORD}
        environment["IPV6_PORT"] = str(broker.stomp)
        outcomes = pytest_suite.run(options, python, folder=checkout, tests=["tests"], environment=environment, limit_per_test=20)
    return judge.report(options, judge.version_of(options), outcomes)


def name_ipv6_host(settings):
    """The suite's settings have no IPv6 host; without one it asks docker for the address of its container."""
    text = settings.read_text()
    if "[ipv6]\nhost" not in text:
        settings.write_text(text.replace("[ipv6]\n", "[ipv6]\nhost = ::1\n"))


judge.main(body)
