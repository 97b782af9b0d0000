import amqp from "amqplib";

const url = process.env.AMQP_URL ?? "amqp://guest:guest@localhost:5672/%2f";
const connection = await amqp.connect(url);
const channel = await connection.createChannel();
await channel.assertQueue("square", { durable: true });
await channel.prefetch(1);
await channel.consume("square", (message) => {
  const number = Number(message.content);
  const { replyTo, correlationId } = message.properties;
  channel.sendToQueue(replyTo, Buffer.from(String(number * number)), { correlationId });
  channel.ack(message);
  console.log(`answered: ${number}`);
});
console.log("waiting, Ctrl-C ends it");
