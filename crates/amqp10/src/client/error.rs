//! Why a connection can't go on.

use crate::codec::{FieldError, FrameError, sasl::SaslCode};
use crate::delivery::AssemblyError;

/// The peer broke the protocol or refused the log-in, or the caller asked for what is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientError {
    /// The peer does not speak AMQP 1.0, or not with the log-in that was wanted: its header.
    Version([u8; 8]),
    /// The peer offers none of the mechanisms that fit the [`Login`](super::Login); those it has.
    Mechanisms(Vec<String>),
    /// The peer refused the log-in.
    Login(SaslCode),
    /// Bytes that are not a frame.
    Frame(FrameError),
    /// A frame that can't be read.
    Field(FieldError),
    /// Transfers that do not fit together.
    Assembly(AssemblyError),
    /// A frame that is not allowed here.
    Unexpected(&'static str),
    /// No session has this channel.
    NoSession(u16),
    /// No link of the session, or none of the wanted direction, has this handle.
    NoLink(u32),
    /// The peer allows no more of these.
    TooMany(&'static str),
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Version(header) => write!(f, "the broker wants another protocol: {}", header.escape_ascii()),
            Self::Mechanisms(offered) => write!(f, "the broker logs in by {} only", offered.join(", ")),
            Self::Login(SaslCode::Auth) => write!(f, "the broker refused user or password"),
            Self::Login(code) => write!(f, "the broker could not log in: {code:?}"),
            Self::Frame(error) => write!(f, "the broker sent a broken frame: {error}"),
            Self::Field(error) => write!(f, "the broker sent a frame that cannot be read: {error}"),
            Self::Assembly(error) => write!(f, "the broker sent broken transfers: {error}"),
            Self::Unexpected(what) => write!(f, "the broker broke the protocol: {what}"),
            Self::NoSession(channel) => write!(f, "there is no session on channel {channel}"),
            Self::NoLink(handle) => write!(f, "the session has no such link with handle {handle}"),
            Self::TooMany(what) => write!(f, "the broker allows no more {what}"),
        }
    }
}

impl std::error::Error for ClientError {}

impl From<FrameError> for ClientError {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}

impl From<FieldError> for ClientError {
    fn from(error: FieldError) -> Self {
        Self::Field(error)
    }
}

impl From<AssemblyError> for ClientError {
    fn from(error: AssemblyError) -> Self {
        Self::Assembly(error)
    }
}
