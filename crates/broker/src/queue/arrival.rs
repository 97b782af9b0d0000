//! A message on its way into queues, and the work that a visit to a queue leaves behind.

use std::sync::Arc;

use journal::{Address, Ticket};

use crate::memory::ingress::Claim;
use crate::message::Message;
use crate::queue::{Dying, MessageIdentity, Queue};

/// A message on its way into queues.
#[derive(Debug)]
pub(crate) struct Arrival {
    message: Message,
    /// Where its body lies in the journal, once it does.
    pub(crate) address: Option<Address>,
    /// Queues that have not taken it yet.
    pub(crate) shares: u32,
    /// Queues that took it.
    pub(crate) taken: u32,
    /// Some queue has dropped it as a duplicate.
    pub(crate) repeated: bool,
    /// Some queue was full and refuses it.
    pub(crate) refused: bool,
    pub(crate) mandatory: bool,
    /// Its session, and its publish number there; 0 where no client waits for a confirm.
    pub(crate) session: u32,
    pub(crate) number: u64,
    /// The claim of a large body, held until the body is durable.
    pub(crate) claim: Option<Claim>,
    /// Its id for deduplication, if it has one.
    pub(crate) identity: Option<Box<MessageIdentity>>,
}

impl Arrival {
    pub(crate) fn new(message: Message, mandatory: bool, session: u32, number: u64) -> Self {
        Self {
            message,
            address: None,
            shares: 0,
            taken: 0,
            repeated: false,
            refused: false,
            mandatory,
            session,
            number,
            claim: None,
            identity: None,
        }
    }

    /// One queue's share. The last one takes the message itself, unless it may have to be returned.
    pub(crate) fn take_share(&mut self) -> Message {
        self.shares = self.shares.saturating_sub(1);
        self.taken += 1;
        if self.shares == 0 && !self.mandatory {
            std::mem::replace(&mut self.message, Message::moved())
        } else {
            self.message.clone()
        }
    }

    /// A full queue does not take its share.
    pub(crate) fn refuse(&mut self) {
        self.shares = self.shares.saturating_sub(1);
        self.refused = true;
    }

    /// A queue that was given it before does not take its share.
    pub(crate) fn repeat(&mut self) {
        self.shares = self.shares.saturating_sub(1);
        self.repeated = true;
    }

    /// True when no queue took it, or dropped it as a duplicate.
    pub(crate) fn is_lost(&self) -> bool {
        self.taken == 0 && !self.repeated
    }

    /// A queue that was deleted meanwhile does not take its share.
    pub(crate) fn miss(&mut self) {
        self.shares = self.shares.saturating_sub(1);
    }

    pub(crate) fn message(&self) -> &Message {
        &self.message
    }

    pub(crate) fn into_message(self) -> Message {
        self.message
    }
}

/// Effects on other queues than the one visited; done after its lock is released.
#[derive(Debug)]
pub(crate) enum Work {
    /// Move these to the queue's dead-letter exchange.
    DeadLetter { queue: Arc<Queue>, dying: Vec<Dying> },
    /// The queue is no longer used: check again under the locks, then delete it.
    DeleteIfUnused { queue: Arc<Queue> },
    /// Visit the queue again at this time (milliseconds since 1970).
    Arm { queue: Arc<Queue>, at: u64 },
    /// Move the messages of the queue that are due.
    Release { queue: Arc<Queue> },
    /// Read what the queue needs from the disk before it can go on.
    Load { queue: Arc<Queue> },
    /// Deliver on when the ticket is durable: the queue's delivery mark is higher then.
    Raise { queue: Arc<Queue>, ticket: Ticket },
}
