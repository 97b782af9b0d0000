import amqp from "amqplib";

const url = process.env.AMQP_URL ?? "amqp://guest:guest@localhost:5672/%2f";
const connection = await amqp.connect(url);
const channel = await connection.createChannel();
await channel.assertQueue("orders.dead", { durable: true });
await channel.assertQueue("orders", {
  durable: true,
  arguments: {
    "x-delayed-retry-type": "all", // a failed order comes back
    "x-delayed-retry-min": 1000, // after a second
    "x-delivery-limit": 3, // three times; then it dies
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": "orders.dead",
  },
});
await channel.prefetch(1);
await channel.consume("orders", (message) => {
  const order = message.content.toString();
  if (order.includes("broken")) {
    console.log(`failed: ${order}`);
    channel.reject(message, true); // again in a second
  } else {
    console.log(`done: ${order}`);
    channel.ack(message);
  }
});
console.log("waiting, Ctrl-C ends it");
