//! The logs that the buffer appends to: how far each has come, and its open batch.
//!
//! Invariant: a log has at most one open batch. A log that is known stays known until the process
//! ends, so that no index of it is given twice.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::entries::Entries;
use crate::log::{LogEnd, LogId};

/// The end of one log.
pub(crate) struct Tail {
    pub(crate) log: LogId,
    /// The index of its last batch with something new.
    pub(crate) index: u64,
    /// The sequence of its open batch.
    pub(crate) open: Option<u64>,
    /// The sequence and the file of its last batch with something new; zero if that was written
    /// before the start.
    pub(crate) last: (u64, u32),
    pub(crate) entries: Entries,
    /// Nothing is appended any more, and its end need not be known.
    pub(crate) ended: bool,
}

/// Why there is nothing to send.
pub(crate) enum Missing {
    /// The other journal has more than this one.
    Ahead { log: LogId, known: u64, last: u64 },
    /// An entry has left the log, which begins with `oldest`.
    Gone { log: LogId, wanted: u64, oldest: u64 },
}

/// All of them.
#[derive(Default)]
pub(crate) struct Tails {
    tails: Vec<Tail>,
    places: HashMap<LogId, usize>,
    /// The place of the one asked for last.
    last: usize,
}

impl Tails {
    pub(crate) fn new(ends: &BTreeMap<LogId, LogEnd>, mut entries: BTreeMap<LogId, Entries>) -> Self {
        let mut tails = Self::default();
        for end in ends.values() {
            let place = tails.place(end.log);
            tails.tails[place].index = end.index;
            tails.tails[place].entries = entries.remove(&end.log).unwrap_or_default();
        }
        tails
    }

    /// The place of a log, which is new if it was not known. The same log again costs a comparison.
    #[inline]
    pub(crate) fn place(&mut self, log: LogId) -> usize {
        if self.tails.get(self.last).is_none_or(|tail| tail.log != log) {
            self.last = *self.places.entry(log).or_insert_with(|| {
                self.tails.push(Tail {
                    log,
                    index: 0,
                    open: None,
                    last: (0, 0),
                    entries: Entries::default(),
                    ended: false,
                });
                self.tails.len() - 1
            });
        }
        self.last
    }

    #[inline]
    pub(crate) fn get(&self, place: usize) -> &Tail {
        &self.tails[place]
    }

    #[inline]
    pub(crate) fn at(&mut self, place: usize) -> &mut Tail {
        &mut self.tails[place]
    }

    /// The logs whose last batch lies in `file` or before it.
    pub(crate) fn behind(&self, file: u32) -> Vec<LogId> {
        let behind = |tail: &&Tail| tail.last.1 <= file && !tail.ended;
        self.tails.iter().filter(behind).map(|tail| tail.log).collect()
    }

    /// Where the first entry lies that another journal misses, which has the logs as far as `known`
    /// says; none if it misses nothing.
    pub(crate) fn first_missing(&self, known: &HashMap<LogId, u64>) -> Result<Option<(u32, u32)>, Missing> {
        let mut first: Option<(u32, u32)> = None;
        for tail in &self.tails {
            let has = known.get(&tail.log).copied().unwrap_or(0);
            if has > tail.index {
                return Err(Missing::Ahead { log: tail.log, known: has, last: tail.index });
            }
            match tail.entries.place(has + 1) {
                Some(place) => first = Some(first.map_or(place, |first| first.min(place))),
                // Of a log that has ended nothing is needed.
                None if has == tail.index || tail.ended => {}
                None => {
                    let oldest = tail.entries.first();
                    return Err(Missing::Gone { log: tail.log, wanted: has + 1, oldest });
                }
            }
        }
        Ok(first)
    }

    /// The index before the first entry of each log in `file` or behind it; and the logs that have
    /// none there.
    pub(crate) fn before(&self, file: u32) -> (Vec<(LogId, u64)>, Vec<LogId>) {
        let (mut before, mut over) = (Vec::new(), Vec::new());
        for tail in self.tails.iter().filter(|tail| !tail.ended && tail.index > 0) {
            match tail.entries.first_from(file) {
                Some(index) => before.push((tail.log, index - 1)),
                None => over.push(tail.log),
            }
        }
        (before, over)
    }

    /// Whether nothing is appended to a log any more.
    pub(crate) fn has_ended(&self, log: LogId) -> bool {
        self.places.get(&log).is_some_and(|place| self.tails[*place].ended)
    }

    /// The files up to this one have left the ring.
    pub(crate) fn forget(&mut self, file: u32) {
        self.tails.iter_mut().for_each(|tail| tail.entries.forget(file));
    }

    pub(crate) fn logs(&self) -> impl Iterator<Item = LogId> + '_ {
        self.tails.iter().map(|tail| tail.log)
    }
}
