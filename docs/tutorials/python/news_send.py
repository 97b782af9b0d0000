import os
import sys

import pika

text = sys.argv[1]
url = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f")
with pika.BlockingConnection(pika.URLParameters(url)) as connection:
    channel = connection.channel()
    channel.confirm_delivery()
    channel.exchange_declare("news", "fanout", durable=True)
    channel.basic_publish("news", "", text.encode())
    print(f"sent: {text}")
