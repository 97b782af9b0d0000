import amqp from "amqplib";

const text = process.argv[2];
const url = process.env.AMQP_URL ?? "amqp://guest:guest@localhost:5672/%2f";
const connection = await amqp.connect(url);
const channel = await connection.createConfirmChannel();
await channel.assertExchange("news", "fanout", { durable: true });
channel.publish("news", "", Buffer.from(text));
await channel.waitForConfirms();
console.log(`sent: ${text}`);
await connection.close();
