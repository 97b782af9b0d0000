//! A broker that follows another: it has what that one has, serves no client, and becomes a broker
//! when it is told to.
//!
//! Invariant: there is one way to a broker. What was followed is the value that a start builds from
//! its log, and becomes a broker by the same steps.

use std::io;
use std::sync::Arc;
use std::task::Waker;

use auth::Authority;
use journal::{
    Disk, Entry, Journal, LogEnd, Opened, Options, Owners, Receiving, ReceivingError, Reference, Refused, Ticket,
};

use crate::broker::{Broker, Parts, Serving, Stored};
use crate::engine::checkpoint::Restater;
use crate::engine::follow::Followed;
use crate::engine::open_error::OpenError;
use crate::engine::recovery::Replayed;

/// See the module.
pub struct Standby {
    journal: journal::Follower,
    followed: Arc<Followed>,
    restater: Arc<Restater>,
    serving: Serving,
}

impl Standby {
    /// Opens the data directory, which is empty, a copy of the leader's, or one that followed
    /// before; and starts its journal.
    ///
    /// # Errors
    /// One line that says what is wrong with the directory, and what to do.
    pub fn open(parts: Parts) -> Result<Self, OpenError> {
        Self::open_with(parts, |opened, live, owners, on_failure| opened.follow(live, owners, on_failure))
    }

    /// As [`Standby::open`], with another way to start the journal: a simulation runs it step by
    /// step.
    ///
    /// # Errors
    /// As [`Standby::open`].
    pub fn open_with(
        parts: Parts,
        start: impl FnOnce(
            Opened,
            &mut dyn Iterator<Item = (u32, u64)>,
            Arc<dyn Owners>,
            Box<dyn Fn(&io::Error) + Send + Sync>,
        ) -> io::Result<journal::Follower>,
    ) -> Result<Self, OpenError> {
        let (Stored { disk, options, on_failure, authority }, serving) = parts.split();
        let mut replayed = Replayed::with(authority)?;
        let opened = Journal::open(disk, options, &mut replayed)?;
        let read = |chunk, page, into: &mut Vec<Reference>| opened.read_chunk(chunk, page, into);
        let live = replayed.rebuilt.begin_following(&replayed.system, &read);
        let (followed, restater) = (Followed::new(replayed), Arc::new(Restater::default()));
        restater.answer_from(&followed);
        let owners = Arc::clone(&restater);
        let doing = |error| journal::OpenError::Io { doing: "beginning to follow".to_owned(), error };
        let journal = start(opened, &mut live.into_iter(), owners, on_failure).map_err(doing)?;
        Ok(Self { journal, followed, restater, serving })
    }

    /// Begins to receive a snapshot of a leader ([`Broker::snapshot`]) into an empty directory.
    /// [`Standby::open`] goes on with it once it is finished.
    ///
    /// # Errors
    /// Why the directory can't be used.
    pub fn receive(disk: Arc<dyn Disk>, options: Options) -> Result<Receiving, ReceivingError> {
        Receiving::begin(disk, options)
    }

    /// How far each log is here: what the leader's [`Broker::feed`] goes on from.
    pub fn ends(&self) -> Vec<LogEnd> {
        self.journal.ends()
    }

    /// Takes the next entry of a log.
    ///
    /// # Errors
    /// Why it is not taken. Nothing has come of it then.
    pub fn apply(&self, entry: &Entry) -> Result<Ticket, Refused> {
        self.followed.apply(entry, &self.journal)
    }

    /// See [`journal::Follower::horizon`].
    pub fn horizon(&self, file: u32) {
        self.journal.horizon(file);
    }

    /// The users and their rights, as the entries say so far.
    pub fn authority(&self) -> Arc<Authority> {
        self.followed.authority()
    }

    /// Whether an entry is durable here.
    pub fn is_durable(&self, ticket: Ticket) -> bool {
        self.journal.is_durable(ticket)
    }

    /// Wakes `waker` once, when an entry is durable here.
    pub fn when_durable(&self, ticket: Ticket, waker: &Waker) {
        self.journal.when_durable(ticket, waker);
    }

    /// Bytes taken and not yet durable: the caller waits while these are many.
    pub fn lag(&self) -> u64 {
        self.journal.lag()
    }

    /// Has the files of backlogs read from time to time, at most so many bytes each second; 0 for
    /// never.
    pub fn scrub(&self, bytes_per_second: u64) {
        self.journal.scrub(bytes_per_second);
    }

    /// The damage that it found since the last call: a line for each file, for the log.
    pub fn take_scrubbed(&self) -> Vec<String> {
        let line = |damage: journal::Damage| {
            let journal::Damage { file, offset, what, .. } = damage;
            format!(
                "{file} is damaged at byte {offset}: {what}; what lies there could not be delivered once this node is promoted: \
                 look at the disk, and start it with --replace for a new copy of the leader"
            )
        };
        self.journal.take_damages().into_iter().map(line).collect()
    }

    /// The journal's figures.
    pub fn journal_stats(&self) -> journal::Stats {
        self.journal.stats()
    }

    /// Why this can't become a broker, if there is a reason: a fact that can't be read.
    pub fn damage(&self) -> Option<String> {
        self.followed.damage()
    }

    /// Follows no longer, and serves what it has: the same as the leader's directory, cut where the
    /// entries end, would.
    ///
    /// # Errors
    /// As [`Broker::open`].
    pub fn promote(self) -> Result<Broker, OpenError> {
        let Self { journal, followed, restater, serving } = self;
        restater.pause();
        let Some(followed) = Arc::into_inner(followed) else {
            unreachable!("only the restater had another, and it is paused")
        };
        let mut replayed = followed.into_inner();
        let read = |chunk, page, into: &mut Vec<Reference>| journal.read_chunk(chunk, page, into);
        // The journal has counted all along what is alive.
        let _ = replayed.declare(&read, serving.clock.unix_ms())?;
        Broker::serve(replayed, journal.promote(), &restater, serving)
    }

    /// Flushes what was taken, and stops.
    ///
    /// # Errors
    /// When the journal could not take its last records.
    pub fn close(self) -> io::Result<()> {
        self.journal.close()
    }
}
