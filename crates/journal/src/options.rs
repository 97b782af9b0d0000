//! What a journal is opened with, and the sizes derived from it.

use std::sync::Arc;

use crate::progress::Progress;

/// What "durable" means for the whole journal.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
pub enum Durability {
    /// A ticket is durable when its records are flushed to the disk: it survives a power cut.
    Fsync,
    /// A ticket is durable when its records are handed to the operating system: it survives the end
    /// of the process.
    Os,
    /// Nothing is written, every ticket is durable at once, and nothing survives.
    Memory,
}

/// The settings of a journal. Sizes are in bytes.
#[derive(Clone, Debug)]
pub struct Options {
    /// When a ticket counts as durable.
    pub durability: Durability,
    /// The size of a log file. It is rounded down to whole blocks and, so that a ring has at least
    /// eight files, to an eighth of `max_bytes`.
    pub file_bytes: u32,
    /// The size of the very first file, small so that the first start is instant.
    pub first_file_bytes: u32,
    /// How large the log may grow before publishes are refused.
    pub max_bytes: u64,
    /// A batch is closed when the next record would make it larger than this; a larger record has a
    /// batch of its own.
    pub max_batch_bytes: u32,
    /// A random number, used when the directory is new: it tells this journal's bytes from any
    /// other's.
    pub incarnation: u64,
    /// Where the start shows how far it has come.
    pub progress: Arc<Progress>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Fsync,
            file_bytes: 64 << 20,
            first_file_bytes: 1 << 20,
            max_bytes: 1 << 30,
            max_batch_bytes: 1 << 20,
            incarnation: 0,
            progress: Arc::default(),
        }
    }
}

/// Batches start and end on blocks of this size.
pub(crate) const BLOCK: u32 = 4096;

/// The smallest log file.
const MIN_FILE: u32 = 64 << 10;

/// How many files the smallest ring has.
const MIN_FILES: u64 = 8;

/// The sizes a journal works with, derived from [`Options`] and, for the ring, from the file
/// system.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) file: u32,
    pub(crate) first_file: u32,
    pub(crate) ring: u64,
    pub(crate) batch: u32,
    /// The file system had no room for files as large as the settings would have them.
    pub(crate) short_of_disk: bool,
}

impl Sizes {
    /// The sizes for `options` on a file system where the journal may use `disk` bytes in all.
    pub(crate) fn new(options: &Options, disk: u64) -> Self {
        // A quarter is left to everything else that lives there.
        let ring = options.max_bytes.min(disk / 4 * 3).max(u64::from(MIN_FILE) * MIN_FILES);
        let eighth_of = |ring: u64| u32::try_from(ring / MIN_FILES).unwrap_or(u32::MAX);
        let eighth = eighth_of(ring);
        // A limit set by the file system moves from start to start; a power of two keeps old files
        // fitting.
        let eighth = if ring < options.max_bytes { 1 << eighth.ilog2() } else { eighth };
        let file = options.file_bytes.min(eighth).max(MIN_FILE) / BLOCK * BLOCK;
        Self {
            file,
            first_file: options.first_file_bytes.clamp(MIN_FILE.min(file), file) / BLOCK * BLOCK,
            ring,
            batch: options.max_batch_bytes.clamp(BLOCK, file / 2),
            short_of_disk: file < options.file_bytes.min(eighth_of(options.max_bytes)) / BLOCK * BLOCK,
        }
    }

    /// The longest body a record can hold.
    pub(crate) fn max_body(&self) -> u32 {
        self.file / 4 * 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_scales_down_with_the_settings_and_the_file_system() {
        let gib = 1 << 30;
        let mib = 1 << 20;
        let table = [
            // ring asked for, disk, ring, file, whether the disk is too small for more
            (gib, 1 << 40, gib, 64 * mib, false),
            (256 * mib, 1 << 40, 256 * mib, 32 * mib, false),
            (16 * mib, 1 << 40, 16 * mib, 2 * mib, false),
            (gib, 256 * mib, 192 * mib, 16 * mib, true),
            // A ring that is cut to three quarters of this still has files as large as can be.
            (gib, gib, 768 * mib, 64 * mib, false),
            (1, 1 << 40, mib / 2, mib / 16, false),
        ];
        for (asked, disk, ring, file, short) in table {
            let options = Options { max_bytes: asked, ..Options::default() };
            let sizes = Sizes::new(&options, disk);
            assert_eq!((sizes.ring, u64::from(sizes.file)), (ring, file), "{asked} on {disk}");
            assert_eq!(sizes.short_of_disk, short, "{asked} on {disk}");
            assert!(u64::from(sizes.max_body()) + 2 * u64::from(BLOCK) <= file);
        }
    }
}
