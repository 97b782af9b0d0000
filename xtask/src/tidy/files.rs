//! The text files of the tree, without what is built, fetched or ignored.

use std::path::{Path, PathBuf};

/// Folders that hold nothing written by hand.
const SKIPPED_FOLDERS: [&str; 7] = ["target", ".git", "node_modules", "__pycache__", "artifacts", "corpus", "data"];
/// Files that tools write.
const SKIPPED_FILES: [&str; 4] = ["Cargo.lock", "package-lock.json", "go.sum", "LICENSE"];
/// What is read; anything else is taken for binary.
const EXTENSIONS: [&str; 21] = [
    "rs", "md", "toml", "sh", "py", "js", "mjs", "go", "mod", "java", "xml", "pl", "txt", "json", "yml", "yaml",
    "service", "html", "css", "conf", "csv",
];
/// Files without an extension that are read too.
const PLAIN: [&str; 4] = ["run", "Dockerfile", ".gitignore", "Makefile"];
/// No file written by hand is this long.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// One text file.
pub(super) struct File {
    /// Relative to the root.
    pub(super) path: PathBuf,
    /// Its content.
    pub(super) text: String,
}

impl File {
    pub(super) fn extension(&self, wanted: &str) -> bool {
        self.path.extension().is_some_and(|found| found == wanted)
    }
}

/// All text files below `root`, in no order.
pub(super) fn walk(root: &Path) -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let failed = |error: std::io::Error| format!("cannot read the folder {}: {error}", folder.display());
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() && !SKIPPED_FOLDERS.contains(&name.as_str()) && !name.starts_with("target-") {
                folders.push(entry.path());
            } else if kind.is_file() && is_text(&name) && entry.metadata().is_ok_and(|data| data.len() <= MAX_BYTES) {
                let path = entry.path();
                let text = std::fs::read_to_string(&path)
                    .map_err(|error| format!("cannot read {} as text: {error}", path.display()))?;
                let path = path.strip_prefix(root).unwrap_or(&path).to_path_buf();
                files.push(File { path, text });
            }
        }
    }
    Ok(files)
}

fn is_text(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    !SKIPPED_FILES.contains(&name)
        && (PLAIN.contains(&name) || extension.is_some_and(|extension| EXTENSIONS.contains(&extension)))
}
