#!/usr/bin/env python3
"""Runs the interoperability tests of eclipse/paho.mqtt.testing, for MQTT 3.1.1 and 5.0.

Each test runs alone, since they share client identifiers and one that fails leaves its state behind.
"""

import re
import subprocess
import sys

import judge

# The tests set these when they are run as programs, and read the port from the wrong place then.
DRIVER = """
import importlib, sys, unittest
name, test, port = sys.argv[1:4]
tests = importlib.import_module(name)
prefix = "client_test5/" if name.endswith("5") else ""
tests.host, tests.port, tests.topic_prefix = "127.0.0.1", int(port), prefix
tests.topics = [prefix + topic for topic in ("TopicA", "TopicA/B", "Topic/C", "TopicA/C", "/TopicA")]
tests.wildtopics = [prefix + topic for topic in ("TopicA/+", "+/C", "#", "/#", "/+", "+/+", "TopicA/#")]
tests.nosubscribe_topics = ("test/nosubscribe",)
ended = unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromName("Test." + test, tests))
sys.exit(not ended.wasSuccessful())
"""
LIMIT_PER_TEST_SECONDS = 100
MQTT = 1883


def body():
    options = judge.arguments("paho-testing", __doc__)
    folder = judge.copy_of(options) / "interoperability"
    # The tests log in without a name, and most use the quality of service 2.
    settings = {"HERMOD_MQTT_DEFAULT_USER": "guest", "HERMOD_MQTT_DEFAULT_PASS": "guest", "HERMOD_MQTT_MAX_QOS": "2"}
    outcomes = []
    with judge.Broker(options, settings), (options.work_dir / "suite.log").open("w") as log:
        for name in ("client_test", "client_test5"):
            for test in re.findall(r"^    def (test\w+)\(self", (folder / f"{name}.py").read_text(), re.M):
                result, message = run(folder, name, test, MQTT + options.port_offset, log)
                outcomes.append(judge.Outcome(f"{name}.{test}", result, message))
    return judge.report(options, judge.version_of(options), outcomes)


def run(folder, name, test, port, log):
    command = [sys.executable, "-c", DRIVER, name, test, str(port)]
    try:
        ended = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                               timeout=LIMIT_PER_TEST_SECONDS)
    except subprocess.TimeoutExpired:
        return "failed", f"did not end within {LIMIT_PER_TEST_SECONDS} s"
    log.write(f"== {name}.{test}\n{ended.stdout}\n")
    lines = [line for line in ended.stdout.splitlines() if line.strip()]
    return ("passed", "") if ended.returncode == 0 else ("failed", " ".join(lines[-4:]))


judge.main(body)
