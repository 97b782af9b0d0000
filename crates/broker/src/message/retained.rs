//! The block of a retained message: a copy in memory of its own that says of itself that it is
//! retained.
//!
//! A block as it was published shares its memory with its neighbours, of which one would keep all.

use std::sync::Arc;

use bytes::Bytes;

use crate::error::Error;
use crate::message::{Message, layout};

/// See the module.
#[derive(Debug)]
pub(crate) struct RetainedBlock(Box<[u8]>);

impl RetainedBlock {
    /// The message as it is kept.
    pub(crate) fn of(message: &Message) -> Self {
        let mut block: Box<[u8]> = message.block().into();
        layout::mark_retained(&mut block);
        Self(block)
    }

    /// One that was stored.
    ///
    /// # Errors
    /// If its parts are not within it.
    pub(crate) fn from_stored(block: &[u8]) -> Result<Self, Error> {
        Message::from_stored(Bytes::copy_from_slice(block)).map(|message| Self::of(&message))
    }

    /// As it is stored.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The topic: its routing key.
    #[inline]
    pub(crate) fn topic(&self) -> &str {
        std::str::from_utf8(&self.0[layout::routing_key(&self.0)]).unwrap_or_default()
    }

    /// The exchange of the topic.
    #[inline]
    pub(crate) fn exchange(&self) -> &str {
        std::str::from_utf8(&self.0[layout::exchange(&self.0)]).unwrap_or_default()
    }

    pub(crate) fn persistent(&self) -> bool {
        layout::is_persistent(&self.0)
    }

    /// When it expires, in milliseconds since 1970; `None` for never.
    pub(crate) fn expires_at(&self) -> Option<u64> {
        let ttl = layout::expiration(&self.0)?;
        Some(layout::published_at(&self.0).saturating_add(ttl))
    }
}

/// What shares a retained block.
pub(crate) trait Sharing: Send + Sync + 'static {
    /// The block.
    fn block(&self) -> &RetainedBlock;
}

struct Shared<T>(Arc<T>);

impl<T: Sharing> AsRef<[u8]> for Shared<T> {
    fn as_ref(&self) -> &[u8] {
        self.0.block().bytes()
    }
}

impl Message {
    /// The message of a retained block, by reference. One that expires is copied, since its time to
    /// live is what is left of it `now`.
    pub(crate) fn of_retained<T: Sharing>(entry: &Arc<T>, now: u64) -> Self {
        let block = entry.block();
        let Some(expires_at) = block.expires_at() else { return Self(Bytes::from_owner(Shared(Arc::clone(entry)))) };
        let mut copy = block.bytes().to_vec();
        layout::set_expiration(&mut copy, expires_at.saturating_sub(now));
        Self(copy.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Arena, Head};

    struct Entry(RetainedBlock);

    impl Sharing for Entry {
        fn block(&self) -> &RetainedBlock {
            &self.0
        }
    }

    #[test]
    fn a_retained_message_says_so_and_lives_for_what_is_left() {
        for (expiration, left) in [(None, None), (Some(50), Some(20)), (Some(10), Some(0))] {
            let head = Head { published_at: 100, expiration, exchange: "x", routing_key: "a.b", ..Head::EMPTY };
            let message = Arena::default().add(&head, b"body");
            let block = RetainedBlock::from_stored(RetainedBlock::of(&message).bytes()).unwrap();
            assert_eq!((block.topic(), block.expires_at()), ("a.b", expiration.map(|ttl| 100 + ttl)));
            let kept = Message::of_retained(&Arc::new(Entry(block)), 130);
            assert_eq!((kept.is_retained(), message.is_retained()), (true, false));
            assert_eq!((kept.body(), kept.expiration(), kept.exchange()), (&b"body"[..], left, "x"));
        }
    }
}
