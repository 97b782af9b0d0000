//! Replies without a queue: addresses by which publishes to the default exchange reach a session.
//!
//! An address is a routing key of its own that lives exactly as long as its consumer, and that only
//! those know who were told. A reply goes straight into the requester's mailbox, at most once and
//! never to the disk; for whoever is not there, or leaves its replies unread, it is unroutable.

use std::sync::Arc;
use std::time::Instant;

use auth::{Resource, Right};
use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::core::Core;
use crate::error::Error;
use crate::message::Message;
use crate::queue::Returns;
use crate::queue::mailbox::{Lent, Mailbox};
use crate::session::{Client, SessionId};

/// What the address of every reply consumer begins with; RabbitMQ's clients and servers know it.
pub const REPLY_PREFIX: &str = "amq.rabbitmq.reply-to.";

/// Bytes that may lie in a mailbox for one more reply to be put in. A reply has no queue to wait
/// in, so this is more than what queues fill: it is up to a requester how much it asks for before
/// it reads.
const REPLIES_MAX: usize = 16 << 20;

/// A session's reply consumer.
#[derive(Debug)]
pub(super) struct ReplyConsumer {
    consumer: u32,
    address: String,
}

/// Where a reply goes.
#[derive(Debug, Clone)]
pub(crate) struct Requester {
    vhost: Arc<str>,
    mailbox: Arc<Mailbox>,
    consumer: u32,
}

impl Requester {
    /// False when it leaves too much unread.
    pub(crate) fn deliver(&self, message: Message) -> bool {
        let lent = Lent { consumer: self.consumer, redelivered: false, returns: Returns::default(), seq: 0, message };
        self.mailbox.deliver_reply(lent, REPLIES_MAX)
    }
}

/// All reply consumers by address.
#[derive(Debug, Default)]
pub(crate) struct Replies(Mutex<HashMap<String, Requester>>);

impl Replies {
    /// The requester at an address of this vhost.
    fn at(&self, vhost: &str, address: &str) -> Option<Requester> {
        if !address.starts_with(REPLY_PREFIX) {
            return None;
        }
        self.0.lock().get(address).filter(|requester| *requester.vhost == *vhost).cloned()
    }
}

impl Core {
    /// The requester that a message is a reply to. Ask this only of what no queue has taken: no
    /// queue has such a name.
    pub(crate) fn requester(&self, vhost: &str, message: &Message) -> Option<Requester> {
        if !message.exchange().is_empty() {
            return None;
        }
        self.replies.at(vhost, message.routing_key())
    }
}

impl Client {
    /// Starts the session's reply consumer, which needs no settling, and returns its tag. Replies
    /// are reported by `drain` as deliveries.
    ///
    /// # Errors
    /// `Precondition` when the session has one, `NotAllowed` for a tag in use or too many
    /// consumers.
    pub fn consume_replies(&mut self, session: SessionId, tag: &str, now: Instant) -> Result<String, Error> {
        self.flush(now);
        let tag = self.consumer_tag(session, tag)?;
        if self.session_mut(session)?.replies.is_some() {
            return Err(Error::precondition("reply consumer already set"));
        }
        let consumer = self.add_consumer(session, &tag, None, true)?;
        let address = self.core.names.address(REPLY_PREFIX);
        let requester =
            Requester { vhost: Arc::clone(&self.vhost.name), mailbox: Arc::clone(&self.shared.mailbox), consumer };
        self.core.replies.0.lock().insert(address.clone(), requester);
        self.session_mut(session)?.replies = Some(ReplyConsumer { consumer, address });
        Ok(tag)
    }

    /// The address of the session's reply consumer: the routing key that reaches it by the default
    /// exchange.
    pub fn reply_address(&self, session: SessionId) -> Option<&str> {
        self.sessions.get(&session.0)?.replies.as_ref().map(|replies| replies.address.as_str())
    }

    /// Whether a session of this vhost waits for replies at this address, as far as this client may
    /// know: it is its own, or it could send the reply. A replier asks so whether the requester is
    /// still there.
    pub(super) fn finds_reply_address(&self, name: &str) -> bool {
        let Some(requester) = self.core.replies.at(&self.vhost.name, name) else { return false };
        let own = Arc::ptr_eq(&requester.mailbox, &self.shared.mailbox);
        own || self.authorize(Resource::exchange(""), Right::Write).is_ok()
    }

    /// From here on a session's replies are unroutable, if this is its reply consumer.
    pub(super) fn stop_replies(&mut self, session: SessionId, consumer: u32) {
        let Some(entry) = self.sessions.get_mut(&session.0) else { return };
        if let Some(replies) = entry.replies.take_if(|replies| replies.consumer == consumer) {
            self.end_replies(&replies);
        }
    }

    pub(super) fn end_replies(&self, replies: &ReplyConsumer) {
        self.core.replies.0.lock().remove(&replies.address);
    }
}
