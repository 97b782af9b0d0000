#!/usr/bin/env python3
"""Runs the programs of docs/tutorials as they are printed, and checks what they print.

Each language has a broker of its own, and does all tutorials on it. A language whose tools are not
on this machine is named and left out; one that was named on the command line fails then.
"""

import argparse
import json
import os
import pathlib
import queue
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from server import PROGRAM, ROOT, Hermod, show_logs

TUTORIALS = ROOT / "docs/tutorials"
PATIENCE = 60
READY = "waiting, Ctrl-C ends it"
# Debian's php-amqplib stands in for what Composer would fetch.
PHP_LIBRARY = "/usr/share/php/PhpAmqpLib/autoload.php"
# NuGet's RabbitMQ.Client 5.1.0 has it in lib/net451.
CSHARP_LIBRARY = os.environ.get("RABBITMQ_CLIENT_DLL", "RabbitMQ.Client.dll")

# For each language: what it needs, how its libraries are had, and how a program is called. `{venv}`
# and `{folder}` are of this run.
LANGUAGES = {
    "python": {
        "needs": ["python3"],
        "prepare": [["python3", "-m", "venv", "{venv}"], ["{venv}/bin/pip", "-q", "install", "-r", "requirements.txt"]],
        "call": ["{venv}/bin/python", "{name}.py"],
    },
    "javascript": {
        "needs": ["node", "npm"],
        "prepare": [["npm", "ci", "--silent", "--no-audit", "--no-fund", "--prefer-offline"]],
        "call": ["node", "{name}.js"],
    },
    "go": {
        "needs": ["go"],
        "prepare": [["go", "build", "-o", "{folder}/bin/{name}", "{name}.go"]],
        "each": True,
        "call": ["{folder}/bin/{name}"],
    },
    "java": {
        "needs": ["java", "mvn"],
        "prepare": [["mvn", "-q", "-B", "-ntp", "dependency:copy-dependencies", "-DoutputDirectory=lib"]],
        "call": ["java", "-cp", "lib/*", "{Name}.java"],
    },
    "rust": {
        "needs": ["cargo"],
        "prepare": [["cargo", "build", "-q", "--locked", "--target-dir", "{folder}/target"]],
        "call": ["{folder}/target/debug/{name}"],
    },
    "php": {
        "needs": ["php", PHP_LIBRARY],
        "prepare": [["mkdir", "vendor"], ["ln", "-s", PHP_LIBRARY, "vendor/autoload.php"]],
        "call": ["php", "{name}.php"],
    },
    "csharp": {
        "needs": ["mcs", "mono", CSHARP_LIBRARY],
        "prepare": [
            ["mkdir", "-p", "{folder}/bin"],
            ["cp", os.path.abspath(CSHARP_LIBRARY), "{folder}/bin/RabbitMQ.Client.dll"],
            ["mcs", "-langversion:latest", "-out:{folder}/bin/{name}.exe", "-r:{folder}/bin/RabbitMQ.Client.dll", "{name}.cs"],
        ],
        "each": True,
        "call": ["mono", "{folder}/bin/{name}.exe"],
    },
}


class Running:
    """A program that goes on until it is ended, and its lines."""

    def __init__(self, command, folder, environment):
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.lines, self.told = queue.Queue(), []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def expect(self, line, patience=PATIENCE):
        """Waits for the next line, which must be this one."""
        found = self.next(patience)
        assert found == line, f"{self.process.args}: expected {line!r}, found {found!r} after {self.told}"

    def next(self, patience=PATIENCE):
        found = self.lines.get(timeout=patience)
        self.told.append(found)
        return found

    def has_no_more(self):
        """Ends the program. It must have told nothing else."""
        self.kill()
        rest = [line for line in iter(self.lines.get, None)]
        assert not rest, f"{self.process.args}: not expected: {rest}"

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE)


class Language:
    """The tutorials in one language, against one broker."""

    def __init__(self, name, hermod, broker, scratch):
        self.row, self.hermod, self.scratch = LANGUAGES[name], hermod, scratch
        self.folder, self.venv = scratch / "programs", scratch / "venv"
        shutil.copytree(TUTORIALS / name, self.folder, ignore=shutil.ignore_patterns("node_modules", "target", "lib"))
        self.environment = dict(os.environ, AMQP_URL=f"amqp://guest:guest@localhost:{broker.amqp}/%2f")
        self.started = []
        names = PROGRAMS if self.row.get("each") else ("",)
        for program in names:
            for command in self.row["prepare"]:
                subprocess.run(self.filled(command, program), cwd=self.folder, check=True)

    def filled(self, command, program):
        words = {"name": program, "Name": program.title().replace("_", ""), "folder": self.folder, "venv": self.venv}
        return [word.format(**words) for word in command]

    def start(self, program, *arguments):
        """Starts a program that waits for messages, and returns once it does."""
        command = [*self.filled(self.row["call"], program), *arguments]
        running = Running(command, self.folder, self.environment)
        self.started.append(running)
        running.expect(READY)
        return running

    def say(self, program, *arguments):
        """What a program prints that ends by itself."""
        command = [*self.filled(self.row["call"], program), *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, f"{command}: {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout.rstrip("\n")

    def ready(self, queue):
        """How many messages wait in a queue."""
        listed = subprocess.run(
            [self.hermod, "queues", "--json", f"--data-dir={self.scratch / 'data'}"],
            check=True, capture_output=True, text=True,
        )
        return {row["name"]: row["messages_ready"] for row in json.loads(listed.stdout)}.get(queue)

    def type_commands(self, title):
        """Types what the page of a tutorial says to type at the broker's own command line."""
        page = (TUTORIALS / f"{title}.md").read_text()
        for line in page.splitlines():
            if line.startswith("$ hermod "):
                command = [self.hermod, *shlex.split(line)[2:]]
                environment = dict(os.environ, HERMOD_DATA_DIR=str(self.scratch / "data"))
                done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
                assert done.returncode == 0, f"{line}: {done.returncode}: {done.stdout}{done.stderr}"

    def end(self):
        for running in self.started:
            running.kill()


def hello(language):
    assert language.say("hello_send") == "sent: Hello, world"
    receiver = language.start("hello_receive")
    receiver.expect("received: Hello, world")
    receiver.has_no_more()


def work_queue(language):
    first = language.start("task_worker")
    language.say("task_send", "long......")
    first.expect("started: long......")
    second = language.start("task_worker")
    assert language.say("task_send", "short.") == "sent: short."
    # The first is at work, so the second gets it.
    second.expect("started: short.")
    second.expect("done: short.")
    # The first is killed at its work, which the second does then.
    first.kill()
    second.expect("started: long......")
    second.expect("done: long......")
    second.has_no_more()


def publish_subscribe(language):
    assert language.say("news_send", "before anyone listens") == "sent: before anyone listens"
    readers = [language.start("news_receive") for _ in range(2)]
    language.say("news_send", "to everyone")
    for reader in readers:
        reader.expect("received: to everyone")
        reader.has_no_more()


def routing(language):
    errors = language.start("alert_receive", "*.error")
    billing = language.start("alert_receive", "billing.#", "shop.info")
    assert language.say("alert_send", "billing.error", "card refused") == "sent to billing.error: card refused"
    language.say("alert_send", "shop.info", "open")
    language.say("alert_send", "shop.error", "door stuck")
    for line in ["received billing.error: card refused", "received shop.error: door stuck"]:
        errors.expect(line)
    for line in ["received billing.error: card refused", "received shop.info: open"]:
        billing.expect(line)
    errors.has_no_more()
    billing.has_no_more()


def request_reply(language):
    server = language.start("square_server")
    assert language.say("square_client", "7") == "7 squared is 49"
    server.expect("answered: 7")
    server.has_no_more()


def retries(language):
    worker = language.start("order_worker")
    assert language.say("order_send", "broken lamp") == "sent: broken lamp"
    worker.expect("failed: broken lamp")
    # Another does not wait until the first has died; how many retries come before it is open.
    language.say("order_send", "table")
    told = [worker.next() for _ in range(4)]
    assert sorted(told) == ["done: table", *["failed: broken lamp"] * 3], told
    for _ in range(100):
        dead = language.ready("orders.dead")
        if dead:
            break
        time.sleep(0.1)
    assert dead == 1, f"{dead} dead letters"
    worker.has_no_more()


CHECKS = {
    "hello": hello,
    "work-queue": work_queue,
    "publish-subscribe": publish_subscribe,
    "routing": routing,
    "request-reply": request_reply,
    "retries": retries,
}
PROGRAMS = (
    "hello_send hello_receive task_send task_worker news_send news_receive alert_send alert_receive "
    "square_client square_server order_send order_worker"
).split()


def missing(name):
    """What of a language's tools is not here."""
    return [tool for tool in LANGUAGES[name]["needs"] if not shutil.which(tool) and not pathlib.Path(tool).exists()]


def check(name, hermod):
    """Does all tutorials in one language."""
    with tempfile.TemporaryDirectory(prefix=f"hermod-tutorials-{name}-") as folder:
        scratch = pathlib.Path(folder)
        broker = Hermod(hermod, [], scratch)
        language = None
        try:
            language = Language(name, hermod, broker, scratch)
            for title, tutorial in CHECKS.items():
                tutorial(language)
                language.type_commands(title)
                print(f"ok {name} {title}", flush=True)
        except BaseException:
            show_logs(scratch)
            raise
        finally:
            if language:
                language.end()
            broker.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("languages", nargs="*", help=", ".join(LANGUAGES))
    parser.add_argument("--server", default=PROGRAM)
    options = parser.parse_args()
    done = 0
    for name in options.languages or LANGUAGES:
        if name not in LANGUAGES:
            sys.exit(f"no such language: {name}; there are {', '.join(LANGUAGES)}")
        if missing(name):
            if options.languages:
                sys.exit(f"{name}: not on this machine: {', '.join(missing(name))}")
            print(f"left out {name}: not on this machine: {', '.join(missing(name))}")
            continue
        check(name, str(pathlib.Path(options.server).resolve()))
        done += 1
    print(f"{done * len(CHECKS)} passed, 0 failed")


if __name__ == "__main__":
    main()
