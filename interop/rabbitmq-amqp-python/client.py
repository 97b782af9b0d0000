"""RabbitMQ's own Python client of AMQP 1.0: what it declares, publishes and consumes, each as a function that asserts what it gets."""

import os
import sys
import uuid

from rabbitmq_amqp_python_client import (
    AddressHelper,
    AMQPMessagingHandler,
    ClassicQueueSpecification,
    Environment,
    ExchangeSpecification,
    ExchangeToExchangeBindingSpecification,
    ExchangeToQueueBindingSpecification,
    ExchangeType,
    Message,
    OutcomeState,
    QuorumQueueSpecification,
    ValidationCodeException,
)
from rabbitmq_amqp_python_client.qpid.proton.utils import SendException

STORED = "interop.rabbitmq-amqp-python.stored"


def unique(name):
    return f"interop.rabbitmq-amqp-python.{name}/{uuid.uuid4().hex[:8]}"


def expect(found, expected, what):
    assert found == expected, f"{what}: expected {expected!r}, found {found!r}"


def refused(what, attempt):
    try:
        attempt()
    except ValidationCodeException as error:
        return str(error)
    raise AssertionError(f"{what} was not refused")


class Enough(Exception):
    """Ends a consumer."""


class Taker(AMQPMessagingHandler):
    """Settles the messages that come by a function each, and ends with the last one."""

    def __init__(self, settle):
        super().__init__(auto_accept=False, auto_settle=False)
        self.settle = list(settle)
        self.taken = []

    def on_amqp_message(self, event):
        self.taken.append(event.message)
        self.settle[len(self.taken) - 1](self.delivery_context, event)
        if len(self.taken) == len(self.settle):
            raise Enough


def accept(context, event):
    context.accept(event)


def take(connection, queue, settle):
    """The next messages of a queue, one for each function that settles one."""
    handler = Taker(settle)
    consumer = connection.consumer(AddressHelper.queue_address(queue), message_handler=handler)
    try:
        consumer.run()
    except Enough:
        pass
    consumer.close()
    return handler.taken


def bodies(messages):
    return [bytes(message.body).decode() for message in messages]


def publish(connection, address, *texts):
    publisher = connection.publisher(address)
    states = [outcome(lambda: publisher.publish(Message(body=text.encode(), durable=True))) for text in texts]
    publisher.close()
    return states


def outcome(send):
    """What became of a message; the client raises an exception for all but `accepted`."""
    try:
        return send().remote_state
    except SendException as error:
        return error.state


def queues(connection):
    """A queue is declared, shown, declared again, refused where it differs, purged and deleted."""
    management = connection.management()
    name = unique("queue")
    management.declare_queue(QuorumQueueSpecification(name=name, max_len=10))
    management.declare_queue(QuorumQueueSpecification(name=name, max_len=10))
    why = refused("another limit", lambda: management.declare_queue(QuorumQueueSpecification(name=name, max_len=11)))
    assert "ErrPreconditionFailed" in why, why
    expect(publish(connection, AddressHelper.queue_address(name), "a", "b"), [OutcomeState.ACCEPTED] * 2, "outcomes")
    info = management.queue_info(name)
    shown = (info.name, info.is_durable, info.is_exclusive, info.is_auto_delete, info.queue_type.value, info.message_count, info.consumer_count)
    expect(shown, (name, True, False, False, "quorum", 2, 0), "queue")
    expect(info.arguments["x-max-length"], 10, "argument")
    expect(management.purge_queue(name), 2, "purged")
    expect(management.queue_info(name).message_count, 0, "messages")
    management.delete_queue(name)
    refused("a queue that is deleted", lambda: management.queue_info(name))
    management.close()


def routing(connection):
    """Messages go from a topic exchange over a fanout to a queue, until the binding is taken away."""
    management = connection.management()
    queue, topic, fanout = unique("routed"), unique("topic"), unique("fanout")
    management.declare_queue(ClassicQueueSpecification(name=queue))
    management.declare_exchange(ExchangeSpecification(name=topic, exchange_type=ExchangeType.topic))
    management.declare_exchange(ExchangeSpecification(name=fanout, exchange_type=ExchangeType.fanout))
    management.bind(ExchangeToExchangeBindingSpecification(source_exchange=topic, destination_exchange=fanout, binding_key="a.#"))
    place = management.bind(ExchangeToQueueBindingSpecification(source_exchange=fanout, destination_queue=queue))
    address = AddressHelper.exchange_address(topic, "a.b/c")
    expect(publish(connection, address, "routed"), [OutcomeState.ACCEPTED], "outcome")
    expect(publish(connection, AddressHelper.exchange_address(topic, "b"), "nowhere"), [OutcomeState.RELEASED], "outcome")
    expect(bodies(take(connection, queue, [accept])), ["routed"], "bodies")
    management.unbind(place)
    expect(publish(connection, address, "nowhere"), [OutcomeState.RELEASED], "outcome without a binding")
    for exchange in topic, fanout:
        management.delete_exchange(exchange)
    management.delete_queue(queue)
    management.close()


def addressed(connection):
    """A publisher without an address sends where each message says."""
    management = connection.management()
    queue = unique("addressed")
    management.declare_queue(QuorumQueueSpecification(name=queue))
    publisher = connection.publisher()
    message = Message(body=b"addressed", durable=True, address=AddressHelper.queue_address(queue))
    expect(publisher.publish(message).remote_state, OutcomeState.ACCEPTED, "outcome")
    publisher.close()
    expect(bodies(take(connection, queue, [accept])), ["addressed"], "bodies")
    management.delete_queue(queue)
    management.close()


def outcomes(connection):
    """What is requeued comes again with its annotations, and what is discarded goes to the dead-letter queue."""
    management = connection.management()
    queue, dead = unique("work"), unique("dead")
    management.declare_queue(QuorumQueueSpecification(name=dead))
    management.declare_queue(QuorumQueueSpecification(name=queue, dead_letter_exchange="", dead_letter_routing_key=dead))
    publish(connection, AddressHelper.queue_address(queue), "one", "two")
    settle = [
        lambda context, event: context.requeue_with_annotations(event, {"x-opt-why": "again"}),
        lambda context, event: context.discard(event),
        accept,
    ]
    taken = take(connection, queue, settle)
    expect(sorted(bodies(taken)), ["one", "one", "two"], "bodies")
    again = [message for message in taken if (message.annotations or {}).get("x-opt-why") == "again"]
    expect(len(again), 1, "messages with the annotation")
    died = take(connection, dead, [accept])
    expect(len(died), 1, "dead letters")
    expect(management.queue_info(queue).message_count, 0, "messages left")
    for name in queue, dead:
        management.delete_queue(name)
    management.close()


def store(connection):
    management = connection.management()
    management.declare_queue(QuorumQueueSpecification(name=STORED))
    management.purge_queue(STORED)
    states = publish(connection, AddressHelper.queue_address(STORED), *[f"stored {number}" for number in range(10)])
    expect(states, [OutcomeState.ACCEPTED] * 10, "outcomes")
    management.close()


def fetch(connection):
    taken = take(connection, STORED, [accept] * 10)
    expect(bodies(taken), [f"stored {number}" for number in range(10)], "stored messages")
    expect([message.delivery_count for message in taken], [0] * 10, "delivery counts")


PHASES = {"patterns": [queues, routing, addressed, outcomes], "store": [store], "fetch": [fetch]}


def main():
    failed = 0
    # This client encodes the vhost of a URL once more than it decodes it; without one it is "/".
    environment = Environment(uri=os.environ["AMQP_URL"].removesuffix("%2F"))
    for step in PHASES[sys.argv[1]]:
        connection = environment.connection()
        connection.dial()
        try:
            step(connection)
            print("ok", step.__name__)
        except Exception as error:  # noqa: BLE001: all that a client can raise is a failure
            print(f"FAILED {step.__name__}: {type(error).__name__}: {error}")
            failed += 1
        connection.close()
    environment.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
