"""A fresh Hermod for the scenarios of the console, clients that load it, and its HTTP API."""

import base64
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

import pika

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import server  # noqa: E402
from server import free_port  # noqa: E402

# How long anything is waited for before a scenario has failed.
PATIENCE = 20


def until(what, reached):
    """Waits until `reached()` is true, and returns what it gives."""
    return server.until(what, reached, PATIENCE)


class Broker:
    """A server with an empty data directory, on free ports of this machine."""

    def __init__(self, program):
        self.folder = tempfile.TemporaryDirectory(prefix="hermod-console-")
        self.program = program
        self.amqp, self.http, self.stomp = free_port(), free_port(), free_port()
        self.log = open(pathlib.Path(self.folder.name) / "log", "w")
        self.process = subprocess.Popen(
            [program, "serve", "--data-dir", self.data, "--ports-amqp", str(self.amqp),
             "--ports-stomp", str(self.stomp), "--ports-mqtt", "0", "--ports-http", str(self.http)],
            stderr=self.log, stdout=self.log)
        until("the server answers", self.is_ready)

    @property
    def data(self):
        return str(pathlib.Path(self.folder.name) / "data")

    @property
    def address(self):
        return f"http://localhost:{self.http}"

    def is_ready(self):
        assert self.process.poll() is None, "the server has ended: " + pathlib.Path(self.log.name).read_text()
        try:
            with urllib.request.urlopen(self.address + "/health/ready", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE)
        self.log.close()
        self.folder.cleanup()

    def command(self, *words):
        """Runs a verb of the command line."""
        subprocess.run([self.program, *words, "--data-dir", self.data], check=True, capture_output=True)

    def api(self, path, method="GET", document=None):
        """What the HTTP API answers to `guest`."""
        request = urllib.request.Request(self.address + "/api/" + path, method=method)
        request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
        if document is not None:
            request.data = json.dumps(document).encode()
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def queue(self, name, vhost="/"):
        return self.api(f"queues/{urllib.parse.quote(vhost, '')}/{urllib.parse.quote(name, '')}")

    def declare(self, name, **arguments):
        self.api(f"queues/%2F/{urllib.parse.quote(name, '')}", "PUT", {"durable": True, "arguments": arguments})

    def publish(self, queue, count=1, body="hello", headers=None):
        properties = {"delivery_mode": 2, "headers": headers or {}}
        for _ in range(count):
            self.api("exchanges/%2F/amq.default/publish", "POST",
                     {"routing_key": queue, "properties": properties, "payload": body, "payload_encoding": "string"})

    def publish_to(self, exchange, key, body, headers):
        self.api(f"exchanges/%2F/{exchange}/publish", "POST",
                 {"routing_key": key, "properties": {"headers": headers}, "payload": body, "payload_encoding": "string"})

    def subscribe(self, client_id, name, topic):
        """A client over STOMP begins a durable subscription, and leaves."""
        frames = [
            f"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\nclient-id:{client_id}\n\n\0",
            f"SUBSCRIBE\nid:1\ndestination:/topic/{topic}\ndurable-subscription-name:{name}\nreceipt:there\n\n\0",
        ]
        with socket.create_connection(("127.0.0.1", self.stomp), PATIENCE) as connection:
            connection.sendall("".join(frames).encode())
            heard = b""
            while b"receipt-id:there" not in heard:
                some = connection.recv(4096)
                assert some, heard
                heard += some

    def client(self, name):
        return Client(self.amqp, name)


class Client:
    """A client over AMQP, served by a thread of its own."""

    def __init__(self, port, name):
        self.parameters = pika.ConnectionParameters(
            "127.0.0.1", port, client_properties={"connection_name": name}, heartbeat=60)
        self.connection = pika.BlockingConnection(self.parameters)
        self.channel = self.connection.channel()
        self.ending = threading.Event()
        self.error = None
        self.thread = None

    def consume(self, queue, prefetch, tag, settle=False):
        """Consumes from a queue, and settles what comes or holds it."""
        self.channel.basic_qos(prefetch_count=prefetch)

        def take(channel, method, _properties, _body):
            if settle:
                channel.basic_ack(method.delivery_tag)

        self.channel.basic_consume(queue, take, consumer_tag=tag)
        self.serve(lambda: self.connection.process_data_events(0.02))

    def flow(self, queue, per_second):
        """Publishes at a steady rate."""
        begun, sent = time.monotonic(), 0

        def step():
            nonlocal sent
            while sent < (time.monotonic() - begun) * per_second:
                self.channel.basic_publish("", queue, b"x" * 100)
                sent += 1
            self.connection.process_data_events(0.01)

        self.serve(step)

    def serve(self, step):
        def run():
            try:
                while not self.ending.is_set():
                    step()
                self.connection.close()
            except pika.exceptions.AMQPError as error:
                self.error = error

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()

    def stop(self):
        self.ending.set()
        if self.thread:
            self.thread.join(PATIENCE)
        elif self.connection.is_open:
            self.connection.close()
