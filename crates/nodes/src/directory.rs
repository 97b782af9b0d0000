//! A copy that takes the place of a data directory.
//!
//! The copy is made in `cluster/copy`. Once it is whole, the files of the old one are removed, and
//! those of the copy moved to their places. Invariant: from the first removal on a file says so,
//! and what is begun is finished by the next start. So a kill at any moment leaves the old
//! directory or the new one, never a mixture.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use journal::{Disk, RealDisk};

use crate::copy::clear;
use crate::keeping;

/// The file that says how far it is.
const SWAP: &str = "swap";
const COPY: &str = "copy";
const REMOVING: &str = "removing";
const MOVING: &str = "moving";
const MARKER: &str = "FORMAT";

/// Where a copy for this data directory is made.
///
/// # Errors
/// When the folder can't be made.
pub fn copy_folder(data: &Path) -> io::Result<PathBuf> {
    let folder = keeping::folder(data).join(COPY);
    keeping::make(&folder)?;
    Ok(folder)
}

/// Puts the copy, which is whole, in the place of what is in the data directory. No journal may be
/// open there.
///
/// # Errors
/// When the disk fails. The next start goes on.
pub fn swap(data: &Path) -> io::Result<()> {
    keeping::write(&keeping::folder(data), SWAP, REMOVING.as_bytes())?;
    finish_swap(data)
}

/// Finishes what was begun, if anything was.
///
/// # Errors
/// When the disk fails.
pub fn finish_swap(data: &Path) -> io::Result<()> {
    let folder = keeping::folder(data);
    let Some(step) = keeping::read(&folder.join(SWAP))? else { return Ok(()) };
    let disk = RealDisk::open(data)?;
    if step == REMOVING {
        clear(&disk).map_err(io::Error::other)?;
        keeping::write(&folder, SWAP, MOVING.as_bytes())?;
    }
    let copy = folder.join(COPY);
    for name in RealDisk::open(&copy)?.list()? {
        if let Some((folder, _)) = name.split_once('/') {
            fs::create_dir_all(data.join(folder))?;
            fs::rename(copy.join(&name), data.join(&name))?;
        }
    }
    disk.sync_directory()?;
    match fs::rename(copy.join(MARKER), data.join(MARKER)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    disk.sync_directory()?;
    fs::remove_file(folder.join(SWAP))?;
    keeping::sync(&folder)?;
    match fs::remove_dir_all(&copy) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(of: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = of.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    /// Everything of a journal in a directory.
    fn found(of: &Path) -> Vec<(String, String)> {
        let mut names = RealDisk::open(of).unwrap().list().unwrap();
        names.retain(|name| name == MARKER || name.contains('/'));
        names.into_iter().map(|name| (name.clone(), fs::read_to_string(of.join(name)).unwrap())).collect()
    }

    const OLD: [(&str, &str); 4] =
        [("wal/0000.wal", "old"), ("wal/0001.wal", "old"), ("cold/1.seg", "old"), (MARKER, "old")];
    const NEW: [(&str, &str); 3] = [("wal/0000.wal", "new"), ("cold/2.seg", "new"), (MARKER, "new")];

    fn expected() -> Vec<(String, String)> {
        let mut expected: Vec<_> = NEW.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
        expected.sort();
        expected
    }

    #[test]
    fn a_swap_that_ends_anywhere_is_finished_by_the_next_start() {
        // What a kill leaves: so many files removed, then so many moved.
        for (removed, moved) in [(0, 0), (1, 0), (2, 0), (4, 0), (4, 1), (4, 2), (4, 3)] {
            let data = tempfile::tempdir().unwrap();
            let copy = copy_folder(data.path()).unwrap();
            files(data.path(), &OLD);
            files(&copy, &NEW);
            let step = if removed == 4 { MOVING } else { REMOVING };
            keeping::write(&keeping::folder(data.path()), SWAP, step.as_bytes()).unwrap();
            OLD.iter().rev().take(removed).for_each(|(name, _)| fs::remove_file(data.path().join(name)).unwrap());
            for (name, _) in NEW.iter().take(moved) {
                fs::rename(copy.join(name), data.path().join(name)).unwrap();
            }
            finish_swap(data.path()).unwrap();
            assert_eq!(found(data.path()), expected(), "{removed} removed, {moved} moved");
            assert!(!copy.exists());
            finish_swap(data.path()).unwrap();
        }
    }

    #[test]
    fn a_copy_is_the_first_that_a_directory_has() {
        let data = tempfile::tempdir().unwrap();
        files(&copy_folder(data.path()).unwrap(), &NEW);
        swap(data.path()).unwrap();
        assert_eq!(found(data.path()), expected());
    }

    #[test]
    fn a_copy_that_is_not_whole_changes_nothing() {
        let data = tempfile::tempdir().unwrap();
        files(data.path(), &OLD);
        files(&copy_folder(data.path()).unwrap(), &NEW[..1]);
        finish_swap(data.path()).unwrap();
        assert_eq!(found(data.path()).len(), OLD.len());
    }
}
