//! A copy of a data directory on its way: what [`journal::Journal::backup`] writes, as messages,
//! and these written into a directory again.
//!
//! Invariant: the copy of a directory has its marker last, after everything else of it is flushed.
//! So a copy that was cut short is no data directory.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use journal::{Backup, BackupError, Disk, DiskFile, Lock};
use parking_lot::Mutex;

use crate::message::{Message, PIECE};

/// How much is written to a file between two flushes.
const FLUSHED_AT_ONCE: u64 = 8 << 20;

/// Why there is no copy, or no more of it.
#[derive(Debug)]
pub enum CopyError {
    /// The node that serves can't make one.
    Backup(BackupError),
    /// It was not sent as it must be.
    Order(&'static str),
    /// The disk of the one that takes it failed.
    Io(String, io::Error),
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backup(error) => error.fmt(f),
            Self::Order(what) => write!(f, "the copy is not sent as it must be: {what}"),
            Self::Io(doing, error) => write!(f, "{doing}: {error}"),
        }
    }
}

impl std::error::Error for CopyError {}

impl From<BackupError> for CopyError {
    fn from(error: BackupError) -> Self {
        Self::Backup(error)
    }
}

/// What was written to the copy and not sent yet.
type Outbox = Arc<Mutex<Vec<Message>>>;

/// The side that sends: a backup into messages. Nothing leaves the log of the journal meanwhile.
pub struct CopySource {
    backup: Backup,
    outbox: Outbox,
    /// Next last.
    waiting: Vec<Message>,
    done: bool,
}

impl CopySource {
    /// Begins a copy. `begin` is the journal's or the broker's `backup`; `free` bytes are free
    /// where the copy goes.
    ///
    /// # Errors
    /// Why there can't be one.
    pub fn begin(
        free: u64,
        begin: impl FnOnce(Arc<dyn Disk>) -> Result<Backup, BackupError>,
    ) -> Result<Self, CopyError> {
        let outbox = Outbox::default();
        let backup = begin(Arc::new(Sent { outbox: Arc::clone(&outbox), free }))?;
        let waiting = vec![Message::CopyBegins { bytes: backup.copied().total }];
        Ok(Self { backup, outbox, waiting, done: false })
    }

    /// The next message; none when the copy is whole and all was given.
    ///
    /// # Errors
    /// Why it can't go on.
    pub fn pull(&mut self) -> Result<Option<Message>, CopyError> {
        loop {
            if let Some(message) = self.waiting.pop() {
                return Ok(Some(message));
            }
            if self.done {
                return Ok(None);
            }
            self.done = self.backup.step()?;
            self.waiting = std::mem::take(&mut *self.outbox.lock());
            if self.done {
                self.waiting.push(Message::CopyEnds);
            }
            self.waiting.reverse();
        }
    }
}

/// A directory that is elsewhere: what is written to it becomes messages.
struct Sent {
    outbox: Outbox,
    free: u64,
}

impl Disk for Sent {
    fn lock(&self) -> io::Result<Option<Lock>> {
        Ok(Some(Box::new(())))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn open(&self, _: &str) -> io::Result<Arc<dyn DiskFile>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.outbox.lock().push(Message::File(name.to_owned()));
        Ok(Arc::new(SentFile(Arc::clone(&self.outbox))))
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn free(&self) -> io::Result<u64> {
        Ok(self.free)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.free)
    }
}

/// The file that was created last: a backup writes one after the other.
struct SentFile(Outbox);

impl DiskFile for SentFile {
    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let length = bytes.len().min(PIECE);
        let bytes = &bytes[..length];
        self.0.lock().push(match bytes.iter().all(|byte| *byte == 0) {
            true => Message::Zeros { offset, length: length as u32 },
            false => Message::Piece { offset, bytes: Bytes::copy_from_slice(bytes) },
        });
        Ok(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The side that takes: files of a directory that was empty.
pub struct CopyTarget {
    disk: Arc<dyn Disk>,
    current: Option<(String, Arc<dyn DiskFile>)>,
    /// Bytes written, zeros included, and those since the last flush.
    written: u64,
    unflushed: u64,
    total: u64,
}

impl CopyTarget {
    /// Takes a copy of `total` bytes into `disk`. What lies there goes first.
    ///
    /// # Errors
    /// When it can't be removed.
    pub fn begin(disk: Arc<dyn Disk>, total: u64) -> Result<Self, CopyError> {
        clear(&*disk)?;
        Ok(Self { disk, current: None, written: 0, unflushed: 0, total })
    }

    /// Bytes that have come, and how many there are.
    pub fn progress(&self) -> (u64, u64) {
        (self.written, self.total)
    }

    /// Begins the next file.
    ///
    /// # Errors
    /// When its name is none of a data directory, or the disk fails.
    pub fn file(&mut self, name: &str) -> Result<(), CopyError> {
        if !is_name(name) {
            return Err(CopyError::Order("a file of it has a name that no file of a data directory has"));
        }
        self.flush()?;
        if name == MARKER {
            self.sync_directory()?;
        }
        let file = self.disk.create(name).map_err(io_error("making", name))?;
        self.current = Some((name.to_owned(), file));
        Ok(())
    }

    /// Writes a piece of it.
    ///
    /// # Errors
    /// When there is no file yet, more comes than was said, or the disk fails.
    pub fn piece(&mut self, mut offset: u64, mut bytes: &[u8]) -> Result<(), CopyError> {
        let (name, file) = self.current.as_ref().ok_or(CopyError::Order("a piece comes before its file"))?;
        let length = bytes.len() as u64;
        if self.written + length > self.total || offset > self.total {
            return Err(CopyError::Order("it is longer than it was said to be"));
        }
        while !bytes.is_empty() {
            match file.write_at(bytes, offset) {
                Ok(0) => return Err(io_error("writing", name)(io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    offset += count as u64;
                    bytes = bytes.get(count..).unwrap_or_default();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(io_error("writing", name)(error)),
            }
        }
        self.written += length;
        self.unflushed += length;
        if self.unflushed >= FLUSHED_AT_ONCE { self.flush() } else { Ok(()) }
    }

    /// Writes zeros of it.
    ///
    /// # Errors
    /// As [`CopyTarget::piece`].
    pub fn zeros(&mut self, offset: u64, length: u32) -> Result<(), CopyError> {
        self.piece(offset, &vec![0; length as usize])
    }

    /// Flushes the last file. The copy is whole then, and is found after a power cut.
    ///
    /// # Errors
    /// When something of it is missing, or the disk fails.
    pub fn finish(mut self) -> Result<(), CopyError> {
        if self.written != self.total || self.current.as_ref().is_none_or(|(name, _)| name != MARKER) {
            return Err(CopyError::Order("it ends too early"));
        }
        self.flush()?;
        self.sync_directory()
    }

    fn flush(&mut self) -> Result<(), CopyError> {
        self.unflushed = 0;
        match &self.current {
            Some((name, file)) => file.sync_data().map_err(io_error("flushing", name)),
            None => Ok(()),
        }
    }

    fn sync_directory(&self) -> Result<(), CopyError> {
        self.disk.sync_directory().map_err(io_error("flushing", "the directory"))
    }
}

/// The file that marks a data directory.
const MARKER: &str = "FORMAT";
/// Its folders.
const FOLDERS: [&str; 2] = ["wal", "cold"];

/// Removes the files of a directory's journal, the marker first: from then on it is none.
///
/// # Errors
/// When the disk fails.
pub(crate) fn clear(disk: &dyn Disk) -> Result<(), CopyError> {
    let mut names = disk.list().map_err(io_error("listing", "the directory"))?;
    names.retain(|name| name == MARKER || name.contains('/'));
    names.sort_by_key(|name| name != MARKER);
    for name in names {
        disk.remove(&name).map_err(io_error("removing", &name))?;
        if name == MARKER {
            disk.sync_directory().map_err(io_error("flushing", "the directory"))?;
        }
    }
    disk.sync_directory().map_err(io_error("flushing", "the directory"))
}

/// Whether a file of a data directory may have this name.
fn is_name(name: &str) -> bool {
    let plain = |part: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-';
        !part.is_empty() && !part.starts_with('.') && part.bytes().all(fits)
    };
    match name.split_once('/') {
        Some((folder, file)) => FOLDERS.contains(&folder) && plain(file),
        None => name == MARKER,
    }
}

fn io_error(doing: &str, name: &str) -> impl FnOnce(io::Error) -> CopyError {
    let doing = format!("{doing} {name} of the copy");
    move |error| CopyError::Io(doing, error)
}
