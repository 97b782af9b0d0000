//! The log in a file, beside standard error: bounded files, and a thread that writes them.
//!
//! Threads that serve clients only queue their lines. A disk that is slow or full costs lines of
//! this file, which are counted and told; it never makes the broker wait.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use crate::config::LogFileSettings;

/// So many lines wait for the thread at most; more are lost.
const QUEUED: usize = 4096;
/// How long a file that can't be written is left alone.
const PATIENCE: Duration = Duration::from_secs(1);

/// The queue of the thread that writes the file.
#[derive(Debug, Clone)]
pub(super) struct LogFile {
    queue: SyncSender<Order>,
    lost: Arc<AtomicU64>,
}

enum Order {
    Line(Vec<u8>),
    /// Another program may have moved the file.
    Reopen,
    /// Answered when everything before it is written.
    Settle(SyncSender<()>),
}

impl LogFile {
    /// Opens the file and starts its thread.
    pub(super) fn open(settings: LogFileSettings) -> io::Result<Self> {
        let mut rotating = Rotating::open(settings)?;
        let (queue, orders) = sync_channel(QUEUED);
        let lost = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&lost);
        std::thread::Builder::new()
            .name("hermod-log".to_owned())
            .spawn(move || write_all(&mut rotating, &orders, &counted))?;
        Ok(Self { queue, lost })
    }

    /// Queues a line, or counts it as lost.
    pub(super) fn line(&self, line: &[u8]) {
        if self.queue.try_send(Order::Line(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Opens the file by its name again.
    pub(super) fn reopen(&self) {
        let _ = self.queue.try_send(Order::Reopen);
    }

    /// Waits until the lines so far are written, for a second at most.
    pub(super) fn settle(&self) {
        let (done, settled) = sync_channel(1);
        if self.queue.try_send(Order::Settle(done)).is_ok() {
            let _ = settled.recv_timeout(PATIENCE);
        }
    }
}

fn write_all(rotating: &mut Rotating, orders: &Receiver<Order>, lost: &AtomicU64) {
    while let Ok(order) = orders.recv() {
        match order {
            Order::Line(line) => {
                let missing = lost.load(Ordering::Relaxed);
                let told = (missing > 0).then(|| format!("({missing} lines are missing here)\n"));
                let written = told.as_deref().is_none_or(|told| rotating.write(told.as_bytes()));
                if told.is_some() && written {
                    lost.fetch_sub(missing, Ordering::Relaxed);
                }
                if !rotating.write(&line) {
                    lost.fetch_add(1, Ordering::Relaxed);
                }
            }
            Order::Reopen => rotating.reopen(),
            Order::Settle(done) => drop(done.send(())),
        }
    }
}

/// The file that is written, and those before it: `NAME.1` is the youngest.
struct Rotating {
    settings: LogFileSettings,
    /// `None` since a failure.
    file: Option<File>,
    length: u64,
    begun: SystemTime,
    failed: Option<Instant>,
}

impl Rotating {
    fn open(settings: LogFileSettings) -> io::Result<Self> {
        let mut rotating = Self { settings, file: None, length: 0, begun: SystemTime::UNIX_EPOCH, failed: None };
        rotating.begin()?;
        Ok(rotating)
    }

    fn begin(&mut self) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o640);
        let file = options.open(&self.settings.path)?;
        let metadata = file.metadata()?;
        self.length = metadata.len();
        // A file system may not tell when a file was made. Then its age counts from now.
        self.begun = metadata.created().unwrap_or_else(|_| SystemTime::now());
        self.file = Some(file);
        Ok(())
    }

    fn reopen(&mut self) {
        self.file = None;
        self.failed = None;
        // If it can't be opened, the next line tries again.
        let _ = self.begin();
    }

    /// Writes a line, to another file if this one is full. False if it could not be written.
    fn write(&mut self, line: &[u8]) -> bool {
        if self.failed.is_some_and(|failed| failed.elapsed() < PATIENCE) {
            return false;
        }
        let written = self.try_write(line);
        self.failed = match written {
            Ok(()) => None,
            Err(_) => Some(Instant::now()),
        };
        if written.is_err() {
            self.file = None;
        }
        written.is_ok()
    }

    fn try_write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            self.begin()?;
        }
        if self.is_full(line.len() as u64) {
            self.file = None;
            self.rotate();
            self.begin()?;
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(line)?;
        self.length += line.len() as u64;
        Ok(())
    }

    fn is_full(&self, more: u64) -> bool {
        let LogFileSettings { most_bytes, most_age, .. } = self.settings;
        let is_long = most_bytes > 0 && self.length + more > most_bytes;
        let is_old = !most_age.is_zero() && self.begun.elapsed().is_ok_and(|age| age >= most_age);
        self.length > 0 && (is_long || is_old)
    }

    /// Moves the files on by one place. The oldest goes. If one can't be moved, the one that is
    /// written stays where it is and grows.
    fn rotate(&self) {
        let LogFileSettings { path, keep, .. } = &self.settings;
        if *keep == 0 {
            let _ = std::fs::remove_file(path);
            return;
        }
        for place in (1..*keep).rev() {
            let _ = std::fs::rename(old(path, place), old(path, place + 1));
        }
        let _ = std::fs::rename(path, old(path, 1));
    }
}

fn old(path: &Path, place: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{place}"));
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(path: PathBuf, most_bytes: u64, keep: u64) -> LogFileSettings {
        LogFileSettings { path, most_bytes, most_age: Duration::ZERO, keep }
    }

    fn read(path: &Path) -> Option<String> {
        std::fs::read_to_string(path).ok()
    }

    #[test]
    fn files_are_bounded_in_bytes_and_number() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hermod.log");
        std::fs::write(&path, "old\n").unwrap();
        let mut log = Rotating::open(settings(path.clone(), 8, 2)).unwrap();
        for line in ["one\n", "two\n", "three\n", "four and more\n", "five\n"] {
            assert!(log.write(line.as_bytes()));
        }
        let files: Vec<_> =
            [path.clone(), old(&path, 1), old(&path, 2), old(&path, 3)].iter().map(|path| read(path)).collect();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(files, [some("five\n"), some("four and more\n"), some("three\n"), None]);
        let mut none_kept = Rotating::open(settings(path.clone(), 4, 0)).unwrap();
        assert!(none_kept.write(b"six\n"));
        assert_eq!((read(&path), read(&old(&path, 1))), (some("six\n"), some("four and more\n")));
    }

    #[test]
    fn an_old_file_makes_room_for_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hermod.log");
        let day = Duration::from_hours(24);
        let mut log = Rotating::open(LogFileSettings { most_age: day, ..settings(path.clone(), 0, 1) }).unwrap();
        assert!(log.write(b"yesterday\n") && log.write(b"still\n"));
        log.begun = SystemTime::now() - day;
        assert!(log.write(b"today\n"));
        assert_eq!(read(&path).as_deref(), Some("today\n"));
        assert_eq!(read(&old(&path, 1)).as_deref(), Some("yesterday\nstill\n"));
    }

    #[test]
    fn a_file_that_was_moved_away_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("hermod.log"), dir.path().join("moved"));
        let log = LogFile::open(settings(path.clone(), 0, 1)).unwrap();
        log.line(b"before\n");
        log.settle();
        std::fs::rename(&path, &moved).unwrap();
        log.line(b"between\n");
        log.reopen();
        log.line(b"after\n");
        log.settle();
        assert_eq!(read(&moved).as_deref(), Some("before\nbetween\n"));
        assert_eq!(read(&path).as_deref(), Some("after\n"));
    }

    /// `/dev/full` answers every write as a full disk does.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_costs_lines_and_their_number_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hermod.log");
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        let log = LogFile::open(settings(path.clone(), 0, 1)).unwrap();
        log.line(b"one\n");
        log.line(b"two\n");
        log.settle();
        assert_eq!(log.lost.load(Ordering::Relaxed), 2);
        std::fs::remove_file(&path).unwrap();
        log.reopen();
        log.line(b"three\n");
        log.settle();
        assert_eq!(read(&path).as_deref(), Some("(2 lines are missing here)\nthree\n"));
        assert_eq!(log.lost.load(Ordering::Relaxed), 0);
    }
}
