//! Why a text is no selector: where, and what to do about it.

use std::fmt;

/// A text that is no selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The character at which it stops making sense, counted from 1; one past the last if the text
    /// ends too early.
    pub position: usize,
    /// What is wrong there, and what to write instead.
    pub reason: String,
}

impl ParseError {
    /// `at` is a byte of `text`.
    pub(crate) fn new(text: &str, at: usize, reason: impl Into<String>) -> Self {
        let position = text.char_indices().take_while(|(byte, _)| *byte < at).count() + 1;
        Self { position, reason: reason.into() }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid selector at character {}: {}", self.position, self.reason)
    }
}

impl std::error::Error for ParseError {}
