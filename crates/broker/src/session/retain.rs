//! Publishes that are retained: whether they may be, and how they come to their queues in the order
//! in which their topics have them.

use std::sync::Arc;
use std::time::Instant;

use auth::{Identity, Right};
use journal::Ticket;

use crate::catalog::retained::{RetainedLog, TopicExchange, load_of};
use crate::catalog::versions::Basis;
use crate::engine::Engine;
use crate::engine::admission::Asker;
use crate::error::Error;
use crate::memory::ledger::Account;
use crate::message::scheduling::RETAIN;
use crate::queue::Queue;
use crate::queue::arrival::Arrival;
use crate::routing::Load;
use crate::session::Client;
use crate::session::publish::Publish;

/// Fails for a message that can't be the value of a topic.
pub(super) fn check_retained(exchange: &str, queues: &[Arc<Queue>]) -> Result<(), Error> {
    if exchange.is_empty() {
        return Err(Error::precondition(format!(
            "invalid message: header '{RETAIN}' is for a message to a topic; the default exchange has none"
        )));
    }
    if queues.iter().any(|queue| queue.bucket.is_some()) {
        return Err(Error::precondition(format!("invalid message: header '{RETAIN}' is not for a delayed message")));
    }
    Ok(())
}

impl Client {
    /// Fails where a message has no room among the retained ones.
    pub(super) fn admit_retained(&self, publish: &Publish<'_>) -> Result<(), Error> {
        let (body, exchange, topic) = (publish.body.as_slice(), publish.exchange, publish.routing_key);
        if body.is_empty() {
            return Ok(());
        }
        let Some(TopicExchange { id, durable }) = self.topic_exchange(exchange) else { return Ok(()) };
        let load = load_of(body.len() + publish.properties.len() + exchange.len() + topic.len());
        let (count, old) = {
            let table = self.vhost.retained.lock();
            (table.count(), table.block_bytes(id, topic))
        };
        let vhost = &self.vhost.name;
        let limits = &self.engine.settings.retained;
        let coming = self.publisher.retained().count() as u64;
        if old.is_none() && count.messages + coming >= limits.messages {
            return Err(Error::precondition(format!(
                "cannot retain the message of topic '{topic}': vhost '{vhost}' retains {} messages, the most that it may \
                 (limits.retained_messages): remove some with hermod retained, or publish an empty body to their topics",
                count.messages
            )));
        }
        let coming: u64 = self.publisher.retained().map(|message| message.block().len() as u64).sum();
        let bytes = (count.bytes + coming + load.memory).saturating_sub(old.unwrap_or(0));
        if bytes > limits.bytes {
            return Err(Error::precondition(format!(
                "cannot retain the message of topic '{topic}': vhost '{vhost}' would retain {bytes} bytes, of {} that it may \
                 (limits.retained_bytes): remove some with hermod retained, or publish an empty body to their topics",
                limits.bytes
            )));
        }
        let growth = load.memory.saturating_sub(old.unwrap_or(0));
        let growth = Load { logged: if durable && publish.persistent { growth } else { 0 }, memory: growth };
        self.admit_growth(&format!("the retained message of topic '{topic}'"), growth)
    }

    /// Removes the retained message of a topic, which its subscribers are not told of. It is no
    /// error if there is none. Returns the ticket for the reply.
    ///
    /// # Errors
    /// `NotFound` for an unknown exchange; `AccessRefused` without the right to publish to the
    /// topic.
    pub fn remove_retained(&mut self, exchange: &str, topic: &str, now: Instant) -> Result<Ticket, Error> {
        self.flush(now);
        self.check_target(exchange)?;
        self.authorize_topics(exchange, std::iter::once(topic), Right::Write)?;
        let Some(TopicExchange { id, .. }) = self.topic_exchange(exchange) else { return Ok(self.settled_ticket()) };
        let vhost = Arc::clone(&self.vhost);
        let removed = vhost.retained.lock().remove(id, topic, self.engine.retained_log(&vhost));
        Ok(removed.unwrap_or(Ticket::NONE).max(self.settled_ticket()))
    }

    fn admit_growth(&self, what: &str, growth: Load) -> Result<(), Error> {
        let (engine, who): (&Engine, (&Identity, &Account)) =
            (&self.engine, (&self.shared.identity, &self.shared.account));
        engine.admit_of_user(what, growth, who)?;
        let asker = if self.receiver.consumes() { Asker::Consumer } else { Asker::Publisher };
        engine.admit_load(what, growth, asker)
    }

    fn topic_exchange(&self, name: &str) -> Option<TopicExchange> {
        let tables = self.vhost.tables.read();
        let exchange = tables.exchange(name).filter(|_| !tables.is_ended())?;
        Some(TopicExchange { id: exchange.id, durable: exchange.durable })
    }

    /// Does what `enqueue` does for a turn with messages to retain. Each becomes the value of its
    /// topic first. The lock is held until all are in their queues, so every queue gets them in the
    /// order of the values. A route that has changed is looked for again: a subscriber that came
    /// before the lock gets the message, and one that comes after it the value.
    #[cold]
    pub(super) fn enqueue_retained(&mut self, arrivals: &mut [Arrival], retained: &[(u32, Basis)]) -> Ticket {
        let (engine, vhost) = (Arc::clone(&self.engine), Arc::clone(&self.vhost));
        let to = RetainedLog { journal: &engine.journal, owners: &engine.owners, log: vhost.log() };
        let mut table = vhost.retained.lock();
        let (mut ticket, mut expires_at) = (Ticket::NONE, None);
        for (index, basis) in retained {
            let arrival = &mut arrivals[*index as usize];
            if !vhost.versions.hold(*basis) {
                self.route_retained(*index, arrival);
            }
            let Some(exchange) = self.topic_exchange(arrival.message().exchange()) else { continue };
            let message = arrival.message();
            expires_at = [expires_at, message.expires_at()].into_iter().flatten().min();
            ticket = ticket.max(table.set(exchange, message, self.shared.account.declared(), to));
            arrival.retained = true;
        }
        let reached = self.enqueue(arrivals);
        drop(table);
        expires_at.into_iter().for_each(|at| engine.expire_retained_at(at));
        ticket.max(reached)
    }

    /// Finds the queues of the arrival at `index` again. Where that fails, it keeps those that it
    /// has.
    fn route_retained(&mut self, index: u32, arrival: &mut Arrival) {
        let Ok(routed) = self.route_again(arrival.message()) else { return };
        self.slots.forget_picks(index);
        arrival.shares = routed.route.len() as u32;
        arrival.identity = routed.identity;
        routed.route.iter().for_each(|slot| self.slots.gather_pick(*slot, index));
    }
}
