//! Subscribers without a queue: messages go by bindings to the mailboxes of their clients, at most
//! once and never to the disk. What a client leaves unread beyond a bound is dropped and counted.
//! They get what clients publish. What the broker itself moves (dead letters, delayed messages,
//! redriven ones) goes to queues alone.
//!
//! Invariant: a subscriber is in the tables as long as its consumer is there, and so are its
//! bindings.

use std::sync::Arc;

use hashbrown::HashMap;
use journal::Owner;

use crate::message::Message;
use crate::message::publisher::PublisherId;
use crate::queue::mailbox::{MailboxConsumer, Notice};
use crate::stats::Deliveries;

/// What a subscriber asks for, with all that the right to it depends on.
#[derive(Debug)]
pub(crate) struct DirectFilter {
    pub(crate) exchange: Arc<str>,
    pub(crate) key: String,
    pub(crate) is_topic: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct DirectSubscriber {
    pub(crate) id: Owner,
    pub(crate) to: MailboxConsumer,
    /// It does not get what this connection publishes.
    pub(crate) not_from: Option<PublisherId>,
    pub(crate) filters: Box<[DirectFilter]>,
}

impl DirectSubscriber {
    /// Whether it wants a message that its filters match.
    pub(crate) fn takes(&self, message: &Message) -> bool {
        self.not_from.is_none_or(|own| own.bytes() != message.publisher())
    }

    /// Hands messages over. What does not fit is dropped and counted.
    pub(crate) fn deliver(&self, messages: Vec<Message>, totals: &Deliveries) {
        let count = messages.len();
        self.count_dropped(count - self.to.deliver(messages.into_iter()), totals);
    }

    /// The same for a piece of the retained messages that it has asked for. It may be larger than
    /// what a client may leave unread, so the caller asks [`MailboxConsumer::has_room`] before.
    pub(crate) fn deliver_retained(&self, mut messages: Vec<Message>, totals: &Deliveries) {
        messages.retain(|message| self.takes(message));
        let count = messages.len();
        self.count_dropped(count - self.to.deliver_piece(messages.into_iter()), totals);
    }

    fn count_dropped(&self, dropped: usize, totals: &Deliveries) {
        if dropped > 0 {
            totals.unread_dropped.add(dropped as u64);
            self.to.note_dropped(dropped as u64);
        }
    }

    /// Its client is told that it has ended.
    pub(crate) fn cancel(&self) {
        self.to.notify(Notice::Cancelled { consumer: self.to.consumer() });
    }
}

/// What a turn or a transaction has for one subscriber, in order.
#[derive(Debug)]
pub(crate) struct DirectBatch {
    pub(crate) subscriber: Arc<DirectSubscriber>,
    pub(crate) messages: Vec<Message>,
}

impl DirectBatch {
    pub(crate) fn to(subscriber: &Arc<DirectSubscriber>) -> Self {
        Self { subscriber: Arc::clone(subscriber), messages: Vec::new() }
    }

    pub(crate) fn deliver(self, totals: &Deliveries) {
        self.subscriber.deliver(self.messages, totals);
    }
}

/// The subscribers of a vhost without a queue.
#[derive(Debug, Default)]
pub(crate) struct DirectSubscribers(HashMap<Owner, Arc<DirectSubscriber>>);

impl DirectSubscribers {
    pub(crate) fn get(&self, id: Owner) -> Option<&Arc<DirectSubscriber>> {
        self.0.get(&id)
    }

    pub(crate) fn put(&mut self, subscriber: Arc<DirectSubscriber>) {
        self.0.insert(subscriber.id, subscriber);
    }

    pub(super) fn remove(&mut self, id: Owner) -> Option<Arc<DirectSubscriber>> {
        self.0.remove(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<DirectSubscriber>> {
        self.0.values()
    }
}
