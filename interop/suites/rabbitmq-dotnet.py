#!/usr/bin/env python3
"""Runs the tests of RabbitMQ's .NET client 5.1.0, the last one that Mono's compiler takes, under Mono and NUnit's console.

Debian's packages: mono-runtime, nunit-console, libnunit-cil-dev. The checkout's folder `built` must have the client and its tests as
RabbitMQ.Client.dll and Unit.dll.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree

import judge

NUNIT = "/usr/lib/cli/nunit.framework-2.6.3/nunit.framework.dll"
CONSOLE = "/usr/lib/nunit/nunit-console.exe"
# SharedQueue hangs under Mono, and uses no broker; flooding takes minutes, and the tests of TLS want certificates of their own.
LEFT_OUT = {"TestSharedQueue", "TestFloodPublishing", "TestSsl", "TestHeartbeats"}
CTL = """#!/bin/sh
case "$*" in *list_connections*) set -- "$@" --no-table-headers ;; esac
exec {python} {ctl} "$@"
"""
FIXTURE = re.compile(r"\[TestFixture\][^{]*?(?:class)\s+(\w+)", re.DOTALL)
NAMESPACE = re.compile(r"^namespace\s+([\w.]+)", re.MULTILINE)


def body():
    options = judge.arguments("rabbitmq-dotnet", __doc__, standard_ports=True)
    checkout = judge.copy_of(options)
    tests, built = checkout / "projects/client/Unit", judge.built(checkout, "built")
    (built / "nunit.framework.dll").write_bytes(judge.pathlib.Path(NUNIT).read_bytes())
    fixtures = options.work_dir / "fixtures.txt"
    fixtures.write_text("".join(f"{name}\n" for name in sorted(fixtures_of(tests)) if name.split(".")[-1] not in LEFT_OUT))
    ctl = options.work_dir / "rabbitmqctl"
    ctl.write_text(CTL.format(python=sys.executable, ctl=judge.FOLDER / "rabbitmqctl.py"))
    ctl.chmod(0o755)
    results = options.work_dir / "results.xml"
    results.unlink(missing_ok=True)
    with judge.Broker(options) as broker:
        environment = {"HERMOD_SUITE_STATE": str(broker.state), "RABBITMQ_RABBITMQCTL_PATH": str(ctl)}
        command = ["mono", CONSOLE, "-noshadow", "-nologo", "-labels", f"-runlist={fixtures}", f"-xml={results}", "Unit.dll"]
        log = judge.run(options, command, folder=built, environment=environment)
    if not results.is_file():
        raise judge.Trouble(f"NUnit wrote no results; see {log}")
    return judge.report(options, "5.1.0", list(outcomes(results)))


def fixtures_of(tests):
    """The names of the tests' classes, each with its namespace where it has one."""
    for file in (tests / "src").rglob("*.cs"):
        text = file.read_text(encoding="utf-8-sig")
        namespace = NAMESPACE.search(text)
        for name in FIXTURE.findall(text):
            yield f"{namespace[1]}.{name}" if namespace else name


def outcomes(results):
    """The outcomes in NUnit's XML. A test that NUnit did not run was left out by its own attribute."""
    for case in ElementTree.parse(results).iter("test-case"):
        name = case.get("name").removeprefix("RabbitMQ.Client.Unit.")
        if case.get("executed") != "True":
            yield judge.Outcome(name, "skipped")
        elif case.get("result") == "Success":
            yield judge.Outcome(name, "passed")
        else:
            said = case.find(".//message")
            yield judge.Outcome(name, "failed", (said.text or "").strip() if said is not None else case.get("result"))


judge.main(body)
