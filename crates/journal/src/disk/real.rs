//! The directory of a journal on the real file system, readable by its owner only where the system
//! has such permissions.
//!
//! Invariant: where the system can, the directory is held open, and every file is opened relative
//! to it. A file system that is unmounted or mounted over while the broker runs therefore never has
//! the log continue in another place.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::direct::{Buffers, Direct};
use super::folder::{Folder, Mode};
use super::{Disk, DiskFile, Lock};

use crate::layout::{FOLDERS, LOCK, SPILL, WAL};

/// A directory of the real file system.
pub struct RealDisk {
    root: Folder,
    /// Made when they are first needed.
    folders: [OnceLock<Folder>; FOLDERS.len()],
    /// What the log's files are written from past the page cache, if they are.
    direct: Option<Arc<Buffers>>,
}

impl RealDisk {
    /// Uses the directory at `root`, which is created if it is missing.
    pub fn open(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = Folder::open(root.into())?;
        Ok(Self { root, folders: Default::default(), direct: None })
    }

    /// Has the files of the log written past the page cache, where the system and the file system
    /// allow it. That is for a log that is flushed before anything is confirmed. A log that is only
    /// handed to the system is handed to its cache.
    #[must_use]
    pub fn past_the_cache(mut self) -> Self {
        self.direct = Some(Arc::default());
        self
    }

    /// The folder that `name` lies in, and its name there.
    fn locate<'a>(&self, name: &'a str) -> io::Result<(&Folder, &'a str)> {
        let Some((folder, name)) = name.split_once('/') else { return Ok((&self.root, name)) };
        let at = FOLDERS.iter().position(|known| *known == folder);
        let at = at.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no folder {folder}")))?;
        Ok((self.folder(at)?, name))
    }

    fn file(&self, name: &str, mode: Mode) -> io::Result<Arc<dyn DiskFile>> {
        let direct =
            self.direct.as_ref().filter(|_| name.starts_with(WAL)).map(|buffers| Direct::new(Arc::clone(buffers)));
        let (folder, name) = self.locate(name)?;
        Ok(Arc::new(RealFile { file: folder.file(name, mode)?, direct }))
    }

    fn folder(&self, at: usize) -> io::Result<&Folder> {
        if self.folders[at].get().is_none() {
            let folder = self.root.folder(FOLDERS[at])?;
            // Another thread may have been faster: it is the same folder.
            let _ = self.folders[at].set(folder);
        }
        self.folders[at].get().ok_or_else(|| io::Error::other("a folder that was just opened is gone"))
    }
}

impl Disk for RealDisk {
    fn lock(&self) -> io::Result<Option<Lock>> {
        let file = self.root.file(LOCK, Mode::Keep)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(file))),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for (name, is_folder) in self.root.list()? {
            match FOLDERS.iter().position(|known| *known == name) {
                Some(at) if is_folder => {
                    let files = self.folder(at)?.list()?;
                    names.extend(files.into_iter().map(|(file, _)| format!("{name}/{file}")));
                }
                _ => names.push(name),
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.file(name, Mode::Existing)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.file(name, Mode::Empty)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let (folder, name) = self.locate(name)?;
        folder.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.root.sync()?;
        let lasting = self.folders.iter().zip(FOLDERS).filter(|(_, name)| *name != SPILL);
        lasting.filter_map(|(folder, _)| folder.get()).try_for_each(Folder::sync)
    }

    fn free(&self) -> io::Result<u64> {
        self.root.free()
    }

    fn size(&self) -> io::Result<u64> {
        self.root.size()
    }
}

struct RealFile {
    file: File,
    /// The way past the page cache.
    direct: Option<Direct>,
}

impl DiskFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::read_at(&self.file, buffer, offset);
        #[cfg(windows)]
        return std::os::windows::fs::FileExt::seek_read(&self.file, buffer, offset);
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if let Some(done) = self.direct.as_ref().and_then(|direct| direct.write_at(&self.file, bytes, offset)) {
            return done;
        }
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::write_at(&self.file, bytes, offset);
        #[cfg(windows)]
        return std::os::windows::fs::FileExt::seek_write(&self.file, bytes, offset);
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    #[cfg(unix)]
    fn is_linked(&self) -> io::Result<bool> {
        Ok(std::os::unix::fs::MetadataExt::nlink(&self.file.metadata()?) > 0)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// The directory is moved away and another one takes its name, as when a file system is
    /// unmounted.
    #[test]
    fn a_directory_that_was_replaced_gets_nothing_of_a_journal_that_runs() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("data"), folder.path().join("moved"));
        let disk = RealDisk::open(&path).unwrap();
        disk.create("wal/0000.wal").unwrap();
        std::fs::rename(&path, &moved).unwrap();
        std::fs::create_dir(&path).unwrap();
        disk.create("wal/0001.wal").unwrap().write_at(b"x", 0).unwrap();
        disk.create("cold/1.idx").unwrap();
        disk.remove("wal/0000.wal").unwrap();
        disk.sync_directory().unwrap();
        assert_eq!(disk.list().unwrap(), ["cold/1.idx", "wal/0001.wal"]);
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
        assert_eq!(std::fs::read(moved.join("wal/0001.wal")).unwrap(), b"x");
    }

    /// A log file is written past the page cache block by block, and through it where a write is no
    /// whole block. What is read must be what was written last, whichever way it went. A reader
    /// keeps the cache full of what was there before.
    #[test]
    fn both_ways_to_write_are_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(folder.path()).unwrap().past_the_cache();
        let file = disk.create("wal/0000.wal").unwrap();
        let blocks = 64;
        file.write_all_at(&vec![0; blocks * 4096], 0).unwrap();
        let mut expected = vec![0; blocks * 4096];
        for round in 1..200_usize {
            let first = round * 7 % (blocks - 8);
            let range = match round % 3 {
                0 => first * 4096 + 100..first * 4096 + 5000,
                1 => first * 4096..(first + 1) * 4096,
                _ => first * 4096..(first + 8) * 4096,
            };
            expected[range.clone()].fill(round as u8);
            file.write_all_at(&expected[range.clone()], range.start as u64).unwrap();
            let mut found = vec![0; expected.len()];
            file.read_exact_at(&mut found, 0).unwrap();
            assert!(found == expected, "round {round}");
        }
        file.sync_data().unwrap();
        assert!(std::fs::read(folder.path().join("wal/0000.wal")).unwrap() == expected);
    }

    #[test]
    fn only_the_folders_of_a_journal_have_files() {
        let folder = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(folder.path()).unwrap();
        for name in ["other/file", "../file", "wal/../../file"] {
            assert!(disk.create(name).is_err(), "{name}");
        }
    }
}
