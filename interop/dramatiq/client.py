"""Dramatiq actors as their users write them: work, retries, delays, dead letters, priorities, each a function that
checks what the broker and Dramatiq make of it together."""

import logging
import os
import sys
import threading
import time

import dramatiq
import pika
from dramatiq.brokers.rabbitmq import RabbitmqBroker

WAIT = 60  # seconds for anything that must arrive
STORED = "interop.dramatiq.stored"
URL = os.environ["AMQP_URL"]

broker = RabbitmqBroker(url=URL, confirm_delivery=True, max_priority=10)
dramatiq.set_broker(broker)
logging.getLogger("dramatiq").setLevel(logging.CRITICAL)  # failures are wanted here

done = []
lock = threading.Lock()


def note(word):
    with lock:
        done.append(word)


def until(condition, what):
    """Waits for `condition`."""
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(f"waited in vain: {what}; done: {done}")


@dramatiq.actor(queue_name="interop.dramatiq.work")
def work(number):
    note(number)


@dramatiq.actor(queue_name="interop.dramatiq.retry", max_retries=3, min_backoff=50, max_backoff=100)
def stubborn(name):
    note(name)
    if done.count(name) < 3:
        raise RuntimeError("not yet")


@dramatiq.actor(queue_name="interop.dramatiq.dead", max_retries=1, min_backoff=50, max_backoff=100)
def hopeless():
    note("hopeless")
    raise RuntimeError("never")


@dramatiq.actor(queue_name="interop.dramatiq.order")
def ordered(word):
    note(word)


@dramatiq.actor(queue_name=STORED)
def stored(number):
    note(number)


class Working:
    """A worker with one thread on some queues, for the time of a `with`."""

    def __init__(self, *queues):
        self.worker = dramatiq.Worker(broker, queues=set(queues), worker_threads=1)

    def __enter__(self):
        self.worker.start()

    def __exit__(self, *_):
        self.worker.stop()


def everything_is_done_once():
    for number in range(50):
        work.send(number)
    with Working("interop.dramatiq.work"):
        until(lambda: len(done) >= 50, "fifty pieces of work")
        broker.join("interop.dramatiq.work", timeout=WAIT * 1000)
    assert sorted(done) == list(range(50)), done


def a_failure_is_tried_again():
    stubborn.send("late")
    with Working("interop.dramatiq.retry"):
        until(lambda: done.count("late") == 3, "the third try")
        broker.join("interop.dramatiq.retry", timeout=WAIT * 1000)
    assert done == ["late"] * 3, done


def what_fails_for_good_is_a_dead_letter():
    hopeless.send()
    with Working("interop.dramatiq.dead"):
        until(lambda: waiting("interop.dramatiq.dead.XQ") == 1, "the dead letter")
    assert done == ["hopeless"] * 2, done


def what_is_delayed_comes_later():
    work.send_with_options(args=("delayed",), delay=1000)
    work.send("at once")
    with Working("interop.dramatiq.work"):
        until(lambda: len(done) == 2, "both")
    assert done == ["at once", "delayed"], done


def what_is_urgent_goes_first():
    for _ in range(3):
        ordered.send_with_options(args=("relaxed",), broker_priority=1)
    ordered.send_with_options(args=("urgent",), broker_priority=9)
    with Working("interop.dramatiq.order"):
        until(lambda: len(done) == 4, "all four")
    assert done == ["urgent", "relaxed", "relaxed", "relaxed"], done


def waiting(queue):
    """How many messages wait in a queue."""
    with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
        return connection.channel().queue_declare(queue, passive=True).method.message_count


def store():
    for number in range(10):
        stored.send(number)


def fetch():
    with Working(STORED):
        until(lambda: len(done) == 10, "what was stored")
    assert done == list(range(10)), done


PATTERNS = [
    everything_is_done_once,
    a_failure_is_tried_again,
    what_fails_for_good_is_a_dead_letter,
    what_is_delayed_comes_later,
    what_is_urgent_goes_first,
]
PHASES = {"patterns": PATTERNS, "extensions": [], "store": [store], "fetch": [fetch]}

for step in PHASES[sys.argv[1]]:
    done.clear()
    step()
    print("ok", step.__name__, flush=True)
# Threads of the library hold connections that nothing waits for.
os._exit(0)
