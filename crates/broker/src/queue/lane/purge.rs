//! Purging: every ready entry goes, page by page, and messages that are away are not read.
//!
//! The queue's lock is not held for all of a large backlog. So the first piece takes the last page,
//! which alone still grows, and the others take the pages before it. What comes meanwhile stays.

use std::collections::BTreeMap;

use journal::{Bits, PAGE};

use super::{AWAY_COST, Lane, Least};
use crate::queue::page::{Page, State, bit_of};

/// The result of a purge.
#[derive(Debug, Default)]
pub(crate) struct Purged {
    pub(crate) count: u64,
    /// The cost of the messages that were in memory, in bytes.
    pub(crate) bytes: usize,
    /// The sum of their lengths.
    pub(crate) length: usize,
    /// Where bodies are weighed: their bytes, and the number of entries of unknown length.
    pub(crate) weight: (u64, usize),
    /// The numbers that it settled, each (first, count). Numbers that were settled before may lie
    /// in between.
    pub(crate) runs: Vec<(u64, u64)>,
    /// Durable entries, by the file that their bodies lay in.
    pub(crate) freed: BTreeMap<u32, u64>,
    /// Entries whose message was away, in hot pages.
    away: usize,
    /// The run that is still open: its first number, and the one behind its last.
    open: Option<(u64, u64)>,
    /// More pages have ready entries.
    pub(crate) has_more: bool,
}

/// The part of a lane that one piece of a purge takes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Piece {
    /// So many entries or somewhat more, and those of the last page.
    First { most: u64 },
    /// So many or somewhat more, of the pages before this one.
    Next { most: u64, before: u64 },
}

/// Runs of numbers, each (first, count), in order.
#[derive(Debug, Default)]
pub(crate) struct Runs(pub(crate) Vec<(u64, u64)>);

impl Runs {
    /// Adds the numbers from `first` up to `end`.
    pub(crate) fn add(&mut self, first: u64, end: u64) {
        if first >= end {
            return;
        }
        match self.0.last_mut() {
            Some((before, count)) if *before + *count == first => *count += end - first,
            _ => self.0.push((first, end - first)),
        }
    }

    /// Adds the numbers from `from` up to the last bit of `bits` that are not set; the bits begin
    /// at `start`. Returns the number behind that. A word without a gap costs one comparison, and
    /// most words of a backlog have none.
    pub(crate) fn add_gaps(&mut self, mut from: u64, start: u64, bits: &Bits) -> u64 {
        for (start, word) in (start..).step_by(64).zip(bits) {
            if *word == u64::MAX {
                self.add(from, start);
                from = start + 64;
                continue;
            }
            let mut left = *word;
            while left != 0 {
                let seq = start + u64::from(left.trailing_zeros());
                self.add(from, seq);
                from = seq + 1;
                left &= left - 1;
            }
        }
        from
    }
}

impl Lane {
    /// Takes ready entries out.
    pub(crate) fn purge(&mut self, piece: Piece) -> Purged {
        let mut purged = Purged::default();
        let last = self.pages.len().saturating_sub(1);
        let (most, before, with_last) = match piece {
            Piece::First { most } => (most, u64::MAX, true),
            Piece::Next { most, before } => (most, before, false),
        };
        for (index, page) in self.pages.iter_mut().enumerate() {
            if page.number >= before {
                break;
            }
            if purged.count >= most && !(with_last && index == last) {
                purged.has_more |= page.ready_count > 0;
                // Nothing of this page belongs to a run.
                purged.close();
                continue;
            }
            let live = page.live;
            if self.paged.least == Least::Places {
                let (bytes, unknown) = page.weight();
                purged.weight = (purged.weight.0 + bytes, purged.weight.1 + unknown);
            }
            if page.is_hot() {
                purged.take_hot(page);
            } else {
                self.away -= live;
                self.index_bytes -= page.cost();
                if let Some(returns) = self.paged.memo.returns.made_mut() {
                    returns.extract_if(page.start()..page.start() + PAGE, |_, _| true).for_each(drop);
                }
                purged.take_whole(page);
            }
            self.live -= live - page.live;
        }
        purged.close();
        self.purged(&purged);
        purged
    }

    fn purged(&mut self, purged: &Purged) {
        let durable = purged.freed.iter().filter(|(file, _)| !journal::is_spilled(**file)).map(|(_, count)| count);
        self.durable = self.durable.saturating_sub(durable.sum::<u64>() as usize);
        self.away -= purged.away;
        self.index_bytes -= purged.away * AWAY_COST;
        self.ready -= purged.count as usize;
        if self.ready == 0 {
            self.cursor = self.next;
        }
        let last = self.pages.pop_back();
        self.pages.retain(|page| page.live > 0);
        self.pages.extend(last);
        self.shrink();
    }

    /// The page that still grows: see [`Piece`].
    pub(crate) fn last_page(&self) -> u64 {
        self.pages.back().map_or(0, |page| page.number)
    }
}

impl Purged {
    fn take(&mut self, first: u64, end: u64) {
        let begin = self.open.map_or(first, |(begin, _)| begin);
        self.open = Some((begin, end));
    }

    fn close(&mut self) {
        if let Some((begin, end)) = self.open.take() {
            self.runs.push((begin, end - begin));
        }
    }

    /// Takes a page in which everything is ready.
    fn take_whole(&mut self, page: &mut Page) {
        page.count_files(&mut self.freed);
        let first = page.ready.next(0).unwrap_or(0) as u64;
        let last = page.ready.last().unwrap_or(0) as u64;
        self.take(page.start() + first, page.start() + last + 1);
        self.count += page.live as u64;
        page.clear();
    }

    fn take_hot(&mut self, page: &mut Page) {
        let first = page.first;
        for at in 0..page.entries.len() {
            let Some(entry) = page.entries.get_mut(at) else { break };
            let seq = first + at as u64;
            match entry.state {
                State::Ready => self.take(seq, seq + 1),
                State::Done => continue,
                State::Out | State::Waiting | State::Dying | State::Hidden => {
                    self.close();
                    continue;
                }
            }
            match entry.message.take() {
                Some(message) => {
                    self.bytes += message.cost();
                    self.length += message.block().len();
                }
                None => self.away += 1,
            }
            let file = entry.address.map(|address| address.file);
            entry.state = State::Done;
            self.count += 1;
            page.live -= 1;
            page.clear_ready(bit_of(seq));
            if let Some(file) = file {
                *self.freed.entry(file).or_default() += 1;
                if page.is_listed() {
                    page.unlist(file);
                }
            }
        }
    }
}
