//! Replies without a queue: addresses by which publishes to the default exchange reach a session.
//!
//! An address is a routing key that lives exactly as long as its consumer. The protocol of the
//! requester says how it begins. Only clients that were told it know it. A reply goes straight into
//! the requester's mailbox, at most once and never to the disk. It is unroutable if the requester
//! has gone or leaves its replies unread.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::engine::Engine;
use crate::message::Message;
use crate::names::may_be_address;
use crate::queue::mailbox::{Called, Mailbox, MailboxConsumer};

/// Bytes that may lie in a mailbox before another reply is refused. Replies have no queue to wait
/// in, so this is more than queues put there. A requester decides how much it asks for before it
/// reads.
const REPLIES_MAX: usize = 16 << 20;

/// Where a reply goes.
#[derive(Debug)]
pub(crate) struct Requester {
    vhost: Arc<str>,
    pub(crate) to: MailboxConsumer,
}

impl Requester {
    pub(crate) fn new(vhost: &Arc<str>, mailbox: &Arc<Mailbox>, consumer: u32, called: Called) -> Self {
        Self { vhost: Arc::clone(vhost), to: MailboxConsumer::new(mailbox, consumer, REPLIES_MAX, called) }
    }

    /// False when its client leaves too much unread.
    pub(crate) fn deliver(&self, message: Message) -> bool {
        self.to.deliver(std::iter::once(message)) == 1
    }
}

/// All reply consumers by address.
#[derive(Debug, Default)]
pub(crate) struct Replies(Mutex<HashMap<String, Arc<Requester>>>);

impl Replies {
    /// The requester at an address of this vhost.
    pub(crate) fn at(&self, vhost: &str, address: &str) -> Option<Arc<Requester>> {
        if !may_be_address(address) {
            return None;
        }
        self.0.lock().get(address).filter(|requester| *requester.vhost == *vhost).cloned()
    }

    /// All requesters of this vhost.
    pub(crate) fn of(&self, vhost: &str) -> Vec<Arc<Requester>> {
        self.0.lock().values().filter(|requester| *requester.vhost == *vhost).cloned().collect()
    }

    pub(crate) fn insert(&self, address: String, requester: Requester) {
        self.0.lock().insert(address, Arc::new(requester));
    }

    pub(crate) fn remove(&self, address: &str) {
        self.0.lock().remove(address);
    }
}

impl Engine {
    /// The requester that a message is a reply to. Called only for a message that no queue took,
    /// since no queue has such a name.
    pub(crate) fn requester(&self, vhost: &str, message: &Message) -> Option<Arc<Requester>> {
        if !message.exchange().is_empty() {
            return None;
        }
        self.replies.at(vhost, message.routing_key())
    }
}
