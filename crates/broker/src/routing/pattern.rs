//! Topic keys as words. Words are the parts between dots; the empty key has no words, and `a.` has
//! two.

/// One word of a binding key.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Word<'a> {
    /// This word.
    Literal(&'a str),
    /// `*`: any one word.
    One,
    /// `#`: any words, also none. Never twice in a row: `#.#` matches what `#` does.
    Many,
}

/// The words of a routing key.
pub(super) fn words(key: &str) -> impl Iterator<Item = &str> {
    // Splitting an empty text gives one empty word; the empty key has none.
    let count = if key.is_empty() { 0 } else { usize::MAX };
    key.split('.').take(count)
}

/// The words of a binding key.
pub(super) fn pattern(key: &str) -> impl Iterator<Item = Word<'_>> {
    let mut after_many = false;
    words(key).filter_map(move |word| {
        let repeated = after_many && word == "#";
        after_many = word == "#";
        match word {
            _ if repeated => None,
            "*" => Some(Word::One),
            "#" => Some(Word::Many),
            literal => Some(Word::Literal(literal)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::Word::{Literal, Many, One};
    use super::*;

    #[test]
    fn patterns_as_words() {
        let cases: &[(&str, &[Word<'_>])] = &[
            ("", &[]),
            ("a", &[Literal("a")]),
            ("a.", &[Literal("a"), Literal("")]),
            (".", &[Literal(""), Literal("")]),
            ("*.a*.#b", &[One, Literal("a*"), Literal("#b")]),
            ("#", &[Many]),
            ("#.#.#", &[Many]),
            ("#.a.#", &[Many, Literal("a"), Many]),
            ("#.*.#", &[Many, One, Many]),
        ];
        for (key, expected) in cases {
            assert_eq!(pattern(key).collect::<Vec<_>>(), *expected, "{key:?}");
        }
    }
}
