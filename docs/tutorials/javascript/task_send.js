import amqp from "amqplib";

const task = process.argv[2];
const url = process.env.AMQP_URL ?? "amqp://guest:guest@localhost:5672/%2f";
const connection = await amqp.connect(url);
const channel = await connection.createConfirmChannel();
await channel.assertQueue("tasks", { durable: true });
channel.sendToQueue("tasks", Buffer.from(task), { persistent: true });
await channel.waitForConfirms();
console.log(`sent: ${task}`);
await connection.close();
