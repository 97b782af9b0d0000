//! Which messages a change of one binding concerns: bindings by key fall into parts, and a message
//! has a few of these.
//!
//! Invariant: if a binding key matches a routing key, its part is among those of the routing key,
//! or it concerns all messages.

use super::hash::digest;
use super::pattern::words;

/// The first words of a key tell parts apart.
const DEPTH: usize = 4;

/// The part of a binding key with wildcards: the words before the first of these. `None` where
/// there are none, and the binding may concern any message.
pub(super) fn of_pattern(key: &str) -> Option<u64> {
    let literal = words(key).take(DEPTH).take_while(|word| !matches!(*word, "*" | "#"));
    let end = literal.map(|word| word.len() + 1).sum::<usize>().checked_sub(1)?;
    Some(digest(&key.as_bytes()[..end]))
}

/// The parts of a routing key, the same for all exchanges.
#[derive(Debug)]
pub(crate) struct KeyParts {
    /// For binding keys without wildcards.
    pub(super) whole: [u64; 1],
    /// For binding keys with wildcards.
    pub(super) words: Vec<u64>,
}

impl KeyParts {
    pub(crate) fn of(key: &str) -> Self {
        let ends = key.match_indices('.').map(|(at, _)| at).chain([key.len()]);
        let words = ends.take(DEPTH).map(|end| digest(&key.as_bytes()[..end])).collect();
        Self { whole: [digest(key.as_bytes())], words }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_the_words_before_its_first_wildcard() {
        let part = |text: &str| Some(digest(text.as_bytes()));
        let cases = [
            ("a.b.*.c", part("a.b")),
            ("a.b.c.d.e.f", part("a.b.c.d")),
            ("a.#", part("a")),
            ("a..#", part("a.")),
            (".a", part(".a")),
            ("a*.b", part("a*.b")),
            ("#", None),
            ("*.a", None),
            ("", None),
        ];
        for (pattern, expected) in cases {
            assert_eq!(of_pattern(pattern), expected, "{pattern:?}");
        }
    }

    /// All patterns of up to five words against all keys of up to five.
    #[test]
    fn a_pattern_that_matches_is_of_a_part_of_the_key() {
        let of = |alphabet: &[&str]| {
            let mut all = vec![String::new()];
            for length in 1..=5_u32 {
                for mut number in 0..alphabet.len().pow(length) {
                    let mut words = Vec::new();
                    for _ in 0..length {
                        words.push(alphabet[number % alphabet.len()]);
                        number /= alphabet.len();
                    }
                    all.push(words.join("."));
                }
            }
            all
        };
        let (patterns, keys) = (of(&["a", "", "*", "#"]), of(&["a", ""]));
        let mut apart = 0;
        for pattern in &patterns {
            let mut alone = super::super::topic::Topic::default();
            alone.add(pattern, super::super::Destination::Queue(1));
            let part = of_pattern(pattern);
            for key in &keys {
                let mut reached = super::super::Reached::within(1 << 20);
                alone.route(key, &mut reached);
                let concerns = part.is_none_or(|part| KeyParts::of(key).words.contains(&part));
                assert!(reached.is_empty() || concerns, "{pattern:?} matches {key:?}");
                apart += u32::from(!concerns);
            }
        }
        assert!(apart > 10_000, "{apart} pairs are apart");
    }
}
