//! The disk as the journal sees it: files of one directory, and the real one.
//!
//! Invariant: nothing else in the journal touches the file system, so a simulated [`Disk`] sees
//! every operation.

mod direct;
mod folder;
mod open_files;
mod real;

use std::io;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use open_files::OpenFiles;
pub use real::RealDisk;

/// Keeps the directory locked until it is dropped.
pub type Lock = Box<dyn Send + Sync>;

/// A directory of files. Names are relative and use `/`; there is one level of folders below the
/// root at most.
pub trait Disk: Send + Sync {
    /// Locks the directory for this process; `None` if another one has it.
    fn lock(&self) -> io::Result<Option<Lock>>;
    /// The names of everything in the directory; the files in its folders `wal`, `cold` and `spill`
    /// as `wal/name` and so on.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Creates a file, or empties the one that has this name. It is sure to be found after a power
    /// cut only after [`Disk::sync_directory`].
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations and removals durable, except those in `spill`: nothing in it has to last.
    fn sync_directory(&self) -> io::Result<()>;
    /// Bytes still free on the file system.
    fn free(&self) -> io::Result<u64>;
    /// Bytes of the file system, free or not.
    fn size(&self) -> io::Result<u64>;
}

/// How long to wait for a file that is there and can't be opened because no handle is left.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long to wait between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// Whether the process or the system has no file handle left. That passes, and says nothing of the
/// file.
pub(crate) fn is_out_of_handles(error: &io::Error) -> bool {
    // ENFILE and EMFILE have no kind of their own.
    cfg!(unix) && matches!(error.raw_os_error(), Some(23 | 24))
}

impl dyn Disk + '_ {
    /// Opens an existing file to read it, as soon as there is a handle for it. A file that holds
    /// messages and can't be opened would be taken for damaged.
    pub(crate) fn open_in_time(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut waited = Duration::ZERO;
        loop {
            match self.open(name) {
                Err(error) if is_out_of_handles(&error) && waited < PATIENCE => {
                    std::thread::sleep(PAUSE);
                    waited += PAUSE;
                }
                opened => return opened,
            }
        }
    }
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Reads up to `buffer.len()` bytes at `offset`; zero at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes some of `bytes` at `offset` and says how many.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Makes everything written durable, the file's length included.
    fn sync_data(&self) -> io::Result<()>;
    /// The length in bytes.
    fn length(&self) -> io::Result<u64>;
    /// False when the file has no name any more: it goes when it is closed, with all that is in it.
    /// Systems that delete no open file, or tell nothing of it, say true.
    fn is_linked(&self) -> io::Result<bool> {
        Ok(true)
    }
}

impl dyn DiskFile + '_ {
    /// Fills `buffer` from `offset`.
    pub(crate) fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_at(buffer, offset) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends too early")),
                Ok(count) => {
                    offset += count as u64;
                    buffer = buffer.get_mut(count..).unwrap_or_default();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes all of `bytes` at `offset`.
    pub(crate) fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(bytes, offset) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::WriteZero, "the disk took no bytes")),
                Ok(count) => {
                    offset += count as u64;
                    bytes = bytes.get(count..).unwrap_or_default();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
