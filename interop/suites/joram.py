#!/usr/bin/env python3
"""Runs joram's tests of JMS 1.1 over Qpid JMS, and so over AMQP 1.0. The jars from the registry bring them along."""

import judge

VERSION = "1.0"
TESTS = "joram-jms-tests-1.0.jar"


def body():
    options = judge.arguments("joram", __doc__)
    checkout = judge.copy_of(options, judge.FOLDER / "joram")
    judge.prepare(["mvn", "--batch-mode", "--no-transfer-progress", "--quiet", "compile"], cwd=checkout)
    target = checkout / "target"
    with judge.Broker(options) as broker:
        settings = [
            f"-Dhermod.api=http://127.0.0.1:{judge.HTTP + options.port_offset}/api/",
            f"-Dhermod.url=amqp://127.0.0.1:{broker.amqp}?jms.username=guest&jms.password=guest",
        ]
        # `console-standalone` finds the tests of old JUnit in the suite's jar by their names.
        command = ["java", *settings, "-cp", f"{target / 'classes'}:{target / 'lib'}/*", "org.junit.platform.console.ConsoleLauncher", "execute",
                   f"--scan-classpath={target / 'lib' / TESTS}", "--include-classname=.*Test", "--reports-dir", target / "reports", "--details=none"]
        log = judge.run(options, command, folder=checkout)
    results = sorted((target / "reports").glob("TEST-*.xml"))
    if not results:
        raise judge.Trouble(f"JUnit wrote no results; see {log}")
    return judge.report(options, VERSION, [outcome for outcome in judge.junit(*results) if outcome.test])


judge.main(body)
