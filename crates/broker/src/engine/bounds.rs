//! The bounds of one message and of one turn.

/// Bytes of a stored message besides its body and properties: its head, its address, and the
/// history of its deaths.
pub const STORED_BESIDES: u64 = 64 << 10;

/// Entries that a turn enqueues at most; its last message may exceed it.
pub(crate) const TURN_ENTRIES: usize = 10_000;

/// Steps of routing ([`crate::routing::STEPS`]) that cost a turn as much as an entry.
pub(crate) const STEPS_PER_ENTRY: usize = 16;
