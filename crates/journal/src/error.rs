//! Why a journal could not be opened: one line each, saying what, where and what to do.

use std::fmt;
use std::io;

/// Why a journal could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// Another process has the directory open.
    Locked,
    /// There is no journal in the directory, where one was to be read.
    NoJournal,
    /// The directory holds files but no journal; their names.
    Foreign(Vec<String>),
    /// The journal was written by a version with another format.
    Format {
        /// The file that says so.
        file: String,
        /// The format found.
        found: u16,
    },
    /// What had been acknowledged can no longer be read.
    Damaged {
        /// The file, relative to the data directory.
        file: String,
        /// The byte offset in the file.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// The disk failed.
    Io {
        /// What was being done.
        doing: String,
        /// What the disk said.
        error: io::Error,
    },
}

impl OpenError {
    /// For `map_err`: an I/O error with what was being done.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |error| Self::Io { doing, error }
    }

    pub(crate) fn damaged(file: &str, offset: u64, what: impl Into<String>) -> Self {
        Self::Damaged { file: file.to_owned(), offset, what: what.into() }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked => {
                f.write_str("the data directory is in use by another process; stop it or choose another directory")
            }
            Self::NoJournal => f.write_str("the directory holds no journal; name a data directory"),
            Self::Foreign(names) => {
                write!(
                    f,
                    "the data directory holds files that are not a journal ({}); choose an empty directory",
                    listed(names)
                )
            }
            Self::Format { file, found } => write!(
                f,
                "{file} has journal format {found}, this version reads {} to {}; open it with the version that wrote it",
                crate::layout::OLDEST_FORMAT,
                crate::FORMAT
            ),
            Self::Damaged { file, offset, what } => write!(
                f,
                "{file} is damaged at byte {offset}: {what}; nothing was changed, restore the data directory from a copy"
            ),
            Self::Io { doing, error } => write!(f, "{doing}: {error}; check the disk and its permissions"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// At most five names, so that the line stays a line.
fn listed(names: &[String]) -> String {
    let shown = names.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len() {
        0..=5 => shown,
        more => format!("{shown} and {} more", more - 5),
    }
}
