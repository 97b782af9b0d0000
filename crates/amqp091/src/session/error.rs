//! Errors in the terms of AMQP 0-9-1: reply codes, their scope, and the mapping of the broker's
//! errors.
//!
//! The code alone decides the scope (specification §1.2), with one exception: any error on channel
//! 0 closes the connection. Texts are `NAME - explanation`, as RabbitMQ writes them, because
//! clients match on them.

use broker::{Error, ErrorKind, Fact};
use wire::DecodeError;

use crate::codec::methods::{ChannelClose, ConnectionClose};
use crate::codec::{FrameError, Method, MethodError};

/// A reply code with its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum ReplyCode {
    NoRoute = 312,
    ConnectionForced = 320,
    AccessRefused = 403,
    NotFound = 404,
    ResourceLocked = 405,
    PreconditionFailed = 406,
    FrameError = 501,
    SyntaxError = 502,
    CommandInvalid = 503,
    ChannelError = 504,
    UnexpectedFrame = 505,
    ResourceError = 506,
    NotAllowed = 530,
    NotImplemented = 540,
    InternalError = 541,
}

impl ReplyCode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NoRoute => "NO_ROUTE",
            Self::ConnectionForced => "CONNECTION_FORCED",
            Self::AccessRefused => "ACCESS_REFUSED",
            Self::NotFound => "NOT_FOUND",
            Self::ResourceLocked => "RESOURCE_LOCKED",
            Self::PreconditionFailed => "PRECONDITION_FAILED",
            Self::FrameError => "FRAME_ERROR",
            Self::SyntaxError => "SYNTAX_ERROR",
            Self::CommandInvalid => "COMMAND_INVALID",
            Self::ChannelError => "CHANNEL_ERROR",
            Self::UnexpectedFrame => "UNEXPECTED_FRAME",
            Self::ResourceError => "RESOURCE_ERROR",
            Self::NotAllowed => "NOT_ALLOWED",
            Self::NotImplemented => "NOT_IMPLEMENTED",
            Self::InternalError => "INTERNAL_ERROR",
        }
    }

    /// Whether this code closes the connection, and not only a channel.
    pub(crate) fn ends_connection(self) -> bool {
        !matches!(
            self,
            Self::NoRoute | Self::AccessRefused | Self::NotFound | Self::ResourceLocked | Self::PreconditionFailed
        )
    }
}

/// Why we close a channel or the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: ReplyCode,
    /// The explanation, without the code's name.
    pub(crate) text: String,
    /// Class and method that failed; 0 and 0 if no method failed.
    pub(crate) method: (u16, u16),
}

impl Failure {
    pub(crate) fn new(code: ReplyCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), method: (0, 0) }
    }

    /// Sets the method that failed, unless one is set already.
    pub(crate) fn of(mut self, method: (u16, u16)) -> Self {
        if self.method == (0, 0) {
            self.method = method;
        }
        self
    }

    /// The reply text as it is sent, before it is cut to 255 bytes.
    pub(crate) fn reply_text(&self) -> String {
        format!("{} - {}", self.code.name(), self.text)
    }

    /// Appends the close of a channel, or of the connection on channel 0.
    pub(crate) fn encode(&self, channel: u16, out: &mut Vec<u8>) {
        let text = self.reply_text();
        let (reply_code, (class_id, method_id)) = (self.code as u16, self.method);
        let close: Method<'_> = if channel == 0 {
            ConnectionClose { reply_code, reply_text: &text, class_id, method_id }.into()
        } else {
            ChannelClose { reply_code, reply_text: &text, class_id, method_id }.into()
        };
        close.encode(channel, out);
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind {
            ErrorKind::NotFound => ReplyCode::NotFound,
            ErrorKind::AccessRefused => ReplyCode::AccessRefused,
            ErrorKind::Precondition => ReplyCode::PreconditionFailed,
            ErrorKind::Locked => ReplyCode::ResourceLocked,
            ErrorKind::NotAllowed => ReplyCode::NotAllowed,
            ErrorKind::NotImplemented => ReplyCode::NotImplemented,
            ErrorKind::ResourceLimit => ReplyCode::ResourceError,
            ErrorKind::Internal => ReplyCode::InternalError,
        };
        match error.fact {
            None => Self::new(code, error.text),
            Some(Fact::InUse { queue, vhost }) => {
                Failure::new(code, format!("queue '{queue}' in vhost '{vhost}' in exclusive use"))
            }
            Some(Fact::Consumers { limit }) => {
                Failure::new(code, format!("reached maximum ({limit}) of consumers per channel"))
            }
            Some(Fact::FetchPastActive { queue, vhost }) => {
                let text = format!(
                    "cannot obtain access to locked queue '{queue}' in vhost '{vhost}'. basic.get operations are not supported by quorum \
                     queues with single active consumer"
                );
                Failure::new(code, text)
            }
            Some(Fact::Unsettled { held }) => {
                Failure::new(code, format!("channel holds {held} unacknowledged deliveries; acknowledge some first"))
            }
        }
    }
}

impl From<FrameError> for Failure {
    fn from(error: FrameError) -> Self {
        Self::new(ReplyCode::FrameError, error.to_string())
    }
}

impl From<MethodError> for Failure {
    fn from(error: MethodError) -> Self {
        match error {
            MethodError::Unknown { class, method } => {
                Self::new(ReplyCode::CommandInvalid, format!("unimplemented method {class}.{method}"))
                    .of((class, method))
            }
            MethodError::Malformed { class, method, error } => {
                Self::new(ReplyCode::SyntaxError, error.to_string()).of((class, method))
            }
        }
    }
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        Self::new(ReplyCode::SyntaxError, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_become_codes_of_their_scope() {
        let table = [
            (ErrorKind::NotFound, 404, false),
            (ErrorKind::AccessRefused, 403, false),
            (ErrorKind::Precondition, 406, false),
            (ErrorKind::Locked, 405, false),
            (ErrorKind::NotAllowed, 530, true),
            (ErrorKind::NotImplemented, 540, true),
            (ErrorKind::ResourceLimit, 506, true),
            (ErrorKind::Internal, 541, true),
        ];
        for (kind, code, connection) in table {
            let failure = Failure::from(Error::new(kind, "why"));
            assert_eq!((failure.code as u16, failure.code.ends_connection()), (code, connection));
            assert_eq!(failure.reply_text(), format!("{} - why", failure.code.name()));
        }
    }

    #[test]
    fn the_first_method_blamed_stays() {
        let failure = Failure::from(MethodError::Unknown { class: 60, method: 99 });
        assert_eq!(failure.reply_text(), "COMMAND_INVALID - unimplemented method 60.99");
        assert_eq!(failure.of((10, 10)).method, (60, 99));
    }
}
