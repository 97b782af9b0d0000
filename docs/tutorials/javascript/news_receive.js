import amqp from "amqplib";

const url = process.env.AMQP_URL ?? "amqp://guest:guest@localhost:5672/%2f";
const connection = await amqp.connect(url);
const channel = await connection.createChannel();
await channel.assertExchange("news", "fanout", { durable: true });
const { queue } = await channel.assertQueue("", { exclusive: true }); // the broker picks the name
await channel.bindQueue(queue, "news", "");
const received = (message) => console.log(`received: ${message.content}`);
await channel.consume(queue, received, { noAck: true });
console.log("waiting, Ctrl-C ends it");
