//! The rules of the house that a program can check, as data where possible. See docs/STYLE.md for
//! the reasons.
//!
//! A rule looks at files and returns findings; nothing is fixed here. The same check runs as a unit
//! test, so that `cargo test --workspace` fails on an untidy tree.

use std::path::{Path, PathBuf};

mod documents;
mod edges;
mod errors;
mod files;
mod layers;
mod paths;
mod rust;
mod source;
mod words;

/// One broken rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The file, relative to the root.
    pub(crate) path: PathBuf,
    /// The line, from 1; 0 when it is about the whole file.
    pub(crate) line: usize,
    /// What is wrong and what to do.
    pub(crate) text: String,
}

impl Finding {
    fn new(path: &Path, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_path_buf(), line, text: text.into() }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.text)
    }
}

/// All findings in the tree at `root`, in order of path and line.
///
/// # Errors
/// When a file or folder cannot be read.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    let files = files::walk(root)?;
    let test_modules: Vec<_> = files.iter().filter(|file| file.extension("rs")).flat_map(rust::test_modules).collect();
    for file in &files {
        if file.extension("rs") {
            rust::check(file, &test_modules, &mut findings);
        }
        if file.extension("md") {
            documents::check(root, file, &mut findings);
        }
        words::check(file, &mut findings);
    }
    errors::check(&files, &mut findings);
    layers::check(&files, &test_modules, &mut findings);
    edges::check(root, &mut findings)?;
    findings.sort();
    findings.dedup();
    Ok(findings)
}

/// Prints the findings.
///
/// # Errors
/// When there are any, or the tree cannot be read.
pub(crate) fn report(root: &Path) -> Result<(), String> {
    let findings = check(root)?;
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("tidy: nothing to report");
            Ok(())
        }
        count => Err(format!("tidy: {count} findings; docs/STYLE.md has the rules")),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_tree_is_tidy() {
        let findings = super::check(&crate::root().unwrap()).unwrap();
        let list: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(list.is_empty(), "{} findings:\n{}", list.len(), list.join("\n"));
    }
}
