//! Bytes of a stream, cut into messages.
//!
//! Invariant: no more is kept than the longest message that is allowed, and what was read at once.
//! Room is made for what has come, not for what a length says.

use bytes::{Buf, BytesMut};

use crate::message::{Malformed, Message, PIECE};

/// Most bytes of a message of the one that follows: the ends of some 87 000 logs.
pub const LONGEST_ASKED: u32 = 2 << 20;

/// Most bytes of a message of the one that serves, when log files have so many bytes: an entry does
/// not span them.
pub fn longest_sent(file_bytes: u32) -> u32 {
    file_bytes.max(PIECE as u32).saturating_add(64)
}

/// See the module.
#[derive(Debug)]
pub struct Frames {
    bytes: BytesMut,
    longest: u32,
}

impl Frames {
    /// No bytes yet; messages may have `longest` bytes.
    pub fn new(longest: u32) -> Self {
        Self { bytes: BytesMut::new(), longest }
    }

    /// Adds bytes that came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes that are kept.
    pub fn kept(&self) -> usize {
        self.bytes.len()
    }

    /// The next message, if it is whole.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn next_message(&mut self) -> Result<Option<Message>, Malformed> {
        let Some(length) = self.bytes.first_chunk().copied().map(u32::from_le_bytes) else { return Ok(None) };
        if length > self.longest {
            return Err(Malformed("a message that is longer than it may be"));
        }
        if self.bytes.len() < 4 + length as usize {
            return Ok(None);
        }
        self.bytes.advance(4);
        Message::read(self.bytes.split_to(length as usize).freeze()).map(Some)
    }
}
