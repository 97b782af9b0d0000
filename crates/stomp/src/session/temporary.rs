//! Temporary queues. Each belongs to one connection, which gives it a name of its own, and is
//! deleted with the connection.
//!
//! A SEND with `reply-to:/temp-queue/NAME` declares one and subscribes to it, as in RabbitMQ's
//! plugin. The replier sees `/reply-queue/QUEUE`. A client of ActiveMQ subscribes to
//! `/temp-queue/NAME` itself before it sends.

use std::time::Instant;

use broker::{Consume, QueueSpec, Ticket};

use super::deliver::Tag;
use super::error::Failure;
use super::open::Session;
use crate::client::AckMode;
use crate::limits;

/// The prefix of the destination of a temporary queue, for its owner and for others.
pub(super) const OWN: &str = "/temp-queue/";
const OTHERS: &str = "/reply-queue/";

impl Session {
    /// The queue that this connection calls by this name. A new one is declared by `spec`. If it
    /// exists and differs from `spec`, it is refused. Also returns the ticket that a receipt must
    /// wait for.
    pub(super) fn temporary(
        &mut self,
        name: &str,
        mut spec: QueueSpec,
        now: Instant,
    ) -> Result<(String, Ticket), Failure> {
        if let Some(queue) = self.temporaries.get(name) {
            spec.name.clone_from(queue);
        } else if self.temporaries.len() >= limits::TEMPORARY_QUEUES {
            let detail = format!("a connection has at most {} temporary queues", limits::TEMPORARY_QUEUES);
            return Err(Failure::new("Too many temporary queues", detail));
        }
        let declared = self.client.declare_queue(&spec, now)?;
        self.temporaries.insert(name.to_owned(), declared.name.clone());
        Ok((declared.name, declared.ticket))
    }

    /// The `reply-to` that replaces `/temp-queue/NAME`. If the name is new, the connection also
    /// subscribes to its replies, under that name.
    pub(super) fn reply_address(&mut self, reply_to: &str, now: Instant) -> Result<Option<String>, Failure> {
        let Some(name) = reply_to.strip_prefix(OWN) else { return Ok(None) };
        if name.is_empty() || name.contains('/') {
            return Err(Failure::invalid(
                "reply-to",
                "/temp-queue/NAME, with a slash within the name as %2F",
                reply_to,
            ));
        }
        if let Some(queue) = self.temporaries.get(name) {
            return Ok(Some(format!("{OTHERS}{queue}")));
        }
        let (queue, _) = self.temporary(name, QueueSpec { exclusive: true, ..QueueSpec::default() }, now)?;
        let tag = Tag::Id(reply_to.into());
        if !self.deliveries.contains(&tag) {
            let consumer = self.deliveries.add(&tag, AckMode::Auto, None);
            let consume = Consume { source: queue.clone().into(), tag: consumer, no_ack: true, ..Consume::default() };
            self.client.consume(self.id, consume, now)?;
        }
        Ok(Some(format!("{OTHERS}{queue}")))
    }
}
