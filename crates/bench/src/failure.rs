//! Why a run could not be made: one text that says what failed, where, and what to do.

use std::fmt;

/// A failed operation, in words for the person who started the run.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    text: String,
}

impl Failure {
    /// A failure described by `text`.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(error.to_string())
    }
}

/// Says where an operation failed.
pub(crate) trait Context<T> {
    /// Puts `what` in front of the error's own text.
    fn context(self, what: impl fmt::Display) -> Result<T, Failure>;
}

impl<T, E: fmt::Display> Context<T> for Result<T, E> {
    fn context(self, what: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(format!("{what}: {error}")))
    }
}
