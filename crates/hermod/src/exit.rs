//! Exit codes: what a script or a service manager can tell from the end of the program. The numbers
//! follow sysexits.

use std::fmt;

use auth::shown::escaped;

/// Why the program ends without having done its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 64: the command line is invalid.
    Usage = 64,
    /// 65: the data directory has contents that must not be changed: foreign files, or a damaged or
    /// newer journal.
    BadData = 65,
    /// 66: the named object or file does not exist.
    NotFound = 66,
    /// 69: no server answers at the control socket.
    Unavailable = 69,
    /// 70: the program is wrong; please report it.
    Bug = 70,
    /// 71: the operating system refused something: a port is in use, a thread cannot be started.
    System = 71,
    /// 73: something could not be created: a backup, or a declaration that contradicts what exists.
    CannotCreate = 73,
    /// 74: the journal could not be written or flushed. Everything that was confirmed is stored.
    Io = 74,
    /// 75: the data directory is in use by another server; it may work later.
    TryAgain = 75,
    /// 77: the user has no permission, or a password is wrong.
    NoPermission = 77,
    /// 78: the configuration is wrong.
    Config = 78,
}

impl Exit {
    /// All exit codes, for the manual's test.
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

    /// A failure with this exit code and an explanation of one line.
    pub(crate) fn because(self, text: impl fmt::Display) -> Failure {
        Failure { exit: self, text: text.to_string(), items: Vec::new() }
    }
}

/// An exit code and its explanation.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) text: String,
    /// The items that it is about, if there are several.
    pub(crate) items: Vec<String>,
}

impl Failure {
    /// The explanation, and a line for each item. Control characters are escaped, because names
    /// come from peers.
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
