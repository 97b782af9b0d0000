import os
import sys

import pika

key, text = sys.argv[1], sys.argv[2]
url = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f")
with pika.BlockingConnection(pika.URLParameters(url)) as connection:
    channel = connection.channel()
    channel.confirm_delivery()
    channel.exchange_declare("alerts", "topic", durable=True)
    channel.basic_publish("alerts", key, text.encode())
    print(f"sent to {key}: {text}")
