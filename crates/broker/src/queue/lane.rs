//! A lane: the entries of a queue in order, in pages, each entry ready, out with a consumer, dying, hidden or done.
//!
//! An entry is found by its sequence number, so settling out of order and requeuing to its place change one bit. A page
//! whose entries are all done gives its memory back, whatever lies around it. Sequence numbers rise without gaps.

use std::collections::VecDeque;

use journal::Address;

use crate::message::Message;

/// Entries in a page.
const PAGE: usize = 4096;
const WORDS: usize = PAGE / 64;

/// What an entry is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Waits for a consumer.
    Ready,
    /// Lent to a consumer.
    Out,
    /// Leaves for another queue; never delivered from here again.
    Dying,
    /// Part of a group that has not ended: not there yet for anybody.
    Hidden,
    /// Gone.
    Done,
}

/// One message in one queue.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The message; `None` once the entry is done.
    pub(crate) message: Option<Message>,
    /// Where its body lies in the journal, if it is durable.
    pub(crate) address: Option<Address>,
    /// When it dies of age, in milliseconds since 1970; `u64::MAX` for never.
    pub(crate) expires_at: u64,
    /// How often it was delivered and came back.
    pub(crate) returns: u32,
    /// True when it may have been delivered before.
    pub(crate) redelivered: bool,
    pub(crate) state: State,
}

#[derive(Debug)]
struct Page {
    first: u64,
    /// Entries ever pushed, also when `entries` was given back.
    len: usize,
    /// Entries that are not done.
    live: usize,
    entries: Vec<Entry>,
    ready: [u64; WORDS],
    ready_count: usize,
}

impl Page {
    fn new(first: u64) -> Box<Self> {
        Box::new(Self { first, len: 0, live: 0, entries: Vec::new(), ready: [0; WORDS], ready_count: 0 })
    }

    fn restart(&mut self, first: u64) {
        debug_assert!(self.live == 0 && self.ready_count == 0);
        self.first = first;
        self.len = 0;
        self.entries.clear();
    }

    fn first_ready(&self, from: usize) -> Option<usize> {
        if self.ready_count == 0 {
            return None;
        }
        let mut word = from / 64;
        let mut bits = *self.ready.get(word)? & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = *self.ready.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    fn set_ready(&mut self, index: usize) {
        self.ready[index / 64] |= 1 << (index % 64);
        self.ready_count += 1;
    }

    fn clear_ready(&mut self, index: usize) {
        self.ready[index / 64] &= !(1 << (index % 64));
        self.ready_count -= 1;
    }
}

/// Entries in order.
#[derive(Debug)]
pub(crate) struct Lane {
    pages: VecDeque<Box<Page>>,
    spare: Option<Box<Page>>,
    next: u64,
    /// No entry before this one is ready.
    cursor: u64,
    ready: usize,
    hidden: usize,
    live: usize,
}

impl Lane {
    /// An empty lane whose first entry will get sequence number `next`.
    pub(crate) fn starting_at(next: u64) -> Self {
        Self { pages: VecDeque::new(), spare: None, next, cursor: next, ready: 0, hidden: 0, live: 0 }
    }

    /// The sequence number of the next entry.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Number of ready entries.
    pub(crate) fn ready(&self) -> usize {
        self.ready
    }

    /// Number of entries that are not done.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Skips sequence numbers, which are then done.
    pub(crate) fn skip_to(&mut self, next: u64) {
        debug_assert!(next >= self.next);
        if next > self.next {
            self.next = next;
            if self.ready == 0 {
                self.cursor = next;
            }
        }
    }

    /// Appends an entry and returns its sequence number.
    pub(crate) fn push(&mut self, entry: Entry) -> u64 {
        let seq = self.next;
        self.next += 1;
        let fits = match self.pages.back_mut() {
            Some(page) if page.live == 0 => {
                page.restart(seq);
                true
            }
            Some(page) => page.len < PAGE && page.first + page.len as u64 == seq,
            None => false,
        };
        if !fits {
            let page = match self.spare.take() {
                Some(mut page) => {
                    page.restart(seq);
                    page
                }
                None => Page::new(seq),
            };
            self.pages.push_back(page);
        }
        let ready = entry.state == State::Ready;
        self.hidden += usize::from(entry.state == State::Hidden);
        if let Some(page) = self.pages.back_mut() {
            let index = page.len;
            page.entries.push(entry);
            page.len += 1;
            page.live += 1;
            if ready {
                page.set_ready(index);
            }
        }
        self.live += 1;
        if ready {
            if self.ready == 0 {
                self.cursor = seq;
            }
            self.ready += 1;
        }
        seq
    }

    fn page_of(&self, seq: u64) -> Option<usize> {
        let index = self.last_starting_by(seq)?;
        let page = &self.pages[index];
        let inside = seq >= page.first && ((seq - page.first) as usize) < page.entries.len();
        inside.then_some(index)
    }

    /// The last page that starts at `seq` or before. Nearly all work is at the head: the first page is tried first.
    #[inline]
    fn last_starting_by(&self, seq: u64) -> Option<usize> {
        match self.pages.get(1) {
            Some(second) if second.first <= seq => self.pages.partition_point(|page| page.first <= seq).checked_sub(1),
            _ => self.pages.front().is_some_and(|first| first.first <= seq).then_some(0),
        }
    }

    /// The entry with this number, unless it is done and forgotten.
    pub(crate) fn get_mut(&mut self, seq: u64) -> Option<&mut Entry> {
        let page = self.page_of(seq)?;
        let page = &mut self.pages[page];
        page.entries.get_mut((seq - page.first) as usize)
    }

    /// The first ready entry.
    pub(crate) fn first_ready(&mut self) -> Option<u64> {
        if self.ready == 0 {
            return None;
        }
        let start = self.last_starting_by(self.cursor).unwrap_or(0);
        for page in self.pages.range(start..) {
            let from = self.cursor.saturating_sub(page.first) as usize;
            if let Some(index) = page.first_ready(from) {
                self.cursor = page.first + index as u64;
                return Some(self.cursor);
            }
        }
        None
    }

    /// Moves an entry to another state; `Done` gives its message back. Nothing happens to an entry that is gone.
    pub(crate) fn set(&mut self, seq: u64, state: State) -> Option<Message> {
        let index = self.page_of(seq)?;
        let page = &mut self.pages[index];
        let at = (seq - page.first) as usize;
        let entry = page.entries.get_mut(at)?;
        let before = entry.state;
        if before == state || before == State::Done {
            return None;
        }
        entry.state = state;
        self.hidden -= usize::from(before == State::Hidden);
        self.hidden += usize::from(state == State::Hidden);
        let mut message = None;
        if state == State::Done {
            message = entry.message.take();
            page.live -= 1;
            self.live -= 1;
        }
        if before == State::Ready {
            page.clear_ready(at);
            self.ready -= 1;
        }
        if state == State::Ready {
            page.set_ready(at);
            self.cursor = if self.ready == 0 { seq } else { self.cursor.min(seq) };
            self.ready += 1;
        }
        if page.live == 0 {
            self.reclaim(index);
        }
        message
    }

    /// Gives back the memory of a page whose entries are all done. The last page stays: it restarts at the next push.
    fn reclaim(&mut self, index: usize) {
        if index + 1 == self.pages.len() {
            return;
        }
        if index > 0 {
            self.pages[index].entries = Vec::new();
            return;
        }
        while self.pages.len() > 1 && self.pages[0].live == 0 {
            self.spare = self.pages.pop_front();
        }
    }

    /// Gives back what an empty lane keeps for speed.
    pub(crate) fn shrink(&mut self) {
        self.spare = None;
        if self.live == 0 {
            self.pages = VecDeque::new();
        }
    }

    /// True when an entry waits to be delivered, now or when its group ends.
    pub(crate) fn has_waiting(&self) -> bool {
        self.ready > 0 || self.hidden > 0
    }

    /// All entries that are not done, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Entry)> {
        self.pages
            .iter()
            .flat_map(|page| page.entries.iter().enumerate().map(|(index, entry)| (page.first + index as u64, entry)))
            .filter(|(_, entry)| entry.state != State::Done)
    }
}

#[cfg(test)]
mod tests;
