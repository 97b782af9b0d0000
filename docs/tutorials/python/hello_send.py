import os

import pika

url = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f")
with pika.BlockingConnection(pika.URLParameters(url)) as connection:
    channel = connection.channel()
    channel.confirm_delivery()  # a publish now returns once the message is stored
    channel.queue_declare("hello", durable=True)
    channel.basic_publish("", "hello", b"Hello, world", pika.BasicProperties(delivery_mode=2))
    print("sent: Hello, world")
