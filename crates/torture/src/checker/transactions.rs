//! The transactions of the load: what each publishes and settles, and how far it got.

use std::collections::HashMap;

use crate::stamp::Id;

/// How far a transaction got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is being filled, or its connection died while it was.
    Open,
    /// Its commit was asked for; whether it happened is the broker's to say, but it is all or
    /// nothing.
    Asked,
    /// The broker says that it happened.
    Committed,
    /// It was rolled back.
    Aborted,
}

/// One transaction.
#[derive(Debug, Clone)]
pub(crate) struct Transaction {
    pub(crate) stage: Stage,
    /// What it publishes, and the queues that each goes to.
    pub(crate) members: Vec<(Id, u32)>,
    /// The deliveries that it accepts, each with its queue.
    pub(crate) sources: Vec<(usize, Id)>,
    /// How many of these were delivered again after the commit was asked for.
    pub(crate) again: usize,
    /// Whether anything that it publishes was delivered.
    pub(crate) seen: bool,
}

impl Default for Transaction {
    fn default() -> Self {
        Self { stage: Stage::Open, members: Vec::new(), sources: Vec::new(), again: 0, seen: false }
    }
}

/// All transactions since the last drain.
#[derive(Debug, Clone, Default)]
pub(crate) struct Transactions {
    by_number: HashMap<u64, Transaction>,
    /// Deliveries that a commit accepts; whether it happened is not known yet.
    in_doubt: HashMap<(usize, Id), u64>,
}

impl Transactions {
    pub(crate) fn get_mut(&mut self, number: u64) -> &mut Transaction {
        self.by_number.entry(number).or_default()
    }

    /// The commit of a transaction is being asked for: from now on its sources are in doubt.
    pub(crate) fn ask(&mut self, number: u64) {
        let transaction = self.by_number.entry(number).or_default();
        transaction.stage = Stage::Asked;
        self.in_doubt.extend(transaction.sources.iter().map(|source| (*source, number)));
    }

    /// A transaction has happened: its sources are in doubt no longer.
    pub(crate) fn commit(&mut self, number: u64) -> &Transaction {
        let transaction = self.by_number.entry(number).or_default();
        transaction.stage = Stage::Committed;
        for source in &transaction.sources {
            self.in_doubt.remove(source);
        }
        transaction
    }

    /// A source was delivered again: the transaction that accepted it, if that was in doubt, did
    /// not happen.
    pub(crate) fn delivered_again(&mut self, queue: usize, id: Id) {
        if let Some(number) = self.in_doubt.remove(&(queue, id)) {
            self.get_mut(number).again += 1;
        }
    }

    /// What was published in transactions that did not happen, nor will once the broker is dead.
    pub(crate) fn unhappened(&self) -> impl Iterator<Item = Id> {
        let over = |transaction: &&Transaction| matches!(transaction.stage, Stage::Open | Stage::Aborted);
        self.by_number.values().filter(over).flat_map(|transaction| transaction.members.iter().map(|(id, _)| *id))
    }

    /// Hands out all of them, with their numbers, and forgets them.
    pub(crate) fn take(&mut self) -> Vec<(u64, Transaction)> {
        self.in_doubt.clear();
        let mut all: Vec<_> = self.by_number.drain().collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        all
    }
}
