"""What the programs beside it share: free ports, waiting, HTTP, and a broker of their own."""

import json
import pathlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import venv

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = str(ROOT / "target/ci/hermod")
PATIENCE = 240


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(what, reached, patience=PATIENCE):
    """Waits until `reached` gives something, and returns it."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        found = reached()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {patience} s: {what}")


def request(url, form=None, headers=None, document=None, method=None):
    """The status of an answer and its document."""
    data = urllib.parse.urlencode(form).encode() if form else None
    headers = dict(headers or {})
    if document is not None:
        data = json.dumps(document).encode()
        headers["Content-Type"] = "application/json"
    asked = urllib.request.Request(url, data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            is_json = "json" in answer.headers.get("Content-Type", "")
            return answer.status, json.loads(answer.read()) if is_json else None
    except urllib.error.HTTPError as error:
        return error.code, None
    except OSError:
        return 0, None


class Hermod:
    """A broker on loopback with AMQP, MQTT, HTTP and these flags."""

    def __init__(self, program, flags, scratch):
        self.amqp, self.http, self.mqtt = free_port(), free_port(), free_port()
        command = [program, "serve", f"--data-dir={scratch / 'data'}", f"--ports-amqp={self.amqp}"]
        command += [f"--ports-http={self.http}", "--ports-stomp=0", f"--ports-mqtt={self.mqtt}", "--limits-connections=100", "--shutdown-timeout=1s", *flags]
        self.log = open(scratch / "hermod.log", "ab")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        until("the broker is ready", self.is_ready)

    def is_ready(self):
        assert self.process.poll() is None, "the broker has ended"
        return self.get("/health/ready")[0] == 200

    def url(self, path):
        return f"http://127.0.0.1:{self.http}{path}"

    def get(self, path, headers=None):
        return request(self.url(path), headers=headers)

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def connect(pika, hermod, user, password):
    credentials = pika.PlainCredentials(user, password)
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", hermod.amqp, credentials=credentials))


def pika_of(scratch):
    """pika, from an environment of its own."""
    venv.create(scratch / "venv", with_pip=True)
    python = scratch / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "-q", "install", "pika==1.3.2"], check=True)
    sys.path.insert(0, str(next((scratch / "venv" / "lib").glob("python*/site-packages"))))
    import pika

    return pika


def show_logs(scratch):
    for log in scratch.glob("*.log"):
        print(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}", file=sys.stderr)
