// The queues of the example, declared by whoever comes first: the same call by publisher and worker.
//
//     work --rejected--> retry --a second later--> work          (each round adds to x-death)
//     work --given up by the worker--> parked                    (for somebody to look at)

import amqp from 'amqp-connection-manager';

export const WORK = 'interop.node.work';
export const RETRY = 'interop.node.retry';
export const PARKED = 'interop.node.parked';
export const RETRY_AFTER = 1000; // milliseconds

/** A connection that comes back by itself, soon after the broker does. */
export function connect(name) {
  const connection = amqp.connect([process.env.AMQP_URL], {
    heartbeatIntervalInSeconds: 10,
    reconnectTimeInSeconds: 1,
    connectionOptions: { clientProperties: { connection_name: name } },
  });
  connection.on('disconnect', ({ err }) => console.log(`${name}: disconnected: ${err?.message}`));
  return connection;
}

/** Declares everything; runs again after each reconnect. */
export async function declare(channel) {
  // A quorum queue counts in x-delivery-count how often a message has come back without an outcome.
  await channel.assertQueue(WORK, {
    durable: true,
    arguments: { 'x-queue-type': 'quorum', 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': RETRY },
  });
  await channel.assertQueue(RETRY, {
    durable: true,
    arguments: { 'x-message-ttl': RETRY_AFTER, 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': WORK },
  });
  await channel.assertQueue(PARKED, { durable: true });
}
