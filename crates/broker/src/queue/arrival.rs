//! A message on its way into queues, what its publisher is told of it, and the work that a visit to
//! a queue leaves behind.

use std::sync::Arc;

use journal::{Address, Ticket};

use crate::error::ErrorKind;
use crate::memory::ingress::Claim;
use crate::message::Message;
use crate::queue::{Dying, MessageIdentity, Queue};

/// Whether a publish is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirm {
    /// It is not, unless the message must be returned.
    None,
    /// Once: it is confirmed, unroutable or refused. The protocol chooses the number, which is
    /// higher than those before it in the session.
    Numbered(u64),
    /// The same. With its answer the broker keeps the message's id, as
    /// [`Client::keep_exactly_once`](crate::Client::keep_exactly_once) says; without that call it
    /// is as [`Confirm::Numbered`].
    Once {
        /// As in [`Confirm::Numbered`].
        number: u64,
        /// The client's id of the message, until it is released.
        id: u16,
    },
}

impl Confirm {
    pub(crate) fn number(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Numbered(number) | Self::Once { number, .. } => Some(number),
        }
    }

    /// The id of a message that comes exactly once.
    pub(crate) fn once(self) -> Option<u64> {
        if let Self::Once { id, .. } = self { Some(id.into()) } else { None }
    }
}

/// What the publisher of a message that reaches no queue is told. It is dropped in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unroutable {
    /// The same as if it had been taken.
    Drop,
    /// That it is unroutable, if its publish has a number.
    Tell,
    /// That it is unroutable, and what it was.
    Return,
}

/// Why a publish was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A queue is full and refuses publishes.
    Full,
    /// It waited behind an alarm for too long, or more waited than may.
    Alarm,
    /// An error of this kind, which the protocol was told at once.
    Error(ErrorKind),
}

/// A message on its way into queues.
#[derive(Debug)]
pub(crate) struct Arrival {
    message: Message,
    /// Bytes of its body.
    pub(crate) length: u64,
    /// Where its body lies in the journal, once it does.
    pub(crate) address: Option<Address>,
    /// Queues that have not taken it yet.
    pub(crate) shares: u32,
    /// Queues that took it.
    pub(crate) taken: u32,
    /// Some queue has dropped it as a duplicate.
    pub(crate) repeated: bool,
    /// It is the last value of its topic now, or has removed that.
    pub(crate) retained: bool,
    /// Why it is not taken; a full queue decides that for all.
    pub(crate) refused: Option<Refusal>,
    pub(crate) unroutable: Unroutable,
    /// The session that published it; 0 for the broker itself.
    pub(crate) session: u32,
    pub(crate) confirm: Confirm,
    /// The claim of a large body, held until the body is durable.
    pub(crate) claim: Option<Claim>,
    /// Its id for deduplication, if it has one.
    pub(crate) identity: Option<Box<MessageIdentity>>,
}

impl Arrival {
    /// A message that the broker itself publishes.
    pub(crate) fn of_broker(message: Message) -> Self {
        let length = message.body().len() as u64;
        Self::new(message, length, 0, Confirm::None, Unroutable::Drop)
    }

    /// A message whose body has so many bytes.
    #[inline]
    pub(crate) fn new(message: Message, length: u64, session: u32, confirm: Confirm, unroutable: Unroutable) -> Self {
        Self {
            message,
            length,
            address: None,
            shares: 0,
            taken: 0,
            repeated: false,
            retained: false,
            refused: None,
            unroutable,
            session,
            confirm,
            claim: None,
            identity: None,
        }
    }

    /// The message of an arrival that was made without it.
    #[inline]
    pub(crate) fn bring(&mut self, message: Message) {
        self.message = message;
    }

    /// One queue's share. The last one takes the message itself, unless it may have to be returned.
    pub(crate) fn take_share(&mut self) -> Message {
        self.shares = self.shares.saturating_sub(1);
        self.taken += 1;
        if self.shares == 0 && self.unroutable != Unroutable::Return {
            std::mem::replace(&mut self.message, Message::moved())
        } else {
            self.message.clone()
        }
    }

    /// A full queue does not take its share.
    pub(crate) fn refuse(&mut self) {
        self.shares = self.shares.saturating_sub(1);
        self.refused = Some(Refusal::Full);
    }

    /// A queue that was given it before does not take its share.
    pub(crate) fn repeat(&mut self) {
        self.shares = self.shares.saturating_sub(1);
        self.repeated = true;
    }

    /// True when no queue took it, or dropped it as a duplicate, and it is not retained either.
    pub(crate) fn is_lost(&self) -> bool {
        self.taken == 0 && !self.repeated && !self.retained
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
