import os

import pika


def answer(channel, method, properties, body):
    number = int(body)
    reply = pika.BasicProperties(correlation_id=properties.correlation_id)
    channel.basic_publish("", properties.reply_to, str(number * number).encode(), reply)
    channel.basic_ack(method.delivery_tag)
    print(f"answered: {number}", flush=True)


url = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f")
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
channel.queue_declare("square", durable=True)
channel.basic_qos(prefetch_count=1)
channel.basic_consume("square", answer)
print("waiting, Ctrl-C ends it", flush=True)
channel.start_consuming()
