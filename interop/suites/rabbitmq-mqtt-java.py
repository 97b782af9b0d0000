#!/usr/bin/env python3
"""Runs the tests of RabbitMQ's MQTT plugin that use Paho's Java clients, by Maven: those of MQTT 3.1.1 and 5.0, and of TLS.
The checkout's tests must be compiled.

They are for three nodes. Here one is all of them, so the two tests that connect to another node connect to the same one.
"""

import shutil
import sys
import time

import judge

TESTS = "deps/rabbitmq_mqtt/test/java_SUITE_data"
CLASSES = "MqttTest,MqttV5Test,MqttSSLTest,MqttV5SSLTest"
MQTT, MQTTS = 1883, 8883
PASSWORD = "bunnychow"
# The user whose certificate logs in, as the broker calls it.
CERTIFIED = "CN=client"
# What RabbitMQ's own run of these tests lets guest do. A dot within a level of a topic is %2E in a routing key here, where RabbitMQ has ___.
WRITE = r"test-topic|^test-retained-topic$|^{username}.{client_id}.a$|^sp[AB]v\d+%2E\d+"
READ = WRITE + "|^last-will$"


def body():
    options = judge.arguments("rabbitmq-mqtt-java", __doc__)
    source = options.suite_dir and options.suite_dir / TESTS
    if source and not source.is_dir():
        raise judge.Trouble(f"{options.suite_dir} has no {TESTS}: --suite-dir must name a checkout of rabbitmq-server")
    checkout = judge.copy_of(options, source)
    judge.built(checkout, "target/test-classes")
    folder = certificates(options)
    judge.prepare(["keytool", "-importcert", "-noprompt", "-alias", "server1", "-file", folder / "ca.pem", "-storepass", PASSWORD,
                   "-keystore", folder / "ca.keystore"])
    ports = {"mqtt.port": MQTT, "mqtt.port.2": MQTT, "mqtt.port.3": MQTT, "mqtt.ssl.port": MQTTS, "amqp.port": judge.AMQP}
    given = {name: port + options.port_offset for name, port in ports.items()} | {"certs.dir": folder, "hostname": "localhost", "deps.dir": folder,
                                                                               "test-keystore.ca": folder / "ca.keystore"}
    maven = ["mvn", "--batch-mode", "--no-transfer-progress", *options.argument, *(f"-D{name}={value}" for name, value in given.items()),
             "-Dmaven.test.failure.ignore=true", "-Dsurefire.failIfNoSpecifiedTests=false"]
    # To run none of the tests makes Maven fetch what runs them before the broker starts.
    judge.prepare([*maven, "-Dtest=MqttTest#none", "surefire:test"], cwd=checkout)
    settings = judge.tls(folder / "server.pem", folder / "server.key", folder / "ca.pem") | {"HERMOD_AUTH_MECHANISMS": "PLAIN,AMQPLAIN,EXTERNAL"}
    with judge.Broker(options, settings) as broker:
        wait_for(broker.folder / "store" / "control.sock")
        for words in (["add_user", CERTIFIED, PASSWORD], ["set_permissions", CERTIFIED, ".*", ".*", ".*"],
                      ["set_topic_permissions", "guest", "amq.topic", WRITE, READ]):
            judge.prepare([sys.executable, judge.FOLDER / "rabbitmqctl.py", *words], environment={"HERMOD_SUITE_STATE": str(broker.state)})
        log = judge.run(options, [*maven, "--offline", f"-Dtest={CLASSES}", "surefire:test"], folder=checkout)
    results = sorted((checkout / "target" / "surefire-reports").glob("TEST-*.xml"))
    if not results:
        raise judge.Trouble(f"Maven wrote no results; see {log}")
    return judge.report(options, judge.version_of(options), judge.junit(*results))


def wait_for(file):
    """Waits until the broker takes commands, which comes after its ports."""
    end = time.monotonic() + judge.START_LIMIT_SECONDS
    while not file.exists():
        if time.monotonic() > end:
            raise judge.Trouble(f"the broker has no {file}")
        time.sleep(0.02)


def certificates(options):
    """Certificates in the places where the tests look for them."""
    folder = judge.certificates(options)
    for place in ("testca", "client"):
        (folder / place).mkdir()
    shutil.copy(folder / "ca.pem", folder / "testca" / "cacert.pem")
    judge.prepare(["openssl", "pkcs12", "-export", "-in", "client.pem", "-inkey", "client.key", "-out", "client/keycert.p12",
                   "-passout", f"pass:{PASSWORD}"], cwd=folder)
    return folder


judge.main(body)
