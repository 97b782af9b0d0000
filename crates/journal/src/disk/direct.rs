//! Writes of whole blocks past the system's page cache, where there is a way (Linux).
//!
//! A log is written once, and most of it is read back from memory of the broker's own or never.
//! Through the page cache every block costs a page that has to be found, and each flush has to look
//! for its pages. A backlog then takes all the memory that the machine has.
//!
//! Invariant: this is a way to write, never a condition. Where a file system refuses it, and for
//! what is no whole block, the caller writes as ever. Both ways are coherent: the system drops the
//! cached pages of what is written past them.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

/// Both offset and length of such a write, and the address of its memory, are multiples of this:
/// the largest sector.
const BLOCK: usize = 4096;
/// As much is written at once: the memory for it is small, and the disk is busy for long enough.
const PIECE: usize = 1 << 20;

/// Memory that such writes come from, for as many threads as write at once.
#[derive(Default)]
pub(super) struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// Lends aligned memory with a copy of `bytes` in it, of at most a piece.
    fn with<T>(&self, bytes: &[u8], write: impl FnOnce(&[u8]) -> T) -> T {
        let idle = self.0.lock().pop();
        let mut memory = idle.unwrap_or_else(|| vec![0; PIECE + BLOCK]);
        let start = memory.as_ptr().align_offset(BLOCK);
        let bytes = &bytes[..bytes.len().min(PIECE)];
        let aligned = &mut memory[start..start + bytes.len()];
        aligned.copy_from_slice(bytes);
        let done = write(aligned);
        self.0.lock().push(memory);
        done
    }
}

/// The way past the page cache to one file.
pub(super) struct Direct {
    buffers: Arc<Buffers>,
    /// The same file, opened for this, from the first such write on; `None` where that can't be
    /// done.
    file: OnceLock<Option<File>>,
    refused: AtomicBool,
}

impl Direct {
    pub(super) fn new(buffers: Arc<Buffers>) -> Self {
        Self { buffers, file: OnceLock::new(), refused: AtomicBool::new(false) }
    }

    /// Writes some of `bytes` to `file`; `None` if the page cache has to be used.
    pub(super) fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> Option<io::Result<usize>> {
        let whole = !bytes.is_empty() && bytes.len().is_multiple_of(BLOCK) && offset.is_multiple_of(BLOCK as u64);
        if !whole || self.refused.load(Ordering::Relaxed) {
            return None;
        }
        let direct = self.file.get_or_init(|| open(file)).as_ref()?;
        match self.buffers.with(bytes, |aligned| write(direct, aligned, offset)) {
            // The file system lets itself be opened so, and then has other wishes.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                self.refused.store(true, Ordering::Relaxed);
                None
            }
            done => Some(done),
        }
    }
}

#[cfg(target_os = "linux")]
fn open(file: &File) -> Option<File> {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;

    // By its descriptor: this is the same file, whatever has become of its name.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
    let direct = std::fs::OpenOptions::new().write(true).custom_flags(flags).open(path).ok()?;
    // Reading ahead would bring blocks into the cache that are just being written past it. Those
    // who read know how much.
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Random);
    Some(direct)
}

/// Elsewhere everything goes through the page cache.
#[cfg(not(target_os = "linux"))]
fn open(_: &File) -> Option<File> {
    None
}

#[cfg(unix)]
fn write(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, bytes, offset)
}

#[cfg(windows)]
fn write(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_write(file, bytes, offset)
}
