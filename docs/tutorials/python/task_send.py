import os
import sys

import pika

task = sys.argv[1]
url = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f")
with pika.BlockingConnection(pika.URLParameters(url)) as connection:
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("tasks", durable=True)
    channel.basic_publish("", "tasks", task.encode(), pika.BasicProperties(delivery_mode=2))
    print(f"sent: {task}")
