//! The reply consumer of a session, which needs no queue.

use std::time::Instant;

use auth::{Resource, Right};

use crate::engine::replies::Requester;
use crate::error::Error;
use crate::queue::Settling;
use crate::session::{Client, SessionId};

/// A session's reply consumer.
#[derive(Debug)]
pub(super) struct ReplyConsumer {
    consumer: u32,
    address: String,
}

impl Client {
    /// Starts the session's reply consumer, which needs no settling, and returns its tag. Its
    /// address begins with `prefix`. Replies are reported by `drain` as deliveries.
    ///
    /// # Errors
    /// `Precondition` when the session has one, `NotAllowed` for a tag in use or too many
    /// consumers.
    pub fn consume_replies(
        &mut self,
        session: SessionId,
        tag: &str,
        prefix: &str,
        now: Instant,
    ) -> Result<String, Error> {
        self.flush(now);
        let tag = self.consumer_tag(session, tag)?;
        if self.sessions.require(session)?.replies.is_some() {
            return Err(Error::precondition("reply consumer already set"));
        }
        let consumer = self.add_consumer(session, (&tag, 0), None, Settling::Auto)?;
        let address = self.engine.names.address(prefix);
        let called = self.called(consumer)?;
        let requester = Requester::new(&self.vhost.name, &self.shared.mailbox, consumer, called);
        self.engine.replies.insert(address.clone(), requester);
        self.sessions.require(session)?.replies = Some(ReplyConsumer { consumer, address });
        Ok(tag)
    }

    /// The address of the session's reply consumer: the routing key that reaches it by the default
    /// exchange.
    pub fn reply_address(&self, session: SessionId) -> Option<&str> {
        self.sessions.get(session)?.replies.as_ref().map(|replies| replies.address.as_str())
    }

    /// Whether a session of this vhost waits for replies at this address. A client gets an answer
    /// about its own address, and about addresses that it could reply to. A replier asks so whether
    /// the requester is still there.
    pub(super) fn finds_reply_address(&self, name: &str) -> bool {
        let Some(requester) = self.engine.replies.at(&self.vhost.name, name) else { return false };
        let own = requester.to.is_of(&self.shared.mailbox);
        own || self.authorize(Resource::exchange(""), Right::Write).is_ok()
    }

    /// From here on a session's replies are unroutable, if this is its reply consumer.
    pub(super) fn stop_replies(&mut self, session: SessionId, consumer: u32) {
        let Some(entry) = self.sessions.get_mut(session) else { return };
        if let Some(replies) = entry.replies.take_if(|replies| replies.consumer == consumer) {
            self.end_replies(&replies);
        }
    }

    pub(super) fn end_replies(&self, replies: &ReplyConsumer) {
        self.engine.replies.remove(&replies.address);
    }
}
