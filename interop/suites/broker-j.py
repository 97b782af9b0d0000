#!/usr/bin/env python3
"""Runs the protocol tests of Qpid Broker-J for AMQP 0-9-1 or 1.0, frame by frame against the specification's sections, by Maven."""

import dataclasses
import re
import shutil
import sys

import judge

ADMIN, SERVICE = "hermod.HermodAdmin", "META-INF/services/org.apache.qpid.tests.utils.BrokerAdmin"
# Of these not every registry has what the checkout names, and none of them has to do with these tests.
PINNED = ["-Dkerby-version=2.1.1", "-Denforcer.skip", "-Drat.skip"]
BERKELEY_DB = re.compile(r"\s*<dependency>\s*<groupId>org\.apache\.qpid</groupId>\s*<artifactId>"
                         r"(qpid-bdbstore|qpid-broker-plugins-amqp-1-0-protocol-bdb-link-store)</artifactId>.*?</dependency>", re.DOTALL)
WEB_AMQP = 15678
# Some tests wait until the server closes a connection that does not log in, as long as the suite waits for any answer.
SETTINGS = {"HERMOD_ANONYMOUS_USER": "guest", "HERMOD_LIMITS_HANDSHAKE_TIMEOUT": "2s", "HERMOD_PORTS_WEB_AMQP": WEB_AMQP}
EXTERNAL = "qpid.tests.protocol.broker.external"
# How a test ends that the suite itself wants to skip, as being about its own broker: its way of skipping is an error of JUnit's.
SKIPPED_BY_ITSELF = "Chain of InvocationInterceptors called invocation multiple times"
# The client of the tests for AMQP 0-9-1 opens channel 0 unless told otherwise, which the specification keeps for the connection (4.2.3): it gets 1, and
# what is of the connection stays on 0.
CLIENT = "src/main/java/org/apache/qpid/tests/protocol/v0_8/Interaction.java"
CHANNEL = [
    ("private int _channelId;", "private int _channelId = 1;"),
    ("new AMQFrame(channel, amqBody)", "new AMQFrame(isGlobal(amqBody) ? 0 : channel, amqBody)"),
    ("    public Interaction negotiateOpen()", '''    private static boolean isGlobal(final AMQBody body)
    {
        return body.getFrameType() == 8 || (body instanceof org.apache.qpid.server.protocol.v0_8.transport.AMQMethodBody method
                                            && method.getClazz() == 10);
    }

    public Interaction negotiateOpen()'''),
]


@dataclasses.dataclass(frozen=True)
class Tests:
    """One of the suite's modules: its folder, what turns it on, one of its classes, changes of its files, and what its tests are told besides."""

    module: str
    switches: list
    any_class: str
    changes: dict
    told: dict


PROTOCOLS = {
    "0-9-1": Tests(
        "systests/protocol-tests-amqp-0-8",
        ["-DenableAmqp0-x", "-Dprofile=java-mms.0-9-1"],
        "ChannelTest",
        {CLIENT: CHANNEL},
        # One test declares its queue again, as one that is not durable.
        {f"{EXTERNAL}.supportedSaslMechanisms": "PLAIN", "hermod.durable": "false"},
    ),
    "1-0": Tests(
        "systests/protocol-tests-amqp-1-0",
        ["-DenableAmqp1-0", "-Dprofile=java-mms.1-0"],
        "BeginTest",
        {},
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
    prepare_module(module, suite)
    maven = ["mvn", "--batch-mode", "--no-transfer-progress", "--projects", suite.module, *PINNED]
    judge.prepare([*maven, "--also-make", "install", "-DskipTests", "--quiet"], cwd=checkout)
    tests = [*maven, "surefire:test@integration-test", "-DskipTests=false", "-DskipITs=false", *suite.switches, "-Dmaven.test.failure.ignore=true"]
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


def prepare_module(module, suite):
    """Adds the class by which the suite makes queues, counts messages and restarts the broker: for each broker it needs one."""
    pom = module / "pom.xml"
    pom.write_text(BERKELEY_DB.sub("", pom.read_text()))
    for name, changes in suite.changes.items():
        file = module / name
        file.write_text(changed(file.read_text(), changes, name))
    admin = module / "src/main/java" / f"{ADMIN.replace('.', '/')}.java"
    admin.parent.mkdir(parents=True)
    shutil.copy(judge.FOLDER / "broker-j" / admin.name, admin)
    service = module / "src/main/resources" / SERVICE
    service.parent.mkdir(parents=True, exist_ok=True)
    service.write_text(f"{ADMIN}\n")


def changed(text, changes, name):
    for old, new in changes:
        if text.count(old) != 1:
            raise judge.Trouble(f"this checkout has no `{old}` in {name}: take the version that docs/conformance.md names")
        text = text.replace(old, new)
    return text


def skipped_or(outcome):
    return dataclasses.replace(outcome, result="skipped") if SKIPPED_BY_ITSELF in outcome.message else outcome


judge.main(body)
