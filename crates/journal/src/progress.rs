//! How far a start has come with its log, for those who wait for it.
//!
//! A start reads its log twice: first it finds what is whole, then it replays that. Both are
//! counted in log files, so that the share only grows.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The log files that a start has to read, and those that it has read. It is all zero before.
#[derive(Debug, Default)]
pub struct Progress {
    read: AtomicUsize,
    of: AtomicUsize,
}

impl Progress {
    /// How much of the log is read, in percent; `None` before that is known.
    pub fn percent(&self) -> Option<usize> {
        let of = self.of.load(Ordering::Acquire);
        (of > 0).then(|| self.read.load(Ordering::Acquire).min(of) * 100 / of)
    }

    /// The log has this many files, each of which is read twice.
    pub(crate) fn begin(&self, files: usize) {
        self.of.store(2 * files, Ordering::Release);
    }

    /// Everything before this file has been read, in the first or the second pass.
    pub(crate) fn reached(&self, file: usize) {
        self.read.fetch_max(file, Ordering::AcqRel);
    }

    /// All is read.
    pub(crate) fn end(&self) {
        self.reached(self.of.load(Ordering::Acquire));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_known_once_the_files_are_and_only_grows() {
        let progress = Progress::default();
        progress.end();
        assert_eq!(progress.percent(), None);
        progress.begin(4);
        let seen: Vec<_> = [0, 3, 1, 4, 7].map(|file| (progress.reached(file), progress.percent()).1).into();
        assert_eq!(seen, [0, 37, 37, 50, 87].map(Some));
        progress.end();
        assert_eq!(progress.percent(), Some(100));
    }
}
