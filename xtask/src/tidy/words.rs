//! Words that do not belong into the tree: the project speaks of itself, not of the places where
//! it is worked on.

use super::Finding;
use super::files::File;

/// Each as two halves, so that this file does not contain them.
const WORDS: [(&str, &str, &str); 11] = [
    ("/wor", "k/", "a path of one machine"),
    ("../sha", "red", "a path of one machine"),
    ("/tmp/bri", "efs", "a path of one machine"),
    ("/ro", "ot/", "a path of one machine"),
    ("registry.npm", "js.org", "the host of a package registry"),
    ("py", "pi.org", "the host of a package registry"),
    ("proxy.go", "lang.org", "the host of a package registry"),
    ("repo1.ma", "ven.org", "the host of a package registry"),
    ("repo.ma", "ven.apache.org", "the host of a package registry"),
    ("static.crat", "es.io", "the host of a package registry"),
    ("index.crat", "es.io", "the host of a package registry"),
];

/// Looks for the words, whatever their case.
pub(super) fn check(file: &File, findings: &mut Vec<Finding>) {
    for (number, line) in file.text.lines().enumerate() {
        let line = line.to_ascii_lowercase();
        for (head, tail, what) in WORDS {
            let word = format!("{head}{tail}");
            if line.contains(&word) {
                findings.push(Finding::new(&file.path, number + 1, format!("`{word}` is {what}")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_any_case() {
        for (text, expected) in [(format!("x\nsee /Wor{}x", "k/"), 1), ("work/ at home".to_owned(), 0)] {
            let mut findings = Vec::new();
            check(&File { path: "x.md".into(), text }, &mut findings);
            assert_eq!(findings.len(), expected);
            assert!(findings.iter().all(|finding| finding.line == 2));
        }
    }
}
