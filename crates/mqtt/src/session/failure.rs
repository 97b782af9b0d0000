//! Errors that end a connection or refuse one request, with the reason code of MQTT 5.

use broker::{Error, ErrorKind};

use crate::codec::{PacketError, Reason};

/// Why the connection ends, or a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) reason: Reason,
    /// What was wrong, where, and the remedy.
    pub(super) text: String,
}

impl Failure {
    pub(super) fn new(reason: Reason, text: impl Into<String>) -> Self {
        Self { reason, text: text.into() }
    }

    /// A packet broke this rule of the protocol.
    pub(super) fn protocol(text: impl Into<String>) -> Self {
        Self::new(Reason::ProtocolError, text)
    }
}

impl From<PacketError> for Failure {
    fn from(error: PacketError) -> Self {
        Self::new(error.violation.reason(), error.to_string())
    }
}

/// First levels of topics that only mean something in filters, or are the server's to publish.
const RESERVED: [&str; 3] = ["$share/", "$queue/", "$SYS/"];

/// Fails for a topic that clients cannot publish to.
pub(super) fn check_topic(topic: &str) -> Result<(), Failure> {
    let Some(reserved) = RESERVED.iter().find(|reserved| topic.starts_with(**reserved)) else { return Ok(()) };
    let text = format!("clients cannot publish to topics that begin with {reserved}");
    Err(Failure::new(Reason::TopicNameInvalid, text))
}

/// The reason code of an error of this kind.
pub(super) fn reason_of(kind: ErrorKind) -> Reason {
    match kind {
        ErrorKind::AccessRefused | ErrorKind::NotAllowed => Reason::NotAuthorized,
        ErrorKind::ResourceLimit | ErrorKind::Precondition => Reason::QuotaExceeded,
        ErrorKind::NotFound | ErrorKind::Locked | ErrorKind::NotImplemented => Reason::ImplementationSpecific,
        ErrorKind::Internal => Reason::Unspecified,
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(reason_of(error.kind), error.text)
    }
}
