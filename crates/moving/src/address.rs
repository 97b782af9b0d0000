//! Addresses with wildcards, as Artemis and ActiveMQ match them, and the patterns that mean the
//! same here.

/// The longest name of a queue.
const LONGEST: usize = 255;

/// What separates words, and what stands for one of them or for any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wildcards {
    pub(crate) delimiter: char,
    pub(crate) one: char,
    pub(crate) any: char,
}

/// Artemis', if the file sets no others.
pub(crate) const ARTEMIS: Wildcards = Wildcards { delimiter: '.', one: '*', any: '#' };
/// ActiveMQ's.
pub(crate) const ACTIVEMQ: Wildcards = Wildcards { delimiter: '.', one: '*', any: '>' };

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    Any,
    One,
    Is(String),
}

/// An address with wildcards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Match {
    words: Vec<Word>,
    delimiter: char,
}

impl Match {
    /// `None` if it is longer than any name can be.
    pub(crate) fn new(text: &str, wildcards: Wildcards) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let word = |word: &str| match word {
            one if one.chars().eq([wildcards.one]) => Word::One,
            any if any.chars().eq([wildcards.any]) => Word::Any,
            other => Word::Is(other.to_owned()),
        };
        let mut words: Vec<_> = text.trim().split(wildcards.delimiter).map(word).collect();
        // `activemq.management#`: Artemis takes the mark behind a word for one of its own.
        if let Some(Word::Is(last)) = words.last_mut()
            && let Some(short) = last.strip_suffix(wildcards.any).map(str::to_owned)
        {
            *last = short;
            words.push(Word::Any);
        }
        Some(Self { words, delimiter: wildcards.delimiter })
    }

    /// Whether it matches every address.
    pub(crate) fn is_all(&self) -> bool {
        self.words == [Word::Any]
    }

    /// Whether every address that `other` matches is matched by this one, too.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        covers(&self.words, &other.words)
    }

    /// The more specific, the greater: words that are said count, then words that must be there.
    pub(crate) fn rank(&self) -> (usize, usize, usize) {
        let count = |wanted: fn(&Word) -> bool| self.words.iter().filter(|word| wanted(word)).count();
        let said = count(|word| matches!(word, Word::Is(_)));
        (usize::from(said == self.words.len()), said, count(|word| *word != Word::Any))
    }

    /// The pattern of exactly the names that it matches, without anchors.
    pub(crate) fn body(&self) -> String {
        let delimiter = escape(&self.delimiter.to_string());
        let one = format!("[^{delimiter}]+");
        let mut pattern = String::new();
        for (index, word) in self.words.iter().enumerate() {
            match word {
                Word::Any if index == 0 && self.words.len() == 1 => pattern.push_str(".*"),
                Word::Any if index == 0 => pattern.push_str(&format!("(?:{one}{delimiter})*")),
                Word::Any => pattern.push_str(&format!("(?:{delimiter}{one})*")),
                word => {
                    if index > 0 && !(index == 1 && self.words[0] == Word::Any) {
                        pattern.push_str(&delimiter);
                    }
                    match word {
                        Word::Is(text) => pattern.push_str(&escape(text)),
                        _ => pattern.push_str(&one),
                    }
                }
            }
        }
        pattern
    }
}

/// From the ends of both to their beginnings, so that its time is bounded by the product.
fn covers(general: &[Word], special: &[Word]) -> bool {
    let mut after = vec![false; special.len() + 1];
    after[special.len()] = true;
    for word in general.iter().rev() {
        let mut here = vec![false; special.len() + 1];
        for at in (0..=special.len()).rev() {
            let goes_on = special.get(at).is_some_and(|other| match (word, other) {
                (Word::Any, _) => here[at + 1],
                (Word::One, other) => *other != Word::Any && after[at + 1],
                (Word::Is(_), other) => word == other && after[at + 1],
            });
            here[at] = goes_on || (*word == Word::Any && after[at]);
        }
        after = here;
    }
    after[0]
}

/// A text that means itself in a pattern.
pub(crate) fn escape(text: &str) -> String {
    text.chars().fold(String::new(), |mut escaped, letter| {
        if r"\.+*?()|[]{}^$".contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
        escaped
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_become_patterns() {
        for (text, wildcards, expected) in [
            ("#", ARTEMIS, ".*"),
            ("a.*.c", ARTEMIS, r"a\.[^\.]+\.c"),
            ("a.#", ARTEMIS, r"a(?:\.[^\.]+)*"),
            ("a.>", ACTIVEMQ, r"a(?:\.[^\.]+)*"),
            ("#.dlq", ARTEMIS, r"(?:[^\.]+\.)*dlq"),
            ("a.#.b", ARTEMIS, r"a(?:\.[^\.]+)*\.b"),
            ("activemq.management#", ARTEMIS, r"activemq\.management(?:\.[^\.]+)*"),
            ("jobs(1)", ARTEMIS, r"jobs\(1\)"),
            ("a/+", Wildcards { delimiter: '/', one: '+', any: '#' }, "a/[^/]+"),
        ] {
            assert_eq!(Match::new(text, wildcards).unwrap().body(), expected, "{text}");
        }
    }

    #[test]
    fn the_general_covers_the_special() {
        let of = |text| Match::new(text, ARTEMIS).unwrap();
        for (general, special, expected) in [
            ("#", "pay.#", true),
            ("#", "a", true),
            ("pay.#", "pay", true),
            ("pay.#", "pay.card.eu", true),
            ("pay.*", "pay.card", true),
            ("pay.*", "pay.#", false),
            ("pay.card", "pay.*", false),
            ("*.b", "a.b", true),
            ("a.*", "*.b", false),
            ("pay.#", "#", false),
        ] {
            assert_eq!(of(general).covers(&of(special)), expected, "{general} {special}");
        }
        assert!(of("pay.card").rank() > of("pay.*").rank());
        assert!(of("pay.*").rank() > of("pay.#").rank());
        assert!(of("pay.#").rank() > of("#").rank());
    }
}
