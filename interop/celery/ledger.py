"""A Celery application on a quorum queue: Celery parks tasks with a countdown in queues of the broker, not in the worker.

The results come back as messages (`rpc://`).

    celery -A ledger worker
"""

import os
import time

from celery import Celery
from kombu import Exchange, Queue

app = Celery("ledger", broker=os.environ["AMQP_URL"], backend="rpc://")
app.conf.update(
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    broker_transport_options={"confirm_publish": True},
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=10,
    task_default_queue="interop.celery.ledger",
    task_default_routing_key="interop.celery.ledger",
    task_default_exchange="interop.celery.ledger",
    task_default_exchange_type="topic",
    task_queues=[
        # Celery's delayed delivery routes by topic, so the exchange must be one.
        Queue("interop.celery.ledger", Exchange("interop.celery.ledger", type="topic"),
              routing_key="interop.celery.ledger", queue_arguments={"x-queue-type": "quorum"}),
    ],
)


@app.task
def add(left, right):
    return left + right


@app.task
def now():
    return time.time()


@app.task(bind=True, max_retries=2)
def balance(self, account):
    """Is right at the second attempt, a second later."""
    if self.request.retries == 0:
        raise self.retry(countdown=1)
    return f"{account}: {self.request.retries}"
