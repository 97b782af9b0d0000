//! A write-ahead log for opaque 64-bit owners: bodies, references to them, settlements and facts.
//!
//! One log per data directory, written in batches by one thread: the next batch is what arrived
//! during the last flush. A [`Ticket`] names the end of what was appended, and is durable when the
//! log is flushed up to there. The journal knows bytes, owners and sequence numbers, and nothing of
//! what they mean. Its engine runs without threads, without a clock and over any [`Disk`], so that
//! a seeded simulation can drive it; `docs/formats/journal.md` draws every byte.

mod admission;
mod appender;
mod backup;
mod checksum;
mod cold;
mod disk;
mod engine;
mod error;
mod file_header;
mod group;
mod journal;
mod layout;
mod memory;
mod options;
mod read;
mod record;
mod recovery;
mod recycle;
mod replay;
mod scrub;
mod spill;
mod stats;
mod threads;
mod ticket;
mod verify;
mod wal;

pub use admission::Admission;
pub use appender::{Appender, Unwoken};
pub use backup::{Backup, BackupError, Copied};
pub use cold::{Bits, Chunk, PAGE, Reference};
pub use disk::{Disk, DiskFile, Lock, RealDisk};
pub use error::OpenError;
pub use group::Group;
pub use journal::{Journal, Opened, Stepper};
pub use layout::{FORMAT, LOST, is_spilled};
pub use options::{Durability, Options};
pub use recovery::accept::{LeftOut, accept_damage};
pub use replay::{Owners, Replay};
pub use stats::{Held, SpillStats, Stats};
pub use ticket::{Address, Ticket};
pub use verify::{Damage, DamagedEntries, Verification, VerifiedFile, VerifiedSegment, verify};
pub use wal::Flushed;

/// Whom a record is about. Owners are never reused; what they stand for is the caller's business.
pub type Owner = u64;
