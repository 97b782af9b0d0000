//! The documents that the book is made of, as they lie in `docs/`.

use std::collections::BTreeMap;
use std::path::Path;

use crate::Problem;

/// The page with the table of contents, which is the book's first.
pub(crate) const CONTENTS: &str = "manual/README.md";
/// The folders whose pages are in the book.
const FOLDERS: [&str; 3] = ["manual", "tutorials", "mapping"];
/// Pages beside these folders that are in the book, too.
const SINGLE: [&str; 4] = ["attacks.md", "conformance.md", "performance.md", "reliability.md"];

/// The Markdown of each page, by its path below `docs/`.
pub(crate) fn read(docs: &Path) -> Result<BTreeMap<String, String>, Problem> {
    let mut names: Vec<String> = SINGLE.map(str::to_owned).into();
    for folder in FOLDERS {
        let failed = |error| Problem::new(folder, format!("cannot read the folder: {error}"));
        for entry in std::fs::read_dir(docs.join(folder)).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
            if name.ends_with(".md") {
                names.push(format!("{folder}/{name}"));
            }
        }
    }
    let text = |name: String| match std::fs::read_to_string(docs.join(&name)) {
        Ok(text) => Ok((name, text)),
        Err(error) => Err(Problem::new(&name, format!("cannot read it: {error}"))),
    };
    names.into_iter().map(text).collect()
}

/// Whether a path below `docs/` is one of these documents, or would be if it existed.
pub(crate) fn is_page(path: &str) -> bool {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    path.ends_with(".md") && (FOLDERS.contains(&folder) || SINGLE.contains(&path))
}
