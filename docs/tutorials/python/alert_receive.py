import os
import sys

import pika


def received(channel, method, properties, body):
    print(f"received {method.routing_key}: {body.decode()}", flush=True)


url = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f")
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
channel.exchange_declare("alerts", "topic", durable=True)
queue = channel.queue_declare("", exclusive=True).method.queue
for pattern in sys.argv[1:]:
    channel.queue_bind(queue, "alerts", pattern)
channel.basic_consume(queue, received, auto_ack=True)
print("waiting, Ctrl-C ends it", flush=True)
channel.start_consuming()
