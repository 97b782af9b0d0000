//! Exit codes: what a script or a service manager can tell from the end of the program. The numbers
//! follow sysexits.

use std::fmt;

use auth::shown::escaped;

/// Why the program ends without having done what it was asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 64: the command line makes no sense.
    Usage = 64,
    /// 65: the data directory holds something that must not be touched: foreign files, a damaged or
    /// newer journal.
    BadData = 65,
    /// 66: what was named does not exist.
    NotFound = 66,
    /// 69: no server answers at the control socket.
    Unavailable = 69,
    /// 70: the program is wrong; please report it.
    Bug = 70,
    /// 71: the operating system refuses something: a port is taken, a thread cannot be started.
    System = 71,
    /// 73: what was asked for could not be made: a backup, a declaration that contradicts what
    /// exists.
    CannotCreate = 73,
    /// 74: the journal could not be written or flushed. Nothing was confirmed that is not stored.
    Io = 74,
    /// 75: the data directory is in use by another server; it may work later.
    TryAgain = 75,
    /// 77: whoever asked may not, or a password is wrong.
    NoPermission = 77,
    /// 78: the configuration is wrong.
    Config = 78,
}

impl Exit {
    /// All of them, for the manual's test.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 11] = [
        Self::Usage,
        Self::BadData,
        Self::NotFound,
        Self::Unavailable,
        Self::Bug,
        Self::System,
        Self::CannotCreate,
        Self::Io,
        Self::TryAgain,
        Self::NoPermission,
        Self::Config,
    ];

    /// The number.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    /// This end with an explanation of one line.
    pub(crate) fn because(self, text: impl fmt::Display) -> Failure {
        Failure { exit: self, text: text.to_string(), items: Vec::new() }
    }
}

/// An end and its explanation.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) text: String,
    /// What it is about, where that is several things.
    pub(crate) items: Vec<String>,
}

impl Failure {
    /// The explanation, and a line for each thing that it is about. Names in it, which peers gave,
    /// end no line.
    pub(crate) fn lines(&self) -> String {
        let mut lines = escaped(&self.text).into_owned();
        for item in &self.items {
            lines += "\n  ";
            lines += &escaped(item);
        }
        lines
    }
}

impl From<crate::config::ConfigError> for Failure {
    fn from(error: crate::config::ConfigError) -> Self {
        Exit::Config.because(error)
    }
}
