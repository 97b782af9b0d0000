"""A Celery application: a worker on ordinary durable queues, results in a database, so that chords work.

    celery -A shop worker --concurrency 4
"""

import os
import time
from pathlib import Path

from celery import Celery
from celery.exceptions import Reject
from kombu import Exchange, Queue

FOLDER = Path(os.environ["SHOP_FOLDER"])  # where the results and the journal of what was done lie

app = Celery("shop", broker=os.environ["AMQP_URL"], backend=f"db+sqlite:///{FOLDER}/results.sqlite")

dead = Exchange("interop.celery.dead", type="fanout", durable=True)
app.conf.update(
    # A task is acknowledged when it is done, so one whose worker dies is done by another.
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    # After a lost connection nobody could acknowledge what is under way: it is given up, and comes again.
    worker_cancel_long_running_tasks_on_connection_loss=True,
    # A worker takes no more than it works on; the others get the rest.
    worker_prefetch_multiplier=1,
    # `delay()` returns when the task is on the broker's disk, and raises if it is not.
    broker_transport_options={"confirm_publish": True},
    broker_connection_retry_on_startup=True,
    # A worker that has lost its broker for good ends.
    broker_connection_max_retries=10,
    task_default_queue="interop.celery.tasks",
    task_queues=[
        Queue("interop.celery.tasks", queue_arguments={"x-dead-letter-exchange": dead.name}),
        Queue("interop.celery.urgent", max_priority=10),
        Queue("interop.celery.stored"),
    ],
)
dead_letters = Queue("interop.celery.dead", dead)


def write(line):
    """Notes what was done. One small append is not mixed with another's."""
    with open(FOLDER / "journal", "a", encoding="utf-8") as journal:
        journal.write(f"{line}\n")


@app.task
def note(text):
    write(text)
    return text


@app.task(bind=True)
def charge(self, order):
    """Takes long, unless an earlier worker has died of it."""
    again = self.request.delivery_info["redelivered"]
    write(f"charge {order} {'again' if again else 'first'} {os.getpid()}")
    if not again:
        time.sleep(60)
    write(f"charged {order}")


@app.task(bind=True, autoretry_for=(ConnectionError,), retry_backoff=1, retry_jitter=False, max_retries=3)
def call(self, name):
    """Fails twice; Celery sends it again with a countdown of one and then two seconds."""
    write(f"call {name} {self.request.retries} {time.time():.3f}")
    if self.request.retries < 2:
        raise ConnectionError("the service is down")
    return self.request.retries


@app.task
def refuse(order):
    """Goes to the dead letters: no retry would help."""
    raise Reject(f"no such order: {order}", requeue=False)


@app.task
def square(number):
    return number * number


@app.task
def total(numbers):
    return sum(numbers)
