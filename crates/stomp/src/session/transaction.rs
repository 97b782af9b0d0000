//! BEGIN, COMMIT and ABORT: the broker's transactions under the client's names.
//!
//! A rollback returns the deliveries that the transaction settled to their queues, and they are
//! delivered again.

use std::collections::HashMap;
use std::time::Instant;

use broker::{Ticket, TransactionId};

use super::error::Failure;
use super::open::Session;
use crate::codec::Frame;
use crate::limits;

/// The open transactions of one session.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    open: HashMap<String, TransactionId>,
}

fn unknown(name: &str) -> Failure {
    Failure::new("Bad transaction", format!("Invalid transaction identifier: '{name}'; BEGIN comes first"))
}

impl Transactions {
    /// The broker's name of an open transaction.
    pub(super) fn id(&self, name: &str) -> Result<TransactionId, Failure> {
        self.open.get(name).copied().ok_or_else(|| unknown(name))
    }
}

impl Session {
    pub(super) fn begin(&mut self, frame: &Frame<'_>) -> Result<(), Failure> {
        let name = transaction_of(frame)?;
        if self.transactions.open.contains_key(&name) {
            return Err(Failure::new("Bad transaction", format!("transaction '{name}' has begun already")));
        }
        if self.transactions.open.len() >= limits::TRANSACTIONS {
            return Err(Failure::new(
                "Transaction limit exceeded",
                format!("a connection may have {} transactions open at a time", limits::TRANSACTIONS),
            ));
        }
        let id = self.client.begin(self.id);
        self.transactions.open.insert(name, id);
        self.fence(frame, Ticket::NONE);
        Ok(())
    }

    pub(super) fn commit(&mut self, frame: &Frame<'_>, now: Instant) -> Result<(), Failure> {
        let name = transaction_of(frame)?;
        let id = self.transactions.open.remove(&name).ok_or_else(|| unknown(&name))?;
        self.client.commit(id, now)?;
        let receipt = frame.headers.get("receipt").map(|text| text.into_owned());
        self.receipts.after_commit(id, receipt);
        Ok(())
    }

    pub(super) fn abort(&mut self, frame: &Frame<'_>) -> Result<(), Failure> {
        let name = transaction_of(frame)?;
        let id = self.transactions.open.remove(&name).ok_or_else(|| unknown(&name))?;
        self.client.rollback(id);
        self.fence(frame, Ticket::NONE);
        Ok(())
    }
}

fn transaction_of(frame: &Frame<'_>) -> Result<String, Failure> {
    let name = frame.headers.get("transaction");
    name.map(|name| name.into_owned()).ok_or_else(|| Failure::missing(frame.command, "transaction"))
}
