// A Node worker as its users run it: retries, poison, a graceful stop, and a broker that dies under publisher and worker.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import amqp from 'amqplib';
import { declare, PARKED, RETRY, RETRY_AFTER, WORK } from './topology.js';

const WAIT = 60_000; // milliseconds for anything that must arrive
const HERE = import.meta.dirname;
const DONE = join(HERE, 'worker.journal');
const CONFIRMED = join(HERE, 'publisher.journal');
const PROCESSES = join(HERE, 'processes.json');

/** The lines of a journal that begin with `word`, each as a list of words. */
function lines(journal, word) {
  const text = existsSync(journal) ? readFileSync(journal, 'utf8') : '';
  return text.split('\n').map((line) => line.split(' ')).filter(([first]) => first === word);
}

/** Waits until `condition` holds, and returns what it found. */
async function until(condition, what) {
  for (const deadline = Date.now() + WAIT; Date.now() < deadline; await sleep(20)) {
    const found = await condition();
    if (found) return found;
  }
  throw new Error(`waited in vain: ${what}`);
}

/** Starts one of the example's programs, for at most three minutes: it may outlive this one. */
function start(program, journal) {
  const log = openSync(join(HERE, `${program}.log`), 'a');
  const command = ['180', process.execPath, join(HERE, program), journal];
  return spawn('timeout', command, { stdio: ['ignore', log, log], detached: true });
}

/** Runs `steps` beside a worker that is ready, and stops it the graceful way. */
async function withWorker(steps) {
  const before = lines(DONE, 'ready').length;
  const worker = start('worker.js', DONE);
  const ended = once(worker, 'exit');
  try {
    await until(() => lines(DONE, 'ready').length > before, 'the worker is ready');
    await steps();
  } finally {
    worker.kill('SIGTERM');
  }
  assert.deepEqual(await ended, [0, null], 'a stopped worker ends well');
}

async function clean(channel) {
  for (const journal of [DONE, CONFIRMED]) rmSync(journal, { force: true });
  await declare(channel);
  for (const queue of [WORK, RETRY, PARKED]) await channel.purgeQueue(queue);
}

async function send(channel, ...jobs) {
  for (const job of jobs) {
    channel.sendToQueue(WORK, Buffer.from(JSON.stringify(job)), { persistent: true, messageId: job.name });
  }
  await channel.waitForConfirms();
}

const names = (word) => lines(DONE, word).map(([, name]) => name);

/** Forty jobs, never more than four at a time. */
async function prefetch(channel) {
  await clean(channel);
  const jobs = Array.from({ length: 40 }, (_, number) => ({ name: `job${number}`, milliseconds: 10 }));
  await send(channel, ...jobs);
  await withWorker(() => until(() => names('done').length === 40, 'forty jobs'));
  assert.deepEqual(names('done').sort(), jobs.map(({ name }) => name).sort());
  const most = Math.max(...lines(DONE, 'begin').map(([, , underway]) => Number(underway)));
  assert.ok(most <= 4, `${most} jobs at a time`);
}

/** A job that fails twice is tried again, not before its delay is over, and then done. */
async function delayedRetry(channel) {
  await clean(channel);
  await withWorker(async () => {
    await send(channel, { name: 'moody', failures: 2 });
    await until(() => names('done').length === 1, 'the third attempt');
  });
  assert.deepEqual(lines(DONE, 'done'), [['done', 'moody', '2']]);
  const moments = lines(DONE, 'begin').map(([, , , moment]) => Number(moment));
  assert.equal(moments.length, 3, 'attempts');
  for (const [index, moment] of moments.slice(1).entries()) {
    // Two clocks, both in whole milliseconds.
    assert.ok(moment - moments[index] >= RETRY_AFTER - 2, `tried again too soon: ${moments}`);
  }
}

/** A job that never succeeds is parked after three failures, and keeps nobody else waiting. */
async function givenUp(channel) {
  await clean(channel);
  await withWorker(async () => {
    await send(channel, { name: 'hopeless', failures: 99 }, { name: 'other' });
    const parked = await until(() => channel.get(PARKED, { noAck: true }), 'a parked job');
    assert.equal(JSON.parse(parked.content).name, 'hopeless');
    assert.deepEqual(parked.properties.headers, { failed: 3, crashed: 0 });
  });
  assert.deepEqual(names('done'), ['other']);
  assert.equal(names('begin').filter((name) => name === 'hopeless').length, 3, 'attempts');
}

/** A job that kills the worker is parked when it has done so twice: the broker counts, since no worker lives to. */
async function poison(channel) {
  await clean(channel);
  await send(channel, { name: 'poison', poison: true });
  for (let deaths = 1; deaths <= 2; deaths += 1) {
    await once(start('worker.js', DONE), 'exit');
    assert.equal(names('begin').length, deaths, 'the worker died of something else');
  }
  await withWorker(async () => {
    const parked = await until(() => channel.get(PARKED, { noAck: true }), 'a parked job');
    assert.deepEqual(parked.properties.headers, { failed: 0, crashed: 2 });
    await send(channel, { name: 'after' });
    await until(() => names('done').length === 1, 'the job behind it');
  });
}

/** A worker that is told to stop finishes and settles what it has begun, and leaves the rest as it was. */
async function gracefulStop(channel) {
  await clean(channel);
  const jobs = Array.from({ length: 6 }, (_, number) => ({ name: `slow${number}`, milliseconds: 1000 }));
  await send(channel, ...jobs);
  await withWorker(() => until(() => names('begin').length === 4, 'four jobs have begun'));
  const done = names('done');
  assert.deepEqual(done.sort(), names('begin').sort(), 'begun, but not done');
  for (let left = jobs.length - done.length; left > 0; left -= 1) {
    const message = await channel.get(WORK, { noAck: true });
    assert.ok(message && !done.includes(JSON.parse(message.content).name), 'what was not begun is still there');
  }
  assert.equal(await channel.get(WORK), false, 'what was settled came back');
}

/** More than the worker has done when the server dies. */
const BACKLOG = Array.from({ length: 80 }, (_, number) => ({ name: `waiting${number}`, milliseconds: 200 }));

/** A publisher and a worker that go on while the server dies and comes back. */
async function store(channel) {
  await clean(channel);
  await send(channel, ...BACKLOG);
  const processes = ['publisher.js', 'worker.js'].map((program, index) => start(program, [CONFIRMED, DONE][index]));
  for (const child of processes) child.unref();
  writeFileSync(PROCESSES, JSON.stringify(processes.map(({ pid }) => pid)));
  await until(() => lines(CONFIRMED, 'confirmed').length >= 10 && names('done').length > 0, 'both are at work');
}

/** Both have found their way back, and whatever was confirmed is done, once. */
async function fetchAll() {
  const processes = JSON.parse(readFileSync(PROCESSES, 'utf8'));
  const stop = async (pid, journal) => {
    process.kill(pid, 'SIGTERM');
    await until(() => lines(journal, 'stopped').length === 1, `the end of ${pid}`);
    processes.splice(processes.indexOf(pid), 1);
  };
  const [publisher, worker] = processes;
  try {
    const before = lines(CONFIRMED, 'confirmed').length;
    await until(() => lines(CONFIRMED, 'confirmed').length >= before + 50, 'the publisher goes on');
    await stop(publisher, CONFIRMED);
    const confirmed = [...BACKLOG.map(({ name }) => name), ...lines(CONFIRMED, 'confirmed').map(([, name]) => name)];
    await until(() => new Set(names('done')).size >= confirmed.length, 'the worker does all that was confirmed');
    await stop(worker, DONE);
    assert.deepEqual(names('done').sort(), confirmed.sort(), 'confirmed, and done');
  } finally {
    for (const pid of processes) process.kill(pid, 'SIGTERM');
  }
}

const phases = {
  patterns: { prefetch, delayedRetry, givenUp, poison, gracefulStop },
  extensions: {},
  store: { store },
  fetch: { fetchAll },
};

const connection = await amqp.connect(process.env.AMQP_URL);
const channel = await connection.createConfirmChannel();
for (const [name, step] of Object.entries(phases[process.argv[2]])) {
  await step(channel);
  console.log('ok', name);
}
await connection.close();
