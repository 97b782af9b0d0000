// A worker: some jobs at a time, a delayed retry for those that fail, a parking place for those that never succeed.
//
//     node worker.js JOURNAL     appends a line for each attempt; SIGTERM lets it finish what it has begun

import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, declare, PARKED, WORK } from './topology.js';

const PREFETCH = 4;
const MAX_FAILURES = 3; // a job that failed so often is parked
const MAX_CRASHES = 2; // a job that took the worker with it so often is parked

const journal = process.argv[2];
const note = (line) => appendFileSync(journal, `${line}\n`);

const underway = new Set();
/** The identifiers of what is done: after a lost connection a job may come again. In real life a database has them. */
const finished = new Set();

/** How often a job was rejected in the queue of work. */
function failures(message) {
  const deaths = message.properties.headers['x-death'] ?? [];
  return deaths.find(({ queue, reason }) => queue === WORK && reason === 'rejected')?.count ?? 0;
}

/** What the job wants. Throws where it fails. */
async function perform(job, attempt) {
  note(`begin ${job.name} ${underway.size} ${Date.now()}`);
  if (job.poison) process.kill(process.pid, 'SIGKILL');
  await sleep(job.milliseconds ?? 0);
  if (attempt < (job.failures ?? 0)) throw new Error(`attempt ${attempt} of ${job.name} failed`);
  note(`done ${job.name} ${attempt}`);
}

async function handle(channel, message) {
  const failed = failures(message);
  const crashed = message.properties.headers['x-delivery-count'] ?? 0;
  const { messageId } = message.properties;
  if (finished.has(messageId)) return channel.ack(message);
  if (failed >= MAX_FAILURES || crashed >= MAX_CRASHES) {
    // It leaves the queue only when it is safe in the other.
    await publisher.sendToQueue(PARKED, message.content, { persistent: true, messageId, headers: { failed, crashed } });
    return channel.ack(message);
  }
  try {
    await perform(JSON.parse(message.content), failed);
  } catch (error) {
    console.log(error.message);
    return channel.reject(message, false);
  }
  finished.add(messageId);
  channel.ack(message);
}

/** Settles on the channel that delivered: on any other the tag would be another message's. */
function receive(channel, message) {
  if (!message) return; // the queue was deleted
  const running = handle(channel, message)
    // The channel may be gone: then the broker delivers the message again.
    .catch((error) => console.log(`not settled: ${error.message}`))
    .finally(() => underway.delete(running));
  underway.add(running);
}

const connection = connect('worker');
const publisher = connection.createChannel({ name: 'parking' });
let consuming;
const consumer = connection.createChannel({
  name: 'jobs',
  confirm: false,
  setup: async (channel) => {
    await declare(channel);
    await channel.prefetch(PREFETCH);
    const { consumerTag } = await channel.consume(WORK, (message) => receive(channel, message));
    consuming = { channel, consumerTag };
    note('ready');
  },
});

process.once('SIGTERM', async () => {
  await consuming?.channel.cancel(consuming.consumerTag).catch(() => {});
  await Promise.allSettled(underway);
  await publisher.close();
  await consumer.close();
  await connection.close();
  note('stopped');
  process.exit(0);
});
