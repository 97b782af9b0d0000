//! The parts of a frame: command, headers and body.
//!
//! A [`Frame`] borrows from the received bytes. Only a large body that arrived in pieces owns its
//! memory.

use bytes::Bytes;

use super::{Command, Headers};

/// A body: a part of the received bytes, or a buffer of its own if it is large and came in pieces.
#[derive(Debug, Clone)]
pub enum Body<'a> {
    /// Part of the received bytes.
    Slice(&'a [u8]),
    /// Gathered from several reads; cloning it copies nothing.
    Shared(Bytes),
}

impl Body<'_> {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Slice(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

/// One frame.
#[derive(Debug, Clone)]
pub struct Frame<'a> {
    /// The first line.
    pub command: Command,
    /// The header lines, without repeated ones.
    pub headers: Headers<'a>,
    /// The bytes after the blank line, without the closing NUL.
    pub body: Body<'a>,
}
