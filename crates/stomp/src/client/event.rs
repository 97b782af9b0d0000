//! What a server sends to a client, borrowed from the received bytes.
//!
//! A header is looked up only when it is asked for, so that a load generator pays only for what it
//! reads.

use std::borrow::Cow;

use super::ClientError;
use crate::codec::{Body, Command, Frame, Headers, HeartBeat, Version};

/// One frame from the server.
#[derive(Debug)]
pub enum Event<'a> {
    /// The session is open.
    Connected(Connected<'a>),
    /// A delivery.
    Message(Message<'a>),
    /// The frame with this receipt has been handled.
    Receipt(Cow<'a, str>),
    /// The session has failed; the server closes the connection.
    Error(ErrorReport<'a>),
}

impl<'a> Event<'a> {
    pub(super) fn read(frame: Frame<'a>) -> Result<Self, ClientError> {
        let Frame { command, headers, body } = frame;
        let text = |name: &str| headers.get(name).unwrap_or_default();
        match command {
            Command::Message => Ok(Self::Message(Message { headers, body })),
            Command::Receipt => Ok(Self::Receipt(text("receipt-id"))),
            Command::Error => Ok(Self::Error(ErrorReport { headers, body })),
            Command::Connected => {
                // A server of STOMP 1.0 names no version.
                let named = headers.get("version").unwrap_or(Cow::Borrowed("1.0"));
                let version = Version::parse(&named).ok_or_else(|| ClientError::UnknownVersion(named.into_owned()))?;
                Ok(Self::Connected(Connected { version, headers }))
            }
            other => Err(ClientError::UnexpectedCommand(other)),
        }
    }
}

/// The answer to CONNECT.
#[derive(Debug)]
pub struct Connected<'a> {
    /// The version that the rest of the connection speaks.
    pub version: Version,
    /// All headers.
    pub headers: Headers<'a>,
}

impl<'a> Connected<'a> {
    /// The server's name and version.
    pub fn server(&self) -> Option<Cow<'a, str>> {
        self.headers.get("server")
    }

    /// The server's half of the heart-beat negotiation; zeros if it names none.
    pub fn heart_beat(&self) -> HeartBeat {
        self.headers.get("heart-beat").and_then(|text| HeartBeat::parse(&text)).unwrap_or_default()
    }
}

/// A delivery.
#[derive(Debug)]
pub struct Message<'a> {
    /// All headers.
    pub headers: Headers<'a>,
    body: Body<'a>,
}

impl<'a> Message<'a> {
    /// The body.
    pub fn body(&self) -> &[u8] {
        self.body.as_slice()
    }

    /// The id of its subscription.
    pub fn subscription(&self) -> Option<Cow<'a, str>> {
        self.headers.get("subscription")
    }

    /// The server's id of this delivery.
    pub fn message_id(&self) -> Option<Cow<'a, str>> {
        self.headers.get("message-id")
    }

    /// What an ACK or NACK of it must name: the `ack` header since 1.2, `message-id` and
    /// `subscription` before. `None` if the server sent neither.
    pub fn ack_id(&self) -> Option<AckId<'a>> {
        if let Some(id) = self.headers.get("ack") {
            return Some(AckId::Ack(id));
        }
        Some(AckId::Message { id: self.message_id()?, subscription: self.subscription() })
    }
}

/// Identifies a delivery in an ACK or NACK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AckId<'a> {
    /// STOMP 1.2: the value of the delivery's `ack` header.
    Ack(Cow<'a, str>),
    /// STOMP 1.0 and 1.1.
    Message {
        /// The delivery's `message-id`.
        id: Cow<'a, str>,
        /// The delivery's `subscription`.
        subscription: Option<Cow<'a, str>>,
    },
}

impl AckId<'_> {
    /// The id in owned form, for use after the received bytes are gone.
    pub fn into_owned(self) -> AckId<'static> {
        match self {
            Self::Ack(id) => AckId::Ack(id.into_owned().into()),
            Self::Message { id, subscription } => AckId::Message {
                id: id.into_owned().into(),
                subscription: subscription.map(|text| text.into_owned().into()),
            },
        }
    }
}

/// An ERROR frame.
#[derive(Debug)]
pub struct ErrorReport<'a> {
    /// All headers.
    pub headers: Headers<'a>,
    body: Body<'a>,
}

impl<'a> ErrorReport<'a> {
    /// The short description.
    pub fn message(&self) -> Cow<'a, str> {
        self.headers.get("message").unwrap_or_default()
    }

    /// The explanation, if there is one.
    pub fn detail(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.body.as_slice())
    }

    /// The receipt that the failed frame asked for.
    pub fn receipt(&self) -> Option<Cow<'a, str>> {
        self.headers.get("receipt-id")
    }
}
