//! Messages that the client of a subscription and the broker hand over to each other exactly once.
//!
//! Each side keeps the identity of such a message until the other has forgotten it. The broker's
//! side is kept with the subscription's queue, and ends with it.
//!
//! Invariant: an id is in the log in one group with the references of its message, or with the
//! settlement of its delivery. After a crash both are there or neither.

use std::collections::BTreeSet;
use std::sync::Arc;

use journal::{Appender, Group, Owner, Ticket};

use crate::encoding::{Malformed, Reader, write_varint};
use crate::queue::settle::{EntryOutcome, Settlement};
use crate::queue::{Queue, QueueContext, Show, Visit};
use crate::store::facts::EXACTLY_ONCE;

/// Numbers in one fact at most.
const TOGETHER: usize = 1024;
/// The memory of a number, in bytes.
const COST: usize = 24;

/// What a client and the broker have begun to hand over, and not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExactlyOnce {
    /// The client's ids of messages that the broker has taken and the client has not released.
    pub received: BTreeSet<u64>,
    /// The places of messages that the client has taken and not completed. They have left the
    /// queue.
    pub taken: BTreeSet<u64>,
}

/// How far a message has come. The numbers stand in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handed {
    /// The broker has taken it from the client.
    Received = 0,
    /// The client has forgotten its id.
    Released = 1,
    /// The client has taken it.
    Taken = 2,
    /// The client has forgotten it.
    Completed = 3,
}

impl Handed {
    const ALL: [Self; 4] = [Self::Received, Self::Released, Self::Taken, Self::Completed];
}

impl ExactlyOnce {
    /// A message has come so far.
    pub(crate) fn note(&mut self, handed: Handed, number: u64) {
        match handed {
            Handed::Received => self.received.insert(number),
            Handed::Released => self.received.remove(&number),
            Handed::Taken => self.taken.insert(number),
            Handed::Completed => self.taken.remove(&number),
        };
    }

    /// Whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.received.is_empty() && self.taken.is_empty()
    }

    /// Its memory, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        (self.received.len() + self.taken.len()) * COST
    }

    /// Logs all of it.
    pub(crate) fn log(&self, appender: &mut Appender<'_>, queue: Owner) {
        for (handed, numbers) in [(Handed::Received, &self.received), (Handed::Taken, &self.taken)] {
            let numbers: Vec<u64> = numbers.iter().copied().collect();
            log_handed(appender, None, queue, (handed, &numbers));
        }
    }

    /// Reads a fact, and takes in what it says.
    pub(crate) fn recover(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let mut reader = Reader::new(bytes);
        let code = reader.byte()?;
        let handed = Handed::ALL.into_iter().find(|handed| *handed as u8 == code);
        let handed = handed.ok_or_else(|| reader.malformed("an unknown step of a message"))?;
        while !reader.is_empty() {
            self.note(handed, reader.varint()?);
        }
        Ok(())
    }
}

/// Logs that messages have come so far.
fn log_handed(appender: &mut Appender<'_>, group: Option<Group>, queue: Owner, (handed, numbers): (Handed, &[u64])) {
    for part in numbers.chunks(TOGETHER) {
        let mut bytes = Vec::with_capacity(1 + 4 * part.len());
        bytes.push(handed as u8);
        part.iter().for_each(|number| write_varint(&mut bytes, *number));
        appender.fact(group, queue, EXACTLY_ONCE, &[&bytes]);
    }
}

impl Queue {
    /// What its client and the broker have begun to hand over.
    pub(crate) fn exactly_once(&self, context: &QueueContext) -> ExactlyOnce {
        let inner = self.lock(context);
        inner.features.exactly_once.as_deref().cloned().unwrap_or_default()
    }

    /// The broker takes messages with these ids, whose references are in the group.
    pub(crate) fn receive_once(&self, ids: &[u64], group: Group, context: &QueueContext) {
        let mut inner = self.lock(context);
        if inner.is_deleted() {
            return;
        }
        let all = inner.features.exactly_once.get_or_insert_default();
        ids.iter().for_each(|id| all.note(Handed::Received, *id));
        if self.logged() {
            log_handed(&mut context.journal.appender(self.log()), Some(group), self.id, (Handed::Received, ids));
        }
    }

    /// Messages have come so far, in this order. Those that the client has taken leave the queue;
    /// their deliveries still count until they are settled. The ticket covers all of it.
    pub(crate) fn hand_over(self: &Arc<Self>, steps: &[(Handed, u64)], visit: &mut Visit<'_>) -> Ticket {
        let _whole = visit.context.groups.of(self.log()).read();
        let mut inner = self.lock(visit.context);
        if inner.is_deleted() {
            return Ticket::NONE;
        }
        let group = self.logged().then(|| visit.context.journal.appender(self.log()).begin_group());
        for run in steps.chunk_by(|(one, _), (other, _)| one == other) {
            let numbers: Vec<u64> = run.iter().map(|(_, number)| *number).collect();
            let Some((handed, _)) = run.first() else { continue };
            let all = inner.features.exactly_once.get_or_insert_default();
            numbers.iter().for_each(|number| all.note(*handed, *number));
            if group.is_some() {
                log_handed(&mut visit.context.journal.appender(self.log()), group, self.id, (*handed, &numbers));
            }
            if *handed == Handed::Taken {
                for seq in numbers {
                    let outcome = EntryOutcome::Accepted;
                    self.settle_one(&mut inner, &Settlement { seq, consumer: u32::MAX, outcome, said: None }, visit);
                }
            }
        }
        self.log_settled_in(&mut inner, group, visit.context);
        let mut ticket = Ticket::NONE;
        if let Some(group) = group {
            let mut appender = visit.context.journal.appender(self.log());
            appender.end_group(group);
            ticket = appender.ticket();
        }
        ticket.max(self.conclude(inner, Show::AllWithinLimits, visit))
    }

    /// Takes what recovery found.
    pub(crate) fn recover_exactly_once(&self, found: ExactlyOnce, context: &QueueContext) {
        if !found.is_empty() {
            self.lock(context).features.exactly_once = Some(Box::new(found));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes are those of `docs/formats/facts.md`.
    #[test]
    fn a_step_is_read_from_these_bytes_and_a_cut_within_a_number_is_noticed() {
        let mut all = ExactlyOnce::default();
        for bytes in [&b"\0\x05\xac\x02"[..], b"\x02\x07", b"\x01\x05", b"\x01\x05", b"\x02\x07"] {
            all.recover(bytes).unwrap();
        }
        assert_eq!(all, ExactlyOnce { received: [300].into(), taken: [7].into() });
        all.recover(b"\x03\x07").unwrap();
        all.recover(b"\x01\xac\x02").unwrap();
        assert!(all.is_empty() && all.heap_bytes() == 0);
        for bytes in [&b""[..], b"\x04\x01", b"\0\xac", b"\x02\x01\x80"] {
            assert!(all.recover(bytes).is_err(), "{bytes:?}");
        }
    }
}
