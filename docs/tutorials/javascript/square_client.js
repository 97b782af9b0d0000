import { randomUUID } from "node:crypto";
import amqp from "amqplib";

const number = process.argv[2];
const correlationId = randomUUID();
const url = process.env.AMQP_URL ?? "amqp://guest:guest@localhost:5672/%2f";
const connection = await amqp.connect(url);
const channel = await connection.createChannel();
const answer = new Promise((resolve, reject) => {
  setTimeout(() => reject(new Error("no answer within 5 seconds")), 5000).unref();
  const received = (message) => {
    if (message.properties.correlationId === correlationId) resolve(message.content.toString());
  };
  // First listen for replies on this channel, then ask: both go out in this order.
  channel.consume("amq.rabbitmq.reply-to", received, { noAck: true });
});
const question = { replyTo: "amq.rabbitmq.reply-to", correlationId, expiration: 5000 };
channel.sendToQueue("square", Buffer.from(number), question);
console.log(`${number} squared is ${await answer}`);
await connection.close();
