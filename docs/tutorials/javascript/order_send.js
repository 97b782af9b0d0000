import amqp from "amqplib";

const order = process.argv[2];
const url = process.env.AMQP_URL ?? "amqp://guest:guest@localhost:5672/%2f";
const connection = await amqp.connect(url);
const channel = await connection.createConfirmChannel();
await channel.checkQueue("orders"); // fails if the worker has not declared it yet
channel.sendToQueue("orders", Buffer.from(order), { persistent: true });
await channel.waitForConfirms();
console.log(`sent: ${order}`);
await connection.close();
