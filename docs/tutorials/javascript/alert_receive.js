import amqp from "amqplib";

const url = process.env.AMQP_URL ?? "amqp://guest:guest@localhost:5672/%2f";
const connection = await amqp.connect(url);
const channel = await connection.createChannel();
await channel.assertExchange("alerts", "topic", { durable: true });
const { queue } = await channel.assertQueue("", { exclusive: true });
for (const pattern of process.argv.slice(2)) {
  await channel.bindQueue(queue, "alerts", pattern);
}
const received = (message) => console.log(`received ${message.fields.routingKey}: ${message.content}`);
await channel.consume(queue, received, { noAck: true });
console.log("waiting, Ctrl-C ends it");
