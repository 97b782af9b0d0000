//! Errors that end a connection, and their ERROR frame.
//!
//! The short texts are those of RabbitMQ's STOMP plugin, because clients match on them.

use broker::{Error, ErrorKind};

use crate::codec::{Command, Frame, FrameError, FrameWriter, Spoken};

/// The versions that this server supports, as ERROR frames list them.
pub(super) const VERSIONS: &str = "1.0,1.1,1.2";

const LOCKED: &str = "resource_locked";

/// Why the connection ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// The `message` header: a short text.
    message: String,
    /// The body: what was wrong, where, and the remedy.
    detail: String,
    /// The receipt that the failed frame asked for.
    receipt: Option<String>,
    /// The subscription that failed.
    subscription: Option<String>,
}

impl Failure {
    pub(super) fn new(message: &str, detail: impl Into<String>) -> Self {
        Self { message: message.to_owned(), detail: detail.into(), receipt: None, subscription: None }
    }

    /// A required header is missing.
    pub(super) fn missing(command: Command, header: &str) -> Self {
        let title = match header {
            "destination" => "Missing destination",
            "transaction" => "Missing transaction",
            _ => "Missing header",
        };
        Self::new(title, format!("{} must include a '{header}' header", command.as_str()))
    }

    /// A header has an invalid value.
    pub(super) fn invalid(header: &str, wanted: &str, value: &str) -> Self {
        Self::new("Invalid header", format!("header '{header}' must be {wanted}, not '{value}'"))
    }

    /// A header asks for something that is not implemented.
    pub(super) fn not_built(command: Command, header: &str) -> Self {
        Self::new(
            "not_implemented",
            format!("header '{header}' of {} is not supported yet; leave it out", command.as_str()),
        )
    }

    /// Whether the error is that a queue is exclusive to another connection.
    pub(super) fn is_locked(&self) -> bool {
        self.message == LOCKED
    }

    pub(super) fn with_receipt(mut self, receipt: Option<String>) -> Self {
        self.receipt = self.receipt.or(receipt);
        self
    }

    /// Adds the receipt that the failed frame asked for.
    pub(super) fn about(self, frame: &Frame<'_>) -> Self {
        self.with_receipt(frame.headers.get("receipt").map(|text| text.into_owned()))
    }

    pub(super) fn with_subscription(mut self, subscription: Option<&str>) -> Self {
        self.subscription = subscription.map(str::to_owned);
        self
    }

    /// The error in one line, for the log.
    pub(super) fn summary(&self) -> String {
        format!("{}: {}", self.message, self.detail)
    }

    /// Appends the ERROR frame.
    pub(super) fn write(&self, out: &mut Vec<u8>, spoken: Spoken) {
        let mut frame = FrameWriter::for_peer(out, Command::Error, spoken);
        frame
            .header("message", &self.message)
            .optional("receipt-id", self.receipt.as_deref())
            .optional("subscription", self.subscription.as_deref())
            .header("content-type", "text/plain")
            .header("version", VERSIONS);
        frame.finish_with(self.detail.as_bytes());
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = match error.kind {
            ErrorKind::NotFound => "not_found",
            ErrorKind::AccessRefused => "access_refused",
            ErrorKind::Precondition => "precondition_failed",
            ErrorKind::Locked => LOCKED,
            ErrorKind::NotAllowed => "not_allowed",
            ErrorKind::NotImplemented => "not_implemented",
            ErrorKind::ResourceLimit => "resource_error",
            ErrorKind::Internal => "internal_error",
        };
        Self::new(message, error.text)
    }
}

impl From<FrameError> for Failure {
    fn from(error: FrameError) -> Self {
        let message = match error {
            FrameError::UnknownCommand(_) => "Bad command",
            _ => "Invalid frame",
        };
        Self::new(message, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Trailer, Version};

    #[test]
    fn an_error_says_what_and_for_which_receipt() {
        let failure = Failure::from(Error::not_found("no queue 'q' in vhost '/'"))
            .with_receipt(Some("r:1".into()))
            .with_subscription(Some("s"));
        let mut out = Vec::new();
        failure.write(&mut out, Spoken { version: Version::V1_2, trailer: Trailer::None });
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "ERROR\nmessage:not_found\nreceipt-id:r\\c1\nsubscription:s\ncontent-type:text/plain\n\
             version:1.0,1.1,1.2\ncontent-length:25\n\nno queue 'q' in vhost '/'\0"
        );
        assert_eq!(failure.summary(), "not_found: no queue 'q' in vhost '/'");
    }
}
