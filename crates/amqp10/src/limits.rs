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
