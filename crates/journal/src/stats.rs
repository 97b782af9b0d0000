//! Figures about a journal for its operator.

use crate::durations::Durations;

/// Why the oldest file is still there.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Held {
    /// It is the file being written.
    Head,
    /// This many references and holds keep bodies in it alive.
    Live(u64),
    /// A group with records in it has not ended.
    Group,
    /// Nothing: it goes when its room is needed.
    Nothing,
}

/// Figures about bodies that end with the process: see [`crate::Journal::spill`].
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct SpillStats {
    /// Files of such bodies.
    pub files: u32,
    /// What these files take, in bytes.
    pub bytes: u64,
    /// Bytes written to them since the journal was opened.
    pub written_bytes: u64,
    /// How often bodies could not be spilled, because the disk is full, say.
    pub failures: u64,
}

/// Figures about segments: files of bodies outside the log.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct SegmentStats {
    /// How many there are.
    pub files: u32,
    /// What these files take.
    pub bytes: u64,
    /// An estimate of the bytes of bodies in them that are still referenced.
    pub live_bytes: u64,
    /// Bytes of bodies copied out of the log or from segment to segment, since the journal was
    /// opened.
    pub evacuated_bytes: u64,
    /// Log files that became segments where they lie, since the journal was opened.
    pub adopted_files: u64,
    /// Segments written in place of others, since the journal was opened.
    pub merges: u64,
    /// How often a segment could not be written (because the disk is full, say) or read, and the
    /// journal tried again.
    pub failures: u64,
    /// Bytes of segments that were read to see whether they still can be, since the journal was
    /// opened.
    pub scrubbed_bytes: u64,
    /// How often all of them were read that way.
    pub scrub_rounds: u64,
    /// Segments in which something was found that does not read back.
    pub damaged: u32,
}

/// A look at a journal's disk. Sizes are in bytes.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct DiskUse {
    /// What is free to this process.
    pub free: u64,
    /// The size of the file system.
    pub size: u64,
    /// What the journal has of it: the files of the log, segments, and what was spilled.
    pub stored: u64,
}

/// A snapshot of a journal's figures. Sizes are in bytes.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Log files from the oldest to the one being written.
    pub files: u32,
    /// What these files take.
    pub used_bytes: u64,
    /// The size the log may grow to.
    pub max_bytes: u64,
    /// What is still free on the disk, as of the last look.
    pub free_bytes: u64,
    /// Bytes written since the journal was opened, padding included.
    pub written_bytes: u64,
    /// Flushes since the journal was opened.
    pub flushes: u64,
    /// How long its thread took to write and flush what had arrived.
    pub flush_times: Durations,
    /// How many bytes more can be taken before publishers are stopped.
    pub room_bytes: u64,
    /// An estimate of the bytes of bodies that are still referenced.
    pub live_bytes: u64,
    /// The generation of the oldest file.
    pub oldest_file: u32,
    /// What keeps the oldest file.
    pub oldest_held: Held,
    /// Files of bodies outside the log.
    pub segments: SegmentStats,
    /// Bodies that end with the process.
    pub spill: SpillStats,
    /// How often a log file could not be readied (because the disk is full, say) and the journal
    /// tried again.
    pub ready_failures: u64,
}
