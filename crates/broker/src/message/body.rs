//! A body on its way in: borrowed from a buffer, or gathered piece by piece in the place of its
//! message.
//!
//! Invariant: a gathered body is not copied. In front of it there is room for the rest of the
//! block, so that the message is made around it. If the rest needs more room than expected, the
//! body is copied like any other.

use bytes::{Buf, Bytes};

use crate::message::{Message, layout};

/// Memory for a body with a place is taken up to so many bytes ahead of them.
const AHEAD: usize = 1 << 20;

/// The body of a message that is published.
#[derive(Debug)]
pub enum Body<'a> {
    /// In another buffer; it is copied.
    Borrowed(&'a [u8]),
    /// Gathered from pieces.
    Gathered(Gathered),
}

impl Body<'_> {
    /// Its bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Borrowed(body) => body,
            Self::Gathered(gathered) => gathered.as_slice(),
        }
    }
}

impl<'a> From<&'a [u8]> for Body<'a> {
    fn from(body: &'a [u8]) -> Self {
        Self::Borrowed(body)
    }
}

/// Whether there is a place for a large body among those that are on their way
/// ([`Client::body_arrives`](crate::Client::body_arrives)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It has one, and its memory is accounted for.
    Sure,
    /// It waits for one, or is not large.
    Unsure,
}

/// A body that comes in pieces.
#[derive(Debug)]
pub struct Gathered {
    /// The room, then the bytes so far.
    block: Vec<u8>,
    room: usize,
}

impl Gathered {
    /// The empty body of a message with this address and so many bytes of properties.
    pub fn new(exchange: &str, routing_key: &str, properties: usize) -> Self {
        let room = layout::room(exchange, routing_key, properties);
        Self { block: vec![0; room], room }
    }

    /// Bytes that have come.
    pub fn len(&self) -> usize {
        self.block.len() - self.room
    }

    /// True while nothing has come.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that have come.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.block[self.room..]
    }

    /// Bytes of body that there is memory for.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.block.capacity() - self.room
    }

    /// Adds a piece of a body that will have `whole` bytes. Memory is taken for at most twice the
    /// bytes so far. If the body's place is sure, a mebibyte
    /// may be taken. It is never more than the whole.
    pub fn push(&mut self, piece: &[u8], whole: u64, place: Place) {
        let need = self.len() + piece.len();
        if self.room + need > self.block.capacity() {
            let whole = usize::try_from(whole).unwrap_or(usize::MAX);
            let ahead = match place {
                Place::Sure => AHEAD,
                Place::Unsure => 0,
            };
            let take = (need * 2).max(ahead).min(whole).max(need);
            self.block.reserve_exact(take - self.len());
        }
        self.block.extend_from_slice(piece);
    }

    /// The message of this body, with the bytes `before` it that `write` puts there; the body
    /// itself if there is no room.
    pub(super) fn complete(mut self, before: usize, write: impl FnOnce(&mut [u8])) -> Result<Message, Self> {
        let Some(start) = self.room.checked_sub(before) else { return Err(self) };
        write(&mut self.block[start..self.room]);
        let mut block = Bytes::from(self.block);
        block.advance(start);
        Ok(Message(block))
    }
}
