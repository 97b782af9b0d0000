//! A write-ahead log for opaque 64-bit owners: bodies, references to them, settlements and facts.
//!
//! One log per data directory, written in batches by one thread: the next batch is what arrived
//! during the last flush. A [`Ticket`] names the end of what was appended, and is durable when the
//! log is flushed up to there. The journal knows bytes, owners and sequence numbers, and nothing of
//! what they mean. Its engine runs without threads, without a clock and over any [`Disk`], so that
//! a seeded simulation can drive it; `docs/formats/journal.md` draws every byte.

mod admission;
mod checksum;
mod cold;
mod copies;
mod disk;
mod durations;
mod engine;
mod entry;
mod error;
mod file_header;
mod group;
mod held;
mod layout;
mod log;
mod memory;
mod options;
mod progress;
mod read;
mod record;
mod recovery;
mod reference;
mod replay;
mod spill;
mod stats;
mod ticket;
mod verify;
mod wal;

pub use admission::Admission;
pub use copies::{Awaited, Waiting};
pub use disk::{Disk, DiskFile, Lock, RealDisk};
pub use durations::Durations;
pub use engine::appender::{Appender, Unwoken};
pub use engine::backup::{Backup, BackupError, Copied};
pub use engine::feed::{Behind, Fed, Feed, FeedError, Passed};
pub use engine::follower::{Counted, FollowedState, Follower};
pub use engine::journal::{Journal, Opened, Stepper};
pub use engine::kept::Kept;
pub use engine::owners::{Owners, Restatement};
pub use engine::receiving::{Receiving, ReceivingError};
pub use engine::recycle::Activity;
pub use engine::snapshot::{Begin, Piece, Pulled, Snapshot, SnapshotError};
pub use engine::writer::Flushed;
pub use entry::{Entry, Refused, Restated};
pub use error::OpenError;
pub use group::Group;
pub use layout::{FORMAT, LOST, is_spilled};
pub use log::{LogEnd, LogId, SpansLogs};
pub use options::{Durability, Options};
pub use progress::Progress;
pub use recovery::accept::{LeftOut, accept_damage};
pub use recovery::scan::Cut;
pub use reference::{Bits, Chunk, PAGE, Reference};
pub use replay::Replay;
pub use stats::{DiskUse, Held, SegmentStats, SpillStats, Stats};
pub use ticket::{Address, Standing, Ticket};
pub use verify::{Damage, DamagedEntries, Verification, VerifiedFile, VerifiedSegment, verify};
pub use wal::keeps::Keeping;

/// The owner that a record is about: its log, and a number in that, which is never used again; see
/// [`LogId`]. What it stands for is the caller's business.
pub type Owner = u64;
