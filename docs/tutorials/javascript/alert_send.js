import amqp from "amqplib";

const [key, text] = process.argv.slice(2);
const url = process.env.AMQP_URL ?? "amqp://guest:guest@localhost:5672/%2f";
const connection = await amqp.connect(url);
const channel = await connection.createConfirmChannel();
await channel.assertExchange("alerts", "topic", { durable: true });
channel.publish("alerts", key, Buffer.from(text));
await channel.waitForConfirms();
console.log(`sent to ${key}: ${text}`);
await connection.close();
