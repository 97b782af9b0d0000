//! The rules for Markdown: every relative link leads to a file, and every anchor to a heading.

use std::path::{Component, Path, PathBuf};

use super::Finding;
use super::files::File;

/// Checks the links of one document.
pub(super) fn check(root: &Path, file: &File, findings: &mut Vec<Finding>) {
    for (number, target) in links(&file.text) {
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let linked = if path.is_empty() { file.path.clone() } else { resolve(&file.path, path) };
        let full = root.join(&linked);
        if !path.is_empty() && !full.exists() {
            findings.push(Finding::new(&file.path, number, format!("the link to `{target}` leads nowhere")));
        } else if !anchor.is_empty() && linked.extension().is_some_and(|extension| extension == "md") {
            let other = std::fs::read_to_string(&full).unwrap_or_default();
            let text = if path.is_empty() { &file.text } else { &other };
            if !headings(text).iter().any(|heading| heading == anchor) {
                findings.push(Finding::new(&file.path, number, format!("`{target}`: there is no such heading")));
            }
        }
    }
}

/// The targets of inline links outside code, with their lines; those to other sites are left out.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        // Every second piece between backticks is code.
        for piece in line.split('`').step_by(2) {
            for part in piece.split("](").skip(1) {
                let target = part.split([')', ' ']).next().unwrap_or("");
                if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                    found.push((number, target));
                }
            }
        }
        // A link whose text is code, such as [`name`](path), is split by its backticks: the target
        // follows the last one.
        for part in line.split("`](").skip(1) {
            let target = part.split([')', ' ']).next().unwrap_or("");
            if !target.is_empty() && !target.contains("://") {
                found.push((number, target));
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The lines outside fenced code, numbered from 1.
pub(super) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then_some((number + 1, line))
    })
}

/// The anchors of a document's headings, as GitHub forms them.
fn headings(text: &str) -> Vec<String> {
    prose(text)
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, line)| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            title
                .chars()
                .filter(|character| character.is_alphanumeric() || matches!(character, ' ' | '-' | '_'))
                .map(|character| if character == ' ' { '-' } else { character })
                .collect()
        })
        .collect()
}

/// The path of `target` as seen from the document `from`, without `.` and `..`.
fn resolve(from: &Path, target: &str) -> PathBuf {
    let mut path = if target.starts_with('/') { PathBuf::new() } else { from.with_file_name("") };
    for component in Path::new(target).components() {
        match component {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(part) => path.push(part),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_and_resolved() {
        let text = "[a](b.md) and [c](https://x.y/z)\n```\n[d](e.md)\n```\n`[f](g.md)` [`h`](../i.md#j-k)\n";
        assert_eq!(links(text), [(1, "b.md"), (5, "../i.md#j-k")]);
        assert_eq!(resolve(Path::new("docs/flows/x.md"), "../i.md"), Path::new("docs/i.md"));
        assert_eq!(resolve(Path::new("README.md"), "docs/i.md"), Path::new("docs/i.md"));
        assert_eq!(headings("# One `two`: three\n```\n# no\n```\n## A-b_c\n"), ["one-two-three", "a-b_c"]);
    }

    #[test]
    fn a_dead_link_is_a_finding() {
        let root = crate::root().unwrap();
        for (text, count) in
            [("[x](Cargo.toml) [y](docs)", 0), ("[x](nowhere.md)", 1), ("# A b\n[x](#a-b)", 0), ("# A b\n[x](#a-c)", 1)]
        {
            let mut findings = Vec::new();
            check(&root, &File { path: "Cargo.md".into(), text: text.into() }, &mut findings);
            assert_eq!(findings.len(), count, "{text}: {findings:?}");
        }
    }
}
