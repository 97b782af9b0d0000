//! Files that are kept open because they were read last.

use std::sync::Arc;

use super::DiskFile;

/// How many files are kept open for reading.
const KEPT_OPEN: usize = 32;

/// The files read last, the most recent one at the end; the oldest is closed when there are too
/// many.
#[derive(Default)]
pub(crate) struct OpenFiles(Vec<(u32, Arc<dyn DiskFile>)>);

impl OpenFiles {
    /// The file of this number, if it is open.
    pub(crate) fn get(&mut self, number: u32) -> Option<Arc<dyn DiskFile>> {
        let at = self.0.iter().position(|(open, _)| *open == number)?;
        let recent = self.0.remove(at);
        let file = Arc::clone(&recent.1);
        self.0.push(recent);
        Some(file)
    }

    /// Keeps a file open.
    pub(crate) fn put(&mut self, number: u32, file: Arc<dyn DiskFile>) {
        if self.0.iter().any(|(open, _)| *open == number) {
            return;
        }
        if self.0.len() >= KEPT_OPEN {
            self.0.remove(0);
        }
        self.0.push((number, file));
    }

    pub(crate) fn close(&mut self, number: u32) {
        self.0.retain(|(open, _)| *open != number);
    }
}
