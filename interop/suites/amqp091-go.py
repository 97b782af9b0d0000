#!/usr/bin/env python3
"""Runs the integration tests of amqp091-go. The Go module from the registry brings them along."""

import json

import judge

VERSION = "v1.16.0"
MODULE = "github.com/rabbitmq/amqp091-go"
RESULTS = {"pass": "passed", "fail": "failed", "skip": "skipped"}


def body():
    options = judge.arguments("amqp091-go", __doc__, standard_ports=True)
    checkout, version = judge.copy_of_module(options, MODULE, VERSION)
    judge.prepare(["go", "vet", "-tags", "integration", "."], cwd=checkout)
    with judge.Broker(options) as broker:
        # The recovery tests close connections by the HTTP API, whose port is written into them.
        environment = {"AMQP_URL": f"amqp://guest:guest@127.0.0.1:{broker.amqp}/"}
        # One raises the memory alarm.
        environment |= {"RABBITMQ_RABBITMQCTL_PATH": str(judge.FOLDER / "rabbitmqctl.py"), "HERMOD_SUITE_STATE": str(broker.state)}
        log = judge.run(options, ["go", "test", "-tags", "integration", "-count=1", "-json", "./..."], folder=checkout,
                        environment=environment)
    return judge.report(options, version, outcomes(log))


def outcomes(log):
    """Reads the events of `go test -json`. A test that has no end, as after a panic, failed."""
    said, ended = {}, {}
    for line in log.read_text().splitlines():
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        test = event.get("Test")
        if test is None:
            continue
        said.setdefault(test, [])
        if event["Action"] == "output":
            said[test].append(event["Output"])
        elif event["Action"] in RESULTS:
            ended[test] = RESULTS[event["Action"]]
    return [judge.Outcome(test, ended.get(test, "failed"), "".join(said[test][-4:])) for test in said]


judge.main(body)
