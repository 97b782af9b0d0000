//! What happened, in the words of the checker: one event for each thing that a client did or heard.
//!
//! An event that the client causes is told before its bytes are written; an event that it hears is
//! told after they were read. So the order in which events are told is one that really can have
//! been.

use crate::fence::Fence;
use crate::stamp::{Damage, DeliveryMode, Id, Stamp};

/// One thing that a client of the broker did or heard, or the broker's death.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// A message is about to be published.
    Attempt {
        /// Its name, its transaction and the queues that it goes to.
        stamp: Stamp,
        /// Whether it should survive the broker's death.
        mode: DeliveryMode,
    },
    /// The broker confirmed it.
    Confirm(Id),
    /// The broker refused it.
    Refuse(Id),
    /// A consumer received something.
    Deliver {
        /// The consumer, which is one subscription's connection.
        consumer: u32,
        /// The queue that the consumer's subscription names.
        queue: usize,
        /// Whether the broker says that it may have been delivered before.
        redelivered: bool,
        /// What the body says.
        content: Result<Stamp, Damage>,
    },
    /// It came so many milliseconds before its time.
    Early {
        /// Where it came from.
        queue: usize,
        /// Which message.
        id: Id,
        /// By how much.
        early: u64,
    },
    /// It came with other properties than it was published with, or with other marks than its way
    /// has given it.
    Changed {
        /// Where it came from.
        queue: usize,
        /// Which message.
        id: Id,
        /// What it came with.
        what: String,
    },
    /// A delivery is about to be settled.
    Settle {
        /// Who settles.
        consumer: u32,
        /// Where it came from.
        queue: usize,
        /// Which message.
        id: Id,
        /// How.
        outcome: Outcome,
        /// In which transaction.
        transaction: Option<u64>,
    },
    /// A question is about to be asked whose answer means that the consumer's settlements so far
    /// are on disk.
    FenceAsked {
        /// Who asks.
        consumer: u32,
        /// The question's number.
        fence: u64,
        /// What kind of reply will answer it.
        kind: Fence,
    },
    /// It was answered.
    FenceReplied {
        /// Who had asked.
        consumer: u32,
        /// The question's number.
        fence: u64,
    },
    /// The consumer is about to close its connection, or to give back all that it holds: from here
    /// on what it has not settled may come to others, and so may what it settled without a fence if
    /// its connection is dropped.
    Left(u32),
    /// A commit is about to be asked for.
    CommitAsked(u64),
    /// The transaction is committed.
    Committed(u64),
    /// The transaction is about to be rolled back.
    Aborted(u64),
    /// Behind a kill, before anybody consumed or published, a queue said that so many messages are
    /// ready.
    Counted {
        /// Which queue.
        queue: usize,
        /// What it holds.
        ready: u64,
        /// What the queue holds where its dead letters go.
        moved: u64,
    },
    /// So many messages were sent back from where dead letters go.
    Redriven(u64),
    /// A retained message, a subscription or what was noted on a message was changed, and that is
    /// confirmed.
    Kept,
    /// Everything that was confirmed has had its time to come to a consumer that waited for it.
    Overdue,
    /// All consumers are gone, and what they held and gave back is in its place.
    AtRest,
    /// From here on this consumer takes all that there is. No other one takes anything, and no
    /// producer publishes.
    Draining(u32),
    /// The broker was killed: no connection of before exists any more.
    Killed,
}

/// How a delivery is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Never to be delivered again.
    Accepted,
    /// Back to its place in the queue.
    Released,
    /// On to the queue's dead-letter queue.
    Rejected,
}
