//! The disk as the journal sees it: files of one directory, and the real one under `std::fs`.
//!
//! Invariant: nothing else in the journal touches the file system, so a simulated [`Disk`] sees every operation.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Keeps the directory locked until it is dropped.
pub type Lock = Box<dyn Send + Sync>;

/// A directory of files. Names are relative and use `/`; there is one level of folders below the root at most.
pub trait Disk: Send + Sync {
    /// Locks the directory for this process; `None` if another one has it.
    fn lock(&self) -> io::Result<Option<Lock>>;
    /// The names of everything in the directory; the files in its folder `wal` as `wal/name`.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Creates a file, or empties the one that has this name. It is sure to be found after a power cut only after
    /// [`Disk::sync_directory`].
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations and removals durable.
    fn sync_directory(&self) -> io::Result<()>;
    /// Bytes still free on the file system.
    fn free(&self) -> io::Result<u64>;
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

/// A directory of the real file system, readable by its owner only where the system has such permissions.
pub struct RealDisk {
    root: PathBuf,
}

/// The folder that holds the log files.
pub(crate) const WAL: &str = "wal";
/// The file whose lock says that the directory is in use.
pub(crate) const LOCK: &str = "LOCK";

impl RealDisk {
    /// Uses the directory at `root`, which is created if it is missing.
    pub fn open(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        create_folder(&root)?;
        Ok(Self { root })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

impl Disk for RealDisk {
    fn lock(&self) -> io::Result<Option<Lock>> {
        let file = private().read(true).write(true).create(true).truncate(false).open(self.path(LOCK))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(file))),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.root)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == WAL && entry.file_type()?.is_dir() {
                for file in std::fs::read_dir(entry.path())? {
                    names.push(format!("{WAL}/{}", file?.file_name().to_string_lossy()));
                }
            } else {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile(private().read(true).write(true).open(self.path(name))?)))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.path(name);
        if let Some(folder) = path.parent() {
            create_folder(folder)?;
        }
        Ok(Arc::new(RealFile(private().read(true).write(true).create(true).truncate(true).open(path)?)))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path(name))
    }

    fn sync_directory(&self) -> io::Result<()> {
        sync_folder(&self.root)?;
        let wal = self.path(WAL);
        if wal.is_dir() { sync_folder(&wal) } else { Ok(()) }
    }

    fn free(&self) -> io::Result<u64> {
        fs4::available_space(&self.root)
    }
}

/// Options that give a new file to its owner alone.
fn private() -> OpenOptions {
    #[cfg_attr(not(unix), allow(unused_mut))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Windows has no way to flush a directory; its file systems journal the names themselves.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

struct RealFile(File);

impl DiskFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::read_at(&self.0, buffer, offset);
        #[cfg(windows)]
        return std::os::windows::fs::FileExt::seek_read(&self.0, buffer, offset);
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::write_at(&self.0, bytes, offset);
        #[cfg(windows)]
        return std::os::windows::fs::FileExt::seek_write(&self.0, bytes, offset);
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
