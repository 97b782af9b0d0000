#!/usr/bin/env python3
"""Runs the integration tests of amqp091-go. The Go module from the registry brings them along."""

import judge

VERSION = "v1.16.0"
MODULE = "github.com/rabbitmq/amqp091-go"
# Now and then the client waits for ever for the answer to a channel that it opens again, and all tests behind that one are not run: see
# docs/conformance.md. They are then run once more.
LIMIT, ATTEMPTS = "6m", 2
TIMED_OUT = "panic: test timed out"


def body():
    options = judge.arguments("amqp091-go", __doc__, standard_ports=True)
    checkout, version = judge.copy_of_module(options, MODULE, VERSION)
    judge.prepare(["go", "vet", "-tags", "integration", "."], cwd=checkout)
    for _ in range(ATTEMPTS):
        log = attempt(options, checkout)
        if TIMED_OUT not in log.read_text():
            break
        print(f"a test did not end within {LIMIT}: once more, on a fresh broker")
    return judge.report(options, version, judge.go_tests(log))


def attempt(options, checkout):
    """Runs all tests on a fresh broker. Returns what they said."""
    with judge.Broker(options) as broker:
        # The recovery tests close connections by the HTTP API, whose port is written into them.
        environment = {"AMQP_URL": f"amqp://guest:guest@127.0.0.1:{broker.amqp}/"}
        # One raises the memory alarm.
        environment |= {"RABBITMQ_RABBITMQCTL_PATH": str(judge.FOLDER / "rabbitmqctl.py"), "HERMOD_SUITE_STATE": str(broker.state)}
        tests = ["go", "test", "-tags", "integration", "-count=1", "-timeout", LIMIT, "-json", "./..."]
        return judge.run(options, tests, folder=checkout, environment=environment)


judge.main(body)
