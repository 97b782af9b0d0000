//! The prose of the tree, in comments and in Markdown: how wide its lines are, and words that make
//! a sentence hard to read.
//!
//! Code in a comment or a page is not prose: what is between backticks or fences, or indented.

use std::path::Path;

use super::files::File;
use super::ratchet::{Broken, Rule};
use super::source::Line;

const MAX_COLUMNS: usize = 100;
/// A comment behind code may be as wide as code.
const MAX_CODE_COLUMNS: usize = 120;

/// Words of another age, or of persons where a part of the program is meant.
const WORDS: [&str; 12] = [
    "nobody",
    "somebody",
    "whoever",
    "whom",
    "heed",
    "heeds",
    "abide",
    "abides",
    "mourn",
    "mourns",
    "anew",
    "for want of",
];

/// Looks at the comments of one Rust file.
pub(super) fn check_rust(file: &File, lines: &[Line], broken: &mut Vec<Broken>) {
    let mut fenced = false;
    for (number, (whole, line)) in file.text.lines().zip(lines).enumerate() {
        let comment = line.comment.trim_start_matches(['/', '!', '*']).trim();
        if comment.starts_with("```") {
            fenced = !fenced;
        }
        fenced &= !line.comment.is_empty();
        if fenced || comment.is_empty() {
            continue;
        }
        let most = if line.code.trim().is_empty() { MAX_COLUMNS } else { MAX_CODE_COLUMNS };
        check_line(&file.path, number + 1, whole, comment, most, broken);
    }
}

/// Looks at one page.
pub(super) fn check_page(file: &File, broken: &mut Vec<Broken>) {
    let mut fenced = false;
    // Code that is only indented follows an empty line.
    let mut indented = true;
    for (number, line) in file.text.lines().enumerate() {
        let text = line.trim();
        indented = text.is_empty() || (indented && line.starts_with("    ") && !text.starts_with(['-', '*']));
        if text.starts_with("```") {
            fenced = !fenced;
        } else if !fenced && !indented {
            check_line(&file.path, number + 1, line, text, MAX_COLUMNS, broken);
        }
    }
}

/// Checks the `text` of the line `whole`.
fn check_line(path: &Path, number: usize, whole: &str, text: &str, most: usize, broken: &mut Vec<Broken>) {
    let columns = whole.chars().count();
    if columns > most && !stays_whole(text) {
        let problem = format!("{columns} columns; at most {most}: wrap it");
        broken.push(Broken::new(Rule::WideLine, path, number, problem));
    }
    for word in banned(text) {
        let problem = format!("\"{word}\": say it plainly, with the part of the program as the subject");
        broken.push(Broken::new(Rule::BannedWord, path, number, problem));
    }
}

/// Whether a line can't be wrapped: a row of a table, a link's definition, or one word.
fn stays_whole(text: &str) -> bool {
    let item = text.trim_start_matches(['-', '*', ' ']);
    text.starts_with('|') || (text.starts_with('[') && text.contains("]: ")) || !item.contains(' ')
}

/// The banned words in the text outside backticks, each once.
fn banned(text: &str) -> Vec<&'static str> {
    let prose: Vec<String> = text.split('`').step_by(2).map(str::to_lowercase).collect();
    let has = |word: &str| prose.iter().any(|piece| piece.match_indices(word).any(|(at, _)| is_whole(piece, at, word)));
    WORDS.into_iter().filter(|word| has(word)).collect()
}

/// Whether the `word` at `at` is no part of a longer one.
fn is_whole(text: &str, at: usize, word: &str) -> bool {
    let before = text[..at].chars().next_back();
    let behind = text[at + word.len()..].chars().next();
    !before.into_iter().chain(behind).any(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[test]
    fn comments_are_checked() {
        let wide = format!("// {}", "word ".repeat(20));
        for (text, expected) in [
            ("// Plain words, and `nobody` in code.".to_owned(), ""),
            ("let a = \"nobody\"; let whom = 1;".to_owned(), ""),
            ("// Nobody asks.".to_owned(), "BannedWord"),
            ("x(); // For want of a nail, somebody's shoe.".to_owned(), "BannedWord BannedWord"),
            ("// heedless abidance".to_owned(), ""),
            (format!("{wide}x"), "WideLine"),
            (format!("{}x(); {wide}", " ".repeat(8)), ""),
            (format!("{}x(); {wide}", " ".repeat(18)), "WideLine"),
            (format!("// https://{}", "x".repeat(100)), ""),
            (format!("/// | {wide} |"), ""),
            (format!("/// ```\n/// {wide}x\n/// ```\n/// whom"), "BannedWord"),
        ] {
            let mut broken = Vec::new();
            check_rust(&File { path: "a.rs".into(), text: text.clone() }, &source::lines(&text), &mut broken);
            assert_eq!(shown(&broken), expected, "{text}");
        }
    }

    #[test]
    fn pages_are_checked() {
        let wide = "word ".repeat(21);
        for (path, text, expected) in [
            ("a.md", format!("{wide}\n"), "WideLine"),
            ("a.md", format!("- {wide}\n"), "WideLine"),
            ("a.md", format!("| {wide} |\n[a]: {wide}\n- https://{}\n", "x".repeat(100)), ""),
            ("a.md", format!("x\n\n    {wide}\n    {wide}\nx\n    {wide}\n\n    - {wide}\n"), "WideLine WideLine"),
            ("a.md", format!("```\n{wide} whom\n```\n`whom` whom\n"), "BannedWord"),
        ] {
            let mut broken = Vec::new();
            check_page(&File { path: path.into(), text: text.clone() }, &mut broken);
            assert_eq!(shown(&broken), expected, "{text}");
        }
    }

    fn shown(broken: &[Broken]) -> String {
        broken.iter().map(|broken| format!("{:?}", broken.rule)).collect::<Vec<_>>().join(" ")
    }
}
