// The RabbitMQ tutorials' patterns with amqplib, each as a function that asserts what it gets.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { randomBytes } from 'node:crypto';
import amqp from 'amqplib';

const WAIT = 10_000; // milliseconds for anything that must arrive
const QUIET = 300; // milliseconds in which nothing may arrive
const STORED = 'interop.amqplib.stored';

const unique = (name) => `interop.amqplib.${name}.${randomBytes(4).toString('hex')}`;
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Waits until `condition` holds. */
async function until(condition, what) {
  const deadline = Date.now() + WAIT;
  while (!condition()) {
    assert.ok(Date.now() < deadline, `waited in vain: ${what}`);
    await sleep(5);
  }
}

/** The bodies that a queue delivers until it has been quiet for a while. */
async function take(channel, queue) {
  const bodies = [];
  const { consumerTag } = await channel.consume(queue, (message) => bodies.push(message.content.toString()), { noAck: true });
  for (let count = -1; count < bodies.length; ) {
    count = bodies.length;
    await sleep(QUIET);
  }
  await channel.cancel(consumerTag);
  return bodies;
}

/** The next message of a queue: requeueing may take a moment after a channel has closed. */
async function getSoon(channel, queue) {
  for (const deadline = Date.now() + WAIT; Date.now() < deadline; await sleep(20)) {
    const message = await channel.get(queue);
    if (message) return message;
  }
  throw new Error(`nothing in ${queue}`);
}

const own = async (channel) => (await channel.assertQueue('', { exclusive: true })).queue;

/** Two workers with a prefetch of one share ten tasks; one left unacknowledged comes back. */
async function workQueue(connection) {
  const queue = unique('tasks');
  const channel = await connection.createChannel();
  await channel.assertQueue(queue, { durable: true });
  const tasks = Array.from({ length: 10 }, (_, number) => `task ${number}`);
  for (const task of tasks) channel.sendToQueue(queue, Buffer.from(task), { persistent: true });
  const done = [[], []];
  const workers = [];
  for (const list of done) {
    const worker = await connection.createChannel();
    await worker.prefetch(1);
    await worker.consume(queue, async (message) => {
      await sleep(2);
      worker.ack(message);
      // At last: the channel is closed as soon as all tasks are done.
      list.push(message.content.toString());
    });
    workers.push(worker);
  }
  await until(() => done[0].length + done[1].length === 10, 'ten tasks');
  assert.deepEqual(done.flat().sort(), tasks);
  assert.ok(done[0].length > 0 && done[1].length > 0, `one worker did everything: ${done}`);
  for (const worker of workers) await worker.close();

  const lazy = await connection.createChannel();
  lazy.sendToQueue(queue, Buffer.from('left'));
  assert.equal((await lazy.get(queue)).fields.redelivered, false);
  await lazy.close();
  const again = await getSoon(channel, queue);
  assert.equal(again.content.toString(), 'left');
  assert.equal(again.fields.redelivered, true);
  channel.nack(again, false, true);
  const third = await channel.get(queue);
  assert.equal(third.content.toString(), 'left', 'a requeued message is there again');
  channel.reject(third, false);
  assert.equal(await channel.get(queue), false, 'a rejected message is gone');
  await channel.deleteQueue(queue);
  await channel.close();
}

/** Publishes one message per key and checks what each queue gets. */
async function routed(connection, type, bindings, keys, expected) {
  const channel = await connection.createChannel();
  const exchange = unique(type);
  await channel.assertExchange(exchange, type, { durable: false });
  const queues = [];
  for (const list of bindings) {
    const queue = await own(channel);
    for (const key of list) await channel.bindQueue(queue, exchange, key);
    queues.push(queue);
  }
  for (const key of keys) channel.publish(exchange, key, Buffer.from(key));
  for (const [index, queue] of queues.entries()) assert.deepEqual(await take(channel, queue), expected[index]);
  await channel.deleteExchange(exchange);
  await channel.close();
}

const publishSubscribe = (connection) =>
  routed(connection, 'fanout', [[''], ['ignored']], ['hello', 'all'], [['hello', 'all'], ['hello', 'all']]);

const routing = (connection) =>
  routed(connection, 'direct', [['error'], ['info', 'warning', 'error']], ['info', 'error', 'warning', 'debug'], [
    ['error'],
    ['info', 'error', 'warning'],
  ]);

const topics = (connection) =>
  routed(
    connection,
    'topic',
    [['*.orange.*'], ['*.*.rabbit', 'lazy.#']],
    ['quick.orange.rabbit', 'lazy.orange.elephant', 'quick.orange.fox', 'lazy', 'lazy.pink.rabbit', 'orange'],
    [
      ['quick.orange.rabbit', 'lazy.orange.elephant', 'quick.orange.fox'],
      ['quick.orange.rabbit', 'lazy.orange.elephant', 'lazy', 'lazy.pink.rabbit'],
    ],
  );

/** Request and reply over a queue of the client's own. */
const rpc = (connection) => askAndAnswer(connection, own);

/** Request and reply without a queue for the replies. */
const directReplyTo = (connection) => askAndAnswer(connection, async () => 'amq.rabbitmq.reply-to');

async function askAndAnswer(connection, chooseReplyTo) {
  const server = await connection.createChannel();
  const requests = await own(server);
  await server.consume(requests, (message) => {
    const { replyTo, correlationId } = message.properties;
    server.publish('', replyTo, Buffer.from(String(Number(message.content) ** 2)), { correlationId });
    server.ack(message);
  });
  const client = await connection.createChannel();
  const replyTo = await chooseReplyTo(client);
  const replies = [];
  const answered = (message) => replies.push([message.properties.correlationId, message.content.toString()]);
  await client.consume(replyTo, answered, { noAck: true });
  client.publish('', requests, Buffer.from('12'), { replyTo, correlationId: 'n12' });
  await until(() => replies.length > 0, `a reply through ${replyTo}`);
  assert.deepEqual(replies, [['n12', '144']]);
  await client.close();
  await server.close();
}

/** Confirms, a returned message, and properties that survive the way. */
async function confirms(connection) {
  const channel = await connection.createConfirmChannel();
  const queue = await own(channel);
  for (let number = 0; number < 100; number += 1) channel.sendToQueue(queue, Buffer.from(`${number}`));
  await channel.waitForConfirms();
  assert.deepEqual(await take(channel, queue), Array.from({ length: 100 }, (_, number) => `${number}`));
  const body = randomBytes(1_000_000);
  const options = {
    contentType: 'text/plain', correlationId: 'c', messageId: 'm', type: 't', appId: 'a', priority: 2, deliveryMode: 1,
    timestamp: 1700000000, headers: { text: 'é', number: -5, yes: true, nested: { list: ['two', 3] } },
  };
  channel.sendToQueue(queue, body, options);
  await channel.waitForConfirms();
  const found = await channel.get(queue, { noAck: true });
  assert.ok(found.content.equals(body), 'a large body changed');
  for (const [name, value] of Object.entries(options)) assert.deepEqual(found.properties[name], value, name);
  const returned = once(channel, 'return');
  channel.publish('', unique('nowhere'), Buffer.from('lost'), { mandatory: true });
  const [message] = await returned;
  assert.equal(message.fields.replyCode, 312);
  assert.equal(message.content.toString(), 'lost');
  await channel.waitForConfirms();
  await channel.close();
}

/** Mistakes close the channel with the code clients rely on. */
async function refusals(connection) {
  const mistakes = [
    [404, (channel) => channel.checkQueue(unique('missing'))],
    [404, (channel) => channel.bindQueue(unique('missing'), 'amq.direct', '')],
    [403, (channel) => channel.assertExchange('amq.mine', 'direct')],
    [406, (channel) => channel.assertExchange('amq.direct', 'fanout')],
  ];
  for (const [code, mistake] of mistakes) {
    const channel = await connection.createChannel();
    channel.on('error', () => {});
    await assert.rejects(mistake(channel), (error) => error.code === code, `expected ${code}`);
  }
  const url = new URL(process.env.AMQP_URL);
  url.password = 'wrong';
  await assert.rejects(amqp.connect(url.toString()), /403|ACCESS-REFUSED|ACCESS_REFUSED/);
}

async function store(connection) {
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue(STORED, { durable: true });
  await channel.purgeQueue(STORED);
  for (let number = 0; number < 10; number += 1) {
    channel.sendToQueue(STORED, Buffer.from(`stored ${number}`), { persistent: true });
  }
  await channel.waitForConfirms();
}

async function fetchStored(connection) {
  const channel = await connection.createChannel();
  for (let number = 0; number < 10; number += 1) {
    const message = await channel.get(STORED);
    assert.ok(message, `message ${number} of 10 is lost`);
    assert.equal(message.content.toString(), `stored ${number}`);
    assert.equal(message.fields.redelivered, false);
    channel.ack(message);
  }
  await channel.deleteQueue(STORED);
}

const phases = {
  patterns: { workQueue, publishSubscribe, routing, topics, rpc, confirms, refusals },
  extensions: { directReplyTo },
  store: { store },
  fetch: { fetchStored },
};

const connection = await amqp.connect(process.env.AMQP_URL);
for (const [name, step] of Object.entries(phases[process.argv[2]])) {
  await step(connection);
  console.log('ok', name);
}
await connection.close();
