//! The client side of a connection without its socket, for the benchmark and for tests that kill a
//! broker.
//!
//! [`Client::feed`] takes received bytes and passes borrowed events to a closure together with
//! [`Requests`], so that a delivery can be settled while it is read. The bytes to send are in
//! [`Requests::output`].

mod event;
mod requests;

pub use event::{AckId, Connected, ErrorReport, Event, Message};
pub use requests::{AckMode, Connect, Requests, Send, Settle, Subscribe};

use crate::codec::{Command, Decoder, FrameError, Version};
use crate::limits::Limits;

/// Why a client can't continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientError {
    /// The bytes are not STOMP.
    Frame(FrameError),
    /// A command that only a client may send.
    UnexpectedCommand(Command),
    /// CONNECTED names a version that this client does not know.
    UnknownVersion(String),
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Frame(error) => error.fmt(f),
            Self::UnexpectedCommand(command) => {
                write!(f, "the server sent {}, which only a client may send", command.as_str())
            }
            Self::UnknownVersion(version) => {
                write!(f, "the server chose version \"{version}\", which was not offered")
            }
        }
    }
}

impl std::error::Error for ClientError {}

impl From<FrameError> for ClientError {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}

/// One connection to a server.
#[derive(Debug)]
pub struct Client {
    requests: Requests,
    decoder: Decoder,
}

impl Client {
    /// A client that has sent nothing yet; `limits` bound what the server may send.
    pub fn new(limits: Limits) -> Self {
        Self { requests: Requests::default(), decoder: Decoder::new(limits) }
    }

    /// The client's requests, and the bytes that it must send.
    pub fn requests(&mut self) -> &mut Requests {
        &mut self.requests
    }

    /// Passes each complete frame at the front of `input` to `handle`. Returns how many bytes were
    /// used; the rest must come again at the front of the next input.
    ///
    /// # Errors
    /// If the bytes are not an answer of a STOMP server. The client can't continue after that.
    pub fn feed(
        &mut self,
        input: &[u8],
        mut handle: impl FnMut(Event<'_>, &mut Requests),
    ) -> Result<usize, ClientError> {
        let mut consumed = 0;
        loop {
            let decoded = self.decoder.decode(&input[consumed..])?;
            consumed += decoded.consumed;
            let Some(frame) = decoded.frame else {
                return Ok(consumed);
            };
            let event = Event::read(frame)?;
            let version = match &event {
                Event::Connected(connected) => Some(connected.version),
                _ => None,
            };
            if let Some(version) = version {
                self.requests.set_version(version);
            }
            handle(event, &mut self.requests);
            if let Some(version) = version {
                self.decoder.set_version(version);
            }
        }
    }

    /// The negotiated version; STOMP 1.0 before CONNECTED.
    pub fn version(&self) -> Version {
        self.requests.version()
    }
}

#[cfg(test)]
mod tests;
