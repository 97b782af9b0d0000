//! Why a broker could not be opened.

use crate::error::Error;

/// Why a broker could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The journal.
    Journal(journal::OpenError),
    /// The journal's contents contradict each other.
    Damaged(String),
    /// The default user.
    DefaultUser(String),
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Journal(error) => write!(f, "{error}"),
            Self::Damaged(what) => write!(
                f,
                "the data directory is damaged: {what}; restore it from a copy, or start on an empty directory"
            ),
            Self::DefaultUser(what) => write!(f, "the default user can't be created: {what}"),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<journal::OpenError> for OpenError {
    fn from(error: journal::OpenError) -> Self {
        Self::Journal(error)
    }
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        Self::Damaged(error.text)
    }
}
