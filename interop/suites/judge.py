"""What the scripts in this folder share: a fresh broker for each run, and one way to count and report.

A script starts the broker, runs one vendor's test suite unmodified, and hands every test's outcome to `report`, which compares the
failures with the list in `known/`. The broker is ended by its process number, never by name.
"""

import argparse
import ctypes
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
AMQP, STOMP, HTTP = 5672, 61613, 15672
AMQPS, STOMPS = 5671, 61614
START_LIMIT_SECONDS = 30
# A network of our own has this address besides those of loopback: that of a suite's container.
SECOND_ADDRESS = "172.17.0.2"
CLONE_NEWNET = 0x40000000
# How `ip` sets it up. The second address is at an interface that is not loopback, since suites tell the two apart; its other end leads nowhere.
OWN_NETWORK = (
    "link set lo up multicast on",
    "link add suite0 type veth peer name suite1",
    f"address add {SECOND_ADDRESS}/32 dev suite0",
    "link set suite0 up",
    "link set suite1 up",
    "route add default dev lo",
)
# For a broker that suites also look for there.
BIND_SECOND_ADDRESS = {"HERMOD_BIND": f"127.0.0.1,[::1],{SECOND_ADDRESS}"}
STOP_LIMIT_SECONDS = 20


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How one test ended: `passed`, `failed` or `skipped`, and for a failure its first words."""

    test: str
    result: str
    message: str = ""


class Trouble(Exception):
    """The suite could not be run; the text says what to do."""


def arguments(suite, describes, *, standard_ports=False, parts=()):
    """Reads the command line. A suite with `standard_ports` has them written into its tests, so no offset is possible.

    Of a suite with `parts` the command names one; each part has counts and a list of its own.
    """
    parser = argparse.ArgumentParser(prog=f"interop/suites/{suite}.py", description=describes)
    parser.add_argument("--server", type=pathlib.Path, help="the broker's program (default: target/ci or target/release)")
    parser.add_argument("--suite-dir", type=pathlib.Path, help="a checkout of the suite")
    parser.add_argument("--argument", action="append", default=[], metavar="WORD", help="for Maven, where it runs the tests, as --argument=-Dname=value")
    parser.add_argument("--port-offset", type=int, default=0, help="added to every port (default 0)")
    # Not within this repository: package managers would take a suite's own package for a part of it.
    parser.add_argument("--work-dir", type=pathlib.Path,
                        help="where dependencies, logs and the counts go (default hermod-suites/NAME in the temporary folder)")
    parser.add_argument("--limit", type=int, default=1800, metavar="SECONDS", help="the suite is ended after this time")
    parser.add_argument("--own-network", action="store_true", help="run broker and tests in a network of their own, where every port is free (Linux, root)")
    if parts:
        parser.add_argument("part", choices=list(parts), help="which part of the suite")
    options = parser.parse_args()
    options.suite = f"{suite}-{options.part}" if parts else suite
    options.server = find_server(options.server)
    options.work_dir = (options.work_dir or pathlib.Path(tempfile.gettempdir(), "hermod-suites", options.suite)).resolve()
    options.work_dir.mkdir(parents=True, exist_ok=True)
    if standard_ports and options.port_offset:
        raise Trouble(f"{suite} has port {AMQP} written into its tests, so --port-offset must be 0")
    return options


def find_server(given):
    choices = [given] if given else [ROOT / "target" / profile / "hermod" for profile in ("ci", "release")]
    for choice in choices:
        if choice.is_file():
            return choice.resolve()
    raise Trouble(f"no broker at {' or '.join(map(str, choices))}: build one (cargo build --release) or name it with --server")


def copy_of(options, source=None):
    """Copies the checkout afresh, since suites write beside their tests. Returns the copy."""
    source = source or options.suite_dir
    if source is None:
        raise Trouble(f"the registry's package of {options.suite} has no tests: name a checkout with --suite-dir")
    if not source.is_dir():
        raise Trouble(f"{source} is no folder: --suite-dir must name a checkout of {options.suite}")
    copy = options.work_dir / "checkout"
    if copy.exists():
        shutil.rmtree(copy)
    shutil.copytree(source, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    # Go's module cache is read-only, and its copy must not be.
    for folder, _, files in os.walk(copy):
        for path in [folder, *(os.path.join(folder, file) for file in files)]:
            if not os.path.islink(path):
                os.chmod(path, os.stat(path).st_mode | 0o200)
    return copy


def built(checkout, folder):
    """A folder within a checkout that its build makes. No script here builds a suite."""
    place = checkout / folder
    if not place.is_dir():
        raise Trouble(f"the checkout has no {folder}: build the suite's tests first, as its own pages say")
    return place


def copy_of_module(options, module, version):
    """Copies the Go module's checkout, or else its package from the registry. Returns the copy and the version."""
    if options.suite_dir is not None:
        return copy_of(options), "checkout"
    download = ["go", "mod", "download"]
    prepare([*download, f"{module}@{version}"], cwd=options.work_dir)
    where = prepare([*download, "-json", f"{module}@{version}"], cwd=options.work_dir)
    return copy_of(options, pathlib.Path(json.loads(where)["Dir"])), version


def version_of(options):
    """What git calls the checkout, or the folder's name where it is no checkout."""
    asked = ["git", "-C", str(options.suite_dir), "describe", "--tags", "--always"]
    told = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout.strip()
    is_checkout = (options.suite_dir / ".git").exists()
    return told if told and is_checkout else options.suite_dir.name


def virtual_environment(options, packages):
    """Makes a virtual environment with these packages, once, and returns its Python."""
    folder = options.work_dir / "venv"
    python = folder / "bin" / "python"
    wanted = "\n".join(packages)
    marker = folder / "installed.txt"
    if not marker.is_file() or marker.read_text() != wanted:
        prepare([sys.executable, "-m", "venv", str(folder)])
        prepare([str(python), "-m", "pip", "install", "--quiet", *packages])
        marker.write_text(wanted)
    return str(python)


def prepare(command, *, cwd=None, environment=None):
    """Runs a command that must succeed before the suite can start. Returns what it said."""
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd=cwd,
                           env={**os.environ, **(environment or {})})
    if ended.returncode != 0:
        raise Trouble(f"`{' '.join(map(str, command))}` ended with {ended.returncode}:\n{ended.stdout[-3000:]}")
    return ended.stdout


def run(options, command, *, folder, environment=None, limit=None, log="suite.log"):
    """Runs the suite itself, or a part of it, within its time. Its exit status says nothing that the outcomes do not."""
    limit, log = limit or options.limit, options.work_dir / log
    with log.open("w") as output:
        child = subprocess.Popen([str(part) for part in command], cwd=folder, env={**os.environ, **(environment or {})},
                                 stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            child.wait(limit)
        except subprocess.TimeoutExpired:
            raise Trouble(f"the suite did not end within {limit} s; see {log}") from None
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    return log


def enter_own_network():
    """Moves this process, and what it starts from now on, into a new network. What is not this machine is silent there, as behind a firewall."""
    if not sys.platform.startswith("linux"):
        raise Trouble("--own-network needs Linux")
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise Trouble(f"--own-network needs root: {os.strerror(ctypes.get_errno())}")
    for words in OWN_NETWORK:
        prepare(["ip", *words.split()])


class Broker:
    """A broker with an empty data directory. `state.json` lets `rabbitmqctl.py` stop and start it while a suite runs.

    With `--own-network` the script is in a new network from here on, so whatever it needs from elsewhere is downloaded before.
    """

    def __init__(self, options, settings=None):
        self.options = options
        self.folder = self.state = None
        self.settings = {name: str(value) for name, value in (settings or {}).items()}
        self.amqp, self.stomp = AMQP + options.port_offset, STOMP + options.port_offset
        self.amqps, self.stomps = AMQPS + options.port_offset, STOMPS + options.port_offset

    def __enter__(self):
        if self.options.own_network:
            enter_own_network()
        for port in (self.amqp, self.stomp, HTTP + self.options.port_offset):
            if is_open(port):
                raise Trouble(f"port {port} is taken by another program: end that one, or shift the ports with --port-offset")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"hermod-{self.options.suite}-"))
        self.state = self.folder / "state.json"
        self.state.write_text(json.dumps({
            "program": str(self.options.server),
            "data": str(self.folder / "store"),
            "log": str(self.options.work_dir / "broker.log"),
            "offset": self.options.port_offset,
            "settings": self.settings,
            "pid": None,
        }))
        (self.options.work_dir / "broker.log").unlink(missing_ok=True)
        try:
            start_broker(self.state)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        stop_broker(self.state)
        shutil.rmtree(self.folder, ignore_errors=True)


def certificates(options):
    """Makes an authority, and certificates for a server on this machine and for a client, that live for a day. Returns their folder."""
    folder = options.work_dir / "certificates"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    new = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    prepare([*new, "-x509", "-days", "1", "-subj", "/CN=suites", "-keyout", "ca.key", "-out", "ca.pem"], cwd=folder)
    names = "subjectAltName=DNS:localhost,DNS:my.example.com,IP:127.0.0.1,IP:::1\nextendedKeyUsage=serverAuth\n"
    for name, extensions in (("server", names), ("client", "extendedKeyUsage=clientAuth\n")):
        (folder / f"{name}.ext").write_text(extensions)
        prepare([*new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr"], cwd=folder)
        prepare(["openssl", "x509", "-req", "-days", "1", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                 "-extfile", f"{name}.ext", "-out", f"{name}.pem"], cwd=folder)
    return folder


def tls(certificate, key, ca):
    """The settings of a broker with TLS that takes clients with certificates of this authority and clients without any."""
    # A checkout's key is readable by everybody, which a broker refuses.
    pathlib.Path(key).chmod(0o600)
    return {"HERMOD_TLS_CERTIFICATE": certificate, "HERMOD_TLS_KEY": key, "HERMOD_TLS_CA": ca, "HERMOD_TLS_VERIFY": "peer"}


def start_broker(state_file):
    """Starts the broker that a state file describes, unless it runs, and waits until it accepts connections."""
    state = json.loads(state_file.read_text())
    if state["pid"] is not None and is_running(state["pid"]):
        return
    with open(state["log"], "a") as log:
        child = subprocess.Popen(
            [state["program"], "serve", "--data-dir", state["data"], "--port-offset", str(state["offset"])],
            env={**os.environ, **state["settings"]}, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    state["pid"] = child.pid
    state_file.write_text(json.dumps(state))
    end = time.monotonic() + START_LIMIT_SECONDS
    while not (is_open(AMQP + state["offset"]) and is_open(STOMP + state["offset"])):
        if child.poll() is not None or time.monotonic() > end:
            raise Trouble(f"the broker did not start:\n{pathlib.Path(state['log']).read_text()[-1000:]}")
        time.sleep(0.02)


def stop_broker(state_file):
    """Stops the broker in good order and waits until it has ended. One that does not within its time is killed."""
    state = json.loads(state_file.read_text())
    if state["pid"] is None:
        return
    for means, seconds in ((signal.SIGTERM, STOP_LIMIT_SECONDS), (signal.SIGKILL, STOP_LIMIT_SECONDS)):
        end = time.monotonic() + seconds
        if is_running(state["pid"]):
            os.kill(state["pid"], means)
        while is_running(state["pid"]) and time.monotonic() < end:
            time.sleep(0.05)
    state["pid"] = None
    state_file.write_text(json.dumps(state))


def is_running(pid):
    """Whether a process runs; one that has ended and waits for its parent to notice does not."""
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], stdout=subprocess.PIPE, text=True, check=False)
    return bool(shown.stdout.strip()) and not shown.stdout.lstrip().startswith("Z")


def is_open(port):
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def go_tests(log):
    """Reads the events of `go test -json`. A test that has no end, as after a panic, failed."""
    results = {"pass": "passed", "fail": "failed", "skip": "skipped"}
    said, ended = {}, {}
    for line in log.read_text().splitlines():
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        test = event.get("Test")
        if test is None:
            continue
        said.setdefault(test, [])
        if event["Action"] == "output":
            said[test].append(event["Output"])
        elif event["Action"] in results:
            ended[test] = results[event["Action"]]
    return [Outcome(test, ended.get(test, "failed"), "".join(said[test][-4:])) for test in said]


def junit(*files):
    """The outcomes in JUnit's XML, which pytest, Maven and others write."""
    outcomes = []
    for file in files:
        for case in ElementTree.parse(file).iter("testcase"):
            name = f"{case.get('classname') or ''}.{case.get('name')}".lstrip(".")
            tags = {child.tag: child for child in case}
            wrong = tags.get("failure", tags.get("error"))
            if wrong is not None:
                # Java's outermost exception seldom says what happened; the innermost does.
                causes = [line for line in (wrong.text or "").splitlines() if line.startswith("Caused by: ")]
                outcomes.append(Outcome(name, "failed", causes[-1] if causes else (wrong.get("message") or wrong.text or "").strip()))
            else:
                outcomes.append(Outcome(name, "skipped" if "skipped" in tags else "passed"))
    return outcomes


def report(options, version, outcomes):
    """Prints and writes the counts, and says which failures are new. Returns the exit status: 1 if any is."""
    if not outcomes:
        raise Trouble(f"the suite ran no test; see {options.work_dir / 'suite.log'}")
    failed = {outcome.test: outcome for outcome in outcomes if outcome.result == "failed"}
    known_file = FOLDER / "known" / f"{options.suite}.txt"
    lines = known_file.read_text().splitlines() if known_file.is_file() else []
    known = {line for line in lines if line and not line.startswith("#")}
    new = sorted(set(failed) - known)
    ran = {outcome.test for outcome in outcomes if outcome.result != "failed"} - set(failed)
    counts = {result: sum(outcome.result == result for outcome in outcomes) for result in ("passed", "failed", "skipped")}
    for test in sorted(failed):
        words = " ".join(failed[test].message.split())[:160]
        print(f"{'NEW' if test in new else 'known'}: {test}: {words}")
    for test in sorted(known & ran):
        print(f"no longer fails: {test} (take it off {known_file.relative_to(ROOT)})")
    print(f"{options.suite} {version}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    result = {"suite": options.suite, "version": version, **counts, "failures": sorted(failed), "new": new}
    (options.work_dir / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    return 1 if new else 0


def main(body):
    """Runs a script's body and turns trouble into a message and status 2. Being told to end ends the broker and the suite too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        sys.exit(body())
    except Trouble as trouble:
        print(f"error: {trouble}", file=sys.stderr)
        sys.exit(2)
