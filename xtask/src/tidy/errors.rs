//! The rule for texts of errors: each that a client can be told is in docs/manual/errors.md, and
//! what is there is in the program.
//!
//! A text is the first literal behind what makes an error, or what is called `text` and is one
//! then. Variables and what the page writes as `…` are the same.

use std::path::Path;

use super::Finding;
use super::files::File;

/// Where the page is.
const PAGE: &str = "docs/manual/errors.md";
/// Code that speaks to clients: files and folders that begin like this.
const SPEAKS: [&str; 9] = [
    "crates/amqp091/src/session",
    "crates/broker/src/arguments",
    "crates/broker/src/catalog",
    "crates/broker/src/encoding",
    "crates/broker/src/engine/admission",
    "crates/broker/src/engine/connections",
    "crates/broker/src/message",
    "crates/broker/src/routing",
    "crates/broker/src/session",
];
/// What makes an error, up to where its text begins.
const MAKERS: [&str; 7] = [
    "Error::not_found(",
    "Error::refused(",
    "Error::precondition(",
    "Error::not_allowed(",
    "Error::new(",
    "Failure::new(",
    "let text =",
];
/// Code that may be between a maker and its text.
const BETWEEN: usize = 60;
/// The text of a policy that is refused, which no client is told.
const OF_OPERATORS: &str = "… '…': …";

/// Holds the page against the code.
pub(super) fn check(files: &[File], findings: &mut Vec<Finding>) {
    let Some(page) = files.iter().find(|file| file.path == Path::new(PAGE)) else { return };
    let rows = rows(&page.text);
    let mut told = Vec::new();
    for file in files.iter().filter(|file| speaks(file)) {
        for (line, text) in texts(&file.text) {
            if text == OF_OPERATORS {
                continue;
            }
            if !rows.iter().any(|row| row.text == text) {
                findings.push(Finding::new(
                    &file.path,
                    line,
                    format!("`{text}` is not in {PAGE}: say there what to do"),
                ));
            }
            told.push(text);
        }
    }
    for row in &rows {
        let text = &row.text;
        if !told.contains(text) {
            findings.push(Finding::new(&page.path, row.line, format!("`{text}` is told to nobody")));
        }
        // What says itself what to do has a semicolon or a full stop before that.
        if row.remedy.is_empty() && !text.contains("; ") {
            findings.push(Finding::new(&page.path, row.line, format!("`{text}` has nothing that says what to do")));
        }
        if row.code.split(',').next().is_none_or(|code| code.parse::<u16>().is_err()) {
            findings.push(Finding::new(&page.path, row.line, format!("`{text}` has no code")));
        }
    }
}

fn speaks(file: &File) -> bool {
    let path = file.path.to_string_lossy().replace('\\', "/");
    file.extension("rs") && !path.contains("/tests") && SPEAKS.iter().any(|folder| path.starts_with(folder))
}

/// A row of the page.
struct Row {
    line: usize,
    text: String,
    code: String,
    remedy: String,
}

fn rows(page: &str) -> Vec<Row> {
    let row = |(number, line): (usize, &str)| {
        let mut columns = line.strip_prefix("| `")?.splitn(2, "` | ");
        let text = columns.next()?.to_owned();
        let (code, remedy) = columns.next()?.split_once('|').unwrap_or_default();
        let remedy = remedy.trim_end_matches('|').trim().to_owned();
        Some(Row { line: number + 1, text, code: code.trim().to_owned(), remedy })
    };
    page.lines().enumerate().filter_map(row).collect()
}

/// The texts in code outside tests, with their lines.
fn texts(code: &str) -> Vec<(usize, String)> {
    let code = code.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = Vec::new();
    for maker in MAKERS {
        for (at, _) in code.match_indices(maker) {
            let rest = &code[at + maker.len()..];
            let Some(quote) = rest.find('"') else { continue };
            // A text of its own, and not one further down.
            let before = &rest[..quote];
            if quote > BETWEEN || before.contains([';', '}', '|']) || is_over(before) {
                continue;
            }
            let line = code[..at].lines().count().max(1);
            found.push((line, template(&rest[quote + 1..])));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// True when a call ends in `text`, which begins behind its parenthesis.
fn is_over(text: &str) -> bool {
    let mut open = 1;
    text.chars().any(|character| {
        open += i32::from(character == '(') - i32::from(character == ')');
        open == 0
    })
}

/// A literal as the page writes it.
fn template(literal: &str) -> String {
    let mut text = String::new();
    let mut characters = literal.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => match characters.next() {
                Some('\n') => while characters.next_if(|next| next.is_whitespace()).is_some() {},
                Some(escaped) => text.push(escaped),
                None => break,
            },
            '{' if characters.next_if_eq(&'{').is_some() => text.push('{'),
            '}' if characters.next_if_eq(&'}').is_some() => text.push('}'),
            '{' => {
                while characters.next().is_some_and(|inner| inner != '}') {}
                text.push('…');
            }
            _ => text.push(character),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_and_written_as_on_the_page() {
        let code = r#"
            return Err(Error::not_found(format!("no queue '{}' in vhost '{vhost}'", name)));
            let text = format!("a {{b,\"{c}\"}} \
                                d");
            Failure::new(ReplyCode::NotImplemented, "active=false")
            Error::precondition(what)
            other("none")
            #[cfg(test)]
            Error::refused("in a test")
        "#;
        let texts: Vec<_> = texts(code).into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["no queue '…' in vhost '…'", "a {b,\"…\"} d", "active=false"]);
    }

    #[test]
    fn a_text_without_a_row_and_a_row_without_a_text_are_findings() {
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        let code = file("crates/broker/src/session/x.rs", "Error::refused(\"no, go away\")\n");
        for (page, expected) in [
            ("| `no, go away` | 403 | stay |", 0),
            ("| `no, go away` | 403 | |", 1),
            ("| `no, go away` | | stay |", 1),
            ("| `no; go away` | 403 | |", 2),
            ("", 1),
        ] {
            let mut findings = Vec::new();
            check(&[file(PAGE, page), file("crates/broker/src/session/x.rs", &code.text)], &mut findings);
            assert_eq!(findings.len(), expected, "{page}: {findings:?}");
        }
    }
}
