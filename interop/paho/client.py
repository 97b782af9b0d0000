"""What MQTT clients do, with paho-mqtt in MQTT 3.1.1 and 5.0, each as a function that asserts what it gets."""

import os
import queue as queues
import sys
import threading

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

WAIT = 10  # seconds for anything that must arrive
QUIET = 0.3  # seconds in which nothing may arrive
HOST, PORT = os.environ["MQTT_HOST"], int(os.environ["MQTT_PORT"])
NEW, OLD = mqtt.MQTTv5, mqtt.MQTTv311


def properties(kind, **values):
    made = Properties(kind)
    for name, value in values.items():
        setattr(made, name, value)
    return made


class Peer:
    """One client with its inbox."""

    def __init__(self, name, version=NEW, expiry=0, clean=True, will=None, password="guest", receive_maximum=None):
        self.messages, self.ready = queues.Queue(), threading.Event()
        self.done, self.changed = {}, threading.Condition()
        self.reason, self.present = None, None
        old = {} if version == NEW else {"clean_session": clean}
        self.client = client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, name, protocol=version, **old)
        client.username_pw_set("guest", password)
        client.on_message = lambda client, data, message: self.messages.put(message)
        client.on_connect = self.connected
        client.on_subscribe = lambda client, data, mid, reasons, more: self.finished(mid, reasons)
        client.on_unsubscribe = lambda client, data, mid, reasons, more: self.finished(mid, reasons)
        client.on_publish = lambda client, data, mid, reason, more: self.finished(mid, reason)
        client.reconnect_delay_set(30, 60)
        if will:
            client.will_set(*will)
        options = {}
        if version == NEW:
            options["clean_start"] = clean
            options["properties"] = properties(PacketTypes.CONNECT, SessionExpiryInterval=expiry)
            if receive_maximum:
                options["properties"].ReceiveMaximum = receive_maximum
        client.connect(HOST, PORT, 30, **options)
        client.loop_start()
        assert self.ready.wait(WAIT), "no CONNACK"

    def connected(self, client, data, flags, reason, more):
        self.reason, self.present = reason, flags.session_present
        self.ready.set()

    def finished(self, mid, result):
        with self.changed:
            self.done[mid] = result
            self.changed.notify_all()

    def answer(self, mid):
        with self.changed:
            assert self.changed.wait_for(lambda: mid in self.done, WAIT), f"no answer to {mid}"
            return self.done[mid]

    def subscribe(self, *args, **named):
        return self.answer(self.client.subscribe(*args, **named)[1])

    def publish(self, topic, payload, qos=1, **named):
        return self.answer(self.client.publish(topic, payload, qos, **named).mid)

    def bodies(self, count, seconds=WAIT):
        found = []
        while len(found) < count:
            try:
                found.append(self.messages.get(timeout=seconds).payload.decode())
            except queues.Empty:
                break
        return found

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()

    def drop(self):
        """Ends without DISCONNECT."""
        self.client.loop_stop()
        self.client.socket().close()


def qualities_and_wildcards():
    for version in (OLD, NEW):
        peer = Peer(f"qualities-{version}", version)
        assert [int(reason.value) for reason in peer.subscribe([("q/+/0", 0), ("q/#", 1)])] == [0, 1]
        peer.publish("q/a/0", "one", 0)
        peer.publish("q/b", "two")
        message = [peer.messages.get(timeout=WAIT) for _ in range(2)]
        assert [(m.topic, m.payload, m.qos) for m in message] == [("q/a/0", b"one", 0), ("q/b", b"two", 1)]
        assert peer.bodies(1, QUIET) == [], "a message that matches two filters comes once"
        peer.close()


def many_in_order():
    receiver, sender = Peer("many-receiver", receive_maximum=10), Peer("many-sender", OLD)
    receiver.subscribe("many", 1)
    sent = [sender.client.publish("many", str(number), 1).mid for number in range(500)]
    for mid in sent:
        sender.answer(mid)
    assert receiver.bodies(500) == [str(number) for number in range(500)]
    receiver.close(), sender.close()


def properties_of_version_5():
    peer = Peer("properties")
    options = SubscribeOptions(qos=1, retainAsPublished=True)
    peer.subscribe("p/#", options=options, properties=properties(PacketTypes.SUBSCRIBE, SubscriptionIdentifier=300))
    sent = properties(
        PacketTypes.PUBLISH, MessageExpiryInterval=100, ContentType="text/plain", ResponseTopic="p/answers",
        CorrelationData=b"\0\1", PayloadFormatIndicator=1, TopicAlias=3, UserProperty=[("b", "1"), ("a", "2"), ("b", "3")],
    )
    peer.publish("p/dots.and/slashes", "x", properties=sent)
    message = peer.messages.get(timeout=WAIT)
    got = message.properties
    assert message.topic == "p/dots.and/slashes"
    assert got.UserProperty == [("b", "1"), ("a", "2"), ("b", "3")] and got.CorrelationData == b"\0\1"
    assert (got.ContentType, got.ResponseTopic, got.SubscriptionIdentifier) == ("text/plain", "p/answers", [300])
    assert 95 <= got.MessageExpiryInterval <= 100
    assert peer.publish("nobody/listens", "x").value == 0x10
    peer.close()


def retained():
    peer = Peer("retained", OLD)
    peer.publish("r/a", "old", retain=True)
    peer.publish("r/a", "new", retain=True)
    peer.publish("r/b", "gone", retain=True)
    peer.publish("r/b", "", retain=True)
    late = Peer("late")
    late.subscribe("r/#", 1)
    message = late.messages.get(timeout=WAIT)
    assert (message.payload, message.retain) == (b"new", True)
    assert late.bodies(1, QUIET) == []
    late.close(), peer.close()


def figures():
    monitor = Peer("monitor")
    monitor.subscribe("$SYS/broker/#", 2)
    seen = {}
    while "$SYS/broker/load/connections/15min" not in seen:
        message = monitor.messages.get(timeout=WAIT)
        seen[message.topic] = message.payload.decode()
        assert (message.qos, message.retain) == (0, True)
    assert seen["$SYS/broker/version"].startswith("Hermod") and seen["$SYS/broker/uptime"].endswith(" seconds")
    assert int(seen["$SYS/broker/clients/connected"]) >= 1 and int(seen["$SYS/broker/messages/received"]) >= 1
    monitor.close()


def sessions():
    for version, expiry in ((OLD, 0), (NEW, 60)):
        name = f"session-{version}"
        first = Peer(name, version, expiry, clean=False)
        first.subscribe(f"s/{version}", 1)
        first.close()
        other = Peer("s-sender", OLD)
        other.publish(f"s/{version}", "while away")
        again = Peer(name, version, expiry, clean=False)
        assert again.present and again.bodies(1) == ["while away"]
        again.close()
        gone = Peer(name, version, 0, clean=True)
        assert not gone.present
        gone.close(), other.close()


def takeover_and_wills():
    watcher = Peer("watcher", OLD)
    watcher.subscribe("w/#", 1)
    Peer("dropped", will=("w/dropped", "gone", 1, False)).drop()
    assert watcher.bodies(1) == ["gone"]
    polite = Peer("polite", OLD, will=("w/polite", "gone", 1, False))
    polite.close()
    first = Peer("same", will=("w/same", "taken over", 1, False))
    second = Peer("same")
    assert watcher.bodies(1) == ["taken over"] and watcher.bodies(1, QUIET) == []
    first.client.loop_stop(), second.close(), watcher.close()


def shared():
    workers = [Peer(f"worker-{number}", version) for number, version in enumerate((OLD, NEW))]
    for worker in workers:
        worker.subscribe("$share/g/jobs/#", 1)
    sender = Peer("boss")
    for number in range(10):
        sender.publish("jobs/x", str(number))
    taken = [worker.bodies(10, QUIET) for worker in workers]
    assert sorted(sum(taken, [])) == sorted(str(number) for number in range(10)) and all(taken), taken
    for peer in [sender, *workers]:
        peer.close()


def refusals():
    assert Peer("wrong", password="wrong").reason.value in (0x86, 0x87)


def exactly_once():
    for version in (OLD, NEW):
        peer = Peer(f"once-{version}", version)
        assert int(peer.subscribe("once", 2)[0].value) == 2
        for number in range(100):
            peer.publish("once", str(number), 2)
        messages = [peer.messages.get(timeout=WAIT) for _ in range(100)]
        assert [(m.payload.decode(), m.qos) for m in messages] == [(str(number), 2) for number in range(100)]
        assert peer.bodies(1, 0.3) == []
        peer.close()


def large():
    peer = Peer("large")
    peer.subscribe("large", 1)
    peer.publish("large", "x" * 3_000_000)
    assert len(peer.bodies(1)[0]) == 3_000_000
    peer.close()


def patterns():
    for pattern in (qualities_and_wildcards, many_in_order, properties_of_version_5, retained, figures,
                    sessions, takeover_and_wills, shared, refusals, exactly_once, large):
        pattern()
        print(f"paho: {pattern.__name__}")


def store():
    for version in (OLD, NEW):
        session = Peer(f"stored-{version}", version, 3600, clean=False)
        session.subscribe(f"stored/{version}/#", 1)
        session.close()
        sender = Peer("store", OLD)
        for number in range(100):
            sender.publish(f"stored/{version}/{number}", str(number))
        sender.publish(f"kept/{version}", "kept", 0, retain=True)
        sender.publish(f"kept/{version}/confirmed", "kept", 1, retain=True)
        sender.close()


def fetch():
    for version in (OLD, NEW):
        session = Peer(f"stored-{version}", version, 3600, clean=False)
        assert session.present, "the session has survived"
        assert session.bodies(100) == [str(number) for number in range(100)]
        session.subscribe(f"kept/{version}/#", 1)
        assert session.bodies(2) == ["kept"] * 2
        session.close()


if __name__ == "__main__":
    {"patterns": patterns, "store": store, "fetch": fetch}[sys.argv[1]]()
