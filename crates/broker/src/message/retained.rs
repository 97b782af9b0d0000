//! The block of a retained message: a copy in memory of its own that says of itself that it is
//! retained.
//!
//! A block as it was published shares its memory with its neighbours, of which one would keep all.

use bytes::Bytes;

use crate::error::Error;
use crate::message::{Arena, Message, layout};

/// A block from this size on is shared by all its messages. A smaller one is copied into each,
/// which costs less than to count references, in time and for as long as it is kept.
const SHARED_FROM: usize = 4096;

/// See the module.
#[derive(Debug)]
pub(crate) enum RetainedBlock {
    /// Each message is a copy.
    Copied(Box<[u8]>),
    /// Messages share it.
    Shared(Box<Bytes>),
}

impl RetainedBlock {
    /// The message as it is kept.
    pub(crate) fn of(message: &Message) -> Self {
        let mut block: Box<[u8]> = message.block().into();
        layout::mark_retained(&mut block);
        if block.len() < SHARED_FROM { Self::Copied(block) } else { Self::Shared(Box::new(block.into())) }
    }

    /// One that was stored.
    ///
    /// # Errors
    /// If its parts are not within it.
    pub(crate) fn from_stored(block: &[u8]) -> Result<Self, Error> {
        Message::from_stored(Bytes::copy_from_slice(block)).map(|message| Self::of(&message))
    }

    /// As it is stored.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Copied(block) => block,
            Self::Shared(block) => block,
        }
    }

    /// The topic: its routing key.
    #[inline]
    pub(crate) fn topic(&self) -> &str {
        let block = self.bytes();
        std::str::from_utf8(&block[layout::routing_key(block)]).unwrap_or_default()
    }

    /// The exchange of the topic.
    #[inline]
    pub(crate) fn exchange(&self) -> &str {
        let block = self.bytes();
        std::str::from_utf8(&block[layout::exchange(block)]).unwrap_or_default()
    }

    pub(crate) fn persistent(&self) -> bool {
        layout::is_persistent(self.bytes())
    }

    /// When it expires, in milliseconds since 1970; `None` for never.
    pub(crate) fn expires_at(&self) -> Option<u64> {
        let block = self.bytes();
        let ttl = layout::expiration(block)?;
        Some(layout::published_at(block).saturating_add(ttl))
    }

    /// Bytes that its message takes of an arena.
    pub(crate) fn copied_bytes(&self) -> usize {
        match self {
            Self::Copied(block) => block.len(),
            Self::Shared(_) => 0,
        }
    }

    /// The message. The time to live of one that expires is what is left of it `now`.
    pub(crate) fn message(&self, now: u64, arena: &mut Arena) -> Message {
        if let Some(expires_at) = self.expires_at() {
            let mut copy = self.bytes().to_vec();
            layout::set_expiration(&mut copy, expires_at.saturating_sub(now));
            return Message(copy.into());
        }
        Message(match self {
            Self::Copied(block) => arena.copy(block),
            Self::Shared(block) => Bytes::clone(block),
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
                let block = RetainedBlock::from_stored(RetainedBlock::of(&message).bytes()).unwrap();
                assert_eq!((block.topic(), block.expires_at()), ("a.b", expiration.map(|ttl| 100 + ttl)));
                let kept = block.message(130, &mut Arena::of_few(block.copied_bytes()));
                assert_eq!((kept.is_retained(), message.is_retained()), (true, false));
                assert_eq!((kept.body(), kept.expiration(), kept.exchange()), (body, left, "x"));
            }
        }
    }

    #[test]
    fn a_large_block_is_shared_and_a_small_one_copied() {
        for (size, is_shared) in [(100, false), (SHARED_FROM, true)] {
            let message = Arena::default().add(&Head::EMPTY, &vec![0; size]);
            let block = RetainedBlock::of(&message);
            let mut arena = Arena::of_few(block.copied_bytes());
            let [one, other] = [(); 2].map(|()| block.message(0, &mut arena));
            assert_eq!(one.block().as_ptr() == other.block().as_ptr(), is_shared, "{size}");
        }
    }
}
