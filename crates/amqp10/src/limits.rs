//! The limits of the codec. Those of the specification name its section; it sets no bound for the
//! others.
//!
//! Limits are checked before anything is allocated or waited for, so that a peer can't make us hold
//! more than they allow.

/// How deep lists, maps, arrays and described values may nest.
pub const DEPTH: usize = 32;

/// How many values one frame or one message may hold, including nested ones. Elements of an array
/// count even where they take no bytes.
pub const VALUES: usize = 65_536;

/// Bytes of a frame before its extended header (part 2, §2.3.1).
pub const FRAME_HEADER: usize = 8;

/// The `max-frame-size` that each peer must accept, and the largest frame before `open` and during
/// SASL (part 2, §2.8.19; part 5, §5.3.1).
pub const MIN_MAX_FRAME_SIZE: u32 = 512;

/// Bytes of a delivery tag at most (part 2, §2.8.7).
pub const DELIVERY_TAG: usize = 32;

/// How many open transactions a session may have.
pub const TRANSACTIONS: usize = 16;

/// How many transfers one message may have. A transfer may bring no bytes, so the size of a message
/// does not bound them.
pub const TRANSFERS: u32 = 65_535;
