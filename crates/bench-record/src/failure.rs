//! Why a run could not be made: one text that says what failed, where, and what to do.

use std::fmt;

/// A failed operation, in words for the person who started the run.
#[derive(Debug, Clone)]
pub struct Failure {
    text: String,
    /// What the broker or its protocol lacks, where that is why.
    lacks: Option<String>,
}

impl Failure {
    /// A failure described by `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), lacks: None }
    }

    /// What was asked for can't be measured here, because the broker or its protocol has no `what`.
    /// Nothing else was measured in its place.
    pub fn lacking(what: impl Into<String>) -> Self {
        let what = what.into();
        Self { text: format!("not applicable, for lack of {what}"), lacks: Some(what) }
    }

    /// What the broker or its protocol lacks, where that is why.
    pub fn lacks(&self) -> Option<&str> {
        self.lacks.as_deref()
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
pub trait Context<T> {
    /// Puts `what` in front of the error's own text.
    fn context(self, what: impl fmt::Display) -> Result<T, Failure>;
}

impl<T, E: fmt::Display + 'static> Context<T> for Result<T, E> {
    fn context(self, what: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| {
            // A place in front of it changes nothing about what is lacking.
            let lacks = (&error as &dyn std::any::Any).downcast_ref::<Failure>().and_then(|known| known.lacks.clone());
            Failure { text: format!("{what}: {error}"), lacks }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lacking_is_known_at_every_place() {
        let failure = Err::<(), _>(Failure::lacking("selectors")).context("target").context("cell").unwrap_err();
        assert_eq!(failure.lacks(), Some("selectors"));
        assert_eq!(failure.to_string(), "cell: target: not applicable, for lack of selectors");
        assert_eq!(Failure::new("x").lacks(), None);
    }
}
