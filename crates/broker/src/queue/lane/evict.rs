//! Eviction: messages that are on disk leave memory, and pages in which everything is away become
//! smaller.
//!
//! An entry keeps its state. Only a ready entry loses its message, so what a consumer holds stays
//! in memory.

use journal::PAGE;

use super::{AWAY_COST, Lane, Least};
use crate::queue::Picked;
use crate::queue::page::{Entry, Page, State};

/// Pages that one visit looks at to make them smaller.
const SWEPT_AT_ONCE: usize = 8;

/// The messages that a lane dropped from memory.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Dropped {
    /// Their cost in bytes.
    pub(crate) bytes: usize,
    /// The sum of their lengths.
    pub(crate) length: usize,
}

/// The result of a sweep.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    pub(crate) dropped: Dropped,
    /// Messages to spill, the farthest back first.
    pub(crate) picked: Vec<Picked>,
    /// It has come to the front.
    pub(crate) whole: bool,
}

/// How many bytes of messages must still go, and how many may be picked.
struct Left {
    excess: usize,
    room: usize,
}

impl Left {
    /// Goes through a hot page from its end. Returns how many messages have gone.
    fn take_from(&mut self, page: &mut Page, kept: Option<u64>, swept: &mut Swept) -> usize {
        let mut gone = 0;
        let numbers = (page.first..page.first + page.entries.len() as u64).rev();
        for (seq, entry) in numbers.zip(page.entries.iter_mut().rev()) {
            if self.excess == 0 {
                break;
            }
            if kept == Some(seq) {
                continue;
            }
            if let Some(dropped) = let_go(entry) {
                swept.dropped.bytes += dropped.bytes;
                swept.dropped.length += dropped.length;
                self.excess = self.excess.saturating_sub(dropped.length);
                gone += 1;
                continue;
            }
            let (State::Ready, None, Some(message)) = (entry.state, entry.address, &entry.message) else { continue };
            if self.room > 0 {
                let length = message.block().len();
                swept.picked.push((seq, message.clone()));
                self.excess = self.excess.saturating_sub(length);
                self.room = self.room.saturating_sub(length);
                if self.room == 0 {
                    break;
                }
            }
        }
        gone
    }
}

impl Lane {
    /// Drops the message of an entry that is ready and on disk from memory.
    pub(crate) fn drop_message(&mut self, seq: u64) -> Option<Dropped> {
        let entry = self.get_mut(seq)?;
        let dropped = let_go(entry)?;
        self.away += 1;
        self.index_bytes += AWAY_COST;
        Some(dropped)
    }

    /// Makes the page of `seq` smaller, if everything in it is away.
    pub(crate) fn lean_down(&mut self, seq: u64) {
        let Ok(index) = self.pages.binary_search_by_key(&(seq / PAGE), |page| page.number) else { return };
        self.lean_page(index);
    }

    pub(super) fn lean_page(&mut self, index: usize) {
        let last = index + 1 == self.pages.len();
        let page = &mut self.pages[index];
        if page.is_hot() {
            if last || self.paged.least == Least::Places {
                return;
            }
            let live = page.live;
            if !page.lean_down(&mut self.paged.memo) {
                return;
            }
            self.index_bytes -= live * AWAY_COST;
        } else {
            self.index_bytes -= page.cost();
        }
        if self.paged.least == Least::Bits {
            page.forget_places();
        }
        self.index_bytes += page.cost();
    }

    /// Drops messages from memory, those farthest back first, until `excess` bytes are gone. Pages
    /// in which everything is away become smaller. One call looks at a few pages, and the next one
    /// goes on. Messages that are not on disk are picked to be spilled, up to `room` bytes but at
    /// least one, and count as gone. With no room none is picked. The message of `kept` stays.
    pub(crate) fn sweep(&mut self, excess: usize, kept: Option<u64>, room: usize) -> Swept {
        let mut swept = Swept { dropped: Dropped::default(), picked: Vec::new(), whole: false };
        let mut left = Left { excess, room };
        let mut looked = 0;
        let end = self.pages.partition_point(|page| page.number < self.swept);
        for index in (0..end).rev() {
            if looked == SWEPT_AT_ONCE {
                return swept;
            }
            let page = &mut self.pages[index];
            self.swept = page.number;
            if page.is_hot() {
                looked += 1;
                let gone = left.take_from(page, kept, &mut swept);
                self.away += gone;
                self.index_bytes += gone * AWAY_COST;
                if !swept.picked.is_empty() && left.room == 0 {
                    // More of this page may go with the next call.
                    self.swept += 1;
                    return swept;
                }
            }
            self.lean_page(index);
        }
        self.swept = u64::MAX;
        swept.whole = true;
        swept
    }
}

/// Drops the message of an entry that is ready and on disk from memory, and notes its figures.
fn let_go(entry: &mut Entry) -> Option<Dropped> {
    if entry.state != State::Ready || entry.address.is_none() {
        return None;
    }
    let message = entry.message.take()?;
    entry.note(&message);
    Some(Dropped { bytes: message.cost(), length: message.block().len() })
}
