//! What the journal asks of whoever uses it: to take what recovery found, and to state again what is about to go.

use crate::{Address, Journal, Owner};

/// Takes the durable records in log order while a journal opens.
///
/// Records of a group are delivered only if the record that ends the group is in the log, each at its own place, not
/// at the place of that end: what is restated between the two must not contradict them. References and settlements may
/// be delivered whose counterpart has been recycled; replay is idempotent by (owner, sequence number).
pub trait Replay {
    /// A fact of `owner`, as it was appended.
    fn fact(&mut self, owner: Owner, kind: u8, bytes: &[u8]);
    /// `bodies` were referenced by `owner` with consecutive sequence numbers from `first_seq`.
    fn reference(&mut self, owner: Owner, first_seq: u64, mark: u64, bodies: &[Address]);
    /// The references in `runs`, each (first sequence number, count), are settled.
    fn settled(&mut self, owner: Owner, reason: u8, runs: &[(u64, u64)]);
    /// The owner is gone with everything it had.
    fn dropped(&mut self, owner: Owner);
    /// Sequence numbers of a reference whose group never ended: they must not be used again.
    fn burnt(&mut self, owner: Owner, first_seq: u64, count: u64);
}

/// Knows the present state of every owner.
pub trait Owners: Send + Sync {
    /// The oldest file is about to be recycled: append the present state of each of these owners, through
    /// [`Journal::housekeeping_appender`]. Owners that are gone are skipped. Called on the background thread without
    /// any lock of the journal held, a bounded number of owners at a time.
    fn restate(&self, owners: &[Owner], journal: &Journal);
}
