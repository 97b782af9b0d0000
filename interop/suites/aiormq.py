#!/usr/bin/env python3
"""Runs the tests of aiormq, the client beneath aio-pika. They have the port of AMQP within TLS written into them."""

import judge
import pytest_suite

# The package brings its dependencies; the tests use the checkout's own source.
PACKAGES = ["aiormq==6.9.3", "pytest>=8.4,<9", "pytest-timeout==2.4.0", "aiomisc>=17,<18", "aiomisc-pytest>=1.1,<2", "pytest-rst>=0.1,<0.2"]
# The largest body in the tests has 20 MiB.
SETTINGS = {"HERMOD_LIMITS_MAX_MESSAGE_SIZE": "32MiB"}


def body():
    options = judge.arguments("aiormq", __doc__, standard_ports=True)
    python = judge.virtual_environment(options, PACKAGES)
    checkout = judge.copy_of(options)
    certificates = checkout / "tests" / "certs"
    tls = judge.tls(*(certificates / name for name in ("server.pem", "server.key", "ca.pem")))
    with judge.Broker(options, SETTINGS | tls) as broker:
        environment = {"AMQP_URL": f"amqp://guest:guest@127.0.0.1:{broker.amqp}//"}
        outcomes = pytest_suite.run(options, python, folder=checkout, tests=["tests"], environment=environment, limit_per_test=150)
    return judge.report(options, judge.version_of(options), outcomes)


judge.main(body)
