//! A seeded source of randomness, so that the decisions of a run can be made again from its seed.

/// SplitMix64 (Steele, Lea, Flood 2014): one multiplication chain, every seed is good.
#[derive(Debug, Clone)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// Starts the sequence that belongs to `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A sequence of its own for the part with this number.
    pub(crate) fn fork(&mut self, part: u64) -> Self {
        Self::new(mix(self.next() ^ part))
    }

    /// The next 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `bound`, which must not be zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A number from `range`, which must not be empty.
    pub(crate) fn within(&mut self, range: std::ops::RangeInclusive<u64>) -> u64 {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    /// True in `percent` of 100 calls.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`, which must not be empty.
    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }
}

/// Spreads every bit of `word` over all bits of the result.
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_sequence_and_parts_differ() {
        let sequence = |seed| (0..10).map(|_| Random::new(seed).next()).collect::<Vec<_>>();
        assert_eq!(sequence(7), sequence(7));
        assert_ne!(Random::new(7).fork(0).next(), Random::new(7).fork(1).next());
        let mut random = Random::new(1);
        assert!((0..1000).all(|_| (3..=5).contains(&random.within(3..=5))));
        let hits = (0..1000).filter(|_| random.chance(20)).count();
        assert!((100..300).contains(&hits), "{hits}");
    }
}
