//! The block of a retained message: a copy in memory of its own that says of itself that it is
//! retained.
//!
//! A block as it was published shares its memory with its neighbours, of which one would keep all.
//! There may be a million copies, most of them to one exchange. So a small one has a number where
//! the exchange's name stands in a message; the table of retained messages knows the names.
//!
//! Invariant: with the name that its number stands for, a block is that of the message, byte for
//! byte.

use bytes::Bytes;

use crate::error::Error;
use crate::message::{Arena, Message, layout};

/// A block from this size on is shared by all its messages. A smaller one is copied into each,
/// which costs less than to count references, in time and for as long as it is kept.
const SHARED_FROM: usize = 4096;

/// The block of a retained message as it is stored, which has been checked.
#[derive(Debug)]
pub(crate) struct StoredRetained(Box<[u8]>);

impl StoredRetained {
    /// That of a message.
    pub(crate) fn of(message: &Message) -> Self {
        let mut block: Box<[u8]> = message.block().into();
        layout::mark_retained(&mut block);
        Self(block)
    }

    /// One that was stored.
    ///
    /// # Errors
    /// If its parts are not within it.
    pub(crate) fn read(block: &[u8]) -> Result<Self, Error> {
        Message::from_stored(Bytes::copy_from_slice(block)).map(|message| Self::of(&message))
    }

    /// As it is stored.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The exchange of the topic.
    pub(crate) fn exchange(&self) -> &str {
        std::str::from_utf8(&self.0[layout::exchange(&self.0)]).unwrap_or_default()
    }
}

/// A block that all its messages share.
#[derive(Debug)]
pub(crate) struct SharedBlock {
    exchange: u32,
    block: Bytes,
}

/// See the module.
#[derive(Debug)]
pub(crate) enum RetainedBlock {
    /// Each message is a copy. The exchange is a number in it.
    Copied(Box<[u8]>),
    /// Messages share it: a large one, or one of an older version.
    Shared(Box<SharedBlock>),
}

impl RetainedBlock {
    /// The block of a message to the exchange that has the number `exchange`.
    pub(crate) fn of(StoredRetained(block): StoredRetained, exchange: u32) -> Self {
        if block.len() < SHARED_FROM
            && let Some(numbered) = layout::numbered(&block, exchange)
        {
            return Self::Copied(numbered);
        }
        Self::Shared(Box::new(SharedBlock { exchange, block: block.into() }))
    }

    #[inline]
    fn held(&self) -> &[u8] {
        match self {
            Self::Copied(block) => block,
            Self::Shared(shared) => &shared.block,
        }
    }

    /// Bytes of its memory.
    pub(crate) fn size(&self) -> usize {
        self.held().len()
    }

    /// The topic: its routing key.
    #[inline]
    pub(crate) fn topic(&self) -> &str {
        let block = self.held();
        let place = match self {
            Self::Copied(_) => layout::numbered_routing_key(block),
            Self::Shared(_) => layout::routing_key(block),
        };
        std::str::from_utf8(&block[place]).unwrap_or_default()
    }

    /// The number of the exchange of the topic.
    pub(crate) fn exchange(&self) -> u32 {
        match self {
            Self::Copied(block) => layout::exchange_number(block).0,
            Self::Shared(shared) => shared.exchange,
        }
    }

    pub(crate) fn persistent(&self) -> bool {
        layout::is_persistent(self.held())
    }

    /// When it expires, in milliseconds since 1970; `None` for never.
    pub(crate) fn expires_at(&self) -> Option<u64> {
        let block = self.held();
        let ttl = layout::expiration(block)?;
        Some(layout::published_at(block).saturating_add(ttl))
    }

    /// Calls `with` with the pieces that make up the block as it is stored.
    pub(crate) fn pieces<R>(&self, exchange: &str, with: impl FnOnce(&[&[u8]]) -> R) -> R {
        match self {
            Self::Copied(block) => {
                let (_, place) = layout::exchange_number(block);
                let (length, used) = layout::written_length(exchange.len());
                with(&[&block[..place.start], &length[..used], exchange.as_bytes(), &block[place.end..]])
            }
            Self::Shared(shared) => with(&[&shared.block]),
        }
    }

    /// Bytes of the block as it is stored.
    pub(crate) fn length(&self, exchange: &str) -> usize {
        self.pieces(exchange, |pieces| pieces.iter().map(|piece| piece.len()).sum())
    }

    /// Bytes that its message takes of an arena.
    pub(crate) fn copied_bytes(&self, exchange: &str) -> usize {
        match self {
            Self::Copied(_) => self.length(exchange),
            Self::Shared(_) => 0,
        }
    }

    /// The message. The time to live of one that expires is what is left of it `now`.
    pub(crate) fn message(&self, exchange: &str, now: u64, arena: &mut Arena) -> Message {
        if let Some(expires_at) = self.expires_at() {
            let mut copy = self.pieces(exchange, |pieces| pieces.concat());
            layout::set_expiration(&mut copy, expires_at.saturating_sub(now));
            return Message(copy.into());
        }
        Message(match self {
            Self::Copied(_) => self.pieces(exchange, |pieces| arena.copy(pieces)),
            Self::Shared(shared) => Bytes::clone(&shared.block),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Head;

    #[test]
    fn a_retained_message_says_so_and_lives_for_what_is_left() {
        for (expiration, left) in [(None, None), (Some(50), Some(20)), (Some(10), Some(0))] {
            for body in [&b"body"[..], &[7; SHARED_FROM]] {
                let head = Head { published_at: 100, expiration, exchange: "x", routing_key: "a.b", ..Head::EMPTY };
                let message = Arena::default().add(&head, body);
                let stored = StoredRetained::read(StoredRetained::of(&message).bytes()).unwrap();
                let block = RetainedBlock::of(stored, 7);
                assert_eq!((block.topic(), block.expires_at()), ("a.b", expiration.map(|ttl| 100 + ttl)));
                let kept = block.message("x", 130, &mut Arena::of_few(block.copied_bytes("x")));
                assert_eq!((kept.is_retained(), message.is_retained()), (true, false));
                assert_eq!((kept.body(), kept.expiration(), kept.exchange()), (body, left, "x"));
            }
        }
    }

    #[test]
    fn the_name_of_the_exchange_is_kept_elsewhere() {
        for (name, number, of_the_name) in [("", 0, 0), ("amq.topic", 127, 9), ("amq.topic", 128, 8)] {
            let head = Head { exchange: name, routing_key: "a.b", properties: b"some", ..Head::EMPTY };
            let stored = StoredRetained::of(&Arena::default().add(&head, b"body"));
            let whole = stored.bytes().to_vec();
            let block = RetainedBlock::of(stored, number);
            assert_eq!(block.size() + of_the_name, whole.len(), "{name} {number}");
            assert_eq!((block.exchange(), block.topic()), (number, "a.b"));
            assert_eq!(
                (block.pieces(name, |pieces| pieces.concat()), block.length(name)),
                (whole.clone(), whole.len())
            );
            let message = block.message(name, 0, &mut Arena::of_few(block.copied_bytes(name)));
            assert_eq!(message.block(), whole);
        }
    }

    #[test]
    fn a_large_block_is_shared_and_a_small_one_copied() {
        for (size, is_shared) in [(100, false), (SHARED_FROM, true)] {
            let message = Arena::default().add(&Head::EMPTY, &vec![0; size]);
            let block = RetainedBlock::of(StoredRetained::of(&message), 3);
            assert_eq!(block.exchange(), 3);
            let mut arena = Arena::of_few(block.copied_bytes(""));
            let [one, other] = [(); 2].map(|()| block.message("", 0, &mut arena));
            assert_eq!(one.block().as_ptr() == other.block().as_ptr(), is_shared, "{size}");
        }
    }
}
