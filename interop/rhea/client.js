// What programs do with rhea, an AMQP 1.0 client of JavaScript that knows no broker: each scenario is a function that asserts what it gets.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { randomBytes } from 'node:crypto';
import rhea from 'rhea';

const WAIT = 10_000; // milliseconds for anything that must arrive
const QUIET = 300; // milliseconds in which nothing may arrive
const STORED = 'interop.rhea.stored';

const unique = (name) => `interop.rhea.${name}.${randomBytes(4).toString('hex')}`;
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const named = (address) => ({ address, capabilities: ['queue'] });

/** The next event of this name, in time. */
async function soon(emitter, event) {
  const signal = AbortSignal.timeout(WAIT);
  const [context] = await once(emitter, event, { signal }).catch((error) => {
    throw error.name === 'AbortError' ? new Error(`waited in vain for ${event}`) : error;
  });
  return context;
}

/** A link that sends, and waits for each outcome. */
async function openSender(connection, target) {
  const sender = connection.open_sender({ target });
  await soon(sender, 'sender_open');
  return {
    sender,
    async send(message) {
      if (!sender.sendable()) await soon(sender, 'sendable');
      sender.send(message);
      await soon(sender, 'accepted');
    },
  };
}

/** A link whose deliveries are taken one by one, and settled by hand. */
async function openReceiver(connection, source, options = {}) {
  const receiver = connection.open_receiver({ source, credit_window: 0, autoaccept: false, ...options });
  const arrived = [];
  receiver.on('message', (context) => arrived.push(context));
  await soon(receiver, 'receiver_open');
  const next = async () => {
    for (const deadline = Date.now() + WAIT; arrived.length === 0; await sleep(2)) {
      assert.ok(Date.now() < deadline, 'waited in vain for a message');
    }
    return arrived.shift();
  };
  return {
    receiver,
    next,
    /** Takes the next message, accepts it, and returns its body as text. */
    async text() {
      const { message, delivery } = await next();
      delivery.accept();
      return text(message);
    },
    async nothing(why) {
      await sleep(QUIET);
      assert.equal(arrived.length, 0, `${why}, and a message came`);
    },
  };
}

/** The body of a message that was sent as bytes or as text. */
const text = (message) => (message.body.typecode === 0x75 ? message.body.content : message.body).toString();

/** Two receivers with a credit of one share ten tasks, each of which is done once. */
async function workQueue(connection) {
  const queue = unique('tasks');
  const { send } = await openSender(connection, named(queue));
  const workers = [await openReceiver(connection, named(queue)), await openReceiver(connection, named(queue))];
  const tasks = Array.from({ length: 10 }, (_, number) => `task ${number}`);
  const done = workers.map(async ({ receiver, text }) => {
    const own = [];
    while (own.length < 5) {
      receiver.add_credit(1);
      own.push(await text());
    }
    return own;
  });
  for (const body of tasks) await send({ body });
  assert.deepEqual((await Promise.all(done)).flat().sort(), tasks);
}

/** Each of the four outcomes does what it is for. */
async function outcomes(connection) {
  const queue = unique('outcomes');
  const { send } = await openSender(connection, named(queue));
  const { receiver, next, text, nothing } = await openReceiver(connection, named(queue));
  await send({ body: 'accepted' });
  receiver.add_credit(1);
  assert.equal(await text(), 'accepted');

  await send({ body: 'released' });
  receiver.add_credit(1);
  (await next()).delivery.release();
  receiver.add_credit(1);
  const released = await next();
  assert.equal(released.message.body, 'released');
  assert.equal(released.message.delivery_count ?? 0, 0);
  released.delivery.accept();

  await send({ body: 'failed' });
  receiver.add_credit(1);
  (await next()).delivery.modified({ delivery_failed: true });
  receiver.add_credit(1);
  const failed = await next();
  assert.equal(failed.message.body, 'failed');
  assert.equal(failed.message.delivery_count, 1);
  failed.delivery.accept();

  await send({ body: 'rejected' });
  receiver.add_credit(1);
  (await next()).delivery.reject({ condition: 'interop:broken', description: 'on purpose' });
  receiver.add_credit(1);
  await nothing('it was rejected');
}

/** What the sender settles has no answer, and what a receiver gets settled needs none. */
async function settled(connection) {
  const queue = unique('settled');
  const sender = connection.open_sender({ target: named(queue), snd_settle_mode: 1 });
  await soon(sender, 'sendable');
  for (const body of ['one', 'two']) sender.send({ body });
  const { receiver, next } = await openReceiver(connection, named(queue), { snd_settle_mode: 1 });
  receiver.add_credit(2);
  for (const body of ['one', 'two']) {
    const { message, delivery } = await next();
    assert.equal(message.body, body);
    assert.equal(delivery.remote_settled, true);
  }
}

/** Header, properties, annotations and properties of the application arrive as they were sent. */
async function sections(connection) {
  const queue = unique('sections');
  const { send } = await openSender(connection, named(queue));
  const created = new Date(1_700_000_000_000);
  const sent = {
    durable: true,
    priority: 7,
    message_annotations: { 'x-opt-interop': 'kept' },
    message_id: 'id-1',
    to: 'to',
    subject: 'subject',
    reply_to: 'reply',
    correlation_id: 'c-1',
    content_type: 'text/plain',
    creation_time: created,
    group_id: 'group',
    group_sequence: 7,
    application_properties: { yes: true, number: 42, fraction: 2.25, text: 'grün', long: rhea.types.wrap_long(-5), none: null },
    body: 'body',
  };
  await send(sent);
  const { receiver, next } = await openReceiver(connection, named(queue));
  receiver.add_credit(1);
  const { message, delivery } = await next();
  for (const name of ['durable', 'priority', 'message_id', 'to', 'subject', 'reply_to', 'correlation_id', 'content_type', 'group_id', 'group_sequence', 'body']) {
    assert.deepEqual(message[name], sent[name], name);
  }
  assert.equal(message.creation_time.getTime(), created.getTime());
  assert.equal(message.message_annotations['x-opt-interop'], 'kept');
  assert.deepEqual({ ...message.application_properties }, { ...sent.application_properties, long: -5 });
  delivery.accept();
}

/** A message of many frames, and an empty one. */
async function large(connection) {
  const queue = unique('large');
  const { send } = await openSender(connection, named(queue));
  const body = Buffer.alloc(3_000_000, 'large message ');
  await send({ body: rhea.message.data_section(body) });
  await send({ body: rhea.message.data_section(Buffer.alloc(0)) });
  const { receiver, next } = await openReceiver(connection, named(queue));
  receiver.add_credit(2);
  for (const expected of [body, Buffer.alloc(0)]) {
    const { message, delivery } = await next();
    assert.ok(expected.equals(message.body.content), 'the body came back changed');
    delivery.accept();
  }
}

/** What is there comes, the rest of the credit is given up, and the link goes on. */
async function drain(connection) {
  const queue = unique('drain');
  const { send } = await openSender(connection, named(queue));
  const { receiver, text, nothing } = await openReceiver(connection, named(queue));
  await send({ body: 'one' });
  await send({ body: 'two' });
  receiver.add_credit(5);
  assert.equal(await text(), 'one');
  assert.equal(await text(), 'two');
  receiver.drain_credit();
  await soon(receiver, 'receiver_drained');
  receiver.drain = false;
  await send({ body: 'three' });
  await nothing('there was no credit');
  receiver.add_credit(1);
  assert.equal(await text(), 'three');
}

/** A receiver gets what its selector is true for; the rest stays. */
async function selector(connection) {
  const queue = unique('selector');
  const { send } = await openSender(connection, named(queue));
  for (const colour of ['red', 'green', 'red']) await send({ body: colour, application_properties: { colour } });
  const chosen = await openReceiver(connection, { ...named(queue), filter: rhea.filter.selector("colour = 'red'") });
  chosen.receiver.add_credit(5);
  assert.deepEqual([await chosen.text(), await chosen.text()], ['red', 'red']);
  await chosen.nothing('the selector is true for no other');
  chosen.receiver.close();
  const rest = await openReceiver(connection, named(queue));
  rest.receiver.add_credit(5);
  assert.equal(await rest.text(), 'green');
}

/** The reply goes to an address that the broker has made up, by a link without one. */
async function requestReply(connection) {
  const queue = unique('requests');
  const replies = await openReceiver(connection, { dynamic: true, capabilities: ['temporary-queue'] });
  const address = replies.receiver.source.address;
  assert.ok(address, 'a dynamic source has no address');
  replies.receiver.add_credit(1);
  const { send } = await openSender(connection, named(queue));
  await send({ body: 'question', reply_to: address, message_id: 'm1' });
  const server = await openReceiver(connection, named(queue));
  server.receiver.add_credit(1);
  const { message, delivery } = await server.next();
  delivery.accept();
  const anonymous = await openSender(connection, {});
  await anonymous.send({ to: message.reply_to, correlation_id: message.message_id, body: 'answer' });
  const reply = await replies.next();
  assert.deepEqual([reply.message.body, reply.message.correlation_id], ['answer', 'm1']);
  reply.delivery.accept();
}

/** With its defaults the library accepts by itself, and keeps a window of credit: what an ordinary program does. */
async function defaults(connection) {
  const queue = unique('defaults');
  const sender = connection.open_sender({ target: named(queue) });
  const bodies = [];
  connection.open_receiver({ source: named(queue) }).on('message', ({ message }) => bodies.push(message.body));
  let sent = 0;
  const fill = () => {
    while (sent < 3000 && sender.sendable()) sender.send({ body: sent++ });
  };
  sender.on('sendable', fill);
  fill();
  for (const deadline = Date.now() + WAIT; bodies.length < 3000; await sleep(5)) {
    assert.ok(Date.now() < deadline, `${bodies.length} of 3000 messages came`);
  }
  assert.deepEqual(bodies, Array.from({ length: 3000 }, (_, number) => number));
}

/** Each subscriber gets what is sent after it came. */
async function topic(connection) {
  const address = unique('topic');
  const target = { address, capabilities: ['topic'] };
  const { send } = await openSender(connection, target);
  await send({ body: 'before' });
  const subscribers = [await openReceiver(connection, target), await openReceiver(connection, target)];
  for (const { receiver } of subscribers) receiver.add_credit(5);
  await send({ body: 'after' });
  for (const { text, nothing } of subscribers) {
    assert.equal(await text(), 'after');
    await nothing('one message was sent');
  }
}

/** A durable subscription gathers while no link is there, and ends when its link is closed. */
async function durableTopic(connection) {
  const address = unique('durable');
  const { send } = await openSender(connection, { address, capabilities: ['topic'] });
  const source = { address, durable: 2, expiry_policy: 'never', capabilities: ['topic'] };
  const subscribe = () => openReceiver(connection, source, { name: address });
  const { receiver: first } = await subscribe();
  first.detach();
  await soon(first, 'receiver_close');
  await send({ body: 'while away' });
  const second = await subscribe();
  second.receiver.add_credit(5);
  assert.equal(await second.text(), 'while away');
  second.receiver.close();
  await soon(second.receiver, 'receiver_close');
  await send({ body: 'never' });
  const third = await subscribe();
  third.receiver.add_credit(5);
  await third.nothing('the subscription is a new one');
  third.receiver.close();
  await soon(third.receiver, 'receiver_close');
}

/** The links of a shared subscription share its messages. */
async function sharedTopic(connection) {
  const address = unique('shared');
  const { send } = await openSender(connection, { address, capabilities: ['topic'] });
  const source = { address, capabilities: ['topic', 'shared'] };
  const subscribers = [];
  for (const number of [1, 2]) subscribers.push(await openReceiver(connection, source, { name: `${address}|${number}` }));
  for (const { receiver } of subscribers) receiver.add_credit(1);
  await send({ body: 'one' });
  await send({ body: 'two' });
  assert.deepEqual((await Promise.all(subscribers.map(({ text }) => text()))).sort(), ['one', 'two']);
}

async function store(connection) {
  const old = await openReceiver(connection, named(STORED), { snd_settle_mode: 1 });
  old.receiver.add_credit(100);
  await sleep(QUIET);
  old.receiver.close();
  const { send } = await openSender(connection, named(STORED));
  for (let number = 0; number < 10; number++) await send({ body: `stored ${number}`, durable: true });
}

async function fetch(connection) {
  const { receiver, next, nothing } = await openReceiver(connection, named(STORED));
  receiver.add_credit(20);
  for (let number = 0; number < 10; number++) {
    const { message, delivery } = await next();
    assert.equal(message.body, `stored ${number}`);
    assert.equal(message.delivery_count ?? 0, 0, 'it was marked as delivered before');
    delivery.accept();
  }
  await nothing('ten were stored');
}

const PHASES = {
  patterns: [workQueue, outcomes, settled, sections, large, drain, selector, requestReply, defaults],
  topics: [topic, durableTopic, sharedTopic],
  store: [store],
  fetch: [fetch],
};

/** Runs a scenario on a connection of its own. */
async function run(scenario) {
  const { hostname: host, port, username, password } = new URL(process.env.AMQP_URL);
  const connection = rhea.create_container().connect({ host, port, username, password, reconnect: false });
  let trouble;
  for (const event of ['connection_error', 'session_error', 'sender_error', 'receiver_error', 'error', 'disconnected']) {
    connection.on(event, (context) => {
      trouble ??= new Error(`${event}: ${context.error ?? context.receiver?.error ?? context.sender?.error ?? context}`);
    });
  }
  await soon(connection, 'connection_open');
  try {
    await scenario(connection);
    if (trouble) throw trouble;
    connection.close();
    await soon(connection, 'connection_close');
  } catch (error) {
    connection.close();
    throw trouble ?? error;
  }
}

const steps = PHASES[process.argv[2]];
if (!steps) {
  console.error(`failed: name one phase: ${Object.keys(PHASES).join(', ')}`);
  process.exit(2);
}
let failed = 0;
for (const step of steps) {
  try {
    await run(step);
    console.log('ok', step.name);
  } catch (error) {
    console.log(`FAILED ${step.name}: ${error.message}`);
    failed += 1;
  }
}
process.exit(failed ? 1 : 0);
