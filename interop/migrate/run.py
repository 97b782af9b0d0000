"""Migrates from a real RabbitMQ 4 and a real Artemis, under load, over a kill; compares all of it.

The peers are those of `hermod-bench peers`: it gets them from package registries, starts them on
loopback with empty data, and ends them. What is compared is what clients of somebody else's have
published to the one and get from the other: every message that was confirmed, in order, queue by
queue. A kill may repeat what was on its way, and nothing else.
"""

import argparse
import itertools
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import server  # noqa: E402

BENCH = str(server.ROOT / "target/ci/hermod-bench")
CREDENTIALS = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}
COUNT = 5000


def bench(*words):
    done = subprocess.run([BENCH, "peers", *words], capture_output=True, text=True)
    assert done.returncode == 0, f"peers {words}: {done.stderr}"
    return done.stdout


class Peer:
    """A broker of `hermod-bench peers`."""

    def __init__(self, name):
        self.name = name
        bench("install", name)
        self.said = bench("start", name)

    def port(self, scheme):
        return int(re.search(rf"^\s*{scheme}://(?:[^@\s]*@)?[^:\s]+:(\d+)", self.said, re.M).group(1))

    def stop(self):
        bench("stop", self.name)


class Hermod(server.Hermod):
    """The one that gets the messages; it can be killed and started again."""

    def __init__(self, program, scratch):
        self.program, self.scratch = program, scratch
        super().__init__(program, [], scratch)

    def kill_and_start(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        command = [self.program, "serve", f"--data-dir={self.scratch / 'data'}", f"--ports-amqp={self.amqp}"]
        command += [f"--ports-http={self.http}", "--ports-stomp=0", "--ports-mqtt=0"]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        server.until("the broker is ready again", self.is_ready)

    def migrate(self, *words):
        command = [self.program, "migrate", *words, f"--data-dir={self.scratch / 'data'}"]
        done = subprocess.run(command, capture_output=True, text=True)
        print(done.stdout + done.stderr, end="", flush=True)
        assert done.returncode == 0, f"migrate {words}: exit code {done.returncode}"
        return done.stdout

    def depth(self, queue):
        status, row = self.get(f"/api/queues/%2F/{queue}", CREDENTIALS)
        return row.get("messages_ready", 0) if status == 200 else 0


def drained(pika, hermod, queue):
    """The numbers in a queue, in its order."""
    connection = server.connect(pika, hermod, "guest", "guest")
    channel = connection.channel()
    numbers, last = [], 0
    for method, _, body in channel.consume(queue, inactivity_timeout=3):
        if method is None:
            break
        numbers.append(int(body))
        last = method.delivery_tag
    channel.basic_ack(last, multiple=True)
    connection.close()
    return numbers


def compare(queue, numbers, published):
    """Each of the published ones came, and came first in order."""
    highest, first = -1, []
    for number in numbers:
        if number > highest:
            first.append(number)
            highest = number
    assert set(numbers) == set(range(published)), f"{queue}: {published - len(set(numbers))} of {published} are lost"
    assert first == list(range(published)), f"{queue}: the order is lost"
    print(f"{queue}: {published} published, all came in order, {len(numbers) - published} of them twice", flush=True)


def under_load(hermod, publish, start, queues, cut_over):
    """Begins a migration while `publish` publishes, kills the broker meanwhile, and ends it."""
    stop, published = threading.Event(), []
    loading = threading.Thread(target=lambda: published.append(publish(stop)))
    loading.start()
    try:
        hermod.migrate("plan", *start)
        hermod.migrate("start", *start)
        server.until("a part has come", lambda: hermod.depth(queues[0]) > COUNT // 4)
        hermod.kill_and_start()
        server.until("more has come", lambda: hermod.depth(queues[-1]) > COUNT // 2)
        hermod.migrate("status")
    finally:
        stop.set()
        loading.join()
    hermod.migrate("cut-over", *cut_over)
    return published[0]


def fill(pika, port, queue, count):
    """Publishes so many messages without a wait for each, and then waits until all are there."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
    channel = connection.channel()
    persistent = pika.BasicProperties(delivery_mode=2)
    for number in range(count):
        channel.basic_publish("", queue, str(number).encode(), persistent)

    def are_there():
        return channel.queue_declare(queue, passive=True).method.message_count == count

    server.until(f"{count} messages are in {queue}", are_there, 300)
    connection.close()


def from_rabbitmq(pika, program, scratch, waiting):
    peer = Peer("rabbitmq/sid/managed")
    try:
        amqp = peer.port("amqp")
        data = pathlib.Path(os.environ.get("HERMOD_BENCH_PEERS", pathlib.Path.home() / ".cache/hermod-bench/peers"))
        configured = [path.read_text() for path in data.glob("**/rabbitmq.conf")]
        api = next(found.group(1) for found in (re.search(r"management.tcp.port = (\d+)", text) for text in configured if f":{amqp}\n" in text) if found)
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", amqp))
        channel = connection.channel()
        channel.confirm_delivery()
        persistent = pika.BasicProperties(delivery_mode=2)
        arguments = {"loaded": None, "quiet": None, "quorum": {"x-queue-type": "quorum"}}
        for queue, given in arguments.items():
            channel.queue_declare(queue, durable=True, arguments=given)
        channel.queue_bind("loaded", "amq.direct", "key")
        connection.close()
        for queue in ["quiet", "quorum"]:
            fill(pika, amqp, queue, waiting)

        def publish(stop):
            connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", amqp))
            channel = connection.channel()
            channel.confirm_delivery()
            number = 0
            while not stop.is_set() or number < 2 * COUNT:
                channel.basic_publish("amq.direct", "key", str(number).encode(), persistent, mandatory=True)
                number += 1
            connection.close()
            return number

        hermod = Hermod(program, scratch)
        try:
            start = ["--from", f"amqp://127.0.0.1:{amqp}", "--api", f"http://127.0.0.1:{api}"]
            published = under_load(hermod, publish, start, ["loaded", "quiet"], ["--timeout", "1500"])
            server.until("its queues are empty", lambda: all(
                server.request(f"http://127.0.0.1:{api}/api/queues/%2F/{queue}", headers=CREDENTIALS)[1].get("messages") == 0
                for queue in arguments
            ), 60)
            for queue in arguments:
                compare(queue, drained(pika, hermod, queue), published if queue == "loaded" else waiting)
            status, row = hermod.get("/api/queues/%2F/quorum", CREDENTIALS)
            assert row["type"] == "quorum", row
            status, bound = hermod.get("/api/bindings/%2F/e/amq.direct/q/loaded", CREDENTIALS)
            assert [row["routing_key"] for row in bound] == ["key"], bound
        finally:
            hermod.stop()
    finally:
        peer.stop()


def from_artemis(pika, program, scratch, waiting):
    import stomp

    peer = Peer("artemis")
    try:
        def connected():
            connection = stomp.Connection([("127.0.0.1", peer.port("stomp"))], heartbeats=(0, 0))
            connection.connect("guest", "guest", wait=True)
            return connection

        class Receipts(stomp.ConnectionListener):
            def __init__(self):
                self.got = threading.Event()

            def on_receipt(self, frame):
                self.got.set()

        def fill(queue, numbers, stop=None):
            connection, receipts = connected(), Receipts()
            connection.set_listener("", receipts)
            sent = 0
            for number in numbers:
                if stop is not None and stop.is_set() and sent >= 2 * COUNT:
                    break
                # A receipt for some says that those before it are stored, too.
                headers = {"persistent": "true", "destination-type": "ANYCAST"}
                if number % 100 == 99:
                    receipts.got.clear()
                    headers["receipt"] = str(number)
                connection.send(f"/queue/{queue}", str(number), headers=headers)
                if "receipt" in headers:
                    assert receipts.got.wait(30), "no receipt"
                sent += 1
            receipts.got.clear()
            connection.disconnect(receipt="bye")
            assert receipts.got.wait(30), "no receipt at the end"
            return sent

        fill("quiet", range(waiting))
        hermod = Hermod(program, scratch)
        try:
            start = ["--from", f"amqp://127.0.0.1:{peer.port('amqp10')}", "--protocol", "amqp10"]
            start += ["--queue", "loaded", "--queue", "quiet"]
            publish = lambda stop: fill("loaded", itertools.count(), stop)  # noqa: E731
            published = under_load(hermod, publish, start, ["loaded", "quiet"], ["--timeout", "200"])
            for queue in ["loaded", "quiet"]:
                compare(queue, drained(pika, hermod, queue), published if queue == "loaded" else waiting)
        finally:
            hermod.stop()
    finally:
        peer.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hermod", default=server.PROGRAM)
    parser.add_argument("--only", choices=["rabbitmq", "artemis"])
    parser.add_argument("--waiting", type=int, default=COUNT, help="messages in each queue that nobody publishes to meanwhile")
    given = parser.parse_args()
    os.environ["HERMOD_FROM_PASSWORD"] = "guest"
    for name, migrate in [("rabbitmq", from_rabbitmq), ("artemis", from_artemis)]:
        if given.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            scratch = pathlib.Path(scratch)
            pika = server.pika_of(scratch)
            if name == "artemis":
                python = scratch / "venv" / "bin" / "python"
                subprocess.run([python, "-m", "pip", "-q", "install", "stomp.py==8.2.0"], check=True)
            begun = time.monotonic()
            try:
                migrate(pika, given.hermod, scratch, given.waiting)
            except BaseException:
                server.show_logs(scratch)
                raise
            print(f"{name}: migrated in {time.monotonic() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()
