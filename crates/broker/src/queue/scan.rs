//! A walk through a queue without consumers: a few ready entries at a time, each visit short. And
//! entries taken out of a queue to be moved.
//!
//! Invariant: a walk ends at the last entry that was there when it began, whatever comes meanwhile.

use journal::{Group, PAGE, Reference};

use crate::message::Message;
use crate::queue::QueueContext;
use crate::queue::filter::Cursor;
use crate::queue::returns::Returns;
use crate::queue::{Queue, State};

/// Entries that one visit looks at.
const AT_ONCE: usize = 64;

/// The position of a walk.
#[derive(Debug, Clone)]
pub(crate) struct Walk {
    at: Cursor,
    until: Cursor,
    /// The page that it is in, which is made small again behind it.
    page: Option<u64>,
}

impl Walk {
    /// A walk that goes on at these numbers, one for each lane, up to those.
    pub(crate) fn between(at: &[u64], until: &[u64]) -> Self {
        Self { at: Cursor::at(at), until: Cursor::at(until), page: None }
    }

    /// The first number of each lane that was not looked at.
    pub(crate) fn at(&self) -> Vec<u64> {
        self.at.numbers()
    }

    /// The end of the walk in each lane.
    pub(crate) fn until(&self) -> Vec<u64> {
        self.until.numbers()
    }

    /// Notes that this entry was seen.
    pub(crate) fn pass(&mut self, seq: u64) {
        self.at.pass(seq);
    }
}

/// A ready entry, as a walk sees it.
#[derive(Debug)]
pub(crate) struct Glimpse {
    pub(crate) seq: u64,
    /// `None` while only the disk has it.
    pub(crate) message: Option<Message>,
    /// Its place then.
    pub(crate) place: Option<Reference>,
    pub(crate) durable: bool,
    pub(crate) redelivered: bool,
    pub(crate) returns: Returns,
}

impl Glimpse {
    /// The length of its properties and its body; 0 of one that is nowhere any more.
    pub(crate) fn bytes(&self) -> usize {
        let on_disk = || self.place.map_or(0, |place| place.length as usize);
        self.message.as_ref().map_or_else(on_disk, |message| message.properties().len() + message.body().len())
    }
}

/// The next step of a walk.
#[derive(Debug)]
pub(crate) enum Step {
    Entries(Vec<Glimpse>),
    /// The lists of this page's chunks are needed first, for the places of its entries.
    Place(u64),
    End,
}

/// The result of taking an entry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seized {
    Taken,
    /// It is not ready any more.
    Gone,
    /// The lists of its page's chunks are needed first, for its place.
    Absent,
}

impl Queue {
    /// Starts a walk at the front.
    pub(crate) fn walk(&self, context: &QueueContext) -> Walk {
        Walk { at: Cursor::default(), until: Cursor::end_of(&self.lock(context).lanes), page: None }
    }

    /// Takes the next step.
    pub(crate) fn step(&self, walk: &mut Walk, context: &QueueContext) -> Step {
        let mut inner = self.lock(context);
        let mut found = Vec::new();
        while found.len() < AT_ONCE {
            let next = inner.lanes.ready_between(&walk.at, Some(&walk.until));
            let page = next.map(|seq| seq / PAGE);
            if page != walk.page {
                if let Some(left) = walk.page.take_if(|_| found.is_empty()) {
                    inner.lanes.lean_down(left * PAGE);
                } else if walk.page.is_some() {
                    break;
                }
                walk.page = page;
            }
            let Some(seq) = next else { break };
            let Some(entry) = inner.lanes.get_mut(seq) else {
                if found.is_empty() {
                    return Step::Place(seq / PAGE);
                }
                break;
            };
            let place = match (&entry.message, entry.address) {
                (None, Some(address)) => Some(Reference { seq, address, length: entry.length }),
                _ => None,
            };
            let (durable, redelivered, returns) = (entry.is_durable(), entry.past.is_redelivered(), entry.returns);
            found.push(Glimpse { seq, message: entry.message.clone(), place, durable, redelivered, returns });
            walk.pass(seq);
        }
        if found.is_empty() { Step::End } else { Step::Entries(found) }
    }

    /// Takes an entry out to be moved: consumers no longer get it.
    pub(crate) fn seize(&self, seq: u64, context: &QueueContext) -> Seized {
        let mut inner = self.lock(context);
        if inner.is_deleted() || !inner.lanes.is_ready(seq) {
            return Seized::Gone;
        }
        if inner.lanes.get_mut(seq).is_none() {
            return Seized::Absent;
        }
        inner.leave_ready(seq, State::Dying);
        Seized::Taken
    }

    /// Logs that these entries, which were seized, have gone for this reason ([`settle`]), as part
    /// of `group`, and forgets them.
    pub(crate) fn let_go_of_moved(&self, seized: &[u64], reason: u8, group: Option<Group>, context: &QueueContext) {
        let mut inner = self.lock(context);
        if inner.is_deleted() {
            return;
        }
        #[cfg(feature = "sabotage")]
        let seized: &[u64] = if super::sabotage::armed("copy") { &[] } else { seized };
        for seq in seized {
            if let Some(address) = inner.lanes.get_mut(*seq).and_then(|entry| entry.address) {
                inner.departures.settle(*seq, address, reason);
            }
            inner.remove_or_set(*seq, State::Done);
        }
        self.log_settled_in(&mut inner, group, context);
    }
}
