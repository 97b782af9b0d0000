//! Patterns of LIKE: `%` stands for any characters, `_` for one. Nothing else is special.
//!
//! Matching reads the text once. It keeps all places of the pattern that the text so far can have
//! led to, a bit for each. So a character takes a step for each 64 of them, whatever the text and
//! the pattern are (Baeza-Yates, Gonnet: A new approach to text searching, 1992).

use crate::MAX_PATTERN;

/// Places in a word.
const BITS: usize = u64::BITS as usize;

/// A set of places: in front of each character of the pattern that is no `%`, and behind the last.
type Places = [u64; MAX_PATTERN / BITS + 1];

fn put(places: &mut Places, at: usize) {
    places[at / BITS] |= 1 << (at % BITS);
}

fn has(places: &Places, at: usize) -> bool {
    places[at / BITS] & (1 << (at % BITS)) != 0
}

/// A pattern, ready to be matched.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    /// The last place.
    end: usize,
    /// Places with a `%`, where any character may be passed over.
    stays: Places,
    /// Places from which any character leads to the next one.
    any: Places,
    /// Places from which these characters do, by character.
    known: Vec<(char, Places)>,
}

impl Pattern {
    /// Reads a pattern of at most [`MAX_PATTERN`] characters. The escape character counts in front
    /// of `%`, `_` and itself; elsewhere it is what it would be without ESCAPE, as in ActiveMQ.
    pub(crate) fn new(text: &str, escape: Option<char>) -> Self {
        let (mut end, mut stays, mut any) = (0, Places::default(), Places::default());
        let mut known: Vec<(char, Places)> = Vec::new();
        let mut rest = text.chars().peekable();
        while let Some(char) = rest.next() {
            let escaped = rest.next_if(|next| Some(char) == escape && (matches!(next, '%' | '_') || *next == char));
            match (escaped, char) {
                (None, '%') => {
                    put(&mut stays, end);
                    continue;
                }
                (None, '_') => put(&mut any, end),
                (escaped, char) => {
                    let wanted = escaped.unwrap_or(char);
                    let at = known.binary_search_by_key(&wanted, |(char, _)| *char).unwrap_or_else(|at| {
                        known.insert(at, (wanted, Places::default()));
                        at
                    });
                    put(&mut known[at].1, end);
                }
            }
            end += 1;
        }
        for (_, places) in &mut known {
            places.iter_mut().zip(any).for_each(|(word, any)| *word |= any);
        }
        Self { end, stays, any, known }
    }

    /// True when the whole text is as the pattern says.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.run(text).0
    }

    /// The same, and how many steps that took.
    fn run(&self, text: &str) -> (bool, usize) {
        let words = self.end / BITS + 1;
        let mut places = Places::default();
        put(&mut places, 0);
        let mut steps = 0;
        for char in text.chars() {
            if has(&places, self.end) && has(&self.stays, self.end) {
                break;
            }
            let at = self.known.binary_search_by_key(&char, |(known, _)| *known);
            let leads = at.map_or(&self.any, |at| &self.known[at].1);
            let (mut carry, mut left) = (0, 0);
            for ((place, leads), stays) in places.iter_mut().zip(leads).zip(&self.stays).take(words) {
                let led = *place & leads;
                *place = (led << 1) | carry | (*place & stays);
                carry = led >> (BITS - 1);
                left |= *place;
            }
            steps += words;
            if left == 0 {
                break;
            }
        }
        (has(&places, self.end), steps)
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
    fn patterns_of_any_length_match() {
        for length in [1, 63, 64, 65, 127, 128, MAX_PATTERN - 1, MAX_PATTERN] {
            let text = "a".repeat(length);
            let (longer, other) = (format!("{text}a"), format!("{}b", &text[1..]));
            for pattern in [text.clone(), "_".repeat(length), format!("{}_", &text[1..])] {
                let read = Pattern::new(&pattern, None);
                assert!(read.matches(&text), "{pattern}");
                assert!(!read.matches(&text[1..]) && !read.matches(&longer), "{pattern}");
                assert_eq!(read.matches(&other), pattern.ends_with('_'), "{pattern}");
            }
            let after = Pattern::new(&format!("%{}", &text[1..]), None);
            assert!(after.matches(&text) && after.matches(&format!("{other}{text}")), "{length}");
        }
    }

    /// A text of `a`s took as many steps as it and the pattern have characters, multiplied.
    #[test]
    fn a_character_takes_as_many_steps_as_there_are_words_of_places() {
        let text = "a".repeat(120_000);
        for (pattern, words) in [
            (format!("%{}b", "a".repeat(MAX_PATTERN - 2)), 8),
            (format!("%{}b", "_".repeat(MAX_PATTERN - 2)), 8),
            (format!("{}b", "%a".repeat(MAX_PATTERN / 2 - 1)), 5),
            ("%a_b%".to_owned(), 1),
        ] {
            let (matched, steps) = Pattern::new(&pattern, None).run(&text);
            assert!(!matched && steps <= words * text.len(), "{pattern}: {steps}");
        }
        assert_eq!(Pattern::new("b%", None).run(&text), (false, 1), "no more is read than has to be");
        assert_eq!(Pattern::new("a%", None).run(&text), (true, 1), "no more is read than has to be");
    }
}
