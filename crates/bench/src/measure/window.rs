//! The messages of one producer that are sent and not yet confirmed, with the time each was meant
//! to be sent.
//!
//! Sequence numbers start at 1 and grow by 1, as the delivery tags of publisher confirms do.

use std::collections::VecDeque;

/// A producer's unconfirmed messages.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// Most messages unconfirmed at once; 0: confirms are not asked for, and nothing is kept.
    limit: u64,
    /// Sequence number of the first entry.
    first: u64,
    /// Intended send times from `first` on; 0: confirmed out of order.
    times: VecDeque<u64>,
    open: u64,
}

/// A confirm of messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Confirm {
    pub(crate) upto: u64,
    /// Of all before that one, too.
    pub(crate) multiple: bool,
}

impl Window {
    /// A window of at most `limit` unconfirmed messages; 0 keeps nothing and always has room.
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, first: 1, ..Self::default() }
    }

    /// True when confirms are awaited at all.
    pub(crate) fn confirms(&self) -> bool {
        self.limit > 0
    }

    /// True when one more may be sent.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.limit == 0 || self.open < self.limit
    }

    /// Number of unconfirmed messages.
    pub(crate) fn open(&self) -> u64 {
        self.open
    }

    /// Notes that the next message goes out. `intended` must not be 0.
    #[inline]
    pub(crate) fn push(&mut self, intended: u64) {
        if self.limit > 0 {
            self.times.push_back(intended);
            self.open += 1;
        }
    }

    /// Takes a confirm; calls `on(sequence, intended)` for each message it settles. Numbers never
    /// sent or settled before are ignored and reported as false.
    pub(crate) fn confirm(&mut self, confirm: Confirm, mut on: impl FnMut(u64, u64)) -> bool {
        let Confirm { upto, multiple } = confirm;
        let Some(index) = upto.checked_sub(self.first).filter(|index| *index < self.times.len() as u64) else {
            return multiple && upto < self.first;
        };
        let from = if multiple { 0 } else { index };
        let mut settled = false;
        for at in from..=index {
            let intended = std::mem::take(&mut self.times[at as usize]);
            if intended != 0 {
                self.open -= 1;
                settled = true;
                on(self.first + at, intended);
            }
        }
        while self.times.front() == Some(&0) {
            self.times.pop_front();
            self.first += 1;
        }
        settled || multiple
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settle(window: &mut Window, confirm: Confirm) -> (bool, Vec<u64>) {
        let mut seen = Vec::new();
        let known = window.confirm(confirm, |seq, intended| {
            assert_eq!(intended, seq * 10);
            seen.push(seq);
        });
        (known, seen)
    }

    #[test]
    fn confirms_settle_each_message_once_in_any_order() {
        let mut window = Window::new(4);
        (1..=4).for_each(|seq| window.push(seq * 10));
        assert!(!window.has_room());
        let cases: &[(u64, bool, bool, &[u64])] = &[
            (3, false, true, &[3]),
            (3, false, false, &[]),
            (0, false, false, &[]),
            (9, true, false, &[]),
            (2, true, true, &[1, 2]),
            (2, true, true, &[]),
            (4, true, true, &[4]),
        ];
        for (upto, multiple, known, seqs) in cases {
            assert_eq!(
                settle(&mut window, Confirm { upto: *upto, multiple: *multiple }),
                (*known, seqs.to_vec()),
                "{upto} {multiple}"
            );
        }
        assert_eq!(window.open(), 0);
        assert!(window.has_room() && window.times.is_empty());
    }

    #[test]
    fn without_confirms_nothing_is_kept() {
        let mut window = Window::new(0);
        (0..1000).for_each(|_| window.push(1));
        assert!(window.has_room() && window.times.is_empty() && !window.confirms());
    }
}
