#!/usr/bin/env python3
"""Runs the client, functional and server suites of RabbitMQ's Java client by Maven. The checkout needs `make deps` first."""

import sys

import judge

SUITES = "ClientTestSuite,FunctionalTestSuite,ServerTestSuite"
# The tests look at the version: up to 4.2 they expect the global prefetch that Hermod has.
COMPAT = {"HERMOD_COMPAT_PRODUCT": "RabbitMQ", "HERMOD_COMPAT_VERSION": "4.2.0", "HERMOD_ANONYMOUS_USER": "guest"}
# Tracing is none of the broker's business, and of these two not every registry has the versions that the checkout names.
PINNED = ["-Dmicrometer.version=1.16.0", "-Dmicrometer-tracing-test.version=1.6.0"]


def body():
    options = judge.arguments("java-client", __doc__, standard_ports=True)
    checkout = judge.copy_of(options)
    if not (checkout / "deps" / "rabbitmq_codegen").is_dir():
        raise judge.Trouble(f"{options.suite_dir} has no deps/rabbitmq_codegen: run `make deps` there")
    ctl = f"{sys.executable} {judge.FOLDER / 'rabbitmqctl.py'}"
    maven = ["mvn", "--batch-mode", "--no-transfer-progress", f"-Ddeps.dir={checkout / 'deps'}", *PINNED,
             f"-Drabbitmqctl.bin={ctl}", "-Dtest-broker.A.nodename=hermod@localhost", "-Dmaven.test.failure.ignore=true", "verify"]
    reports = checkout / "target" / "failsafe-reports"
    # A test without a broker makes Maven fetch all that it needs before the broker starts.
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
