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
mod glossary;
mod layers;
mod paths;
mod printed;
mod prose;
mod ratchet;
mod references;
mod rust;
mod shape;
mod source;
mod test_files;
mod tokens;
mod words;

use ratchet::Broken;
use test_files::TestFiles;

/// What to do besides looking.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Lower the numbers of what is not yet tidy to what is there.
    #[arg(long)]
    lower: bool,
    /// Show what is not yet tidy in a part of the tree: the name of a crate, `docs`, `root`.
    #[arg(long, value_name = "PART")]
    not_yet: Option<String>,
}

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
    let (mut findings, broken) = look(root)?;
    ratchet::check(root, broken, &mut findings)?;
    findings.sort();
    findings.dedup();
    Ok(findings)
}

/// What is wrong in the tree, and what is broken of the rules that the tree keeps only in part.
fn look(root: &Path) -> Result<(Vec<Finding>, Vec<Broken>), String> {
    let (mut findings, mut broken) = (Vec::new(), Vec::new());
    let files = files::walk(root)?;
    let tests = TestFiles::of(&files);
    for file in &files {
        if file.extension("rs") {
            let lines = source::lines(&file.text);
            rust::check(file, &lines, &tests, &mut findings);
            shape::check(file, &lines, &tests, &mut broken);
            prose::check_rust(file, &lines, &mut broken);
        }
        if file.extension("md") {
            documents::check(root, file, &mut findings);
            printed::check(root, file, &mut findings);
            prose::check_page(file, &mut broken);
        }
        words::check(file, &mut findings);
    }
    errors::check(&files, &mut findings);
    layers::check(&files, &tests, &mut findings);
    glossary::check(&files, &tests, &mut findings);
    references::check(&files, &mut findings);
    edges::check(root, &mut findings)?;
    let licences = crate::licences::differences(root)?;
    let text = |what| format!("{what}: run cargo xtask licences");
    let list = Path::new(crate::licences::LIST);
    findings.extend(licences.into_iter().map(|what| Finding::new(list, 0, text(what))));
    Ok((findings, broken))
}

/// Prints the findings.
///
/// # Errors
/// When there are any, or the tree cannot be read.
pub(crate) fn report(root: &Path, options: &Options) -> Result<(), String> {
    if let Some(part) = &options.not_yet {
        for finding in ratchet::places(look(root)?.1, part) {
            println!("{finding}");
        }
        return Ok(());
    }
    if options.lower {
        ratchet::lower(root, &look(root)?.1)?;
    }
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
