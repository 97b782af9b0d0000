//! Outcomes that take effect with a transaction, of deliveries that the peer has not settled
//! (part 4, §4.4.2).
//!
//! A delivery has one outcome, in one transaction at most, and is unsettled meanwhile.

use std::collections::BTreeMap;

use broker::{Outcome, SessionId, TransactionId};

/// What a delivery has been promised.
pub(super) struct One {
    pub(super) tag: u64,
    pub(super) handle: u32,
    pub(super) transaction: TransactionId,
    pub(super) outcome: Outcome,
}

/// The deliveries of a session that have been promised an outcome, by their numbers.
#[derive(Default)]
pub(super) struct Promised(pub(super) BTreeMap<u64, One>);

/// Deliveries of one link with consecutive numbers that a commit settles.
pub(super) struct Redeemed {
    pub(super) session: SessionId,
    pub(super) handle: u32,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) outcome: Outcome,
}
