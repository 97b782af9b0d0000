#!/usr/bin/env python3
"""Runs the acceptance tests of pika: every adapter against a broker on the standard port."""

import judge
import pytest_suite

PACKAGES = ["pytest==9.2.0", "pytest-timeout==2.4.0", "tornado", "twisted", "gevent"]


def body():
    options = judge.arguments("pika", __doc__, standard_ports=True)
    python = judge.virtual_environment(options, PACKAGES)
    checkout = judge.copy_of(options)
    with judge.Broker(options):
        outcomes = pytest_suite.run(options, python, folder=checkout, tests=["tests/acceptance"])
    return judge.report(options, judge.version_of(options), outcomes)


judge.main(body)
