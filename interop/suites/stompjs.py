#!/usr/bin/env python3
"""Runs the specs of @stomp/stompjs with Node: STOMP within WebSockets."""

import json

import judge

# Written into the suite's settings.
WEB_STOMP = "15674"
# What of the suite's development packages its specs need in Node; a checkout has the built library.
PACKAGES = ["jasmine@5", "ws@8", "text-encoding@0.7"]
RESULTS = {"passed": "passed", "failed": "failed"}


def body():
    options = judge.arguments("stompjs", __doc__)
    checkout = judge.copy_of(options)
    (checkout / "package-lock.json").unlink(missing_ok=True)
    text = json.loads((checkout / "package.json").read_text())
    # One of them is fetched from elsewhere, and none is for Node.
    (checkout / "package.json").write_text(json.dumps({**text, "devDependencies": {}}))
    judge.prepare(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", *PACKAGES], cwd=checkout)
    # The same order each time.
    command = ["npx", "jasmine", "--seed=1", f"--reporter={judge.FOLDER / 'stompjs-reporter.mjs'}"]
    with judge.Broker(options, {"HERMOD_PORTS_WEB_STOMP": WEB_STOMP}):
        log = judge.run(options, command, folder=checkout)
    return judge.report(options, judge.version_of(options), outcomes(log.read_text()))


def outcomes(text):
    specs = [json.loads(line.removeprefix("RESULT ")) for line in text.splitlines() if line.startswith("RESULT ")]
    return [judge.Outcome(spec["name"], RESULTS.get(spec["status"], "skipped"), spec["message"]) for spec in specs]


judge.main(body)
