#!/usr/bin/env python3
"""Runs the programs in Python that pages of the manual and the README have, as they are printed, and checks what they print.

Each has a broker of its own; only the ports are the run's. The programs of the other languages are run by first-steps.py,
quickstart-mqtt and tutorials; the commands of shells by the tests of the crate hermod.
"""

import argparse
import pathlib
import re
import subprocess
import tempfile
import venv

from server import PROGRAM, ROOT, Hermod, show_logs, until

PATIENCE = 60
# The folders whose requirements the programs share.
LIBRARIES = ["pika", "proton", "paho"]
# What each program prints. One that says nothing has its effect shown by a command of ours.
PROGRAMS = {
    "README.md": "on disk; now back: b'first message'\n",
    "docs/manual/amqp10.md": "one\n",
    "docs/manual/groups.md": {"one a1", "one a2", "two b1", "two b2"},
    "docs/manual/last-values.md": "5\n12\n",
    "docs/manual/mqtt.md": "house/kitchen 21 C\n",
    "docs/manual/retained.md": "",
}


def program(page):
    """The one program in Python on a page. That of the README stands in a shell's here-document."""
    text = (ROOT / page).read_text()
    found = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    found = found or re.findall(r"<<'PY'\n(.*?)^PY$", text, re.DOTALL | re.MULTILINE)
    assert len(found) == 1, f"{page} has {len(found)} programs in Python"
    return found[0]


def on_ports(text, broker):
    """A program that finds the broker of this run, where it has named that of the reader or its client's defaults."""
    text = text.replace("pika.BlockingConnection()", "pika.BlockingConnection(pika.ConnectionParameters(port=5672))")
    text = text.replace('client.connect("localhost")', 'client.connect("localhost", 1883)')
    own = text.replace("5672", str(broker.amqp)).replace("1883", str(broker.mqtt))
    assert own != text, "the program names no port"
    return own


def hermod(server, scratch, *words):
    return subprocess.run([server, *words, f"--data-dir={scratch / 'data'}"], capture_output=True, text=True, timeout=PATIENCE)


def displayed(call, server, scratch):
    """The first line of a program that goes on until it is ended, once messages come to it."""
    running = subprocess.Popen(call, stdout=subprocess.PIPE, text=True)
    try:
        send = lambda: hermod(server, scratch, "publish", "house.kitchen", "21 C", "--exchange=amq.topic").returncode == 0
        until("the program subscribes", send, PATIENCE)
        return running.stdout.readline()
    finally:
        running.kill()
        running.wait(PATIENCE)


def check(page, python, server):
    with tempfile.TemporaryDirectory(prefix="hermod-example-") as folder:
        scratch = pathlib.Path(folder)
        broker = Hermod(server, [], scratch)
        try:
            (scratch / "example.py").write_text(on_ports(program(page), broker))
            call = [python, "-u", str(scratch / "example.py")]
            if page == "docs/manual/mqtt.md":
                printed = displayed(call, server, scratch)
            else:
                ran = subprocess.run(call, capture_output=True, text=True, timeout=PATIENCE)
                assert ran.returncode == 0, f"{page}: {ran.returncode}: {ran.stdout}{ran.stderr}"
                printed = ran.stdout
            expected = PROGRAMS[page]
            printed = set(printed.splitlines()) if isinstance(expected, set) else printed
            assert printed == expected, f"{page}: {printed!r} in place of {expected!r}"
            if page == "docs/manual/retained.md":
                kept = hermod(server, scratch, "retained").stdout
                assert "house.kitchen" in kept, f"{page}: {kept!r}"
        except BaseException:
            show_logs(scratch)
            raise
        finally:
            broker.stop()
    print(f"ok {page}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", default=PROGRAM, help="the broker's program (default: target/ci/hermod)")
    server = str(pathlib.Path(parser.parse_args().server).resolve())
    with tempfile.TemporaryDirectory(prefix="hermod-examples-") as folder:
        venv.create(folder, with_pip=True)
        python = str(pathlib.Path(folder) / "bin/python")
        files = [word for name in LIBRARIES for word in ("-r", str(ROOT / f"interop/{name}/requirements.txt"))]
        subprocess.run([python, "-m", "pip", "-q", "install", *files], check=True)
        for page in PROGRAMS:
            check(page, python, server)
    print(f"{len(PROGRAMS)} passed, 0 failed")


if __name__ == "__main__":
    main()
