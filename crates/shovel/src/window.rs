//! The messages on their way: taken from the source, and not acknowledged to it.
//!
//! The destination confirms in any order. The source is told in its own order, so a message is
//! acknowledged once it and all before it are confirmed.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// See the module. A message has a number of the destination, from 1 on without gaps, and a tag of
/// the source.
#[derive(Debug)]
pub(crate) struct Window {
    /// The number of the first one.
    first: u64,
    slots: VecDeque<Slot>,
    bytes: usize,
}

#[derive(Debug)]
struct Slot {
    tag: u64,
    bytes: usize,
    is_confirmed: bool,
}

/// What is confirmed in a row, and out of the window.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Done {
    /// The tag of the first one.
    pub(crate) from: u64,
    /// The tag of the last one.
    pub(crate) to: u64,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

impl Window {
    pub(crate) fn new() -> Self {
        Self { first: 1, slots: VecDeque::new(), bytes: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes in the next message, and returns its number.
    pub(crate) fn push(&mut self, tag: u64, bytes: usize) -> u64 {
        self.slots.push_back(Slot { tag, bytes, is_confirmed: false });
        self.bytes += bytes;
        self.first + self.slots.len() as u64 - 1
    }

    /// The destination has these; numbers that are not in the window are passed over.
    pub(crate) fn confirm(&mut self, numbers: RangeInclusive<u64>) {
        let end = self.first + self.slots.len() as u64;
        let (from, to) = (*numbers.start().max(&self.first), (numbers.end().saturating_add(1)).min(end));
        for number in from..to {
            let at = usize::try_from(number - self.first).unwrap_or(usize::MAX);
            self.slots[at].is_confirmed = true;
        }
    }

    /// Takes out what is confirmed at the front.
    pub(crate) fn take_done(&mut self) -> Option<Done> {
        let from = self.slots.front().filter(|slot| slot.is_confirmed)?.tag;
        let mut done = Done { from, to: from, messages: 0, bytes: 0 };
        while let Some(slot) = self.slots.pop_front_if(|slot| slot.is_confirmed) {
            self.first += 1;
            self.bytes -= slot.bytes;
            (done.to, done.messages, done.bytes) = (slot.tag, done.messages + 1, done.bytes + slot.bytes as u64);
        }
        Some(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_hears_of_confirms_in_its_own_order() {
        let mut window = Window::new();
        for (number, tag) in (1..=5).zip(11..) {
            assert_eq!(window.push(tag, 10), number);
        }
        window.confirm(3..=4);
        assert_eq!(window.take_done(), None, "the first one is not confirmed");
        window.confirm(1..=1);
        assert_eq!(window.take_done(), Some(Done { from: 11, to: 11, messages: 1, bytes: 10 }));
        window.confirm(1..=2);
        assert_eq!(window.take_done(), Some(Done { from: 12, to: 14, messages: 3, bytes: 30 }));
        assert_eq!((window.len(), window.bytes()), (1, 10));
        window.confirm(0..=u64::MAX);
        assert_eq!(window.take_done(), Some(Done { from: 15, to: 15, messages: 1, bytes: 10 }));
        assert_eq!(window.push(16, 1), 6);
    }
}
