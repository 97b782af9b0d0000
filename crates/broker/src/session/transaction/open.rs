//! The transactions of a client that are open, and its commits that are not durable yet.

use std::time::Instant;

use hashbrown::HashMap;

use crate::error::Error;
use crate::memory::ledger::Charge;
use crate::queue::arrival::Arrival;
use crate::queue::mailbox::TransactionId;
use crate::session::SessionId;
use crate::session::settle::{Outcome, Unacked};

/// A transaction that is being gathered, or waits behind an alarm.
#[derive(Debug)]
pub(in crate::session) struct Open {
    pub(super) session: SessionId,
    pub(super) arrivals: Vec<Arrival>,
    pub(super) deliveries: Vec<(Unacked, Outcome)>,
    /// The memory of its messages.
    pub(super) charge: Charge,
    /// Since when it waits for an alarm to pass, after its commit.
    pub(super) waiting_since: Option<Instant>,
}

/// The transactions of a client.
#[derive(Debug, Default)]
pub(in crate::session) struct Transactions {
    open: HashMap<u64, Open>,
    /// The number that was given out last.
    last: u64,
    /// Commits that are not durable yet.
    committing: usize,
}

impl Transactions {
    pub(super) fn begin(&mut self, session: SessionId, charge: Charge) -> TransactionId {
        self.last += 1;
        let open = Open { session, arrivals: Vec::new(), deliveries: Vec::new(), charge, waiting_since: None };
        self.open.insert(self.last, open);
        TransactionId(self.last)
    }

    /// The transaction, which a client must not use once it has ended.
    pub(super) fn require(&mut self, transaction: TransactionId) -> Result<&mut Open, Error> {
        self.open
            .get_mut(&transaction.0)
            .ok_or_else(|| Error::precondition(format!("transaction {} is not open", transaction.0)))
    }

    pub(super) fn remove(&mut self, transaction: TransactionId) -> Option<Open> {
        self.open.remove(&transaction.0)
    }

    /// Takes out all of a session.
    pub(super) fn remove_of(&mut self, session: SessionId) -> impl Iterator<Item = Open> {
        self.open.extract_if(move |_, open| open.session == session).map(|(_, open)| open)
    }

    /// The memory of all of them.
    pub(super) fn bytes(&self) -> usize {
        self.open.values().map(|open| open.charge.bytes()).sum()
    }

    /// Those that wait for an alarm to pass: since when, and the memory of each.
    pub(super) fn waiting(&self) -> Vec<(TransactionId, Instant, usize)> {
        let waiting = self.open.iter();
        let waiting = waiting
            .filter_map(|(number, open)| Some((TransactionId(*number), open.waiting_since?, open.charge.bytes())));
        waiting.collect()
    }

    /// True while a commit of this session waits for an alarm to pass.
    pub(in crate::session) fn waits(&self, session: SessionId) -> bool {
        self.open.values().any(|open| open.session == session && open.waiting_since.is_some())
    }

    /// Since when the first of them waits for an alarm to pass.
    pub(in crate::session) fn waiting_since(&self) -> Option<Instant> {
        self.open.values().filter_map(|open| open.waiting_since).min()
    }

    /// The client waits for the result of a commit. True if it waits for no earlier one.
    pub(super) fn start_commit(&mut self) -> bool {
        self.committing += 1;
        self.committing == 1
    }

    /// The client has the result of a commit.
    pub(in crate::session) fn end_commit(&mut self) {
        self.committing = self.committing.saturating_sub(1);
    }

    /// True while the client waits for the result of a commit.
    #[inline]
    pub(in crate::session) fn is_committing(&self) -> bool {
        self.committing > 0
    }
}
