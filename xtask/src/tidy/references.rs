//! The rule for pages that lead through the code: each file, folder and name that ARCHITECTURE.md
//! and docs/flows give between backticks exists.

use std::collections::HashSet;
use std::path::Path;

use super::Finding;
use super::documents::prose;
use super::files::File;
use super::source::{identifiers, lines};

/// Where the flows are.
const FLOWS: &str = "docs/flows";
/// The page about the whole.
const MAP: &str = "ARCHITECTURE.md";

/// What can be referred to.
struct Known<'f> {
    /// Each file without the folder `src`, as the pages name it.
    files: Vec<String>,
    names: HashSet<&'f str>,
}

/// Holds the pages against the code.
pub(super) fn check(files: &[File], findings: &mut Vec<Finding>) {
    let code: Vec<_> = files.iter().filter(|file| file.extension("rs")).map(|file| lines(&file.text)).collect();
    // A folder may be named without its slash, as crates are.
    let folders = files.iter().flat_map(|file| file.path.iter()).filter_map(|part| part.to_str());
    let names = code.iter().flatten().flat_map(|line| identifiers(&line.code)).chain(folders).collect();
    let shown = |file: &File| file.path.to_string_lossy().replace('\\', "/");
    let known = Known { files: files.iter().map(shown).collect(), names };
    for page in files.iter().filter(|file| file.path == Path::new(MAP) || file.path.starts_with(FLOWS)) {
        for (number, line) in prose(&page.text) {
            let unknown = line.split('`').skip(1).step_by(2).filter_map(|span| known.lacks(span));
            findings.extend(unknown.map(|problem| Finding::new(&page.path, number, problem)));
        }
    }
}

impl Known<'_> {
    /// What is wrong with a span of code, if it is a path or a name.
    fn lacks(&self, span: &str) -> Option<String> {
        if is_path(span) {
            return (!self.has_path(span)).then(|| format!("there is no `{span}`"));
        }
        let name = span.strip_suffix("()").unwrap_or(span);
        let parts: Vec<&str> = name.split("::").collect();
        let is_name =
            parts.iter().all(|part| identifiers(part) == [*part] && !part.starts_with(|c: char| c.is_ascii_digit()));
        let missing = parts.into_iter().find(|part| is_name && !self.names.contains(part))?;
        Some(format!("nothing in the code is called `{missing}`"))
    }

    /// Pages leave out what goes before, and the folder `src`.
    fn has_path(&self, span: &str) -> bool {
        let ends = |path: &str| match span.strip_suffix('/') {
            Some(_) => format!("/{path}").contains(&format!("/{span}")),
            None => format!("/{path}").ends_with(&format!("/{span}")),
        };
        self.files.iter().any(|file| ends(file) || ends(&file.replace("/src/", "/")))
    }
}

/// A file of code or a folder.
fn is_path(span: &str) -> bool {
    let plain = |part: char| part.is_ascii_alphanumeric() || "_-./".contains(part);
    span.chars().all(plain) && (span.ends_with(".rs") || span.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_flows_name_exists() {
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        for (span, expected) in [
            ("broker/src/queue.rs", ""),
            ("broker/queue.rs", ""),
            ("queue.rs", ""),
            ("broker/src/", ""),
            ("eue.rs", "there is no `eue.rs`"),
            ("queues/", "there is no `queues/`"),
            ("Queue::publish", ""),
            ("publish()", ""),
            ("Queue::hide", "nothing in the code is called `hide`"),
            ("note", "nothing in the code is called `note`"),
            ("x-expires", ""),
            ("hermod serve", ""),
        ] {
            let files = [
                file("crates/broker/src/queue.rs", "//! x\nimpl Queue {\n    // note\n    fn publish() {}\n}\n"),
                file("docs/flows/publish.md", &format!("see `{span}`.\n")),
                file("docs/other.md", "see `gone.rs`.\n"),
            ];
            let mut findings = Vec::new();
            check(&files, &mut findings);
            let found: Vec<String> = findings.iter().map(ToString::to_string).collect();
            match expected {
                "" => assert!(found.is_empty(), "{span}: {found:?}"),
                _ => assert!(found.len() == 1 && found[0].contains(expected), "{span}: {found:?}"),
            }
        }
    }
}
