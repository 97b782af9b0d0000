//! The open transactions of a session, under the client's names.

use std::collections::HashMap;

use broker::{Client, SessionId, TransactionId};

use super::error::Failure;
use crate::codec::Frame;
use crate::limits;

/// The open transactions of one session.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    open: HashMap<String, TransactionId>,
}

impl Transactions {
    /// The broker's name of an open transaction.
    pub(super) fn id(&self, name: &str) -> Result<TransactionId, Failure> {
        self.open.get(name).copied().ok_or_else(|| unknown(name))
    }

    /// Opens the transaction that a BEGIN names.
    pub(super) fn begin(&mut self, frame: &Frame<'_>, client: &mut Client, session: SessionId) -> Result<(), Failure> {
        let name = transaction_of(frame)?;
        if self.open.contains_key(&name) {
            return Err(Failure::new("Bad transaction", format!("transaction '{name}' has begun already")));
        }
        if self.open.len() >= limits::TRANSACTIONS {
            return Err(Failure::new(
                "Transaction limit exceeded",
                format!("a connection may have {} transactions open at a time", limits::TRANSACTIONS),
            ));
        }
        self.open.insert(name, client.begin(session));
        Ok(())
    }

    /// The transaction that a COMMIT or ABORT names. It is not open any more.
    pub(super) fn end(&mut self, frame: &Frame<'_>) -> Result<TransactionId, Failure> {
        let name = transaction_of(frame)?;
        self.open.remove(&name).ok_or_else(|| unknown(&name))
    }
}

fn unknown(name: &str) -> Failure {
    Failure::new("Bad transaction", format!("Invalid transaction identifier: '{name}'; BEGIN comes first"))
}

fn transaction_of(frame: &Frame<'_>) -> Result<String, Failure> {
    let name = frame.headers.get("transaction");
    name.map(|name| name.into_owned()).ok_or_else(|| Failure::missing(frame.command, "transaction"))
}
