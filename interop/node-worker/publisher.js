// A publisher that a broker's restart does not stop: what was not confirmed is sent again on the next connection.
//
//     node publisher.js JOURNAL     a job every 20 ms, and a line for each confirmed one, until SIGTERM

import { appendFileSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, declare, WORK } from './topology.js';

const INTERVAL = 20; // milliseconds
const PATIENCE = 60_000; // milliseconds that a job may wait for its confirm before it is sent again
const PAUSE = 500; // milliseconds before that

const journal = process.argv[2];
const connection = connect('publisher');
const channel = connection.createChannel({ name: 'jobs', setup: declare, publishTimeout: PATIENCE });
const note = (line) => appendFileSync(journal, `${line}\n`);
const unconfirmed = new Set();
let number = 0;

/**
 * Sends a job until it is confirmed. The library sends again what waited for a connection, but what was on its way when the
 * connection broke may come back as an error, and so does what the broker refuses.
 */
async function deliver(name) {
  // The identifier stays the same, so that the worker can tell a job that comes twice.
  const options = { persistent: true, messageId: randomUUID(), contentType: 'application/json' };
  for (;;) {
    try {
      await channel.sendToQueue(WORK, Buffer.from(JSON.stringify({ name })), options);
      return note(`confirmed ${name}`);
    } catch (error) {
      note(`again ${name}: ${error.message}`);
      await sleep(PAUSE);
    }
  }
}

function publish() {
  const sent = deliver(`job-${number++}`).finally(() => unconfirmed.delete(sent));
  unconfirmed.add(sent);
}

const timer = setInterval(publish, INTERVAL);

process.once('SIGTERM', async () => {
  clearInterval(timer);
  await Promise.allSettled(unconfirmed);
  await channel.close();
  await connection.close();
  note('stopped');
  process.exit(0);
});
