//! Patterns of LIKE: `%` stands for any characters, `_` for one. Nothing else is special.
//!
//! Matching goes back to the last `%` only, so it takes at most as many steps as text and pattern have characters,
//! multiplied.

/// One place of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Any,
    One,
    Char(char),
}

/// A pattern, ready to be matched.
#[derive(Debug, Clone)]
pub(crate) struct Pattern(Box<[Piece]>);

impl Pattern {
    /// Reads a pattern. The escape character counts in front of `%`, `_` and itself; elsewhere it is what it would be
    /// without ESCAPE, as in ActiveMQ.
    pub(crate) fn new(text: &str, escape: Option<char>) -> Self {
        let mut pieces = Vec::new();
        let mut rest = text.chars().peekable();
        while let Some(char) = rest.next() {
            let escaped = rest.next_if(|next| Some(char) == escape && (matches!(next, '%' | '_') || *next == char));
            let piece = match (escaped, char) {
                (Some(escaped), _) => Piece::Char(escaped),
                (None, '%') => Piece::Any,
                (None, '_') => Piece::One,
                (None, char) => Piece::Char(char),
            };
            if piece != Piece::Any || pieces.last() != Some(&Piece::Any) {
                pieces.push(piece);
            }
        }
        Self(pieces.into())
    }

    /// True when the whole text is as the pattern says.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let mut rest = text.chars();
        let mut at = 0;
        // Where to go on after the last `%`, and the text that it has not taken yet.
        let mut back = None;
        loop {
            if self.0.get(at) == Some(&Piece::Any) {
                at += 1;
                if at == self.0.len() {
                    return true;
                }
                back = Some((at, rest.clone()));
                continue;
            }
            let before = rest.clone();
            let char = rest.next();
            let fits = match (self.0.get(at), char) {
                (None, None) => return true,
                (Some(Piece::Char(wanted)), Some(char)) => *wanted == char,
                (Some(Piece::One), Some(_)) => true,
                _ => false,
            };
            if fits {
                at += 1;
                continue;
            }
            // A `%` that takes more text leaves less for the rest: at the end of the text there is no more to try.
            if before.as_str().is_empty() {
                return false;
            }
            let Some((after, from)) = &mut back else { return false };
            from.next();
            (at, rest) = (*after, from.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_texts_by_characters() {
        for (pattern, escape, text, expected) in [
            ("12%3", None, "123", true),
            ("12%3", None, "12993", true),
            ("12%3", None, "1234", false),
            ("12%3", None, "1233", true),
            ("l_se", None, "lose", true),
            ("l_se", None, "loose", false),
            (r"\_%", Some('\\'), "_foo", true),
            (r"\_%", Some('\\'), "bar", false),
            ("", None, "", true),
            ("", None, "a", false),
            ("_", None, "", false),
            ("%", None, "", true),
            ("%%%%%%%", None, "entry", true),
            ("a.c", None, "abc", false),
            ("a^$b", None, "a^$b", true),
            ("(abc){3,}", None, "(abc){3,}", true),
            ("car_rot", None, "car🥕rot", true),
            ("car__rot", None, "car🥕rot", false),
            ("a%b", None, "a\nb", true),
            ("%_%", Some('%'), "_foo", true),
            ("%D7%%", Some('%'), "XD7_", false),
            ("%D7%", Some('%'), "XD7_", true),
            ("pattern*", Some('*'), "pattern*", true),
            ("a**b", Some('*'), "a*b", true),
            ("%ab%ab", None, "abab", true),
            ("%ab%ab", None, "ababa", false),
            ("%aab", None, "aaaab", true),
            ("_%", None, "", false),
        ] {
            assert_eq!(Pattern::new(pattern, escape).matches(text), expected, "{text:?} LIKE {pattern:?}");
        }
    }

    #[test]
    fn the_worst_pattern_takes_no_longer_than_text_times_pattern() {
        let pattern = Pattern::new(&"%a".repeat(250), None);
        assert!(!pattern.matches(&format!("{}b", "a".repeat(20_000))));
    }
}
