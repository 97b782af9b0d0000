//! The rule for the glossary of ARCHITECTURE.md. A type that it names exists once in the product
//! code of the workspace, so that a word has one meaning.

use std::path::{Path, PathBuf};

use super::Finding;
use super::files::File;
use super::source::{self, Line, identifiers};
use super::test_files::TestFiles;

/// Where the glossary is.
const PAGE: &str = "ARCHITECTURE.md";
/// The heading of its section.
const HEADING: &str = "Glossary";
/// The column with the types, from 0: term, meaning, elsewhere called, type.
const TYPE_COLUMN: usize = 3;

/// A type of the product, and where it is.
struct Definition {
    name: String,
    path: PathBuf,
}

/// Holds the glossary against the code.
pub(super) fn check(files: &[File], tests: &TestFiles, findings: &mut Vec<Finding>) {
    let Some(page) = files.iter().find(|file| file.path == Path::new(PAGE)) else { return };
    let named = types(&page.text);
    if named.is_empty() {
        let problem = format!("there is no section `{HEADING}` whose column {} names types", TYPE_COLUMN + 1);
        findings.push(Finding::new(&page.path, 0, problem));
    }
    let code = files.iter().filter(|file| file.extension("rs") && !tests.has(&file.path));
    let defined: Vec<Definition> = code.flat_map(definitions).collect();
    for (line, name) in named {
        let places: Vec<String> = defined
            .iter()
            .filter(|definition| definition.name == name)
            .map(|definition| definition.path.display().to_string())
            .collect();
        let problem = match places.len() {
            1 => continue,
            0 => format!("there is no type `{name}`"),
            _ => format!("`{name}` has several meanings; it is defined in {}", places.join(", ")),
        };
        findings.push(Finding::new(&page.path, line, problem));
    }
}

/// The types that the table of the section names between backticks, with their lines.
fn types(page: &str) -> Vec<(usize, &str)> {
    let mut inside = false;
    let mut found = Vec::new();
    for (number, line) in page.lines().enumerate() {
        if line.starts_with('#') {
            inside = line.trim_start_matches('#').trim() == HEADING;
        }
        let row = line.trim().strip_prefix('|').filter(|_| inside);
        let column = row.and_then(|row| row.split('|').nth(TYPE_COLUMN)).unwrap_or_default();
        let names = column.split('`').skip(1).step_by(2).filter_map(|path| path.split("::").last());
        found.extend(names.map(|name| (number + 1, name)));
    }
    found
}

/// The types that a file defines outside tests. The types of a trait are not of their own.
fn definitions(file: &File) -> Vec<Definition> {
    let lines = source::lines(&file.text);
    let define = |line: &Line| {
        let name = match identifiers(after_visibility(&line.code)).as_slice() {
            ["type", name, ..] if !line.code.starts_with(' ') => *name,
            ["struct" | "enum" | "trait" | "union", name, ..] => *name,
            _ => return None,
        };
        Some(Definition { name: name.to_owned(), path: file.path.clone() })
    };
    lines.iter().filter(|line| !line.test).filter_map(define).collect()
}

/// What follows `pub` and the scope in parentheses after it.
fn after_visibility(code: &str) -> &str {
    let code = code.trim_start();
    let Some(rest) = code.strip_prefix("pub") else { return code };
    let scope = rest.strip_prefix('(').and_then(|scope| scope.split_once(')'));
    scope.map_or(rest, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_of_the_glossary_exists_once() {
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        let code = "//! x\npub(crate) struct Entry {}\nenum Ticket {}\nimpl A for B {\n    type Ticket = u8;\n}\n\
                    #[cfg(test)]\nmod tests {\n    struct Ticket;\n}\n";
        for (cell, expected) in [
            ("`Entry`, `b::Ticket`", ""),
            ("", "there is no section `Glossary` whose column 4 names types"),
            ("`Turn`", "ARCHITECTURE.md:4: there is no type `Turn`"),
            ("`Two`", "`Two` has several meanings"),
            ("`Near`", "`Near` has several meanings"),
        ] {
            let page = format!(
                "## Glossary\n| term | meaning | elsewhere called | type |\n|---|---|---|---|\n\
                                | x | y `Turn` | `Turn` | {cell} |\n## Other\n| a | b | c | `Turn` |\n"
            );
            let files = [
                file(PAGE, &page),
                file("a.rs", code),
                file("b.rs", "pub type Two = u8;\npub(in crate::b) struct Near;\n"),
                file("c.rs", "pub trait Two {}\npub(in super::super) enum Near {}\n"),
                file("tests.rs", "struct Entry;\n"),
            ];
            let mut findings = Vec::new();
            check(&files, &TestFiles::of(&[]), &mut findings);
            let found: Vec<String> = findings.iter().map(ToString::to_string).collect();
            match expected {
                "" => assert!(found.is_empty(), "{cell}: {found:?}"),
                _ => assert!(found.len() == 1 && found[0].contains(expected), "{cell}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_page_without_the_section_is_a_finding() {
        let page = "## Words\n| term | meaning | elsewhere called | type |\n|---|---|---|---|\n| x | y | | `Entry` |\n";
        let files = [File { path: PAGE.into(), text: page.into() }];
        let mut findings = Vec::new();
        check(&files, &TestFiles::of(&[]), &mut findings);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].to_string().contains("there is no section"), "{}", findings[0]);
    }
}
