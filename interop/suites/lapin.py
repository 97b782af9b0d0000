#!/usr/bin/env python3
"""Runs lapin's unit, integration and documentation tests. The crate from the registry, as `interop/lapin` pins it, brings them along."""

import json
import pathlib
import re

import judge

RESULTS = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}


def body():
    options = judge.arguments("lapin", __doc__)
    source, version = (options.suite_dir, judge.version_of(options)) if options.suite_dir else crate()
    checkout = judge.copy_of(options, source)
    environment = {"CARGO_TARGET_DIR": str(options.work_dir / "cargo")}
    test = ["cargo", "test", "--features", "smol", "--no-fail-fast"]
    judge.prepare([*test, "--no-run"], cwd=checkout, environment=environment)
    with judge.Broker(options) as broker:
        environment["AMQP_ADDR"] = f"amqp://127.0.0.1:{broker.amqp}/%2f"
        log = judge.run(options, test, folder=checkout, environment=environment)
    return judge.report(options, version, outcomes(log.read_text()))


def crate():
    """The folder into which cargo unpacked the crate, and its version."""
    manifest = judge.FOLDER.parent / "lapin" / "Cargo.toml"
    judge.prepare(["cargo", "fetch", "--quiet", "--manifest-path", str(manifest)])
    told = judge.prepare(["cargo", "metadata", "--quiet", "--format-version", "1", "--manifest-path", str(manifest)])
    package = next(package for package in json.loads(told)["packages"] if package["name"] == "lapin")
    return pathlib.Path(package["manifest_path"]).parent, package["version"]


def outcomes(text):
    """Reads what the test programs print, each under the line in which cargo names it."""
    found, program = [], ""
    for line in text.splitlines():
        running = re.match(r" +(?:Running (?:unittests )?(\S+)|Doc-tests (\S+))", line)
        if running:
            program = running[1] or f"documentation of {running[2]}"
            continue
        ended = re.match(r"test (.+?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)", line)
        if ended:
            found.append(judge.Outcome(f"{program}: {ended[1]}", RESULTS[ended[2]]))
    return found


judge.main(body)
