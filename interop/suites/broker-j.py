#!/usr/bin/env python3
"""Runs the protocol tests of Qpid Broker-J for AMQP 0-9-1 or 1.0, frame by frame against the specification's sections, by Maven.

The checkout must be built and installed in Maven's own repository.
"""

import dataclasses
import shutil
import sys

import judge

ADMIN, SERVICE = "hermod.HermodAdmin", "META-INF/services/org.apache.qpid.tests.utils.BrokerAdmin"
WEB_AMQP = 15678
# Some tests wait until the server closes a connection that does not log in, as long as the suite waits for any answer.
SETTINGS = {"HERMOD_ANONYMOUS_USER": "guest", "HERMOD_LIMITS_HANDSHAKE_TIMEOUT": "2s", "HERMOD_PORTS_WEB_AMQP": WEB_AMQP}
EXTERNAL = "qpid.tests.protocol.broker.external"
# How a test ends that the suite itself wants to skip, as being about its own broker: its way of skipping is an error of JUnit's.
SKIPPED_BY_ITSELF = "Chain of InvocationInterceptors called invocation multiple times"


@dataclasses.dataclass(frozen=True)
class Tests:
    """One of the suite's modules: its folder, what turns it on, one of its classes, and what its tests are told besides."""

    module: str
    switches: list
    any_class: str
    told: dict


PROTOCOLS = {
    "0-9-1": Tests(
        "systests/protocol-tests-amqp-0-8",
        ["-DenableAmqp0-x", "-Dprofile=java-mms.0-9-1"],
        "ChannelTest",
        # One test declares its queue again, as one that is not durable.
        {f"{EXTERNAL}.supportedSaslMechanisms": "PLAIN", "hermod.durable": "false"},
    ),
    "1-0": Tests(
        "systests/protocol-tests-amqp-1-0",
        ["-DenableAmqp1-0", "-Dprofile=java-mms.1-0"],
        "BeginTest",
        {
            # Some restart the broker.
            "hermod.durable": "true",
            f"{EXTERNAL}.supportedSaslMechanisms": "PLAIN,SCRAM-SHA-256",
            f"{EXTERNAL}.port.websocket.anonymous": WEB_AMQP,
            f"{EXTERNAL}.webSocketSupported": "true",
            # Its tests look at the type of a body, so messages come by this protocol.
            f"{EXTERNAL}.queueAdmin": "org.apache.qpid.tests.protocol.v1_0.ExistingQueueAdmin",
        },
    ),
}


def body():
    options = judge.arguments("broker-j", __doc__, standard_ports=True, parts=PROTOCOLS)
    suite = PROTOCOLS[options.part]
    checkout = judge.copy_of(options)
    module = checkout / suite.module
    maven = ["mvn", "--batch-mode", "--no-transfer-progress", "--projects", suite.module, "-Denforcer.skip", *options.argument]
    tests = [*maven, f"-Dmaven.test.additionalClasspath={admin(options, maven, module)}", "surefire:test@integration-test",
             "-DskipTests=false", "-DskipITs=false", *suite.switches, "-Dmaven.test.failure.ignore=true"]
    # To run none of a class's tests makes Maven fetch what runs them before the broker starts.
    judge.prepare([*tests, f"-Dtest={suite.any_class}#none", "-Dsurefire.failIfNoSpecifiedTests=false"], cwd=checkout)
    for old in (module / "target").rglob("TEST-*.xml"):
        old.unlink()
    settings = [f"-D{name}={value}" for name, value in {**external(), **suite.told}.items()]
    with judge.Broker(options, SETTINGS) as broker:
        log = judge.run(options, [*tests, "--offline", *settings], folder=checkout, environment={"HERMOD_SUITE_STATE": str(broker.state)})
    results = sorted((module / "target").rglob("TEST-*.xml"))
    if not results:
        raise judge.Trouble(f"Maven wrote no results; see {log}")
    return judge.report(options, judge.version_of(options), [skipped_or(outcome) for outcome in judge.junit(*results)])


def external():
    """How the suite reaches a broker that it does not start."""
    return {
        "qpid.tests.brokerAdminType": "HERMOD",
        f"{EXTERNAL}.port.standard": judge.AMQP,
        f"{EXTERNAL}.port.anonymous": judge.AMQP,
        f"{EXTERNAL}.username": "guest",
        f"{EXTERNAL}.password": "guest",
        "hermod.api": f"http://127.0.0.1:{judge.HTTP}/api/",
        "hermod.python": sys.executable,
        "hermod.ctl": judge.FOLDER / "rabbitmqctl.py",
    }


def admin(options, maven, module):
    """The folder with the class by which the suite makes queues, counts messages and restarts the broker: for each broker it needs one."""
    folder, libraries = options.work_dir / "admin", options.work_dir / "libraries.txt"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / SERVICE).parent.mkdir(parents=True)
    (folder / SERVICE).write_text(f"{ADMIN}\n")
    judge.prepare([*maven, "dependency:build-classpath", f"-Dmdep.outputFile={libraries}", "--quiet"], cwd=options.work_dir / "checkout")
    classes = judge.built(module, "target/classes")
    source = judge.FOLDER / "broker-j" / f"{ADMIN.split('.')[-1]}.java"
    judge.prepare(["javac", "-cp", f"{classes}:{libraries.read_text().strip()}", "-d", folder, source])
    return folder


def skipped_or(outcome):
    return dataclasses.replace(outcome, result="skipped") if SKIPPED_BY_ITSELF in outcome.message else outcome


judge.main(body)
