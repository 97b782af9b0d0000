#!/usr/bin/env python3
"""Runs the broker tests of eclipse/mosquitto: its Python tests, and its sequences of packets.

Each test starts a broker of its own by `../../src/mosquitto`. Here that is a program that starts Hermod on the port that the test
expects. A test that configures what is Mosquitto's own (bridges, plugins, access lists, its limits) is skipped, and its reason named.

One thing in `mosq_test.py` is changed. An answer is compared by what it says, not by its bytes: reason strings and the broker's own
limits (topic alias maximum, receive maximum, maximum packet size) are each broker's to choose, and so is whether a PUBACK says that
nobody subscribes (MQTT 5.0, 3.2.2.3, 3.4.2.1, 3.14.2.2.3). Reason codes of errors count as they are.
"""

import os
import re
import shutil
import socket
import subprocess

import judge

LIMIT_PER_TEST_SECONDS = 90
# Files that are no tests, or run all others.
HELPERS = {"mosq_test_helper", "prop_subpub_helper", "02-subpub-qos2-receive-maximum-helper", "08-ssl-bridge-helper", "test"}
SEQUENCES = "msg_sequence_test"
COLOURED = re.compile(r"\x1b\[3([12])m(.*?)\x1b\[0m", re.S)

# What stands for `mosquitto`. It reads the configuration that a test wrote, and becomes Hermod.
SHIM = r'''#!/usr/bin/env python3
import os, shutil, sys
PROGRAM, FOLDER, NOTES = %(program)r, %(folder)r, %(notes)r
# Which port, whether without a name, and how many in flight: what both brokers have. What Hermod does by itself needs no word.
NEEDLESS = {"log_type", "log_dest", "persistence_file", "persistence_location", "autosave_interval", "user", "sys_interval",
            "per_listener_settings", "log_timestamp", "allow_duplicate_messages"}

def refuse(what):
    with open(NOTES, "a") as notes:
        notes.write(what + "\n")
    sys.exit("asks for a setting of Mosquitto: " + what)

def read(file):
    for line in open(file):
        words = line.split()
        if words and not line.startswith("#"):
            yield words[0], words[1:]

ports, kept, anonymous = [], False, True
settings = {}
arguments = sys.argv[1:]
if "-p" in arguments:
    ports.append(arguments[arguments.index("-p") + 1])
if "-c" in arguments:
    anonymous = False
    for name, values in read(arguments[arguments.index("-c") + 1]):
        value = values[0] if values else ""
        if name in ("port", "listener"):
            if len(values) > 1 and values[1] not in ("127.0.0.1", "localhost"):
                refuse(name + " at an address")
            if value not in ports:
                ports.append(value)
        elif name == "allow_anonymous":
            anonymous = value == "true"
        elif name == "persistence":
            kept = value == "true"
        elif name == "max_inflight_messages" and value != "0":
            settings["HERMOD_MQTT_MAX_INFLIGHT"] = value
        elif name == "maximum_qos" and value in ("1", "2"):
            settings["HERMOD_MQTT_MAX_QOS"] = value
        elif name not in NEEDLESS:
            refuse(name)
if len(ports) != 1:
    refuse("several listeners")
data = os.path.join(FOLDER, "data-" + ports[0])
if not kept:
    shutil.rmtree(data, ignore_errors=True)
# The sequences open 1800 connections, of which many end unfinished.
settings.update(HERMOD_LIMITS_PENDING_PER_ADDRESS="5000", HERMOD_LIMITS_PENDING="5000")
if anonymous:
    settings.update(HERMOD_MQTT_DEFAULT_USER="guest", HERMOD_MQTT_DEFAULT_PASS="guest")
closed = {"HERMOD_PORTS_" + name: "0" for name in ("AMQP", "STOMP", "HTTP")}
settings.update(closed, HERMOD_PORTS_MQTT=ports[0], HERMOD_LOG_CONSOLE="false", HERMOD_LOG_FILE=os.path.join(FOLDER, "broker.log"))
os.execve(PROGRAM, [PROGRAM, "serve", "--data-dir", data], {**os.environ, **settings})
'''

# Appended to `mosq_test.py`.
RECEIVE = r'''

def receive_like(sock, expected):
    """What comes, as many bytes as are expected; of an answer the whole packet, which counts as expected if it says the same."""
    kind = expected[0] & 0xf0 if expected else 0
    if kind not in (0x20, 0x40, 0x50, 0x60, 0x70, 0xe0) or len(expected) != 2 + expected[1]:
        return sock.recv(max(len(expected), 1))
    def exactly(count):
        got = b""
        while len(got) < count:
            more = sock.recv(count - len(got))
            if not more:
                break
            got += more
        return got
    head, length, shift = exactly(1), 0, 0
    while len(head) < 5 and (len(head) < 2 or head[-1] & 0x80):
        more = exactly(1)
        if not more:
            return head
        head += more
        length |= (more[0] & 0x7f) << shift
        shift += 7
    body = exactly(length)
    def said(kind, body):
        if kind == 0xe0:
            return body[:1] or b"\0"
        if kind != 0x20:
            # To say that nobody subscribes is left to the broker (MQTT 5.0, 3.4.2.1, 3.5.2.1).
            return body[:2], (body[2:3] or b"\0").replace(b"\x10", b"\0")
        sizes = {0x11: 4, 0x27: 4, 0x13: 2, 0x21: 2, 0x22: 2, 0x24: 1, 0x25: 1, 0x28: 1, 0x29: 1, 0x2a: 1}
        # Behind a length of one or two bytes.
        left, properties = body[4 if len(body) > 2 and body[2] & 0x80 else 3:], {}
        while left:
            size = sizes.get(left[0])
            if size is None:
                size = 2 + int.from_bytes(left[1:3], "big")
                size += 2 + int.from_bytes(left[1 + size:3 + size], "big") if left[0] == 0x26 else 0
            properties.setdefault(left[0], []).append(left[1:1 + size])
            left = left[1 + size:]
        for own in (0x1f, 0x21, 0x22, 0x27):
            properties.pop(own, None)
        return body[:2], properties
    is_like = head[:1] == expected[:1] and said(kind, body) == said(kind, expected[2:])
    return expected if is_like else head + body
'''


def body():
    options = judge.arguments("mosquitto", __doc__)
    copy = judge.copy_of(options)
    python = judge.virtual_environment(options, ["psutil==6.1.0"])
    if options.own_network:
        judge.enter_own_network()
    folder = options.work_dir / "brokers"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    notes = folder / "notes.txt"
    install(copy, SHIM % {"program": str(options.server), "folder": str(folder), "notes": str(notes)})
    tests = copy / "test" / "broker"
    outcomes = []
    with (options.work_dir / "suite.log").open("w") as log:
        for file in sorted(tests.glob("*.py")):
            if file.stem not in HELPERS:
                notes.unlink(missing_ok=True)
                outcomes += run(python, file, notes, log)
                for data in folder.glob("data-*"):
                    shutil.rmtree(data)
    return judge.report(options, judge.version_of(options), outcomes)


def install(copy, shim):
    """Puts Hermod where the tests look for Mosquitto, and the comparison of CONNACK where they compare."""
    program = copy / "src" / "mosquitto"
    program.parent.mkdir(exist_ok=True)
    program.write_text(shim)
    program.chmod(0o755)
    compare = copy / "test" / "mosq_test.py"
    replace(compare, "packet_recvd = sock.recv(rlen)", "packet_recvd = receive_like(sock, expected)")
    compare.write_text(compare.read_text() + RECEIVE)
    replace(copy / "test" / "broker" / f"{SEQUENCES}.py", "data = sock.recv(len(msg.message))", "data = mosq_test.receive_like(sock, msg.message)")


def replace(file, old, new):
    text = file.read_text()
    if text.count(old) != 1:
        raise judge.Trouble(f"{file}: `{old}` is not there once, so this is another version of the tests")
    file.write_text(text.replace(old, new))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(python, file, notes, log):
    """The outcomes of a file: its own, or those of the sequences that it has sent."""
    # The sequences publish to port 1888 whatever they are told.
    port = 1888 if file.stem == SEQUENCES else free_port()
    command = [python, file.name, str(port)]
    limit = LIMIT_PER_TEST_SECONDS * (20 if file.stem == SEQUENCES else 1)
    child = subprocess.Popen(command, cwd=file.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                             start_new_session=True)
    try:
        said, _ = child.communicate(timeout=limit)
        message = " ".join(said.split())[-400:]
    except subprocess.TimeoutExpired:
        # Its broker is in its group.
        os.killpg(child.pid, 9)
        said, _ = child.communicate()
        message = f"did not end within {limit} s: " + " ".join(said.split())[-300:]
    log.write(f"== {file.stem}\n{said}\n")
    if notes.exists():
        return [judge.Outcome(file.stem, "skipped", "configures " + ", ".join(sorted(set(notes.read_text().split("\n")) - {""})))]
    if file.stem == SEQUENCES:
        return [sequence(colour, text) for colour, text in COLOURED.findall(said)]
    return [judge.Outcome(file.stem, "passed" if child.returncode == 0 else "failed", message)]


def sequence(colour, text):
    name, _, message = text.partition(" failed: ")
    return judge.Outcome(f"{SEQUENCES}: {name}", "passed" if colour == "2" else "failed", message)


judge.main(body)
