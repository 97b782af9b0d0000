//! What an installed broker brings along: its size, its licence, its documents, and the lines of configuration it was given.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::failure::Failure;
use crate::machine::directory;

/// Folders are looked into this deep for a licence and for documents.
const DEPTH: usize = 4;
/// Names under which a licence is kept.
const LICENCES: [&str; 3] = ["license", "licence", "copying"];
/// Endings of documents.
const DOCUMENTS: [&str; 8] = ["md", "txt", "html", "adoc", "rst", "pdf", "1", "8"];
/// Beginnings of comments in files of configuration.
const COMMENTS: [&str; 6] = ["#", "//", "%", ";", "<!--", "*"];

/// What lies in the directory of a broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Shipped {
    pub(super) bytes: u64,
    pub(super) files: u64,
    /// The licence's file, relative to the directory.
    pub(super) licence: Option<String>,
    /// Documents for people.
    pub(super) documents: usize,
}

/// Looks at an installation.
pub(super) fn look(dir: &Path) -> Result<Shipped, Failure> {
    let size = directory::size(dir)?;
    let files = files(dir);
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let licence = files.iter().find(|path| LICENCES.iter().any(|word| name(path).starts_with(word)));
    let document = |path: &&PathBuf| {
        path.extension().is_some_and(|end| DOCUMENTS.iter().any(|document| end.eq_ignore_ascii_case(document)))
    };
    Ok(Shipped {
        bytes: size.bytes,
        files: size.files,
        licence: licence.map(|path| path.strip_prefix(dir).unwrap_or(path).display().to_string()),
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

/// Lines of configuration that say something: neither empty nor a comment.
pub(super) fn lines_that_count(text: &str) -> usize {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !COMMENTS.iter().any(|comment| line.starts_with(comment))).count()
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
        assert_eq!(shipped.licence.as_deref(), Some("share/LICENSE.txt"));
        assert!(look(&dir.path().join("none")).is_err());
    }

    #[test]
    fn comments_do_not_count() {
        assert_eq!(lines_that_count("# a\n\nport = 1\n  // x\n<!-- y -->\n<a>\n"), 2);
    }
}
