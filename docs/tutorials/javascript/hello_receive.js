import amqp from "amqplib";

const url = process.env.AMQP_URL ?? "amqp://guest:guest@localhost:5672/%2f";
const connection = await amqp.connect(url);
const channel = await connection.createChannel();
await channel.assertQueue("hello", { durable: true });
await channel.consume("hello", (message) => {
  console.log(`received: ${message.content}`);
  channel.ack(message);
});
console.log("waiting, Ctrl-C ends it");
