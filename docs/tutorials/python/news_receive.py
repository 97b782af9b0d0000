import os

import pika


def received(channel, method, properties, body):
    print(f"received: {body.decode()}", flush=True)


url = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f")
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
channel.exchange_declare("news", "fanout", durable=True)
queue = channel.queue_declare("", exclusive=True).method.queue  # the broker picks the name
channel.queue_bind(queue, "news")
channel.basic_consume(queue, received, auto_ack=True)
print("waiting, Ctrl-C ends it", flush=True)
channel.start_consuming()
