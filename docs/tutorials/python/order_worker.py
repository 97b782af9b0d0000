import os

import pika


def work(channel, method, properties, body):
    order = body.decode()
    if "broken" in order:
        print(f"failed: {order}", flush=True)
        channel.basic_reject(method.delivery_tag, requeue=True)  # again in a second
    else:
        print(f"done: {order}", flush=True)
        channel.basic_ack(method.delivery_tag)


url = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f")
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
channel.queue_declare("orders.dead", durable=True)
channel.queue_declare("orders", durable=True, arguments={
    "x-delayed-retry-type": "all",  # a failed order comes back
    "x-delayed-retry-min": 1000,  # after a second
    "x-delivery-limit": 3,  # three times; then it dies
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": "orders.dead",
})
channel.basic_qos(prefetch_count=1)
channel.basic_consume("orders", work)
print("waiting, Ctrl-C ends it", flush=True)
channel.start_consuming()
