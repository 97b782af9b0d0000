//! Where links lead: from a document's path and a target to a page of the book, a program of a
//! tutorial, a picture, or a file that only the repository has.

/// What a link leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// Another site.
    Elsewhere,
    /// A document, by its path below `docs/`, and an anchor there, or none.
    Document(String, String),
    /// A program that a tutorial shows, by its path below `docs/`.
    Program(String),
    /// A file of the repository that is no part of the book, by its path below `docs/`.
    Repository(String),
}

/// How the names of programs end, and how readers call the language.
const LANGUAGES: [(&str, &str); 7] = [
    ("py", "Python"),
    ("java", "Java"),
    ("js", "JavaScript"),
    ("go", "Go"),
    ("rs", "Rust"),
    ("php", "PHP"),
    ("cs", "C#"),
];

/// What `target` means in the document `from`.
pub(crate) fn target(from: &str, target: &str) -> Target {
    if target.contains("://") || target.starts_with("mailto:") {
        return Target::Elsewhere;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { from.to_owned() } else { resolve(from, path) };
    match path.rsplit_once('.').map_or("", |(_, end)| end) {
        "md" => Target::Document(path, anchor.to_owned()),
        _ if path.starts_with("tutorials/") && language(&path).is_some() => Target::Program(path),
        _ => Target::Repository(path),
    }
}

/// The language of a program.
pub(crate) fn language(path: &str) -> Option<&'static str> {
    let end = path.rsplit_once('.')?.1;
    LANGUAGES.iter().find(|(ends, _)| *ends == end).map(|(_, name)| *name)
}

/// The path of `target` as seen from the document `from`; it begins with `..` where it leaves
/// `docs/`.
pub(crate) fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The address of a document's page, below the root of the book.
pub(crate) fn address(document: &str) -> String {
    if document == crate::source::CONTENTS {
        return "index.html".to_owned();
    }
    let stem = document.strip_suffix(".md").unwrap_or(document);
    let stem = stem.strip_suffix("README").map_or(stem.to_owned(), |folder| format!("{folder}index"));
    format!("{stem}.html")
}

/// The address `to` as a page at the address `from` calls it.
pub(crate) fn relative(from: &str, to: &str) -> String {
    "../".repeat(from.matches('/').count()) + to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_resolved() {
        let document = |path: &str, anchor: &str| Target::Document(path.to_owned(), anchor.to_owned());
        for (from, link, expected) in [
            ("manual/a.md", "b.md", document("manual/b.md", "")),
            ("manual/a.md", "#c", document("manual/a.md", "c")),
            ("manual/a.md", "../mapping/b.md#c-d", document("mapping/b.md", "c-d")),
            ("manual/a.md", "../../README.md", document("../README.md", "")),
            ("a.md", "../x/y.md", document("../x/y.md", "")),
            ("tutorials/a.md", "go/b.go", Target::Program("tutorials/go/b.go".to_owned())),
            ("manual/a.md", "../../interop/b.py", Target::Repository("../interop/b.py".to_owned())),
            ("manual/a.md", "https://x.y/z.md", Target::Elsewhere),
        ] {
            assert_eq!(target(from, link), expected, "{from} {link}");
        }
    }

    #[test]
    fn addresses_are_relative() {
        assert_eq!(address("manual/README.md"), "index.html");
        assert_eq!(address("tutorials/README.md"), "tutorials/index.html");
        assert_eq!(relative("manual/a.html", "index.html"), "../index.html");
        assert_eq!(relative("index.html", "manual/a.html"), "manual/a.html");
    }
}
