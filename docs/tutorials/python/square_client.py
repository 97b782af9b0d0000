import os
import sys
import uuid

import pika

number = sys.argv[1]
request = str(uuid.uuid4())
answers = []


def answered(channel, method, properties, body):
    if properties.correlation_id == request:
        answers.append(body.decode())


url = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f")
with pika.BlockingConnection(pika.URLParameters(url)) as connection:
    channel = connection.channel()
    # First listen for replies on this channel, then ask.
    channel.basic_consume("amq.rabbitmq.reply-to", answered, auto_ack=True)
    question = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id=request, expiration="5000")
    channel.basic_publish("", "square", number.encode(), question)
    connection.process_data_events(time_limit=5)  # returns after one event
    print(f"{number} squared is {answers[0]}" if answers else "no answer within 5 seconds")
