//! Programs that a page prints: a fenced block whose first line names a file, as in
//! ```` ```python python/hello_send.py ````, is that file to the byte. So what readers copy is what
//! tests run.

use std::path::Path;

use super::Finding;
use super::files::File;

/// Checks the programs that one page prints.
pub(super) fn check(root: &Path, file: &File, findings: &mut Vec<Finding>) {
    for (number, name, printed) in programs(&file.text) {
        let path = file.path.with_file_name(name);
        let problem = match std::fs::read_to_string(root.join(&path)) {
            Ok(text) if text == printed => continue,
            Ok(_) => format!("what is printed here is not {name}: copy the file into the block"),
            Err(error) => format!("cannot read the printed file {name}: {error}"),
        };
        findings.push(Finding::new(&file.path, number, problem));
    }
}

/// The blocks that name a file: the line of each, the name and the text.
fn programs(page: &str) -> Vec<(usize, &str, String)> {
    let mut found: Vec<(usize, &str, String)> = Vec::new();
    let (mut fenced, mut named) = (false, false);
    for (number, line) in page.lines().enumerate() {
        if let Some(info) = line.strip_prefix("```") {
            fenced = !fenced;
            let name = info.split(' ').nth(1).filter(|_| fenced);
            named = name.is_some();
            found.extend(name.map(|name| (number + 1, name, String::new())));
        } else if let (true, Some((.., text))) = (named, found.last_mut()) {
            text.push_str(line);
            text.push('\n');
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_program_is_its_file() {
        let root = crate::root().unwrap();
        let whole = std::fs::read_to_string(root.join("rustfmt.toml")).unwrap();
        for (page, count) in [
            (format!("```toml rustfmt.toml\n{whole}```\n"), 0),
            (format!("```toml rustfmt.toml\n{whole}more\n```\n"), 1),
            ("```toml rustfmt.toml\n```\n".to_owned(), 1),
            ("```toml nowhere.toml\n```\n".to_owned(), 1),
            ("```toml\nx\n```\n```\ny\n```\n".to_owned(), 0),
        ] {
            let mut findings = Vec::new();
            check(&root, &File { path: "a.md".into(), text: page.clone() }, &mut findings);
            assert_eq!(findings.len(), count, "{page}: {findings:?}");
        }
    }
}
