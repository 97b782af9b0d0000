//! The transactions of a connection (part 4), by the ids that its peer has.
//!
//! The id of a transaction is the connection's, and links of all its sessions may take part. A
//! transaction is rolled back when its coordinator's link, the session of that, or the connection
//! ends (§4.3).
//! One in which a message was refused can only be rolled back: nothing of it is committed in part.

use std::collections::HashMap;

use broker::{Client, Outcome, SessionId, TransactionId};

use crate::codec::error::condition;
use crate::codec::state::TransactionalState;
use crate::codec::{self, DeliveryState};
use crate::delivery::Delivery;
use crate::limits;
use crate::session::begun::Unanswered;
use crate::session::error::Failure;
use crate::session::promised::Redeemed;

/// How deliveries that were settled in a transaction go back when it is rolled back: they count as
/// tried.
const TRIED: Outcome = Outcome::Modified { failed: true, elsewhere: false, annotations: None };

/// One that is open.
pub(super) struct Open {
    pub(super) transaction: TransactionId,
    session: SessionId,
    coordinator: u32,
    /// The sessions with deliveries that have been promised an outcome in it.
    pub(super) promised: Vec<SessionId>,
    /// Why it can't be committed.
    pub(super) failed: Option<Failure>,
}

/// A discharge whose answer waits for the commit.
pub(super) struct Discharging {
    pub(super) session: SessionId,
    pub(super) request: Unanswered,
    pub(super) answer: Reply,
    /// What the peer did not settle by itself.
    pub(super) redeemed: Vec<Redeemed>,
}

/// Whether a request has an answer: one that its sender has settled has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    Wanted,
    Unwanted,
}

impl Reply {
    /// Of a delivery.
    pub(super) fn to(delivery: &Delivery<'_>) -> Self {
        if delivery.settled { Self::Unwanted } else { Self::Wanted }
    }
}

/// The transactions of a connection, by the ids that its peer has.
#[derive(Default)]
pub(super) struct Transactions {
    open: HashMap<u64, Open>,
    pub(super) discharging: HashMap<TransactionId, Discharging>,
    /// The id that was given out last.
    last: u64,
}

impl Transactions {
    /// The broker's name of the transaction of this id.
    pub(super) fn find(&self, id: &[u8]) -> Result<TransactionId, Failure> {
        key(id).and_then(|key| self.open.get(&key)).map(|open| open.transaction).ok_or_else(unknown)
    }

    /// Deliveries of this session are promised an outcome in the transaction of this id.
    pub(super) fn promise(&mut self, id: &[u8], session: SessionId) {
        if let Some(open) = key(id).and_then(|key| self.open.get_mut(&key))
            && !open.promised.contains(&session)
        {
            open.promised.push(session);
        }
    }

    /// The session and the handle of the link that has declared it.
    pub(super) fn coordinator_of(&self, transaction: TransactionId) -> Option<(SessionId, u32)> {
        let open = self.open.values().find(|open| open.transaction == transaction)?;
        Some((open.session, open.coordinator))
    }

    /// Something of it was refused, so all of it is.
    pub(super) fn fail(&mut self, id: &[u8], failure: &Failure) {
        if let Some(open) = key(id).and_then(|key| self.open.get_mut(&key)) {
            open.failed.get_or_insert_with(|| failure.clone());
        }
    }

    /// Begins one for this coordinator, and gives its id.
    pub(super) fn declare(
        &mut self,
        client: &mut Client,
        session: SessionId,
        coordinator: u32,
    ) -> Result<u64, Failure> {
        let count = self.open.values().filter(|open| open.session == session).count();
        if count >= limits::TRANSACTIONS {
            let text = format!("a session may have {} transactions open at a time", limits::TRANSACTIONS);
            return Err(Failure::new(condition::RESOURCE_LIMIT_EXCEEDED, text));
        }
        self.last += 1;
        let transaction = client.begin_with(session, TRIED);
        let open = Open { transaction, session, coordinator, promised: Vec::new(), failed: None };
        self.open.insert(self.last, open);
        Ok(self.last)
    }

    /// Takes out the one of this id, which is discharged.
    pub(super) fn take(&mut self, id: &[u8]) -> Result<Open, Failure> {
        key(id).and_then(|key| self.open.remove(&key)).ok_or_else(unknown)
    }

    /// The coordinator's link ends. Returns what it has declared, which is to be rolled back.
    pub(super) fn end_link(&mut self, session: SessionId, handle: u32) -> Vec<Open> {
        let ends = |_: &u64, open: &mut Open| open.session == session && open.coordinator == handle;
        self.open.extract_if(ends).map(|(_, open)| open).collect()
    }

    /// The same for all coordinators of a session. What other sessions did in their transactions
    /// is undone, too.
    pub(super) fn end_session(&mut self, session: SessionId) -> Vec<Open> {
        self.discharging.retain(|_, discharging| discharging.session != session);
        self.open.extract_if(|_, open| open.session == session).map(|(_, open)| open).collect()
    }
}

/// The state of something that is part of this transaction.
pub(super) fn state<'a>(id: &'a [u8], outcome: codec::Outcome<'a>) -> DeliveryState<'a> {
    DeliveryState::Transactional(TransactionalState { txn_id: id, outcome: Some(outcome) })
}

fn key(id: &[u8]) -> Option<u64> {
    id.try_into().ok().map(u64::from_be_bytes)
}

fn unknown() -> Failure {
    Failure::new(condition::UNKNOWN_TRANSACTION, "no such transaction is open on this connection")
}

/// A transaction could not be committed.
pub(super) fn rolled_back(text: String) -> Failure {
    Failure::new(condition::TRANSACTION_ROLLBACK, text)
}
