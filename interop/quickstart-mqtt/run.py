#!/usr/bin/env python3
"""Runs the programs of docs/manual/clients-mqtt.md as they are printed, and checks what they print.

Only the port is changed. A language whose tools are not on this machine is named and left out; one
that was named on the command line fails then.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from server import PROGRAM, ROOT, Hermod, show_logs

PAGE = ROOT / "docs/manual/clients-mqtt.md"
HERE = pathlib.Path(__file__).resolve().parent
EXPECTED = "house/kitchen 21 C"
PATIENCE = 120
PAHO_HEADER = "/usr/include/MQTTClient.h"

# For each language, by the word of its fence: what it needs, its file, how its library is had, and
# how it is called.
LANGUAGES = {
    "python": {
        "needs": ["python3"],
        "file": "display.py",
        "prepare": [["python3", "-m", "venv", "venv"], ["venv/bin/pip", "-q", "install", "-r", "requirements.txt"]],
        "call": ["venv/bin/python", "display.py"],
    },
    "js": {
        "needs": ["node", "npm"],
        "file": "display.js",
        "prepare": [["npm", "ci", "--silent", "--no-audit", "--no-fund", "--prefer-offline"]],
        "call": ["node", "display.js"],
    },
    "java": {
        "needs": ["java", "mvn"],
        "file": "Display.java",
        "prepare": [["mvn", "-q", "-B", "-ntp", "-Dstyle.color=never", "dependency:copy-dependencies", "-DoutputDirectory=lib"]],
        "call": ["java", "-cp", "lib/*", "Display.java"],
    },
    "go": {"needs": ["go"], "file": "display.go", "prepare": [["go", "build", "-o", "display", "display.go"]], "call": ["./display"]},
    "c": {
        "needs": ["cc", PAHO_HEADER],
        "file": "display.c",
        "prepare": [["cc", "-Wall", "-Werror", "-o", "display", "display.c", "-lpaho-mqtt3c"]],
        "call": ["./display"],
    },
}


def programs():
    """The programs of the page, by their languages."""
    fences = re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    return {language: text for language, text in fences if language in LANGUAGES}


def missing(language):
    return [tool for tool in LANGUAGES[language]["needs"] if not shutil.which(tool) and not pathlib.Path(tool).exists()]


def check(language, text, server):
    row = LANGUAGES[language]
    with tempfile.TemporaryDirectory(prefix=f"hermod-quickstart-{language}-") as scratch:
        scratch = pathlib.Path(scratch)
        folder = scratch / "program"
        shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("*.py", "node_modules", "lib"))
        broker = Hermod(server, [], scratch)
        try:
            assert text.count("1883") == 1, f"{language}: the program names its port once"
            (folder / row["file"]).write_text(text.replace("1883", str(broker.mqtt)))
            for command in row["prepare"]:
                subprocess.run(command, cwd=folder, check=True)
            done = subprocess.run(row["call"], cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
            assert done.returncode == 0, f"{language}: {done.returncode}: {done.stdout}{done.stderr}"
            assert done.stdout.splitlines() == [EXPECTED], f"{language}: {done.stdout}{done.stderr}"
        except BaseException:
            show_logs(scratch)
            raise
        finally:
            broker.stop()
    print(f"ok {language}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("languages", nargs="*", help=", ".join(LANGUAGES))
    parser.add_argument("--server", default=PROGRAM)
    options = parser.parse_args()
    found, done = programs(), 0
    assert set(found) == set(LANGUAGES), f"{PAGE} has {sorted(found)}"
    for language in options.languages or LANGUAGES:
        if language not in LANGUAGES:
            sys.exit(f"no such language: {language}; there are {', '.join(LANGUAGES)}")
        if missing(language):
            if options.languages:
                sys.exit(f"{language}: not on this machine: {', '.join(missing(language))}")
            print(f"left out {language}: not on this machine: {', '.join(missing(language))}")
            continue
        check(language, found[language], str(pathlib.Path(options.server).resolve()))
        done += 1
    print(f"{done} passed, 0 failed")


if __name__ == "__main__":
    main()
