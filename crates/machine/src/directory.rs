//! How much a directory holds, with all that is below it.

use std::fs::{self, Metadata};
use std::path::Path;

use serde::Serialize;

use bench_record::failure::{Context, Failure};

/// More entries than this are no data directory.
const MOST_ENTRIES: u64 = 10_000_000;

/// The size of a directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Size {
    /// The lengths of all files, bytes.
    pub bytes: u64,
    /// What they occupy on the disk, bytes, where the system tells.
    pub allocated: Option<u64>,
    /// How many files there are.
    pub files: u64,
}

/// Adds up the files below `dir`. Links are not followed; what is removed meanwhile does not count.
pub fn size(dir: &Path) -> Result<Size, Failure> {
    let mut total = Size::default();
    let (mut todo, mut entries) = (vec![dir.to_path_buf()], 0);
    while let Some(folder) = todo.pop() {
        let list = match fs::read_dir(&folder) {
            Ok(list) => list,
            Err(_) if folder != dir => continue,
            Err(error) => return Err(error).context(folder.display()),
        };
        for entry in list.flatten() {
            entries += 1;
            if entries > MOST_ENTRIES {
                return Err(Failure::new(format!("{}: more than {MOST_ENTRIES} entries", dir.display())));
            }
            match entry.metadata() {
                Ok(of) if of.is_dir() => todo.push(entry.path()),
                Ok(of) if of.is_file() => total.add(&of),
                _ => {}
            }
        }
    }
    Ok(total)
}

impl Size {
    fn add(&mut self, file: &Metadata) {
        self.bytes += file.len();
        self.files += 1;
        if let Some(more) = occupied(file) {
            self.allocated = Some(self.allocated.unwrap_or(0) + more);
        }
    }
}

#[cfg(unix)]
fn occupied(file: &Metadata) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    // Blocks of 512 bytes, whatever the file system's own are.
    Some(file.blocks() * 512)
}

#[cfg(not(unix))]
fn occupied(_: &Metadata) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_at_every_depth_count_and_a_missing_directory_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::write(dir.path().join("one"), [1; 10]).unwrap();
        fs::write(dir.path().join("a/b/two"), [2; 5000]).unwrap();
        let size = size(dir.path()).unwrap();
        assert_eq!((size.bytes, size.files), (5010, 2));
        assert_eq!(size.allocated.is_some(), cfg!(unix));
        let failure = super::size(&dir.path().join("none")).unwrap_err().to_string();
        assert!(failure.contains("none"), "{failure}");
    }
}
