import os

import pika


def received(channel, method, properties, body):
    print(f"received: {body.decode()}", flush=True)
    channel.basic_ack(method.delivery_tag)


url = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f")
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
channel.queue_declare("hello", durable=True)
channel.basic_consume("hello", received)
print("waiting, Ctrl-C ends it", flush=True)
channel.start_consuming()
