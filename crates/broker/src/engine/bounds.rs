//! The bounds of one message and of one turn.

/// Bytes of a stored message besides its body and properties: its head, its address, and the
/// history of its deaths.
pub const STORED_BESIDES: u64 = 64 << 10;

/// Entries that a turn enqueues, settles and drops at most; the last request of it may exceed it.
pub(crate) const TURN_ENTRIES: usize = 10_000;

/// Steps of routing ([`crate::routing::STEPS`]) that cost a turn as much as an entry.
pub(crate) const STEPS_PER_ENTRY: usize = 16;

/// A change of a vhost's tables costs a turn as much as so many entries, whatever it changes.
pub(crate) const CHANGE_ENTRIES: usize = 16;

/// A fetch costs a turn as much as so many entries: it has a visit of its queue to itself.
pub(crate) const FETCH_ENTRIES: usize = 16;
