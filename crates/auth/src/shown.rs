//! How texts that peers give are shown to people: on one line, with nothing in them that a terminal
//! would act on.
//!
//! The reader of a log or a table must be able to trust its lines. A name with a line end forges a
//! line, and a name with an escape sequence rewrites the screen. So each control character is shown
//! as its escape, everywhere by this function.

use std::borrow::Cow;
use std::fmt::Write;

/// Characters besides the control characters that end a line or turn its direction.
const ALSO: [char; 13] = [
    '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}',
    '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}',
];

/// Whether a terminal or a reader of lines would act on a character instead of showing it.
pub fn is_control(letter: char) -> bool {
    letter.is_control() || ALSO.contains(&letter)
}

/// A text with its control characters as escapes such as `\n` and `\u{1b}`.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match is_control(letter) {
            // Writing into a String cannot fail.
            true => drop(write!(shown, "{}", letter.escape_default())),
            false => shown.push(letter),
        }
    }
    Cow::Owned(shown)
}

/// A document of JSON with the control characters that its texts still have as JSON's escapes: all
/// are within 16 bits.
pub fn escaped_in_json(document: &str) -> Cow<'_, str> {
    let is_shown = |letter: char| !is_control(letter) || letter == '\n';
    if document.chars().all(is_shown) {
        return Cow::Borrowed(document);
    }
    let mut shown = String::with_capacity(document.len() + 16);
    for letter in document.chars() {
        match is_shown(letter) {
            true => shown.push(letter),
            // Writing into a String cannot fail.
            false => drop(write!(shown, "\\u{:04x}", u32::from(letter))),
        }
    }
    Cow::Owned(shown)
}

/// The beginning of a text, of so many bytes at most, and whether it goes on.
pub fn extract(text: &str, longest: usize) -> Cow<'_, str> {
    match text.len() > longest {
        true => Cow::Owned(format!("{}…", &text[..text.floor_char_boundary(longest)])),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_nothing_else_is() {
        for (text, expected) in [
            ("größe \\ \"x\" ’ 🐇", "größe \\ \"x\" ’ 🐇"),
            ("a\r\nb\tc", "a\\r\\nb\\tc"),
            ("\u{1b}[31m\0\u{7f}\u{9b}2J", "\\u{1b}[31m\\u{0}\\u{7f}\\u{9b}2J"),
            ("a\u{2028}b\u{202e}c", "a\\u{2028}b\\u{202e}c"),
        ] {
            assert_eq!(escaped(text), expected);
        }
    }

    #[test]
    fn a_document_of_json_stays_one() {
        let shown = escaped_in_json("{\n\"a\": \"\u{9b}2J\u{202e}\"\n}");
        assert_eq!(shown, "{\n\"a\": \"\\u009b2J\\u202e\"\n}");
    }

    #[test]
    fn of_a_long_text_the_beginning_is_shown() {
        for (text, expected) in [("abc", "abc"), ("abcd", "abc…"), ("aöö", "aö…")] {
            assert_eq!(extract(text, 3), expected);
        }
    }
}
