//! Durable targets (part 2, §2.6.13; part 3, §3.5): what became of the deliveries of a link,
//! for a peer that has lost it and attaches it again.
//!
//! A terminus keeps the outcomes of deliveries that its peer may not have settled: those without an
//! answer, and the last [`ANSWERED`] with one. They are in memory, so they end with the broker.
//! While a link is attached its terminus is shared with nothing but a thief of its name. A
//! suspended one is kept for [`LONGEST`] at most, and each user has [`SUSPENDED`] of them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::{Charge, Ticket};
use parking_lot::Mutex;

use crate::codec::performative::Attach;
use crate::codec::state::Rejected;
use crate::codec::terminus::{Durability, ExpiryPolicy, Target};
use crate::codec::{self, Map, Value, ValueRef};
use crate::delivery::ShortBytes;
use crate::session::error::Failure;
use crate::session::frames::OwnMap;
use crate::session::names::LinkName;

/// Deliveries with an answer that a terminus remembers.
const ANSWERED: usize = 1024;
/// How long a suspended link is kept.
pub(super) const LONGEST: Duration = Duration::from_secs(3600);
/// How many suspended links of one user and vhost are kept. Beyond that the oldest one goes.
const SUSPENDED: usize = 64;

/// How a delivery of the peer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Accepted,
    Released,
    Rejected(Failure),
}

impl Answer {
    /// As it is written.
    pub(super) fn as_outcome(&self) -> codec::Outcome<'_> {
        match self {
            Self::Accepted => codec::Outcome::Accepted,
            Self::Released => codec::Outcome::Released,
            Self::Rejected(failure) => codec::Outcome::Rejected(Rejected { error: Some(failure.as_error()) }),
        }
    }
}

/// A delivery without an answer.
#[derive(Debug, Clone, Copy)]
struct Open {
    tag: ShortBytes,
    /// Which attachment of the link it was made on, and its id there.
    attached: u32,
    id: u32,
}

impl Open {
    fn is_of(&self, attached: u32, first: u32, last: u32) -> bool {
        self.attached == attached && self.id.wrapping_sub(first) <= last.wrapping_sub(first)
    }
}

/// One with an answer.
#[derive(Debug)]
struct Ended {
    delivery: Open,
    answer: Answer,
}

/// What a resumed delivery finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Resumed {
    /// Its end.
    Ended(Answer),
    /// It was taken on a link that has not ended yet, and has no answer.
    Undecided,
    /// Nothing is known of it. The peer must not resume it, and it is ignored (§2.7.5).
    Unknown,
}

/// See the module. Both lists are in the order of delivery, so that answers and settlements are
/// mostly found in front.
#[derive(Debug, Default)]
struct Terminus {
    open: VecDeque<Open>,
    ended: VecDeque<Ended>,
    /// The number of the last attachment.
    attached: u32,
    /// What was accepted when the link was lost is so when this is durable.
    ticket: Option<Ticket>,
    /// The memory of a suspended one.
    charge: Option<Charge>,
    /// When a suspended one goes.
    until: Option<Instant>,
}

/// The terminus of a link that is attached.
#[derive(Debug, Clone)]
pub(super) struct Attached {
    termini: Termini,
    terminus: Arc<Mutex<Terminus>>,
    name: LinkName,
    number: u32,
    /// How long it outlives the link.
    timeout: Duration,
}

/// The termini of suspended links, and of those that are attached.
#[derive(Debug, Clone, Default)]
pub(super) struct Termini(Arc<Mutex<HashMap<LinkName, Arc<Mutex<Terminus>>>>>);

/// What is told of a terminus in the answer to its link.
pub(super) struct Told {
    /// Deliveries that both sides know.
    pub(super) unsettled: Option<OwnMap>,
    /// Whether some of them had no room.
    pub(super) incomplete: bool,
    /// What the answer waits for.
    pub(super) ticket: Ticket,
}

impl Told {
    /// What the terminus of a link that is attached says to it. Without one nothing is known.
    pub(super) fn of(terminus: Option<&Attached>, attach: &Attach<'_>, room: usize) -> Self {
        let complete = if attach.incomplete_unsettled { Completeness::Part } else { Completeness::Whole };
        match terminus {
            Some(terminus) => terminus.compare(attach.unsettled, complete, room),
            None => {
                let unsettled = attach.unsettled.map(|_| OwnMap::new(Vec::new()));
                Self { unsettled, incomplete: false, ticket: Ticket::NONE }
            }
        }
    }
}

/// The target in force of a link that it does not outlive.
pub(super) fn of_link<'a>(target: &Target<'a>) -> Target<'a> {
    if lasts(target).is_none() {
        return *target;
    }
    Target { durable: Durability::None, expiry_policy: ExpiryPolicy::LinkDetach, timeout: 0, ..*target }
}

/// How long a target outlives its link. `None`: no longer than it.
pub(super) fn lasts(target: &Target<'_>) -> Option<Duration> {
    let is_durable = target.durable != Durability::None || target.expiry_policy == ExpiryPolicy::Never;
    let asked = Duration::from_secs(target.timeout.into());
    match (target.expiry_policy, target.timeout) {
        (ExpiryPolicy::Never, _) => Some(LONGEST),
        // A durable target asks for its link to be found again; after 0 s it never would be.
        (_, 0) => is_durable.then_some(LONGEST),
        (_, _) => Some(asked.min(LONGEST)),
    }
}

/// The target that is in force.
pub(super) fn in_force<'a>(target: &Target<'a>) -> Target<'a> {
    match lasts(target) {
        None => *target,
        Some(timeout) => Target {
            durable: Durability::UnsettledState,
            expiry_policy: match target.expiry_policy {
                ExpiryPolicy::Never => ExpiryPolicy::LinkDetach,
                policy => policy,
            },
            timeout: timeout.as_secs() as u32,
            ..*target
        },
    }
}

impl Termini {
    /// Finds the terminus of a link, or makes it.
    pub(super) fn attach(&self, name: LinkName, timeout: Duration, now: Instant) -> Attached {
        let mut all = self.0.lock();
        // One without an end has a link, or its connection has ended without a word.
        let is_kept = |terminus: &Arc<Mutex<Terminus>>| match terminus.lock().until {
            Some(until) => until > now,
            None => Arc::strong_count(terminus) > 1,
        };
        all.retain(|_, terminus| is_kept(terminus));
        let terminus = Arc::clone(all.entry(name.clone()).or_default());
        drop(all);
        let mut there = terminus.lock();
        there.attached = there.attached.wrapping_add(1);
        (there.until, there.charge) = (None, None);
        let number = there.attached;
        drop(there);
        Attached { termini: self.clone(), terminus, name, number, timeout }
    }

    /// The oldest suspended links of a user go, beyond as many as there may be.
    fn make_room(&self, name: &LinkName) {
        let mut all = self.0.lock();
        let of_user = all.iter().filter(|(other, _)| other.is_of_user_of(name));
        let mut suspended: Vec<_> =
            of_user.filter_map(|(other, terminus)| Some((terminus.lock().until?, other.clone()))).collect();
        suspended.sort_by_key(|(until, _)| *until);
        let surplus = suspended.len().saturating_sub(SUSPENDED);
        for (_, oldest) in suspended.drain(..surplus) {
            all.remove(&oldest);
        }
    }
}

impl Attached {
    /// A delivery of the peer was taken, and has no answer yet.
    pub(super) fn taken(&self, tag: ShortBytes, id: u32) {
        self.terminus.lock().open.push_back(Open { tag, attached: self.number, id });
    }

    /// These deliveries have their answer.
    pub(super) fn answered(&self, first: u32, last: u32, answer: &Answer) {
        let there = &mut *self.terminus.lock();
        let Some(at) = there.open.iter().position(|open| open.is_of(self.number, first, last)) else { return };
        while there.open.get(at).is_some_and(|open| open.is_of(self.number, first, last)) {
            let delivery = there.open.remove(at);
            there.ended.extend(delivery.map(|delivery| Ended { delivery, answer: answer.clone() }));
        }
        let surplus = there.ended.len().saturating_sub(ANSWERED);
        there.ended.drain(..surplus);
    }

    /// The peer has settled these.
    pub(super) fn settled(&self, first: u32, last: u32) {
        let there = &mut *self.terminus.lock();
        let is_named = |ended: &Ended| ended.delivery.is_of(self.number, first, last);
        let Some(at) = there.ended.iter().position(is_named) else { return };
        while there.ended.get(at).is_some_and(is_named) {
            there.ended.remove(at);
        }
    }

    /// Compares with what the peer has not settled, and says in `room` bytes what both know. A
    /// complete map is the proof that the rest is settled.
    fn compare(&self, named: Option<Map<'_>>, complete: Completeness, room: usize) -> Told {
        let tags: Vec<&[u8]> = named.into_iter().flat_map(|map| map.iter()).filter_map(|(tag, _)| bytes(tag)).collect();
        let there = &mut *self.terminus.lock();
        if complete == Completeness::Whole {
            let known: HashSet<&[u8]> = tags.iter().copied().collect();
            there.open.retain(|open| known.contains(open.tag.as_bytes()));
            there.ended.retain(|ended| known.contains(ended.delivery.tag.as_bytes()));
        }
        let open = there.open.iter().map(|open| (open.tag, None));
        let ended = there.ended.iter().map(|ended| (ended.delivery.tag, Some(&ended.answer)));
        let known: Vec<(ShortBytes, Option<&Answer>)> = ended.chain(open).collect();
        let known: HashMap<&[u8], Option<&Answer>> =
            known.iter().map(|(tag, answer)| (tag.as_bytes(), *answer)).collect();
        let (mut pairs, mut left, mut incomplete) = (Vec::new(), room, false);
        for (tag, answer) in tags.iter().filter_map(|tag| Some((*tag, known.get(tag)?))) {
            let pair = (Value::Binary(tag.to_vec()), answer.map_or(Value::Null, described));
            let length = pair.0.to_bytes().len() + pair.1.to_bytes().len();
            let Some(rest) = left.checked_sub(length) else {
                incomplete = true;
                break;
            };
            left = rest;
            pairs.push(pair);
        }
        let unsettled = (!tags.is_empty()).then(|| OwnMap::new(pairs));
        Told { unsettled, incomplete, ticket: there.ticket.unwrap_or(Ticket::NONE) }
    }

    /// A delivery is resumed. From here on it has this id.
    pub(super) fn resume(&self, tag: ShortBytes, id: u32) -> Resumed {
        let there = &mut *self.terminus.lock();
        if let Some(ended) = there.ended.iter_mut().rev().find(|ended| ended.delivery.tag == tag) {
            ended.delivery = Open { tag, attached: self.number, id };
            return Resumed::Ended(ended.answer.clone());
        }
        let is_open = there.open.iter().any(|open| open.tag == tag);
        if is_open { Resumed::Undecided } else { Resumed::Unknown }
    }

    /// The link is closed.
    pub(super) fn end(&self) {
        self.termini.0.lock().remove(&self.name);
    }

    /// The link is lost or suspended. What was handed to queues is accepted once that is durable;
    /// what waits behind an alarm is not, and is forgotten. `charge` takes the memory.
    pub(super) fn suspend(&self, handed: Handed, mut charge: Charge, now: Instant) {
        let mut guard = self.terminus.lock();
        let there = &mut *guard;
        let (own, others): (VecDeque<Open>, VecDeque<Open>) =
            there.open.drain(..).partition(|open| open.attached == self.number);
        there.open = others;
        if let Handed::All(ticket) = handed {
            there.ended.extend(own.into_iter().map(|delivery| Ended { delivery, answer: Answer::Accepted }));
            there.ticket = Some(there.ticket.map_or(ticket, |earlier| earlier.max(ticket)));
        }
        // A thief of the name may have it already.
        if there.attached != self.number {
            return;
        }
        charge.add(there.ended.len() * size_of::<Ended>());
        (there.charge, there.until) = (Some(charge), Some(now + self.timeout));
        drop(guard);
        self.termini.make_room(&self.name);
    }
}

/// What of a link's deliveries without an answer is in queues.
#[derive(Debug, Clone, Copy)]
pub(super) enum Handed {
    /// All, and stored when this is durable.
    All(Ticket),
    /// Some wait behind an alarm.
    Some,
}

/// Whether a peer has named all deliveries that it has not settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Completeness {
    Whole,
    Part,
}

fn bytes(tag: ValueRef<'_>) -> Option<&[u8]> {
    if let ValueRef::Binary(bytes) = tag { Some(bytes) } else { None }
}

/// An answer as a value of the unsettled map.
fn described(answer: &Answer) -> Value {
    let described = |code, fields| Value::Described(Box::new((Value::U64(code), Value::List(fields))));
    match answer {
        Answer::Accepted => described(0x24, Vec::new()),
        Answer::Released => described(0x26, Vec::new()),
        Answer::Rejected(failure) => {
            let text = Value::Str(failure.text.clone());
            let error = described(0x1d, vec![Value::Symbol(failure.condition.to_owned()), text]);
            described(0x25, vec![error])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lasting(durable: Durability, expiry_policy: ExpiryPolicy, timeout: u32) -> Option<u64> {
        let target = Target { durable, expiry_policy, timeout, ..Target::default() };
        lasts(&target).map(|lasts| lasts.as_secs())
    }

    #[test]
    fn a_target_lasts_as_it_says_up_to_an_hour() {
        use {Durability as D, ExpiryPolicy as E};
        for (durable, expiry, timeout, expected) in [
            (D::None, E::SessionEnd, 0, None),
            (D::None, E::SessionEnd, 10, Some(10)),
            (D::None, E::Never, 0, Some(3600)),
            (D::Configuration, E::LinkDetach, 0, Some(3600)),
            (D::UnsettledState, E::SessionEnd, 60, Some(60)),
            (D::UnsettledState, E::ConnectionClose, 100_000, Some(3600)),
        ] {
            assert_eq!(lasting(durable, expiry, timeout), expected, "{durable:?} {expiry:?} {timeout}");
        }
    }
}
