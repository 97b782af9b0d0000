//! Writes the manual as a site, as the broker serves it at `/docs`.

use std::path::{Path, PathBuf};

use book::Book;

/// Where the site goes.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The folder that is written; what is there of an earlier site is replaced.
    #[arg(long, value_name = "DIR", default_value = "target/book")]
    output: PathBuf,
}

/// Renders `docs/` into a folder.
///
/// # Errors
/// What is wrong with the documents, or a file that cannot be written.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    let output = root.join(&options.output);
    let book = Book::read(&root.join("docs"), env!("CARGO_PKG_VERSION")).map_err(|problem| problem.to_string())?;
    if !book.problems().is_empty() {
        let lines: Vec<String> = book.problems().iter().map(ToString::to_string).collect();
        return Err(format!("{} problems:\n{}", lines.len(), lines.join("\n")));
    }
    for file in book.files() {
        let path = output.join(&file.path);
        let failed = |error| format!("cannot write {}: {error}", path.display());
        path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(failed)?;
        std::fs::write(&path, &file.bytes).map_err(failed)?;
    }
    let pages = book.files().iter().filter(|file| file.kind.starts_with("text/html")).count();
    println!("{pages} pages: {}", output.join("index.html").display());
    Ok(())
}
