//! What lies in the directory of an installed broker: its size, its licence, its documents.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use bench_record::failure::Failure;
use machine::directory;
use peers::licence::{self, Licence};

/// Folders are looked into this deep for a licence and for documents.
const DEPTH: usize = 4;
/// Endings of documents.
const DOCUMENTS: [&str; 8] = ["md", "txt", "html", "adoc", "rst", "pdf", "1", "8"];

/// What lies in the directory of a broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Shipped {
    pub(super) bytes: u64,
    pub(super) files: u64,
    pub(super) licence: Option<Licence>,
    /// Documents for people.
    pub(super) documents: usize,
}

/// Looks at an installation.
pub(super) fn look(dir: &Path) -> Result<Shipped, Failure> {
    let size = directory::size(dir)?;
    let files = files(dir);
    let licence = files.iter().find(|path| licence::is_licence(path));
    let document = |path: &&PathBuf| {
        path.extension().is_some_and(|end| DOCUMENTS.iter().any(|document| end.eq_ignore_ascii_case(document)))
    };
    Ok(Shipped {
        bytes: size.bytes,
        files: size.files,
        licence: licence.and_then(|path| licence::read(path)),
        documents: files.iter().filter(document).count(),
    })
}

/// Files below `dir`, the nearest first.
fn files(dir: &Path) -> Vec<PathBuf> {
    let (mut found, mut level) = (Vec::new(), vec![dir.to_path_buf()]);
    for _ in 0..DEPTH {
        let mut below = Vec::new();
        for entry in level.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => below.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
        level = below;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installation_is_summed_up() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("share/doc")).unwrap();
        for (name, text) in [("bin", "12345"), ("share/doc/manual.md", "ab"), ("share/LICENSE.txt", "x")] {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let shipped = look(dir.path()).unwrap();
        assert_eq!((shipped.bytes, shipped.files, shipped.documents), (8, 3, 2));
        assert_eq!(shipped.licence, Some(Licence { name: None, file: "LICENSE.txt".to_owned() }));
        assert!(look(&dir.path().join("none")).is_err());
    }
}
