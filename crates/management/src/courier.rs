//! Publishes and fetches messages for management, as a client of the broker with the permissions of
//! the user. The audit log is told of every such request, without the contents of messages.

use std::thread::park;
use std::time::Instant;

use auth::shown::extract;
use auth::waiting;
use broker::{
    Awaited, Client, Confirm, Error, Event, Fetch, Outcome, Properties, Publish, QueueSpec, SessionId, Settling, Table,
    Tags, Unroutable,
};
use serde::Deserialize;

use crate::change::{AUDIT, Caller, Refused, WHY, Why, unpark};
use crate::json::typed;
use crate::source::Source;

/// Most bytes of messages that one request fetches, unless a single message is larger.
const MOST_BYTES: usize = 16 << 20;
/// Bytes that each message adds to its body, its properties and its address: the names of their
/// fields in an answer.
const EACH: usize = 512;
/// Bytes of names in the audit log.
const NAME: usize = 255;
/// Bytes of deliveries that one `drain` reports. These clients have answers only, and no
/// deliveries.
const BUDGET: usize = 1 << 16;

/// A message to be published.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) exchange: String,
    pub(crate) routing_key: String,
    pub(crate) properties: Properties,
    pub(crate) body: Vec<u8>,
}

/// What happens to messages that were fetched. Names are RabbitMQ's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AckMode {
    /// They leave the queue.
    AckRequeueFalse,
    /// They return to their places in the queue.
    AckRequeueTrue,
    /// They return to their places in the queue, and count as failed.
    RejectRequeueTrue,
    /// They go to the dead-letter exchange, or are dropped.
    RejectRequeueFalse,
}

impl AckMode {
    fn outcome(self) -> Outcome {
        match self {
            Self::AckRequeueFalse => Outcome::Accepted,
            Self::AckRequeueTrue => Outcome::Released,
            Self::RejectRequeueTrue => Outcome::FAILED,
            Self::RejectRequeueFalse => Outcome::REJECTED,
        }
    }
}

/// Which messages to fetch.
#[derive(Debug)]
pub(crate) struct Fetching {
    pub(crate) queue: String,
    /// The largest number of messages.
    pub(crate) count: u64,
    pub(crate) ackmode: AckMode,
}

/// A message that was fetched.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) exchange: String,
    pub(crate) routing_key: String,
    pub(crate) redelivered: bool,
    /// How many messages are still ready.
    pub(crate) remaining: u64,
    pub(crate) properties: Properties,
    pub(crate) body: Vec<u8>,
}

impl Source {
    /// Publishes a message and waits until it is confirmed. Returns whether it reached a queue.
    /// While an alarm stops publishers, the message is refused at once.
    pub(crate) fn publish(&self, vhost: &str, message: &Outgoing, caller: Caller) -> Result<bool, Refused> {
        let (who, from) = (caller.identity.user().to_owned(), caller.from.clone());
        let (exchange, routing_key) = (extract(&message.exchange, NAME), extract(&message.routing_key, NAME));
        let (exchange, routing_key) = (&*exchange, &*routing_key);
        let user = message.properties.user_id.as_ref().filter(|claimed| **claimed != who);
        let published = match user {
            Some(claimed) => {
                let text = format!("user_id property set to '{claimed}' but authenticated user was '{who}'");
                Err(Refused::new(Why::Invalid, text))
            }
            None => self.visit(vhost, caller, |client, session| self.publish_by(client, session, message)),
        };
        match &published {
            Ok(routed) => tracing::info!(target: AUDIT, %who, %from, vhost, exchange, routing_key, routed, "published"),
            Err(refused) => {
                tracing::warn!(target: AUDIT, %who, %from, vhost, exchange, why = %extract(&refused.text, WHY), "publish refused");
            }
        }
        published
    }

    /// Fetches messages and settles them as `fetching` says. What left the queue has left it
    /// durably when this returns.
    pub(crate) fn fetch(&self, vhost: &str, fetching: &Fetching, caller: Caller) -> Result<Vec<Fetched>, Refused> {
        let (who, from) = (caller.identity.user().to_owned(), caller.from.clone());
        let (queue, ackmode) = (&fetching.queue, fetching.ackmode);
        let fetched = self.visit(vhost, caller, |client, session| self.fetch_by(client, session, fetching));
        match &fetched {
            Ok(messages) => {
                let count = messages.len();
                tracing::info!(target: AUDIT, %who, %from, vhost, queue, ?ackmode, count, "messages fetched");
            }
            Err(refused) => {
                tracing::warn!(target: AUDIT, %who, %from, vhost, queue, why = %extract(&refused.text, WHY), "fetch refused");
            }
        }
        fetched
    }

    /// Sends a message through a queue of its own.
    pub(crate) fn try_vhost(&self, vhost: &str, caller: Caller) -> Result<(), Refused> {
        self.visit(vhost, caller, |client, session| {
            let spec = QueueSpec {
                name: String::new(),
                durable: false,
                exclusive: true,
                auto_delete: false,
                arguments: Table::default(),
            };
            let queue = client.declare_queue(&spec, Instant::now())?.name;
            let message = Outgoing {
                exchange: String::new(),
                routing_key: queue.clone(),
                properties: Properties::default(),
                body: b"test_message".to_vec(),
            };
            self.publish_by(client, session, &message)?;
            let fetching = Fetching { queue, count: 1, ackmode: AckMode::AckRequeueFalse };
            let fetched = self.fetch_by(client, session, &fetching)?;
            let is_back = fetched.first().is_some_and(|back| back.body == message.body);
            is_back.then_some(()).ok_or_else(|| Refused::new(Why::Failed, "the message did not come back"))
        })
    }

    /// Runs `work` as a client that is removed afterwards.
    fn visit<T>(
        &self,
        vhost: &str,
        caller: Caller,
        work: impl FnOnce(&mut Client, SessionId) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let mut client = self.broker.attach_unlisted(caller.identity, vhost, &caller.from, unpark())?;
        let session = client.open_session(1);
        let done = work(&mut client, session);
        let ends = client.close(Instant::now());
        wait(&mut client, ends);
        done
    }

    fn publish_by(&self, client: &mut Client, session: SessionId, message: &Outgoing) -> Result<bool, Refused> {
        let mut raw = Vec::new();
        let encoded = (self.encoding)(&message.properties, &mut raw)?;
        let publish = Publish {
            exchange: &message.exchange,
            routing_key: &message.routing_key,
            body: message.body.as_slice().into(),
            confirm: Confirm::Numbered(1),
            unroutable: Unroutable::Tell,
            ..encoded
        };
        if client.identity().is_decided_elsewhere() {
            // What a will needs is what a publish needs. In a turn nothing may wait.
            client.check_will(&publish)?;
        }
        let turn = self.pool.turn();
        waiting::forbidden(|| client.publish(session, publish))?;
        client.flush(Instant::now());
        drop(turn);
        let (mut stopped, mut ended) = (None, None);
        loop {
            client.drain(Instant::now(), BUDGET, &mut |event| match event {
                Event::Unroutable { .. } => ended = Some(Ok(false)),
                Event::Confirmed { .. } => ended = Some(Ok(true)),
                Event::Refused { .. } => {
                    let text = "rejected Unable to publish message. Check queue limits.";
                    ended = Some(Err(Refused::new(Why::Invalid, text)));
                }
                Event::Blocked { reason } => stopped = Some(reason.to_owned()),
                Event::SessionFailed { error, .. } => ended = Some(Err(error.into())),
                _ => {}
            });
            if let Some(ended) = ended.take() {
                return ended;
            }
            // An alarm may still leave room for this message. Then the message is confirmed like
            // any other. If the client were told otherwise, it would publish the message twice.
            if let Some(reason) = stopped.as_ref().filter(|_| client.parked(session)) {
                let text = format!("rejected Unable to publish message: publishers are stopped, {reason}");
                return Err(Refused::new(Why::Invalid, text));
            }
            park();
        }
    }

    /// Like publishes, fetches have a turn with the broker, and end it where a connection's turn
    /// would end.
    fn fetch_by(&self, client: &mut Client, session: SessionId, fetching: &Fetching) -> Result<Vec<Fetched>, Refused> {
        let (mut fetched, mut bytes) = (Vec::new(), 0);
        if client.identity().is_decided_elsewhere() {
            // It asks for the right to read, too. In a turn nothing may wait.
            client.check_queue(&fetching.queue, Instant::now())?;
        }
        let mut turn = Some(self.pool.turn());
        while (fetched.len() as u64) < fetching.count && bytes < MOST_BYTES {
            if client.is_turn_full() {
                turn = None;
                client.end_turn(Instant::now());
            }
            turn.get_or_insert_with(|| self.pool.turn());
            let mut found = None;
            let mut read = |delivery: &broker::Delivery<'_>, remaining| {
                let message = delivery.message;
                bytes += message.body().len() + message.properties().len() + message.routing_key().len() + EACH;
                found = Some(self.read(delivery, remaining));
            };
            let queue = &fetching.queue;
            let get = || client.get(session, queue, Settling::Manual, Instant::now(), &mut read);
            let outcome = waiting::forbidden(get)?;
            match outcome {
                Fetch::Message => {}
                Fetch::Empty => break,
                Fetch::Wait(awaited) => {
                    turn = None;
                    wait(client, awaited);
                }
            }
            if let Some(message) = found.transpose()? {
                bytes += typed::weight(&message.properties.headers);
                fetched.push(message);
            }
        }
        if !fetched.is_empty() {
            client.settle(session, Tags::All, &fetching.ackmode.outcome())?;
        }
        Ok(fetched)
    }

    fn read(&self, delivery: &broker::Delivery<'_>, remaining: u64) -> Result<Fetched, Error> {
        let message = delivery.message;
        let properties = self.broker.dialects().read_shown(message, delivery.counts)?;
        Ok(Fetched {
            exchange: message.exchange().to_owned(),
            routing_key: message.routing_key().to_owned(),
            redelivered: delivery.redelivered,
            remaining,
            properties,
            body: message.body().to_vec(),
        })
    }
}

/// Blocks until this has come.
fn wait(client: &mut Client, awaited: Awaited) {
    while !client.durable(awaited) {
        park();
    }
}
