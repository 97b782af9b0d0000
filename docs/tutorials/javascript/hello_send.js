import amqp from "amqplib";

const url = process.env.AMQP_URL ?? "amqp://guest:guest@localhost:5672/%2f";
const connection = await amqp.connect(url);
const channel = await connection.createConfirmChannel();
await channel.assertQueue("hello", { durable: true });
channel.sendToQueue("hello", Buffer.from("Hello, world"), { persistent: true });
await channel.waitForConfirms(); // the broker has stored the message
console.log("sent: Hello, world");
await connection.close();
