//! Topics in the order of their bytes, of which those are sought that a filter matches: the search
//! leaps over what can't match, and can be left off and taken up anywhere.
//!
//! Invariant: each leap goes forward, and over no key that matches.

use std::ops::Bound;

use crate::routing::pattern::{Word, pattern, words};

/// What is sought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sought {
    /// Every key.
    All,
    /// This one.
    Key(String),
    /// Those that a topic's pattern matches, with `*` and `#`.
    Pattern(String),
}

/// What is known of one key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Match,
    /// It does not match, and the next one that may is here.
    Next(Bound<String>),
    /// It does not match, and none behind it does.
    End,
}

impl Sought {
    /// Where the search begins.
    pub(crate) fn first(&self) -> Bound<String> {
        match self {
            Self::All => Bound::Unbounded,
            Self::Key(key) => Bound::Included(key.clone()),
            Self::Pattern(text) => {
                let literal: Vec<_> = pattern(text).map_while(literal).collect();
                Bound::Included(literal.join("."))
            }
        }
    }

    /// Looks at a key that is not before the beginning.
    pub(crate) fn look(&self, key: &str) -> Look {
        match self {
            Self::All => Look::Match,
            Self::Key(wanted) if wanted == key => Look::Match,
            Self::Key(_) => Look::End,
            Self::Pattern(text) if matches(text, key) => Look::Match,
            Self::Pattern(text) => leap(text, key),
        }
    }
}

fn literal(word: Word<'_>) -> Option<&str> {
    if let Word::Literal(word) = word { Some(word) } else { None }
}

/// Whether a pattern matches a key. The last `#` that can take one more word does so.
fn matches(text: &str, key: &str) -> bool {
    let (pattern, key): (Vec<_>, Vec<_>) = (pattern(text).collect(), words(key).collect());
    let (mut at, mut word, mut retry) = (0, 0, None);
    while word < key.len() {
        match pattern.get(at) {
            Some(Word::Many) => {
                retry = Some((at, word));
                at += 1;
                continue;
            }
            Some(Word::One) => {
                at += 1;
                word += 1;
                continue;
            }
            Some(Word::Literal(wanted)) if *wanted == key[word] => {
                at += 1;
                word += 1;
                continue;
            }
            _ => {}
        }
        let Some((many, taken)) = retry else { return false };
        retry = Some((many, taken + 1));
        (at, word) = (many + 1, taken + 1);
    }
    pattern[at..].iter().all(|rest| *rest == Word::Many)
}

/// The next key that may match behind one that does not. The words before the first `#` have their
/// places, so keys with the same words before a wrong one lie together.
fn leap(text: &str, key: &str) -> Look {
    let next = || Look::Next(Bound::Excluded(key.to_owned()));
    let mut at = 0;
    for wanted in pattern(text) {
        if wanted == Word::Many || at > key.len() || key.is_empty() {
            return next();
        }
        let end = key[at..].find('.').map_or(key.len(), |length| at + length);
        if let Word::Literal(wanted) = wanted
            && *wanted != key[at..end]
        {
            let target = format!("{}{wanted}", &key[..at]);
            return match key {
                key if key < &*target => Look::Next(Bound::Included(target)),
                key if *key < *format!("{target}.") => Look::Next(Bound::Included(format!("{target}."))),
                // All keys that begin like this one up to the wrong word are behind it.
                _ => behind(key, at),
            };
        }
        at = end + 1;
    }
    // The pattern has come to its end, and the key has not.
    behind(key, at)
}

/// The first key behind those that begin with the `at` bytes of `key`, the last of them a dot.
fn behind(key: &str, at: usize) -> Look {
    let Some(words) = at.checked_sub(1).and_then(|at| key.get(..at)) else { return Look::End };
    Look::Next(Bound::Included(format!("{words}/")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The keys found, and how many were looked at.
    fn find(keys: &BTreeSet<String>, sought: &Sought) -> (Vec<String>, usize) {
        let (mut found, mut looks, mut from) = (Vec::new(), 0, sought.first());
        while let Some(key) = keys.range((from, Bound::Unbounded)).next() {
            looks += 1;
            from = match sought.look(key) {
                Look::Match => {
                    found.push(key.clone());
                    Bound::Excluded(key.clone())
                }
                Look::Next(Bound::Included(next)) => {
                    assert!(next > *key, "{sought:?} at {key:?} goes to {next:?}");
                    Bound::Included(next)
                }
                Look::Next(next) => next,
                Look::End => break,
            };
        }
        (found, looks)
    }

    /// The rule of the specification, word by word.
    fn should_match(pattern: &[Word<'_>], key: &[&str]) -> bool {
        match (pattern.split_first(), key.split_first()) {
            (None, key) => key.is_none(),
            (Some((Word::Many, rest)), key_first) => {
                should_match(rest, key) || key_first.is_some_and(|(_, key)| should_match(pattern, key))
            }
            (Some((Word::One, rest)), Some((_, key))) => should_match(rest, key),
            (Some((Word::Literal(wanted), rest)), Some((word, key))) => wanted == word && should_match(rest, key),
            (Some(_), None) => false,
        }
    }

    #[test]
    fn every_pattern_finds_what_it_matches_in_every_set_of_keys() {
        let words_of = ["", "a", "b", "a-", "ab", "b/"];
        let mut all: BTreeSet<String> = words_of.iter().map(|word| (*word).to_owned()).collect();
        for _ in 0..2 {
            let longer: Vec<_> =
                all.iter().flat_map(|key| words_of.iter().map(move |word| format!("{key}.{word}"))).collect();
            all.extend(longer);
        }
        let parts = ["a", "b", "*", "#", "ab"];
        let mut patterns: Vec<String> = vec![String::new()];
        patterns.extend(parts.map(str::to_owned));
        for first in parts {
            for second in parts {
                patterns.push(format!("{first}.{second}"));
                patterns.extend(parts.map(|third| format!("{first}.{second}.{third}")));
            }
        }
        for text in patterns {
            let wanted: Vec<_> = pattern(&text).collect();
            let expected: Vec<_> =
                all.iter().filter(|key| should_match(&wanted, &words(key).collect::<Vec<_>>())).cloned().collect();
            assert_eq!(find(&all, &Sought::Pattern(text.clone())).0, expected, "{text}");
        }
        assert_eq!(find(&all, &Sought::All).0.len(), all.len());
        assert_eq!(find(&all, &Sought::Key("a.b".to_owned())).0, ["a.b"]);
        assert_eq!(find(&all, &Sought::Key("none".to_owned())).0, [""; 0]);
    }

    #[test]
    fn what_can_not_match_is_leapt_over() {
        let keys = |house: u32| (0..100).flat_map(move |room| ["t", "u", "v"].map(|of| format!("{house}.{room}.{of}")));
        let all: BTreeSet<String> = (0..100).flat_map(keys).collect();
        for (pattern, found, most) in [("7.8.t", 1, 4), ("7.*.t", 100, 302), ("*.8.t", 100, 402), ("7.#", 300, 303)] {
            let (keys, looks) = find(&all, &Sought::Pattern(pattern.to_owned()));
            assert_eq!(keys.len(), found, "{pattern}");
            assert!(looks <= most, "{pattern} looked at {looks}");
        }
    }
}
