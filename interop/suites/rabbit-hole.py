#!/usr/bin/env python3
"""Runs the tests of rabbit-hole, a client of the HTTP API in Go. The Go module from the registry brings them along."""

import time

import judge

VERSION = "v3.5.0"
MODULE = "github.com/michaelklishin/rabbit-hole/v3"
# The vhost and the user that the tests' own preparation makes.
PREPARATION = [
    ["vhosts", "add", "rabbit/hole"],
    ["permissions", "set", "guest", ".*", ".*", ".*", "--vhost", "rabbit/hole"],
    ["users", "add", "policymaker", "--password", "policymaker", "--tags", "policymaker"],
    ["permissions", "set", "policymaker", ".*", ".*", ".*"],
]


def body():
    options = judge.arguments("rabbit-hole", __doc__, standard_ports=True)
    checkout, version = judge.copy_of_module(options, MODULE, VERSION)
    # Compiles them, so that everything is fetched before the broker starts.
    judge.prepare(["go", "test", "-count=1", "-run", "^$", "."], cwd=checkout)
    report = options.work_dir / "report.xml"
    report.unlink(missing_ok=True)
    with judge.Broker(options) as broker:
        data = str(broker.folder / "store")
        # Its ports are open a moment before it can be told anything.
        wait_for(lambda: (broker.folder / "store" / "control.sock").exists())
        for words in PREPARATION:
            judge.prepare([str(options.server), *words, "--data-dir", data])
        log = judge.run(options, ["go", "test", "-count=1", f"-ginkgo.junit-report={report}", "."], folder=checkout,
                        environment={"GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT": "2s"})
    if not report.is_file():
        raise judge.Trouble(f"the suite wrote no results; see {log}")
    outcomes = [outcome for outcome in judge.junit(report) if not outcome.test.endswith("[BeforeSuite]")]
    return judge.report(options, version, outcomes)


def wait_for(reached):
    end = time.monotonic() + judge.START_LIMIT_SECONDS
    while not reached():
        if time.monotonic() > end:
            raise judge.Trouble("the broker has no control socket")
        time.sleep(0.02)


judge.main(body)
