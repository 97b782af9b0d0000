#!/usr/bin/env python3
"""Runs the protocol tests of Qpid Broker-J for AMQP 1.0, frame by frame against the specification's sections, by Maven."""

import dataclasses
import re
import shutil
import sys

import judge

MODULE = "systests/protocol-tests-amqp-1-0"
PACKAGE = "org/apache/qpid/tests/protocol/v1_0"
ADMIN, SERVICE = "HermodAdmin", "META-INF/services/org.apache.qpid.tests.utils.BrokerAdmin"
# Of these not every registry has what the checkout names, and none of them has to do with these tests.
PINNED = ["-Dkerby-version=2.1.1", "-Denforcer.skip", "-Drat.skip"]
BERKELEY_DB = re.compile(r"\s*<dependency>\s*<groupId>org\.apache\.qpid</groupId>\s*<artifactId>"
                         r"(qpid-bdbstore|qpid-broker-plugins-amqp-1-0-protocol-bdb-link-store)</artifactId>.*?</dependency>", re.DOTALL)
# Some tests wait until the server closes a connection that does not log in, as long as the suite waits for any answer.
SETTINGS = {"HERMOD_ANONYMOUS_USER": "guest", "HERMOD_LIMITS_HANDSHAKE_TIMEOUT": "2s", "HERMOD_PORTS_WEB_AMQP": "15678"}
WEB_AMQP = 15678
# How a test ends that the suite itself wants to skip, as being about its own broker: its way of skipping is an error of JUnit's.
SKIPPED_BY_ITSELF = "Chain of InvocationInterceptors called invocation multiple times"


def body():
    options = judge.arguments("broker-j", __doc__, standard_ports=True)
    checkout = judge.copy_of(options)
    module = checkout / MODULE
    pom = module / "pom.xml"
    pom.write_text(BERKELEY_DB.sub("", pom.read_text()))
    install_admin(module)
    maven = ["mvn", "--batch-mode", "--no-transfer-progress", "--projects", MODULE, *PINNED]
    judge.prepare([*maven, "--also-make", "install", "-DskipTests", "--quiet"], cwd=checkout)
    tests = [*maven, "surefire:test@integration-test", "-DskipTests=false", "-DskipITs=false", "-DenableAmqp1-0", "-Dprofile=java-mms.1-0",
             "-Dmaven.test.failure.ignore=true"]
    # To run none of a class's tests makes Maven fetch what runs them before the broker starts.
    judge.prepare([*tests, "-Dtest=BeginTest#none", "-Dsurefire.failIfNoSpecifiedTests=false"], cwd=checkout)
    for old in (module / "target").rglob("TEST-*.xml"):
        old.unlink()
    settings = [f"-D{name}={value}" for name, value in external().items()]
    with judge.Broker(options, SETTINGS) as broker:
        log = judge.run(options, [*tests, "--offline", *settings], folder=checkout, environment={"HERMOD_SUITE_STATE": str(broker.state)})
    results = sorted((module / "target").rglob("TEST-*.xml"))
    if not results:
        raise judge.Trouble(f"Maven wrote no results; see {log}")
    return judge.report(options, judge.version_of(options), [skipped_or(outcome) for outcome in judge.junit(*results)])


def external():
    """How the suite reaches a broker that it does not start."""
    prefix = "qpid.tests.protocol.broker.external"
    return {
        "qpid.tests.brokerAdminType": "HERMOD",
        f"{prefix}.port.standard": judge.AMQP,
        f"{prefix}.port.anonymous": judge.AMQP,
        f"{prefix}.port.websocket.anonymous": WEB_AMQP,
        f"{prefix}.webSocketSupported": "true",
        f"{prefix}.username": "guest",
        f"{prefix}.password": "guest",
        f"{prefix}.supportedSaslMechanisms": "PLAIN,SCRAM-SHA-256",
        "hermod.api": f"http://127.0.0.1:{judge.HTTP}/api/",
        "hermod.python": sys.executable,
        "hermod.ctl": judge.FOLDER / "rabbitmqctl.py",
    }


def install_admin(module):
    """Adds the class by which the suite makes queues, counts messages and restarts the broker: for each broker it needs one."""
    shutil.copy(judge.FOLDER / "broker-j" / f"{ADMIN}.java", module / "src/main/java" / PACKAGE)
    service = module / "src/main/resources" / SERVICE
    service.parent.mkdir(parents=True, exist_ok=True)
    service.write_text(f"{PACKAGE.replace('/', '.')}.{ADMIN}\n")


def skipped_or(outcome):
    return dataclasses.replace(outcome, result="skipped") if SKIPPED_BY_ITSELF in outcome.message else outcome


judge.main(body)
