"""The tutorials' patterns by STOMP destinations with stomp.py, each as a function that asserts what it gets."""

import os
import queue as queues
import sys
import threading
import uuid

import stomp

WAIT = 10  # seconds for anything that must arrive
QUIET = 0.3  # seconds in which nothing may arrive
STORED = "/queue/interop.stomp.py.stored"


class Inbox(stomp.ConnectionListener):
    """Everything that the server sends, in order of arrival."""

    def __init__(self):
        self.messages = queues.Queue()
        self.errors = queues.Queue()
        self.receipts = {}
        self.changed = threading.Condition()

    def on_message(self, frame):
        self.messages.put(frame)

    def on_error(self, frame):
        self.errors.put(frame)

    def on_receipt(self, frame):
        with self.changed:
            self.receipts[frame.headers["receipt-id"]] = True
            self.changed.notify_all()


class Peer:
    """One connection with its inbox."""

    def __init__(self, passcode="guest", version=stomp.Connection12, heartbeats=(0, 0)):
        address = (os.environ["STOMP_HOST"], int(os.environ["STOMP_PORT"]))
        self.inbox = Inbox()
        # STOMP 1.0 has neither virtual hosts nor heart-beats.
        options = {} if version is stomp.Connection10 else {"vhost": "/", "heartbeats": heartbeats}
        self.connection = version([address], reconnect_attempts_max=1, **options)
        self.connection.set_listener("inbox", self.inbox)
        self.connection.connect("guest", passcode, wait=True)

    def next(self, seconds=WAIT):
        try:
            return self.inbox.messages.get(timeout=seconds)
        except queues.Empty:
            return None

    def bodies(self, count, seconds=WAIT):
        found = []
        while len(found) < count:
            frame = self.next(seconds)
            if frame is None:
                break
            found.append(frame.body)
        return found

    def receipted(self, action, *arguments, **named):
        """Calls `action` with a receipt header and waits for the receipt."""
        receipt = uuid.uuid4().hex
        named["headers"] = {**named.get("headers", {}), "receipt": receipt}
        action(*arguments, **named)
        self.wait_for(receipt)

    def wait_for(self, receipt):
        with self.inbox.changed:
            arrived = self.inbox.changed.wait_for(lambda: receipt in self.inbox.receipts, WAIT)
        assert arrived, f"no receipt {receipt}; errors: {list(self.inbox.errors.queue)}"

    def subscribe(self, destination, identifier="1", ack="auto", **headers):
        self.receipted(self.connection.subscribe, destination, identifier, ack=ack, headers=headers)

    def unsubscribe(self, identifier="1"):
        self.receipted(self.connection.unsubscribe, identifier)

    def close(self):
        try:
            self.connection.disconnect()
        except stomp.exception.NotConnectedException:
            pass  # the server was faster


def unique(name):
    return f"interop.stomp.py.{name}.{uuid.uuid4().hex[:8]}"


def expect(found, expected, what):
    assert found == expected, f"{what}: expected {expected!r}, found {found!r}"


def work_queue():
    """Two workers share a queue; an acknowledged task is gone, an unacknowledged one comes back."""
    destination = "/queue/" + unique("tasks")
    sender, one, two = Peer(), Peer(), Peer()
    workers = [one, two]
    for worker in workers:
        worker.subscribe(destination, ack="client-individual", **{"prefetch-count": "1"})
    for number in range(10):
        sender.connection.send(destination, f"task {number}")
    done = {0: [], 1: []}
    for _ in range(200):
        for index, worker in enumerate(workers):
            frame = worker.next(0.05)
            if frame is not None:
                done[index].append(frame.body)
                worker.connection.ack(frame.headers["ack"])
        if len(done[0]) + len(done[1]) == 10:
            break
    expect(sorted(done[0] + done[1]), [f"task {n}" for n in range(10)], "tasks done")
    assert done[0] and done[1], f"one worker did everything: {done}"
    two.unsubscribe()
    sender.receipted(sender.connection.send, destination, "left")
    frame = one.next()
    expect(frame.body, "left", "first delivery")
    one.close()
    two.subscribe(destination, "2", ack="client-individual")
    frame = two.next()
    expect(frame.body, "left", "second delivery")
    two.connection.ack(frame.headers["ack"])
    two.unsubscribe("2")
    two.subscribe(destination, "3")
    expect(two.bodies(1, QUIET), [], "an acknowledged message came back")
    two.close()
    sender.close()


def publish_subscribe():
    """Every subscriber of a topic gets its own copy; who comes later gets nothing."""
    destination = "/topic/" + unique("logs")
    peers = [Peer(), Peer()]
    for peer in peers:
        peer.subscribe(destination)
    peers[0].receipted(peers[0].connection.send, destination, "hello all")
    for peer in peers:
        expect(peer.bodies(1), ["hello all"], "subscriber")
    late = Peer()
    late.subscribe(destination)
    expect(late.bodies(1, QUIET), [], "late subscriber")
    for peer in [*peers, late]:
        peer.close()


def topics():
    """Patterns on topics: `*` is one word, `#` is any number of words."""
    base = unique("t").replace("-", "")
    peer = Peer()
    patterns = {"*.orange.*": "a", "lazy.#": "b"}
    for pattern, identifier in patterns.items():
        peer.subscribe(f"/topic/{base}.{pattern}", identifier)
    keys = ["quick.orange.rabbit", "lazy.brown.fox", "lazy", "quick.brown.fox", "lazy.orange.cat"]
    for key in keys:
        peer.receipted(peer.connection.send, f"/topic/{base}.{key}", key)
    found = {"a": [], "b": []}
    while (frame := peer.next(QUIET)) is not None:
        found[frame.headers["subscription"]].append(frame.body)
    expect(found, {"a": ["quick.orange.rabbit", "lazy.orange.cat"], "b": ["lazy.brown.fox", "lazy", "lazy.orange.cat"]},
           "messages by pattern")
    peer.close()


def routing():
    """The exchange destination binds by key."""
    peer = Peer()
    key = unique("key")
    peer.subscribe(f"/exchange/amq.direct/{key}")
    for sent in (key, key + ".other"):
        peer.receipted(peer.connection.send, f"/exchange/amq.direct/{sent}", sent)
    expect(peer.bodies(2, QUIET), [key], "messages by key")
    peer.close()


def rpc():
    """Request and reply: the client names the queue that it listens to."""
    destination, answers = "/queue/" + unique("rpc"), "/queue/" + unique("answers")
    server, client = Peer(), Peer()
    server.subscribe(destination)
    client.subscribe(answers)
    client.connection.send(destination, "12", headers={"reply-to": answers, "correlation-id": "n12"})
    request = server.next()
    assert request is not None, "the request did not arrive"
    server.connection.send(request.headers["reply-to"], str(int(request.body) ** 2),
                           headers={"correlation-id": request.headers["correlation-id"]})
    reply = client.next()
    assert reply is not None, "the reply did not arrive"
    expect((reply.body, reply.headers["correlation-id"]), ("144", "n12"), "reply")
    server.close()
    client.close()


def temporary_queues():
    """Request and reply over a temporary queue, which the server makes when the request names it."""
    destination = "/queue/" + unique("rpc")
    server, client = Peer(), Peer()
    server.subscribe(destination)
    client.connection.send(destination, "12", headers={"reply-to": "/temp-queue/answers", "correlation-id": "n12"})
    request = server.next()
    assert request is not None, "the request did not arrive"
    server.connection.send(request.headers["reply-to"], "144", headers={"correlation-id": "n12"})
    reply = client.next()
    assert reply is not None, "the reply did not arrive"
    expect((reply.body, reply.headers["correlation-id"]), ("144", "n12"), "reply")
    server.close()
    client.close()


def confirms():
    """Receipts; headers of the sender and bodies with any byte survive the way."""
    destination = "/queue/" + unique("confirms")
    peer = Peer()
    peer.subscribe(destination)
    body = "with \x00 inside and é"
    headers = {"content-type": "text/plain", "my-header": "a:b\\c\nd", "priority": "3"}
    peer.receipted(peer.connection.send, destination, body, headers=headers)
    frame = peer.next()
    assert frame is not None, "the message did not arrive"
    expect(frame.body, body, "body")
    for name in ("content-type", "my-header", "priority", "destination"):
        expect(frame.headers[name], {**headers, "destination": destination}[name], name)
    large = "x" * 1_000_000
    peer.receipted(peer.connection.send, destination, large)
    expect(len(peer.next().body), len(large), "large body")
    peer.close()


def versions():
    """STOMP 1.0 and 1.1 clients are served too, and heart-beats keep a quiet connection."""
    destination = "/queue/" + unique("versions")
    for version in (stomp.Connection10, stomp.Connection11):
        heartbeats = (0, 0) if version is stomp.Connection10 else (500, 500)
        peer = Peer(version=version, heartbeats=heartbeats)
        if version is stomp.Connection10:
            peer.connection.subscribe(destination, headers={"id": "1"})
        else:
            peer.subscribe(destination)
        peer.connection.send(destination, "old")
        expect(peer.bodies(1), ["old"], version.__name__)
        if version is stomp.Connection11:
            peer.next(2)  # four heart-beats long
            assert peer.connection.is_connected(), "a quiet connection was closed in spite of heart-beats"
        peer.close()


def refusals():
    """A wrong password and an unknown destination are answered with ERROR."""
    try:
        Peer(passcode="wrong")
        raise AssertionError("a wrong password was accepted")
    except stomp.exception.ConnectFailedException:
        pass
    peer = Peer()
    peer.connection.send("/nonsense/x", "x", headers={"receipt": "never"})
    frame = peer.inbox.errors.get(timeout=WAIT)
    assert frame.headers.get("message"), "an ERROR frame without a message"
    peer.close()


def store():
    peer = Peer()
    peer.subscribe(STORED)
    while peer.next(QUIET) is not None:
        pass  # what an earlier run left behind
    peer.unsubscribe()
    for number in range(10):
        peer.receipted(peer.connection.send, STORED, f"stored {number}", headers={"persistent": "true"})
    peer.close()


def fetch():
    peer = Peer()
    peer.subscribe(STORED, ack="client-individual")
    for number in range(10):
        frame = peer.next()
        assert frame is not None, f"message {number} of 10 is lost"
        expect((frame.body, frame.headers.get("redelivered", "false")), (f"stored {number}", "false"), "stored message")
        peer.connection.ack(frame.headers["ack"], receipt=f"ack-{number}")
        peer.wait_for(f"ack-{number}")
    peer.close()


PHASES = {
    "patterns": [work_queue, publish_subscribe, topics, routing, rpc, confirms, versions, refusals],
    "extensions": [temporary_queues],
    "store": [store],
    "fetch": [fetch],
}

if __name__ == "__main__":
    for step in PHASES[sys.argv[1]]:
        step()
        print("ok", step.__name__, flush=True)
