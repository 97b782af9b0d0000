//! Retained messages on their way to those that have subscribed, in pieces between other work; and
//! their end by time.
//!
//! Invariant: a piece is in its queue before the lock of the table is let go, so no later value of
//! its topics has overtaken it.

use std::sync::Arc;

use journal::Ticket;

use crate::alarms::Allowance;
use crate::catalog::Vhost;
use crate::catalog::direct::DirectSubscriber;
use crate::catalog::retained::{RetainedLog, RetainedSearch, RetainedTable, Searched};
use crate::engine::Engine;
use crate::engine::sealed::{log_bodies, release_holds};
use crate::message::Message;
use crate::queue::arrival::{Arrival, Work};
use crate::queue::{Gone, Queue, Visit};

/// Values that expire in one round of the housekeeping.
const EXPIRED_AT_ONCE: usize = 1000;

/// What a subscription still gets of what was retained before it came.
#[derive(Debug)]
pub(crate) struct Feed {
    pub(crate) vhost: Arc<Vhost>,
    pub(crate) target: FeedTarget,
    pub(crate) search: RetainedSearch,
}

/// Where it goes.
#[derive(Debug, Clone)]
pub(crate) enum FeedTarget {
    Queue(Arc<Queue>),
    /// Without a queue. It waits for the client to read.
    Subscriber(Arc<DirectSubscriber>),
}

/// What became of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    /// There are more.
    More,
    /// There is no room for it now.
    Wait,
    /// It was the last one.
    Last,
}

/// What became of the feeds in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fed {
    /// There are none left.
    All,
    /// There is more to do at once.
    More,
    /// They wait for an alarm to pass, or for clients that do not read.
    Wait,
}

impl Engine {
    /// Hands over the next piece of a feed. Returns what became of it, and what must be flushed.
    pub(crate) fn feed(&self, feed: &mut Feed, table: &RetainedTable, work: &mut Vec<Work>) -> (Piece, Ticket) {
        if let FeedTarget::Subscriber(subscriber) = &feed.target {
            match subscriber.to.has_room() {
                Some(true) => {}
                Some(false) => return (Piece::Wait, Ticket::NONE),
                None => return (Piece::Last, Ticket::NONE),
            }
        }
        let (mut found, now) = (Vec::new(), self.clock.unix_ms());
        let piece = match table.look(&mut feed.search, now, &mut found) {
            Searched::More => Piece::More,
            Searched::All => Piece::Last,
        };
        match &feed.target {
            _ if found.is_empty() => (piece, Ticket::NONE),
            FeedTarget::Queue(queue) => {
                // A queue that is gone needs no more.
                self.enqueue_retained(queue, found, work).map_or((Piece::Last, Ticket::NONE), |ticket| (piece, ticket))
            }
            FeedTarget::Subscriber(subscriber) => {
                subscriber.deliver_retained(found, &self.totals.deliveries);
                (piece, Ticket::NONE)
            }
        }
    }

    fn enqueue_retained(&self, queue: &Arc<Queue>, found: Vec<Message>, work: &mut Vec<Work>) -> Result<Ticket, Gone> {
        let now = self.clock.unix_ms();
        let mut arrivals: Vec<_> = found.into_iter().map(Arrival::of_broker).collect();
        arrivals.iter_mut().for_each(|arrival| arrival.shares = 1);
        let targets = vec![vec![Arc::clone(queue)]; arrivals.len()];
        let unwoken = log_bodies(&mut arrivals, &targets, self);
        let picks: Vec<u32> = (0..arrivals.len() as u32).collect();
        let published = queue.publish(&mut arrivals, &picks, &mut Visit { context: self, now, work });
        release_holds(&arrivals, queue.log(), self);
        drop(unwoken);
        published
    }

    /// The rest of a feed is for the housekeeping.
    pub(crate) fn feed_later(&self, feed: Feed) {
        self.waiting.lock().feeds.push(feed);
        self.housekeeper.wake();
    }

    /// Puts one more piece of each feed into its queue.
    pub(crate) fn feed_some(&self, work: &mut Vec<Work>) -> Fed {
        let feeds = std::mem::take(&mut self.waiting.lock().feeds);
        if feeds.is_empty() {
            return Fed::All;
        }
        if self.allowance() == Allowance::None {
            self.waiting.lock().feeds.extend(feeds);
            return Fed::Wait;
        }
        let (mut rest, mut fed) = (Vec::new(), Fed::All);
        for mut feed in feeds {
            let vhost = Arc::clone(&feed.vhost);
            let piece = self.feed(&mut feed, &vhost.retained.lock(), work).0;
            fed = match (piece, fed) {
                (Piece::More, _) => Fed::More,
                (Piece::Wait, Fed::All) => Fed::Wait,
                (_, fed) => fed,
            };
            if piece != Piece::Last {
                rest.push(feed);
            }
        }
        self.waiting.lock().feeds.extend(rest);
        fed
    }

    /// Some retained message expires then, in milliseconds since 1970.
    pub(crate) fn expire_retained_at(&self, at: u64) {
        let next = &mut self.waiting.lock().retained_expires;
        if next.is_none_or(|next| at < next) {
            *next = Some(at);
            self.housekeeper.wake();
        }
    }

    /// Removes what has expired. Returns when to look again, in milliseconds since 1970.
    pub(crate) fn expire_retained(&self, now: u64) -> Option<u64> {
        let due = self.waiting.lock().retained_expires.take_if(|due| *due <= now);
        if due.is_some() {
            for vhost in self.catalog.vhosts().into_iter().filter(|vhost| vhost.retained.is_used()) {
                let next = vhost.retained.lock().expire(now, EXPIRED_AT_ONCE, self.retained_log(&vhost));
                next.into_iter().for_each(|at| self.expire_retained_at(at));
            }
        }
        self.waiting.lock().retained_expires
    }

    /// Where a vhost logs what it retains.
    pub(crate) fn retained_log(&self, vhost: &Vhost) -> RetainedLog<'_> {
        RetainedLog { journal: &self.journal, owners: &self.owners, log: vhost.log() }
    }
}
