//! Some numbers of a page, a bit for each. It has memory only for the words from the first bit to
//! the last. Most queues are short, and there may be a hundred thousand of them.

use journal::{Bits, PAGE};

/// The words of a whole page.
const WORDS: usize = PAGE as usize / 64;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bitmap {
    /// Which word of the page `words` begins with.
    first: usize,
    words: Vec<u64>,
}

impl Bitmap {
    /// The same numbers as in `bits`.
    pub(crate) fn of(bits: &Bits) -> Self {
        let first = bits.iter().position(|word| *word != 0).unwrap_or(0);
        let end = bits.iter().rposition(|word| *word != 0).map_or(first, |last| last + 1);
        Self { first, words: bits[first..end].to_vec() }
    }

    /// The same numbers as bits of a page.
    pub(crate) fn bits(&self) -> Bits {
        let mut bits = [0; WORDS];
        bits[self.first..self.first + self.words.len()].copy_from_slice(&self.words);
        bits
    }

    pub(crate) fn has(&self, bit: usize) -> bool {
        let word = (bit / 64).checked_sub(self.first).and_then(|at| self.words.get(at));
        word.is_some_and(|word| word & (1 << (bit % 64)) != 0)
    }

    #[inline]
    pub(crate) fn put(&mut self, bit: usize) {
        let at = (bit / 64).wrapping_sub(self.first);
        if at >= self.words.len() {
            self.widen(bit / 64);
        }
        self.words[bit / 64 - self.first] |= 1 << (bit % 64);
    }

    /// Makes room for a word of the page.
    #[cold]
    fn widen(&mut self, word: usize) {
        debug_assert!(word < WORDS);
        if self.words.is_empty() {
            self.first = word;
            self.words.reserve_exact(1);
        }
        if word < self.first {
            self.words.splice(..0, std::iter::repeat_n(0, self.first - word));
            self.first = word;
        }
        self.words.resize(self.words.len().max(word + 1 - self.first), 0);
    }

    /// Puts all in from `from` up to `to`.
    pub(crate) fn put_range(&mut self, from: usize, to: usize) {
        if from >= to {
            return;
        }
        self.put(from);
        self.put(to - 1);
        let (low, high) = (u64::MAX << (from % 64), u64::MAX >> (63 - (to - 1) % 64));
        for word in from / 64..=(to - 1) / 64 {
            let low = if word == from / 64 { low } else { u64::MAX };
            let high = if word == (to - 1) / 64 { high } else { u64::MAX };
            self.words[word - self.first] |= low & high;
        }
    }

    /// True when all of them are among the `others`.
    pub(crate) fn is_within(&self, others: &Self) -> bool {
        let other = |word: usize| word.checked_sub(others.first).and_then(|at| others.words.get(at)).copied();
        (self.first..).zip(&self.words).all(|(word, bits)| bits & !other(word).unwrap_or(0) == 0)
    }

    /// True when every number of the page is in it.
    pub(crate) fn is_full(&self) -> bool {
        self.words.len() == WORDS && self.words.iter().all(|word| *word == u64::MAX)
    }

    #[inline]
    pub(crate) fn clear(&mut self, bit: usize) {
        if let Some(word) = (bit / 64).checked_sub(self.first).and_then(|at| self.words.get_mut(at)) {
            *word &= !(1 << (bit % 64));
        }
    }

    /// Takes all out, and keeps the memory.
    #[inline]
    pub(crate) fn clear_all(&mut self) {
        self.words.clear();
    }

    /// The first one from `from` on.
    #[inline]
    pub(crate) fn next(&self, from: usize) -> Option<usize> {
        let mut at = (from / 64).saturating_sub(self.first);
        // Of words behind the one that `from` is in, every bit counts.
        let mask = if from / 64 < self.first { u64::MAX } else { u64::MAX << (from % 64) };
        let mut bits = *self.words.get(at)? & mask;
        while bits == 0 {
            at += 1;
            bits = *self.words.get(at)?;
        }
        Some((self.first + at) * 64 + bits.trailing_zeros() as usize)
    }

    /// The last one.
    pub(crate) fn last(&self) -> Option<usize> {
        let at = self.words.iter().rposition(|word| *word != 0)?;
        Some((self.first + at) * 64 + 63 - self.words[at].leading_zeros() as usize)
    }

    /// How many there are before `bit`.
    pub(crate) fn rank(&self, bit: usize) -> usize {
        let at = (bit / 64).saturating_sub(self.first).min(self.words.len());
        let whole: u32 = self.words[..at].iter().map(|word| word.count_ones()).sum();
        let part = match self.words.get(at) {
            Some(word) if bit / 64 == self.first + at => word & ((1 << (bit % 64)) - 1),
            _ => 0,
        };
        (whole + part.count_ones()) as usize
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// All of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let bit = self.next(from)?;
            from = bit + 1;
            Some(bit)
        })
    }

    /// The bytes that it has on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn check(map: &Bitmap, model: &BTreeSet<usize>) {
        assert_eq!(map.iter().collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
        assert_eq!((map.count(), map.is_empty(), map.last()), (model.len(), model.is_empty(), model.last().copied()));
        for bit in [0, 1, 63, 64, 65, 127, 1000, 4031, 4032, 4095] {
            assert_eq!(map.has(bit), model.contains(&bit), "{bit}");
            assert_eq!(map.next(bit), model.range(bit..).next().copied(), "{bit}");
            assert_eq!(map.rank(bit), model.range(..bit).count(), "{bit}");
        }
        let bits = map.bits();
        assert_eq!(Bitmap::of(&bits).iter().collect::<Vec<_>>(), map.iter().collect::<Vec<_>>());
        assert!((0..4096).all(|bit| (bits[bit / 64] & (1 << (bit % 64)) != 0) == model.contains(&bit)));
    }

    proptest! {
        #[test]
        fn it_is_a_set(steps in proptest::collection::vec((0..5u8, 0..4096usize, 0..130usize), 0..60)) {
            let (mut map, mut model) = (Bitmap::default(), BTreeSet::new());
            for (what, bit, near) in steps {
                // Mostly near to each other, as the numbers of a queue are.
                let bit = if what == 0 { bit } else { 2000 + near };
                match what {
                    0..3 => {
                        map.put(bit);
                        model.insert(bit);
                    }
                    3 => {
                        map.clear(bit);
                        model.remove(&bit);
                    }
                    _ if near == 0 => {
                        map.clear_all();
                        model.clear();
                    }
                    _ => {}
                }
            }
            check(&map, &model);
        }
    }

    #[test]
    fn ranges_are_put_in_whole() {
        for (from, to) in [(0, 0), (0, 1), (0, 64), (3, 64), (63, 65), (0, 4096), (100, 1000), (4095, 4096)] {
            let mut map = Bitmap::default();
            map.put_range(from, to);
            assert_eq!(map.iter().collect::<Vec<_>>(), (from..to).collect::<Vec<_>>());
            assert_eq!(map.is_full(), (from, to) == (0, 4096));
            let mut inner = Bitmap::default();
            inner.put_range(from + 1, to);
            assert!(inner.is_within(&map) && (from == to || !map.is_within(&inner)), "{from}..{to}");
        }
    }

    #[test]
    fn few_numbers_take_little_memory_wherever_they_are() {
        for first in [0, 70, 4000] {
            let mut map = Bitmap::default();
            (first..first + 64).for_each(|bit| map.put(bit));
            assert!(map.heap_bytes() <= 4 * size_of::<u64>(), "{} bytes", map.heap_bytes());
            assert_eq!(map.count(), 64);
        }
    }
}
