import os
import time

import pika


def work(channel, method, properties, body):
    task = body.decode()
    print(f"started: {task}", flush=True)
    time.sleep(task.count("."))  # stands for real work: a second for each dot
    print(f"done: {task}", flush=True)
    channel.basic_ack(method.delivery_tag)  # only now is the task off the queue


url = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f")
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
channel.queue_declare("tasks", durable=True)
channel.basic_qos(prefetch_count=1)  # one task at a time
channel.basic_consume("tasks", work)
print("waiting, Ctrl-C ends it", flush=True)
channel.start_consuming()
