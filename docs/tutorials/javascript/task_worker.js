import { setTimeout as sleep } from "node:timers/promises";
import amqp from "amqplib";

const url = process.env.AMQP_URL ?? "amqp://guest:guest@localhost:5672/%2f";
const connection = await amqp.connect(url);
const channel = await connection.createChannel();
await channel.assertQueue("tasks", { durable: true });
await channel.prefetch(1); // one task at a time
await channel.consume("tasks", async (message) => {
  const task = message.content.toString();
  console.log(`started: ${task}`);
  const dots = task.split(".").length - 1;
  await sleep(1000 * dots); // stands for real work: a second for each dot
  console.log(`done: ${task}`);
  channel.ack(message); // only now is the task off the queue
});
console.log("waiting, Ctrl-C ends it");
