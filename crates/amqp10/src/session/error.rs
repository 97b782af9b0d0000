//! What went wrong, and how far it reaches: a link, a session, or the connection.
//!
//! A condition is for programs, the text for people. What one link asks for never ends more than
//! the link; what breaks the rules of a session or of framing ends that.

use broker::{Error, ErrorKind, Fact};

use crate::codec::error::{self, condition};
use crate::codec::{FieldError, FrameError, Symbol, Value};
use crate::delivery::AssemblyError;
use crate::session::frames::OwnMap;

/// Why something is refused or ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) condition: &'static str,
    pub(super) text: String,
    /// What clients look for besides: the field or the delivery that is to blame.
    pub(super) info: Option<OwnMap>,
}

impl Failure {
    pub(super) fn new(condition: &'static str, text: impl Into<String>) -> Self {
        Self { condition, text: text.into(), info: None }
    }

    /// Understood, and not built.
    pub(super) fn not_built(what: &str) -> Self {
        Self::new(condition::NOT_IMPLEMENTED, format!("{what} is not supported yet"))
    }

    /// A field that can't be served.
    pub(super) fn invalid(text: impl Into<String>) -> Self {
        Self::new(condition::INVALID_FIELD, text)
    }

    /// The same, with one more fact for clients.
    pub(super) fn about(self, name: &str, value: Value) -> Self {
        Self { info: Some(OwnMap::new(vec![(Value::Symbol(name.to_owned()), value)])), ..self }
    }

    /// As it is written.
    pub(super) fn as_error(&self) -> error::Error<'_> {
        let info = self.info.as_ref().and_then(OwnMap::get);
        error::Error { condition: Symbol(self.condition), description: Some(&self.text), info }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.condition, self.text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let condition = match error.fact {
            Some(Fact::InUse { .. }) => condition::RESOURCE_LOCKED,
            _ => condition_of(error.kind),
        };
        Self::new(condition, error.text)
    }
}

/// The condition of an error of the broker.
pub(super) fn condition_of(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => condition::NOT_FOUND,
        ErrorKind::AccessRefused => condition::UNAUTHORIZED_ACCESS,
        ErrorKind::Precondition => condition::PRECONDITION_FAILED,
        ErrorKind::Locked => condition::RESOURCE_LOCKED,
        ErrorKind::NotAllowed => condition::NOT_ALLOWED,
        ErrorKind::NotImplemented => condition::NOT_IMPLEMENTED,
        ErrorKind::ResourceLimit => condition::RESOURCE_LIMIT_EXCEEDED,
        ErrorKind::Internal => condition::INTERNAL_ERROR,
    }
}

impl From<FieldError> for Failure {
    fn from(error: FieldError) -> Self {
        Self::new(condition::DECODE_ERROR, error.to_string())
    }
}

impl From<FrameError> for Failure {
    fn from(error: FrameError) -> Self {
        Self::new(condition::FRAMING_ERROR, error.to_string())
    }
}

impl From<AssemblyError> for Failure {
    fn from(error: AssemblyError) -> Self {
        let condition = match error {
            AssemblyError::TooLarge(_) => condition::MESSAGE_SIZE_EXCEEDED,
            AssemblyError::TooMany => condition::RESOURCE_LIMIT_EXCEEDED,
            AssemblyError::Missing(_) | AssemblyError::Changed(_) | AssemblyError::TooLong(_) => {
                condition::INVALID_FIELD
            }
        };
        Self::new(condition, error.to_string())
    }
}

/// A failure, and what ends with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// The link of this handle.
    Link(u32, Failure),
    /// The session of the frame.
    Session(Failure),
    /// The connection.
    Connection(Failure),
}

impl Fault {
    pub(super) fn session(condition: &'static str, text: impl Into<String>) -> Self {
        Self::Session(Failure::new(condition, text))
    }

    pub(super) fn connection(condition: &'static str, text: impl Into<String>) -> Self {
        Self::Connection(Failure::new(condition, text))
    }
}
