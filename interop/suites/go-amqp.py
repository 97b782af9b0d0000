#!/usr/bin/env python3
"""Runs the tests of go-amqp for AMQP 1.0, those that need a broker among them. The Go module from the registry brings them along."""

import judge

VERSION = "v1.7.0"
MODULE = "github.com/Azure/go-amqp"


def body():
    options = judge.arguments("go-amqp", __doc__)
    checkout, version = judge.copy_of_module(options, MODULE, VERSION)
    judge.prepare(["go", "vet", "."], cwd=checkout)
    with judge.Broker(options, {"HERMOD_ANONYMOUS_USER": "guest"}) as broker:
        environment = {"AMQP_BROKER_ADDR": f"amqp://127.0.0.1:{broker.amqp}"}
        tests = ["go", "test", "-run", "TestIntegration", "-count=1", "-timeout", "10m", "-json", "."]
        log = judge.run(options, tests, folder=checkout, environment=environment)
    return judge.report(options, version, judge.go_tests(log))


judge.main(body)
