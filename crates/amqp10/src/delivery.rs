//! Messages in several transfers (part 2, §2.6.14): cut for the peer's frames, and put together.
//!
//! This is the one part of the crate with state. It knows one delivery of one link at a time, which
//! is what the specification allows.

mod assembly;
mod split;

pub use assembly::{Assembly, AssemblyError, Delivery, ShortBytes, Step};
pub use split::{Split, encode_transfers};
