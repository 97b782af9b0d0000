//! A seeded source of randomness, so that a run's order and its arrivals can be repeated from the
//! recorded seed.

/// SplitMix64 (Steele, Lea, Flood 2014): one multiplication chain, every seed is good.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Starts the sequence that belongs to `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 random bits.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number in (0, 1].
    pub fn unit(&mut self) -> f64 {
        ((self.draw() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// A number below `bound`, which must not be zero. The bias of the remainder is far below
    /// anything measured here.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.draw() % bound as u64) as usize
    }

    /// Brings `items` into random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// Spreads every bit of `word` over all bits of the result.
#[inline]
pub fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_order_and_every_order_comes_up() {
        let order = |seed| {
            let mut items = [0, 1, 2];
            Random::new(seed).shuffle(&mut items);
            items
        };
        assert_eq!(order(7), order(7));
        let seen: std::collections::HashSet<_> = (0..200).map(order).collect();
        assert_eq!(seen.len(), 6);
    }

    #[test]
    fn units_are_never_zero_and_centred() {
        let mut random = Random::new(1);
        let values: Vec<f64> = (0..10_000).map(|_| random.unit()).collect();
        assert!(values.iter().all(|v| *v > 0.0 && *v <= 1.0));
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
    }
}
