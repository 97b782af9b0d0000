#!/usr/bin/env python3
"""Runs the tests of amqplib with Node's own test runner."""

import dataclasses
import re

import judge

# The suite gives each file one second, which counts the start of Node too and is too short beside a busy compiler.
LIMIT_MS = 60_000
COMPAT = {"HERMOD_COMPAT_PRODUCT": "RabbitMQ", "HERMOD_COMPAT_VERSION": "4.2.0"}


def body():
    options = judge.arguments("amqplib", __doc__, standard_ports=True)
    checkout = judge.copy_of(options)
    judge.prepare(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=checkout)
    with judge.Broker(options, COMPAT) as broker:
        command = ["node", "--test", f"--test-timeout={LIMIT_MS}", "--test-reporter=tap"]
        log = judge.run(options, command, folder=checkout, environment={"URL": f"amqp://localhost:{broker.amqp}"})
    return judge.report(options, judge.version_of(options), outcomes(log.read_text(), str(checkout)))


def outcomes(text, folder):
    """Reads TAP, where a subtest ends before the group that it belongs to. Groups are left out, but for one that failed by itself."""
    found, above, inside, complaint = [], [], {}, ""
    for line in text.splitlines():
        start = re.match(r"( *)# Subtest: (.*)", line)
        end = re.match(r"( *)(ok|not ok) \d+ - (.*?)(?: # (SKIP|TODO).*)?$", line)
        if line.startswith("# Error: "):
            complaint = line[2:]
        elif start:
            above[len(start[1]) // 4:] = [start[2].replace(folder + "/", "")]
        elif end:
            depth = len(end[1]) // 4
            result = "skipped" if end[4] else "passed" if end[2] == "ok" else "failed"
            within = inside.pop(depth + 1, None)
            inside.setdefault(depth, []).append(result)
            if within is None or (result == "failed" and "failed" not in within):
                found.append(judge.Outcome(" > ".join(above[: depth + 1]), result, "" if depth else complaint))
                complaint = complaint if depth else ""
        elif line.lstrip().startswith("error: ") and found and found[-1].result == "failed" and not found[-1].message:
            found[-1] = dataclasses.replace(found[-1], message=line.split("error: ", 1)[1])
    return found


judge.main(body)
