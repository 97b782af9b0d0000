//! The proof that every message came once and in order: what one consumer has seen of one producer,
//! as bits.

/// Largest jump forward that is believed. A number further ahead than this can't be a message of
/// this run, and no memory is spent on it.
const FURTHEST_JUMP: u64 = 1 << 24;

/// A growing set of sequence numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Numbers {
    words: Vec<u64>,
    count: u64,
}

impl Numbers {
    /// Adds `number`; false if it was there already. The caller bounds `number`.
    #[inline]
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        let (word, bit) = ((number / 64) as usize, 1u64 << (number % 64));
        if word >= self.words.len() {
            self.words.resize((word + 1).next_power_of_two().max(1024), 0);
        }
        let fresh = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.count += u64::from(fresh);
        fresh
    }

    /// The numbers from 1 to `last`.
    pub(crate) fn up_to(last: u64) -> Self {
        let whole = (last / 64) as usize;
        let mut words = vec![u64::MAX; whole + 1];
        words[whole] = u64::MAX >> (63 - last % 64);
        words[0] &= !1;
        Self { words, count: last }
    }

    /// The numbers whose bits are set in `words`.
    pub(crate) fn of_words(words: Vec<u64>) -> Self {
        let count = words.iter().map(|word| u64::from(word.count_ones())).sum();
        Self { words, count }
    }

    /// How many numbers are in the set.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Takes in another set; returns how many numbers were in both.
    pub(crate) fn merge(&mut self, other: &Self) -> u64 {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        let mut both = 0;
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            both += u64::from((*mine & theirs).count_ones());
            *mine |= theirs;
        }
        self.count += other.count - both;
        both
    }

    /// The multiples of `of` in this set.
    pub(crate) fn multiples(&self, of: u64) -> Self {
        let mut found = Self::default();
        let bits = |word: usize| (0..64).map(move |bit| word as u64 * 64 + bit);
        for (at, word) in self.words.iter().enumerate().filter(|(_, word)| **word != 0) {
            for number in bits(at).filter(|number| word >> (number % 64) & 1 == 1 && number.is_multiple_of(of)) {
                found.insert(number);
            }
        }
        found
    }

    /// How many of mine are missing in `other`.
    pub(crate) fn missing_from(&self, other: &Self) -> u64 {
        let theirs = other.words.iter().copied().chain(std::iter::repeat(0));
        self.words.iter().zip(theirs).map(|(mine, theirs)| u64::from((mine & !theirs).count_ones())).sum()
    }
}

/// What one consumer received from one producer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) numbers: Numbers,
    /// The highest number of each lane; number n is in lane n modulo their number. Empty stands for
    /// one lane.
    newest: Vec<u64>,
    /// The highest number there is, where that is known.
    last: Option<u64>,
    pub(crate) duplicated: u64,
    pub(crate) reordered: u64,
}

impl Seen {
    /// Nothing seen yet of a producer that sent the numbers from 1 to `last`: any of them may come
    /// first.
    pub(crate) fn up_to(last: u64) -> Self {
        Self { last: Some(last), ..Self::default() }
    }

    /// Numbers are in order within each of `lanes` only.
    pub(crate) fn in_lanes(self, lanes: usize) -> Self {
        Self { newest: vec![0; lanes], ..self }
    }

    /// What another program has seen of a producer.
    pub(crate) fn reported(numbers: Numbers, duplicated: u64, reordered: u64) -> Self {
        Self { numbers, duplicated, reordered, ..Self::default() }
    }

    /// Notes the arrival of `number`; false when it can't be a number of this run.
    #[inline]
    pub(crate) fn take(&mut self, number: u64) -> bool {
        if self.newest.is_empty() {
            self.newest.push(0);
        }
        let lane = if self.newest.len() == 1 { 0 } else { (number % self.newest.len() as u64) as usize };
        let newest = &mut self.newest[lane];
        if number > self.last.unwrap_or(*newest + FURTHEST_JUMP) {
            return false;
        }
        if !self.numbers.insert(number) {
            self.duplicated += 1;
        } else if number < *newest {
            self.reordered += 1;
        } else {
            *newest = number;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_counted_once() {
        // arrivals of a producer that sent 1..=6; lost, duplicated, reordered
        let cases: &[(&[u64], u64, u64, u64)] = &[
            (&[1, 2, 3, 4, 5, 6], 0, 0, 0),
            (&[1, 2, 3, 4, 6], 1, 0, 0),
            (&[1, 2, 2, 5, 4, 6], 1, 1, 1),
            (&[6, 1, 2, 3, 4, 5], 0, 0, 5),
            (&[1, 1, 1], 5, 2, 0),
            (&[], 6, 0, 0),
        ];
        let mut sent = Numbers::default();
        (1..=6).for_each(|number| assert!(sent.insert(number)));
        for (arrivals, lost, duplicated, reordered) in cases {
            let mut seen = Seen::default();
            arrivals.iter().for_each(|number| assert!(seen.take(*number)));
            let found = (sent.missing_from(&seen.numbers), seen.duplicated, seen.reordered);
            assert_eq!(found, (*lost, *duplicated, *reordered), "{arrivals:?}");
        }
    }

    #[test]
    fn two_consumers_of_one_queue_are_joined() {
        let (mut left, mut right) = (Numbers::default(), Numbers::default());
        for number in [1, 3, 5, 70_000] {
            left.insert(number);
        }
        for number in [2, 3, 4] {
            right.insert(number);
        }
        assert_eq!(left.merge(&right), 1);
        assert_eq!(left.count(), 6);
        assert_eq!(right.missing_from(&left), 0);
        assert_eq!(left.missing_from(&right), 3);
    }

    #[test]
    fn order_is_asked_for_within_lanes_only() {
        let mut seen = Seen::default().in_lanes(3);
        for number in [3, 6, 1, 4, 2, 9, 5] {
            assert!(seen.take(number));
        }
        assert_eq!(seen.reordered, 0);
        assert!(seen.take(12) && seen.take(8) && seen.take(7) && seen.take(10));
        assert_eq!(seen.reordered, 0);
        assert!(seen.take(18) && seen.take(15));
        assert_eq!((seen.reordered, seen.duplicated), (1, 0));
    }

    #[test]
    fn multiples_are_what_a_selector_lets_through() {
        let all = Numbers::up_to(1000);
        assert_eq!((all.multiples(1).count(), all.multiples(10).count(), all.multiples(7).count()), (1000, 100, 142));
        assert_eq!(all.multiples(10).missing_from(&all), 0);
    }

    #[test]
    fn a_known_last_number_allows_any_jump_below_it() {
        let mut seen = Seen::up_to(FURTHEST_JUMP * 2);
        assert!(seen.take(FURTHEST_JUMP * 2));
        assert!(!seen.take(FURTHEST_JUMP * 2 + 1));
        assert_eq!((seen.numbers.count(), seen.reordered), (1, 0));
        for last in [0, 1, 62, 63, 64, 65, 127, 128] {
            let (all, mut one_by_one) = (Numbers::up_to(last), Numbers::default());
            (1..=last).for_each(|number| assert!(one_by_one.insert(number)));
            assert_eq!(all.count(), last);
            assert_eq!((all.missing_from(&one_by_one), one_by_one.missing_from(&all)), (0, 0), "{last}");
        }
    }

    #[test]
    fn a_number_far_ahead_is_refused_without_memory() {
        let mut seen = Seen::default();
        assert!(!seen.take(u64::MAX >> 1));
        assert!(seen.take(FURTHEST_JUMP));
        assert_eq!(seen.numbers.count(), 1);
    }
}
