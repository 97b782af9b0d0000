//! Where dead messages go: to their queue's dead-letter exchange, as new messages that carry the story of their deaths.
//!
//! Each hop is a group: the settlement in the old queue and the arrivals in the new ones happen together, so a crash
//! neither loses nor doubles the message. A hop that closes a cycle without a rejection in it is not taken.

use std::sync::Arc;

use journal::Admission;

use crate::core::Core;
use crate::message::marks::{Death, Marks};
use crate::message::{Arena, Head, Message};
use crate::queue::{Dying, Queue, Visit};
use crate::session::publish::{STORED_BESIDES, release_holds};
use crate::session::transaction::hide_arrivals;
use crate::session::turn::{Arrival, Work};
use crate::store::facts;

/// Messages moved in one group at most.
const CHUNK: usize = 64;
/// Bytes moved at once while the log is full, but at least one message.
const RESERVED: usize = 64 << 10;

/// Takes the next few of what waits: the oldest messages of the oldest entry.
pub(crate) fn next_postponed(postponed: &mut Vec<Work>) -> Option<(Arc<Queue>, Vec<Dying>)> {
    let Some(Work::DeadLetter { queue, dying }) = postponed.first_mut() else { return None };
    let queue = Arc::clone(queue);
    let mut bytes = 0;
    let fits = dying.iter().take(CHUNK).take_while(|dead| {
        bytes += dead.message.cost();
        bytes <= RESERVED
    });
    let count = fits.count().max(1).min(dying.len());
    let chunk: Vec<_> = dying.drain(..count).collect();
    if dying.is_empty() {
        postponed.remove(0);
    }
    Some((queue, chunk))
}

impl Core {
    /// Moves dead messages on, or notes why they must wait.
    pub(crate) fn dead_letter(&self, queue: &Arc<Queue>, dying: Vec<Dying>, work: &mut Vec<Work>) {
        // Not held back by the memory alarm: a move takes no more memory than it gives.
        if self.journal.admission() == Admission::Closed {
            self.postpone(queue, dying);
            return;
        }
        for chunk in dying.chunks(CHUNK) {
            self.move_chunk(queue, chunk, work);
        }
    }

    /// There is no room for new records of this size: the decision is logged, the move waits.
    fn postpone(&self, queue: &Arc<Queue>, dying: Vec<Dying>) {
        let mut appender = self.journal.appender();
        for dead in dying.iter().filter(|dead| dead.address.is_some()) {
            facts::log_dying(&mut appender, queue.id, dead.seq, dead.reason);
        }
        drop(appender);
        self.waiting.lock().postponed.push(Work::DeadLetter { queue: Arc::clone(queue), dying });
    }

    pub(crate) fn move_chunk(&self, queue: &Arc<Queue>, chunk: &[Dying], work: &mut Vec<Work>) {
        let now = self.clock.unix_ms();
        let mut arena = Arena::default();
        let mut arrivals = Vec::with_capacity(chunk.len());
        let mut targets = Vec::with_capacity(chunk.len());
        for dead in chunk {
            self.totals.dead_lettered[dead.reason as usize].add(1);
            let Some((message, queues)) = self.next_hop(queue, dead, now, &mut arena) else {
                self.totals.dead_letters_dropped.add(1);
                continue;
            };
            arrivals.push(Arrival::new(message, false, 0, 0));
            targets.push(queues);
        }
        let durable = chunk.iter().any(|dead| dead.address.is_some())
            || arrivals.iter().any(|arrival| arrival.message().persistent());
        let group = durable.then(|| self.journal.appender().begin_group());
        let mut visit = Visit { core: self, now, work };
        let hidden = hide_arrivals(&mut arrivals, &targets, group, &mut visit);
        queue.bury(chunk, group, self);
        if let Some(group) = group {
            self.journal.appender().end_group(group);
        }
        release_holds(&arrivals, self);
        for (target, first, count) in hidden {
            target.reveal(first, count, &mut visit);
        }
    }

    /// The message as it goes on, and where to; `None` when it goes nowhere.
    fn next_hop(&self, queue: &Queue, dead: &Dying, now: u64, arena: &mut Arena) -> Option<(Message, Vec<Arc<Queue>>)> {
        let exchange = queue.arguments.dead_letter_exchange.as_deref()?;
        let message = &dead.message;
        let key = queue.arguments.dead_letter_routing_key.as_deref().unwrap_or(message.routing_key());
        let marks = self.marks_after(queue, dead, now);
        let vhost = self.catalog.vhost(&queue.vhost)?;
        let mut headers = || {
            let properties = self.dialects.read(message.dialect(), message.properties()).ok()?;
            Some(properties.headers)
        };
        let mut queues = vhost.tables.read().route(exchange, key, &mut headers)?.queues;
        queues.retain(|target| !marks.is_cycle(&target.name));
        if queues.is_empty() {
            return None;
        }
        let mut encoded = Vec::new();
        marks.encode(&mut encoded);
        if encoded.len() as u64 > STORED_BESIDES / 2 {
            return None;
        }
        let head = Head {
            dialect: message.dialect(),
            persistent: message.persistent(),
            priority: message.priority(),
            published_at: now,
            expiration: None,
            exchange,
            routing_key: key,
            properties: message.properties(),
            marks: &encoded,
        };
        Some((arena.add(&head, message.body()), queues))
    }

    fn marks_after(&self, queue: &Queue, dead: &Dying, now: u64) -> Marks {
        let message = &dead.message;
        let before = message.marks().or_else(|| {
            let properties = self.dialects.read(message.dialect(), message.properties()).ok()?;
            Marks::from_headers(&properties.headers)
        });
        let mut marks = before.unwrap_or_default();
        marks.record(Death {
            queue: queue.name.to_string(),
            reason: dead.reason,
            exchange: message.exchange().to_owned(),
            routing_keys: vec![message.routing_key().to_owned()],
            count: 1,
            time: now / 1000,
            original_expiration: message.expiration(),
        });
        marks
    }
}
