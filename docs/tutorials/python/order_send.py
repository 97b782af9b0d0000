import os
import sys

import pika

order = sys.argv[1]
url = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f")
with pika.BlockingConnection(pika.URLParameters(url)) as connection:
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("orders", passive=True)  # fails if the worker has not declared it yet
    channel.basic_publish("", "orders", order.encode(), pika.BasicProperties(delivery_mode=2))
    print(f"sent: {order}")
