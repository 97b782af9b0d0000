#!/usr/bin/env python3
"""Runs the client, functional and server suites of RabbitMQ's Java client by Maven. The checkout's tests must be compiled."""

import sys

import judge

SUITES = "ClientTestSuite,FunctionalTestSuite,ServerTestSuite"
# The tests look at the version: up to 4.2 they expect the global prefetch that Hermod has.
COMPAT = {"HERMOD_COMPAT_PRODUCT": "RabbitMQ", "HERMOD_COMPAT_VERSION": "4.2.0", "HERMOD_ANONYMOUS_USER": "guest"}


def body():
    options = judge.arguments("java-client", __doc__, standard_ports=True)
    checkout = judge.copy_of(options)
    judge.built(checkout, "target/test-classes")
    ctl = f"{sys.executable} {judge.FOLDER / 'rabbitmqctl.py'}"
    maven = ["mvn", "--batch-mode", "--no-transfer-progress", *options.argument, f"-Drabbitmqctl.bin={ctl}",
             "-Dtest-broker.A.nodename=hermod@localhost", "failsafe:integration-test@integration-test"]
    reports = checkout / "target" / "failsafe-reports"
    # A test without a broker makes Maven fetch what runs tests before the broker starts.
    judge.prepare([*maven, "-Dit.test=TableTest"], cwd=checkout)
    for old in reports.glob("TEST-*.xml"):
        old.unlink()
    # One test logs in from an address that is not loopback.
    settings = COMPAT | (judge.BIND_SECOND_ADDRESS if options.own_network else {})
    with judge.Broker(options, settings) as broker:
        log = judge.run(options, [*maven, "--offline", f"-Dit.test={SUITES}"], folder=checkout,
                        environment={"HERMOD_SUITE_STATE": str(broker.state)})
    results = sorted(reports.glob("TEST-*Suite.xml"))
    if not results:
        raise judge.Trouble(f"Maven wrote no results; see {log}")
    return judge.report(options, judge.version_of(options), judge.junit(*results))


judge.main(body)
