//! Transactions: what was sent and accepted in one happens, or nothing of it.

use super::{Books, Key, Place, Whereabouts};

/// One thing that was done in a transaction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation {
    pub(super) key: Key,
    /// That of the message when it was done.
    pub(super) revision: u32,
    /// Where the message is after a commit.
    pub(super) committed: Whereabouts,
    /// Where it is otherwise.
    pub(super) undone: Whereabouts,
}

impl Operation {
    pub(super) fn committed(&self) -> Whereabouts {
        self.committed
    }

    pub(super) fn undone(&self) -> Whereabouts {
        self.undone
    }
}

/// A transaction that is open, or of which it is not known how it ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Transaction {
    pub(super) connection: u64,
    /// Whether its commit was asked for.
    pub(super) asked: bool,
    pub(super) operations: Vec<Operation>,
}

/// A rollback that the broker was asked for.
#[derive(Debug)]
pub(in super::super) struct Undone(Vec<Operation>);

impl Books {
    /// A connection has begun a transaction.
    pub(in super::super) fn begin(&mut self, connection: u64) -> u64 {
        self.next += 1;
        self.transactions.insert(self.next, Transaction { connection, ..Transaction::default() });
        self.next
    }

    /// A delivery is about to be accepted in a transaction. It stays with its connection.
    pub(in super::super) fn accept_in(&mut self, id: u64, place: Place, number: u64) {
        let key = Key::of(place, number);
        let revision = self.messages.get(&key).map_or(0, |message| message.revision);
        let undone = Whereabouts::at(place);
        if let Some(transaction) = self.transactions.get_mut(&id) {
            transaction.operations.push(Operation { key, revision, committed: Whereabouts::GONE, undone });
        }
    }

    /// A commit is about to be asked for.
    pub(in super::super) fn ask_commit(&mut self, id: u64) {
        let Some(transaction) = self.transactions.get_mut(&id) else { return };
        transaction.asked = true;
        for operation in &transaction.operations {
            if let Some(message) = self.messages.get_mut(&operation.key) {
                message.be_in_doubt(id, operation.committed.or(operation.undone));
            }
        }
    }

    /// The broker has committed.
    pub(in super::super) fn committed(&mut self, id: u64) {
        self.tally.committed += 1;
        self.resolve(id, Operation::committed);
    }

    /// A rollback is about to be asked for.
    pub(in super::super) fn ask_rollback(&mut self, id: u64) -> Undone {
        let operations = self.transactions.get(&id).map(|one| one.operations.clone()).unwrap_or_default();
        self.resolve(id, Operation::undone);
        for operation in &operations {
            if let Some(message) = self.messages.get_mut(&operation.key) {
                message.may_have_failed();
            }
        }
        Undone(operations)
    }

    /// The broker has rolled back.
    pub(in super::super) fn rolled_back(&mut self, undone: &Undone) {
        self.tally.rolled_back += 1;
        for Operation { key, revision, .. } in &undone.0 {
            let message = self.messages.get_mut(key);
            if let Some(message) = message.filter(|message| message.revision == *revision) {
                message.has_failed();
            }
        }
    }

    /// It is known how a transaction ended: each message that has not come since is there.
    pub(super) fn resolve(&mut self, id: u64, how: fn(&Operation) -> Whereabouts) {
        let transaction = self.transactions.remove(&id).unwrap_or_default();
        for operation in &transaction.operations {
            let message = self.messages.get_mut(&operation.key);
            if let Some(message) = message.filter(|message| message.revision == operation.revision) {
                message.be_sure(how(operation));
            }
        }
    }

    /// A message of a transaction in doubt has come from here, which says how that one ended.
    pub(super) fn resolve_by(&mut self, id: u64, key: Key, here: Whereabouts) {
        let operations = self.transactions.get(&id).map(|one| one.operations.as_slice()).unwrap_or_default();
        let Some(operation) = operations.iter().find(|operation| operation.key == key) else { return };
        if operation.committed.has(here) {
            self.resolve(id, Operation::committed);
        } else if operation.undone.has(here) {
            self.resolve(id, Operation::undone);
        }
    }

    /// A drain has found no message of a transaction in doubt.
    pub(super) fn finish_doubt(&mut self, id: u64) -> Result<(), String> {
        let Some(transaction) = self.transactions.get(&id) else { return Ok(()) };
        let fits = |how: fn(&Operation) -> Whereabouts| {
            transaction.operations.iter().all(|operation| how(operation) == Whereabouts::GONE)
        };
        let how = if fits(Operation::committed) { Operation::committed } else { Operation::undone };
        if !fits(how) {
            let keys: Vec<Key> = transaction.operations.iter().map(|operation| operation.key).collect();
            return Err(format!("a drain has found neither what a transaction sent nor what it took: {keys:?}"));
        }
        self.resolve(id, how);
        Ok(())
    }
}
