"""The RabbitMQ tutorials' patterns with pika, each as a function that asserts what it gets."""

import os
import sys
import time
import uuid

import pika
import pika.exceptions

WAIT = 10  # seconds for anything that must arrive
QUIET = 0.3  # seconds in which nothing may arrive
STORED = "interop.pika.stored"


def connect():
    parameters = pika.URLParameters(os.environ["AMQP_URL"])
    parameters.socket_timeout = WAIT
    parameters.blocked_connection_timeout = WAIT
    return pika.BlockingConnection(parameters)


def unique(name):
    return f"interop.pika.{name}.{uuid.uuid4().hex[:8]}"


def take(channel, queue, count, seconds=WAIT):
    """The bodies of the next `count` messages, consumed with automatic acknowledgement."""
    bodies = []
    for method, _properties, body in channel.consume(queue, auto_ack=True, inactivity_timeout=seconds):
        if method is None:
            break
        bodies.append(body.decode())
        if len(bodies) == count:
            break
    channel.cancel()
    return bodies


def expect(found, expected, what):
    assert found == expected, f"{what}: expected {expected!r}, found {found!r}"


def get_soon(channel, queue):
    """The next message of a queue: requeueing may take a moment after a channel has closed."""
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline:
        method, _properties, body = channel.basic_get(queue)
        if method is not None:
            return method, body
        time.sleep(0.02)
    raise AssertionError(f"nothing in {queue}")


def work_queue(connection):
    """Fair dispatch: two workers with a prefetch of one share ten tasks; what a worker leaves unacknowledged comes back."""
    queue = unique("tasks")
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    for number in range(10):
        channel.basic_publish("", queue, f"task {number}", pika.BasicProperties(delivery_mode=2))
    done = {"a": [], "b": []}

    def worker(name):
        own = connection.channel()
        own.basic_qos(prefetch_count=1)

        def work(ch, method, _properties, body):
            done[name].append(body.decode())
            ch.basic_ack(method.delivery_tag)

        own.basic_consume(queue, work)
        return own

    workers = [worker("a"), worker("b")]
    deadline = time.monotonic() + WAIT
    while len(done["a"]) + len(done["b"]) < 10 and time.monotonic() < deadline:
        connection.process_data_events(time_limit=0.1)
    expect(sorted(done["a"] + done["b"]), [f"task {n}" for n in range(10)], "tasks done")
    assert done["a"] and done["b"], f"one worker did everything: {done}"
    for own in workers:
        own.close()

    # A worker that goes away without acknowledging gives its task back, marked as redelivered.
    channel.basic_publish("", queue, "left")
    lazy = connection.channel()
    method, _, body = next(lazy.consume(queue, inactivity_timeout=WAIT))
    expect((body, method.redelivered), (b"left", False), "first delivery")
    lazy.close()
    method, body = get_soon(channel, queue)
    expect((body, method.redelivered), (b"left", True), "second delivery")
    channel.basic_nack(method.delivery_tag, requeue=False)
    method, _, _ = channel.basic_get(queue)
    assert method is None, "a rejected message came back"
    channel.queue_delete(queue)
    channel.close()


def publish_subscribe(connection):
    """A fanout exchange copies to every subscriber's own queue."""
    exchange = unique("logs")
    channel = connection.channel()
    channel.exchange_declare(exchange, "fanout")
    queues = []
    for _ in range(2):
        queue = channel.queue_declare("", exclusive=True).method.queue
        assert queue, "the server gave no name to the queue"
        channel.queue_bind(queue, exchange)
        queues.append(queue)
    channel.basic_publish(exchange, "ignored", "hello all")
    for queue in queues:
        expect(take(channel, queue, 1), ["hello all"], queue)
    channel.exchange_delete(exchange)
    channel.close()


def routing(connection):
    """A direct exchange routes by the whole key; a queue may be bound by several keys."""
    exchange = unique("direct")
    channel = connection.channel()
    channel.exchange_declare(exchange, "direct")
    errors = channel.queue_declare("", exclusive=True).method.queue
    everything = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(errors, exchange, "error")
    for severity in ("info", "warning", "error"):
        channel.queue_bind(everything, exchange, severity)
    for severity in ("info", "error", "warning", "debug"):
        channel.basic_publish(exchange, severity, severity)
    expect(take(channel, errors, 2, QUIET), ["error"], "errors")
    expect(take(channel, everything, 4, QUIET), ["info", "error", "warning"], "everything")
    channel.exchange_delete(exchange)
    channel.close()


def topics(connection):
    """A topic exchange: `*` is one word, `#` is any number of words."""
    exchange = unique("topic")
    channel = connection.channel()
    channel.exchange_declare(exchange, "topic")
    keys = ["quick.orange.rabbit", "lazy.orange.elephant", "quick.orange.fox", "lazy.brown.fox", "lazy",
            "lazy.pink.rabbit", "quick.brown.fox", "orange", "quick.orange.new.rabbit", "lazy.orange.new.rabbit"]
    expected = {
        "*.orange.*": ["quick.orange.rabbit", "lazy.orange.elephant", "quick.orange.fox"],
        "*.*.rabbit": ["quick.orange.rabbit", "lazy.pink.rabbit"],
        "lazy.#": ["lazy.orange.elephant", "lazy.brown.fox", "lazy", "lazy.pink.rabbit", "lazy.orange.new.rabbit"],
        "#": keys,
        "#.rabbit": ["quick.orange.rabbit", "lazy.pink.rabbit", "quick.orange.new.rabbit", "lazy.orange.new.rabbit"],
    }
    queues = {}
    for pattern in expected:
        queues[pattern] = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queues[pattern], exchange, pattern)
    for key in keys:
        channel.basic_publish(exchange, key, key)
    for pattern, bodies in expected.items():
        expect(take(channel, queues[pattern], len(bodies) + 1, QUIET), bodies, pattern)
    channel.exchange_delete(exchange)
    channel.close()


def rpc(connection):
    """Request and reply with reply_to and correlation_id over a queue of the client's own."""
    ask_and_answer(connection, connection.channel().queue_declare("", exclusive=True).method.queue)


def direct_reply_to(connection):
    """Request and reply without a queue for the replies."""
    ask_and_answer(connection, "amq.rabbitmq.reply-to")


def ask_and_answer(connection, reply_to):
    requests = unique("rpc")
    server = connection.channel()
    server.queue_declare(requests, exclusive=True)

    def answer(ch, method, properties, body):
        reply = pika.BasicProperties(correlation_id=properties.correlation_id)
        ch.basic_publish("", properties.reply_to, str(int(body) ** 2), reply)
        ch.basic_ack(method.delivery_tag)

    server.basic_consume(requests, answer)
    client = connection.channel()
    replies = {}
    client.basic_consume(reply_to, lambda _c, _m, p, body: replies.update({p.correlation_id: body.decode()}), auto_ack=True)
    for number in (3, 12):
        properties = pika.BasicProperties(reply_to=reply_to, correlation_id=f"n{number}")
        client.basic_publish("", requests, str(number), properties)
    deadline = time.monotonic() + WAIT
    while len(replies) < 2 and time.monotonic() < deadline:
        connection.process_data_events(time_limit=0.1)
    expect(replies, {"n3": "9", "n12": "144"}, f"replies through {reply_to}")
    client.close()
    server.close()


def confirms(connection):
    """Confirmed publishing; an unroutable mandatory message comes back; properties and headers survive the way."""
    queue = unique("confirms")
    channel = connection.channel()
    channel.queue_declare(queue)
    channel.confirm_delivery()
    sent = pika.BasicProperties(
        content_type="text/plain", content_encoding="utf-8", delivery_mode=1, priority=3, correlation_id="c",
        reply_to="r", message_id="m", timestamp=1700000000, type="t", user_id="guest", app_id="a",
        headers={"text": "é", "number": -5, "long": 2**40, "yes": True, "nested": {"list": [1, "two", None]}})
    channel.basic_publish("", queue, b"\x00\xff", sent, mandatory=True)
    method, found, body = channel.basic_get(queue, auto_ack=True)
    expect(body, b"\x00\xff", "body")
    for name in ("content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to",
                 "message_id", "timestamp", "type", "user_id", "app_id", "headers"):
        expect(getattr(found, name), getattr(sent, name), name)
    expect((method.redelivered, method.exchange, method.routing_key), (False, "", queue), "delivery")
    large = os.urandom(1_000_000)
    channel.basic_publish("", queue, large, mandatory=True)
    assert channel.basic_get(queue, auto_ack=True)[2] == large, "a large body changed"
    try:
        channel.basic_publish("", unique("nowhere"), "lost", mandatory=True)
        raise AssertionError("an unroutable mandatory message was confirmed silently")
    except pika.exceptions.UnroutableError as error:
        expect([m.body for m in error.messages], [b"lost"], "returned")
    channel.queue_delete(queue)
    channel.close()


def refusals(connection):
    """Mistakes close the channel with the code clients rely on, and leave the connection usable."""
    exchange = unique("fanout")
    channel = connection.channel()
    channel.exchange_declare(exchange, "fanout")
    cases = [
        (404, lambda ch: ch.queue_declare(unique("missing"), passive=True)),
        (404, lambda ch: ch.basic_get(unique("missing"))),
        (406, lambda ch: ch.exchange_declare(exchange, "direct")),
        (403, lambda ch: ch.exchange_declare("amq.mine", "direct")),
        (406, lambda ch: (ch.basic_ack(99), ch.queue_declare("", exclusive=True))),
    ]
    for code, mistake in cases:
        channel = connection.channel()
        try:
            mistake(channel)
            raise AssertionError(f"expected {code}, but the channel stayed open")
        except pika.exceptions.ChannelClosedByBroker as error:
            expect(error.reply_code, code, error.reply_text)
    channel = connection.channel()
    channel.exchange_delete(exchange)
    channel.close()
    parameters = pika.URLParameters(os.environ["AMQP_URL"])
    parameters.credentials = pika.PlainCredentials("guest", "wrong")
    try:
        pika.BlockingConnection(parameters)
        raise AssertionError("a wrong password was accepted")
    except (pika.exceptions.ProbableAuthenticationError, pika.exceptions.AuthenticationError):
        pass


def store(connection):
    channel = connection.channel()
    channel.queue_declare(STORED, durable=True)
    channel.queue_purge(STORED)
    channel.confirm_delivery()
    for number in range(10):
        channel.basic_publish("", STORED, f"stored {number}", pika.BasicProperties(delivery_mode=2), mandatory=True)


def fetch(connection):
    channel = connection.channel()
    for number in range(10):
        method, properties, body = channel.basic_get(STORED)
        assert method is not None, f"message {number} of 10 is lost"
        expect((body.decode(), method.redelivered), (f"stored {number}", False), "stored message")
        expect(properties.delivery_mode, 2, "delivery mode")
        channel.basic_ack(method.delivery_tag)
    channel.queue_delete(STORED)


PHASES = {
    "patterns": [work_queue, publish_subscribe, routing, topics, rpc, confirms, refusals],
    "extensions": [direct_reply_to],
    "store": [store],
    "fetch": [fetch],
}

if __name__ == "__main__":
    opened = connect()
    for step in PHASES[sys.argv[1]]:
        step(opened)
        print("ok", step.__name__, flush=True)
    opened.close()
