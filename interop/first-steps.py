#!/usr/bin/env python3
"""Runs the programs of docs/manual/jms.md as they are printed: each sends `one` to a queue and prints what it receives.

Each language has a broker of its own; only the address is the run's. The libraries are those of the folders beside this script,
at the versions that these pin. A language whose tools are not on this machine is named and left out; one that was named on the
command line fails then.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from server import PROGRAM, ROOT, Hermod, show_logs

PAGE = ROOT / "docs/manual/jms.md"
INTEROP = ROOT / "interop"
ADDRESS = "localhost:5672"
PATIENCE = 120

# What each needs, the file that its program goes to, how its library is had, and how it is called.
LANGUAGES = {
    "python": (["python3"], "first.py", [
        ["python3", "-m", "venv", "venv"],
        ["venv/bin/pip", "-q", "install", "-r", f"{INTEROP}/proton/requirements.txt"],
    ], ["venv/bin/python", "first.py"]),
    "javascript": (["node", "npm"], "first.js", [
        ["cp", f"{INTEROP}/rhea/package.json", f"{INTEROP}/rhea/package-lock.json", "."],
        ["npm", "ci", "--silent", "--no-audit", "--no-fund", "--prefer-offline"],
    ], ["node", "first.js"]),
    "go": (["go"], "main.go", [
        ["cp", f"{INTEROP}/go-amqp/go.mod", f"{INTEROP}/go-amqp/go.sum", "."],
        ["go", "build", "-o", "first", "."],
    ], ["./first"]),
    "java": (["java", "mvn"], "First.java", [
        ["mvn", "-q", "-B", "-ntp", "-f", f"{INTEROP}/qpid-jms/pom.xml", "dependency:copy-dependencies", "-DoutputDirectory={folder}/lib",
         "-Doutput={folder}/target"],
    ], ["java", "-cp", "lib/*", "First.java"]),
    "csharp": (["mono", "mcs"], "First.cs", [
        ["python3", f"{INTEROP}/amqpnetlite/build.py", "{folder}"],
        ["mcs", "-r:Amqp.Net.dll", "First.cs"],
    ], ["mono", "First.exe"]),
}


def programs():
    """The program of each language, from the page."""
    return dict(re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE))


def first_steps(language, text, hermod):
    needs, name, prepare, call = LANGUAGES[language]
    with tempfile.TemporaryDirectory(prefix=f"hermod-first-{language}-") as folder:
        scratch = pathlib.Path(folder)
        broker = Hermod(hermod, [], scratch)
        try:
            own = text.replace(ADDRESS, f"localhost:{broker.amqp}").replace("port: 5672", f"port: {broker.amqp}")
            assert own != text, f"the program of {language} does not name {ADDRESS}"
            (scratch / name).write_text(own)
            for command in prepare:
                subprocess.run([word.format(folder=folder) for word in command], cwd=folder, check=True)
            ran = subprocess.run(call, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
            assert (ran.returncode, ran.stdout) == (0, "one\n"), f"{language}: {ran.returncode}: {ran.stdout}{ran.stderr}"
        except BaseException:
            show_logs(scratch)
            raise
        finally:
            broker.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("languages", nargs="*", help=f"of {', '.join(LANGUAGES)} (default: all)")
    parser.add_argument("--server", default=PROGRAM, help="the broker's program (default: target/ci/hermod)")
    options = parser.parse_args()
    found = programs()
    assert set(found) == set(LANGUAGES), f"the page has programs in {sorted(found)}"
    for language in options.languages or LANGUAGES:
        missing = [tool for tool in LANGUAGES[language][0] if not shutil.which(tool)]
        if missing and options.languages:
            sys.exit(f"{language} needs {', '.join(missing)}")
        if missing:
            print(f"-- {language}: left out, there is no {', '.join(missing)}")
            continue
        first_steps(language, found[language], options.server)
        print(f"ok {language}")


main()
