"""Has a web service decide about users, vhosts, resources and topics: pika over AMQP, paho over MQTT,
and the HTTP API.

Every check is an assertion about what a client of somebody else's sees.
"""

import argparse
import base64
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

import server  # noqa: E402
from service import Service  # noqa: E402


def paho_of(scratch):
    """paho, in the environment of pika."""
    python = scratch / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "-q", "install", "paho-mqtt==2.1.0"], check=True)
    import paho.mqtt.client

    return paho.mqtt.client


def flags(port, **more):
    paths = {name: f"http://127.0.0.1:{port}/auth/{name}" for name in ["user", "vhost", "resource", "topic"]}
    found = ["--auth-backends=http,internal", *(f"--auth-http-{name}-path={url}" for name, url in paths.items())]
    return found + [f"--{name.replace('_', '-')}={value}" for name, value in more.items()]


def refused(pika, channel_of, ask, code=403):
    channel = channel_of()
    try:
        ask(channel)
    except pika.exceptions.ChannelClosedByBroker as closed:
        assert closed.reply_code == code, closed
        return
    raise AssertionError("it was allowed")


def by_amqp(pika, hermod, service):
    connection = server.connect(pika, hermod, "bob", "builder")
    channel = connection.channel()
    channel.queue_declare("bob.work")
    channel.confirm_delivery()
    for _ in range(200):
        channel.basic_publish("", "bob.work", b"allowed", mandatory=True)
    asked = service.count("/auth/resource", name="amq.default", permission="write")
    assert 1 <= asked <= 3, f"{asked} questions about 200 messages"
    assert channel.basic_get("bob.work", auto_ack=True)[2] == b"allowed"
    channel.queue_bind("bob.work", "amq.topic", "bob.#")
    channel.basic_publish("amq.topic", "bob.news", b"topical", mandatory=True)
    refused(pika, connection.channel, lambda channel: channel.queue_declare("theirs"))
    refused(pika, connection.channel, lambda channel: channel.queue_bind("bob.work", "amq.topic", "theirs.#"))
    dead = {"x-dead-letter-exchange": "theirs"}
    refused(pika, connection.channel, lambda channel: channel.queue_declare("bob.dead", arguments=dead))
    connection.close()
    for user, password in [("bob", "wonder"), ("eve", "builder"), ("bob", "")]:
        try:
            server.connect(pika, hermod, user, password)
            raise AssertionError(f"let in: {user}")
        except (pika.exceptions.ProbableAuthenticationError, pika.exceptions.AuthenticationError):
            pass
    parameters = pika.ConnectionParameters(
        "127.0.0.1", hermod.amqp, "other", pika.PlainCredentials("bob", "builder")
    )
    try:
        pika.BlockingConnection(parameters)
        raise AssertionError("let into another vhost")
    except (pika.exceptions.ProbableAccessDeniedError, pika.exceptions.ConnectionClosedByBroker):
        pass
    print("pika: vhost, resources and routing keys; one question about many messages")


class Mqtt:
    """A client of MQTT with what it was told."""

    def __init__(self, paho, hermod, name, **more):
        self.told = queue.Queue()
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5)
        self.client.username_pw_set("bob", "builder")
        self.client.on_connect = lambda _c, _u, _f, reason, _p: self.told.put(("connect", str(reason)))
        self.client.on_subscribe = lambda _c, _u, _m, reasons, _p: self.told.put(("subscribe", [str(r) for r in reasons]))
        self.client.on_publish = lambda _c, _u, _m, reason, _p: self.told.put(("publish", str(reason)))
        self.client.on_message = lambda _c, _u, message: self.told.put(("message", message.payload))
        for name, value in more.items():
            getattr(self.client, name)(**value)
        self.client.connect("127.0.0.1", hermod.mqtt)
        self.client.loop_start()

    def expect(self, *wanted):
        found = self.told.get(timeout=60)
        assert found == wanted, (found, wanted)

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


def by_mqtt(paho, hermod, service):
    client = Mqtt(paho, hermod, "bob-sensor")
    client.expect("connect", "Success")
    client.client.subscribe([("bob/in", 1), ("theirs/in", 1)])
    client.expect("subscribe", ["Granted QoS 1", "Not authorized"])
    client.client.publish("bob/in", b"hello", qos=1)
    found = {client.told.get(timeout=60), client.told.get(timeout=60)}
    assert found == {("publish", "Success"), ("message", b"hello")}, found
    client.client.publish("theirs/in", b"no", qos=1)
    client.expect("publish", "Not authorized")
    asked = [question for path, question in service.asked if path == "/auth/topic" and "client_id" in question]
    assert {(q["client_id"], q["variable_map.client_id"]) for q in asked} == {("bob-sensor", "bob-sensor")}, asked
    client.close()
    witness = Mqtt(paho, hermod, "bob-witness")
    witness.expect("connect", "Success")
    witness.client.subscribe("bob/will", 1)
    witness.expect("subscribe", ["Granted QoS 1"])
    dies = Mqtt(paho, hermod, "bob-dies", will_set={"topic": "bob/will", "payload": b"gone", "qos": 1})
    dies.expect("connect", "Success")
    dies.client._sock_close()
    witness.expect("message", b"gone")
    dies.client.loop_stop()
    witness.close()
    will = Mqtt(paho, hermod, "bob-forger", will_set={"topic": "theirs/will", "payload": b"no", "qos": 1})
    will.expect("connect", "Not authorized")
    will.close()
    print("paho: filters, topics and wills, with the client's name")


def by_http(hermod):
    def get(user, password, path):
        basic = base64.b64encode(f"{user}:{password}".encode()).decode()
        return hermod.get(path, {"Authorization": f"Basic {basic}"})

    status, queues = get("ada", "wonder", "/api/queues/%2F")
    assert status == 200 and any(queue["name"] == "bob.work" for queue in queues), queues
    assert get("bob", "builder", "/api/queues")[0] == 401, "it has no tag"
    assert get("ada", "wrong", "/api/queues")[0] == 401
    why = get("guest", "guest", "/api/explain/access?user=nobody&vhost=/&kind=queue&name=x")
    assert why[0] == 200, why
    print("the HTTP API: the tags that the service gives")


def held_up(pika, hermod, service):
    """The service hangs: its users wait, and the others do not."""
    waiting = [server.connect(pika, hermod, "bob", "builder") for _ in range(5)]
    channels = [connection.channel() for connection in waiting]
    service.hang.clear()
    done = []

    def declare(number):
        channels[number].queue_declare(f"bob.held.{number}")
        done.append(number)

    threads = [threading.Thread(target=declare, args=[number]) for number in range(5)]
    for thread in threads:
        thread.start()
    server.until("it hangs", lambda: any(q["name"].startswith("bob.held") for _, q in service.asked if "name" in q))
    other = server.connect(pika, hermod, "guest", "guest")
    channel = other.channel()
    channel.confirm_delivery()
    channel.queue_declare("quick")
    slowest = 0
    for _ in range(200):
        begun = time.monotonic()
        channel.basic_publish("", "quick", b"x", mandatory=True)
        slowest = max(slowest, time.monotonic() - begun)
    assert not done, "the service has not answered"
    service.hang.set()
    for thread in threads:
        thread.join(60)
    assert len(done) == 5, done
    other.close()
    for connection in waiting:
        connection.close()
    print(f"a service that hangs holds up its own users; another waited {slowest * 1000:.0f} ms at most")


def away(pika, hermod, service):
    connection = server.connect(pika, hermod, "bob", "builder")
    connection.channel().queue_declare("bob.before")
    service.stop()
    refused(pika, connection.channel, lambda channel: channel.queue_declare("bob.after"))
    connection.channel().queue_declare("bob.before")
    server.connect(pika, hermod, "guest", "guest").close()
    back = Service(service.port)
    server.until("it is asked again", lambda: declares(pika, connection, "bob.after"))
    back.withdrawn.add(("bob.after", "configure"))
    server.until("the right is gone", lambda: not declares(pika, connection, "bob.after"))
    connection.close()
    back.stop()
    print("while it is away nothing new is allowed; back, it is asked again; a right it withdraws goes")


def declares(pika, connection, name):
    try:
        connection.channel().queue_declare(name)
        return True
    except pika.exceptions.ChannelClosedByBroker:
        time.sleep(0.3)
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default=server.PROGRAM, help="the broker's program")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        pika = server.pika_of(scratch)
        paho = paho_of(scratch)
        try:
            for method in ["post", "get"]:
                service = Service()
                more = {"auth_http_http_method": method, "auth_http_timeout": "60 s", "auth_cache_ttl": "3 s"}
                folder = scratch / method
                folder.mkdir()
                hermod = server.Hermod(options.server, flags(service.port, **more), folder)
                by_amqp(pika, hermod, service)
                by_mqtt(paho, hermod, service)
                by_http(hermod)
                held_up(pika, hermod, service)
                away(pika, hermod, service)
                hermod.stop()
        except BaseException:
            for folder in [scratch, *scratch.glob("*/")]:
                server.show_logs(folder)
            raise


if __name__ == "__main__":
    main()
