//! What a conversion came to, for people: first what behaves differently, then what was left out
//! and why, then what moved. It is short about what the vendor's generator wrote.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::{Item, Outcome, Verdict};

/// The whole report. It has names and reasons of items, and never a value.
pub fn report(outcome: &Outcome<'_>) -> String {
    let mut text = String::new();
    section(&mut text, "Behaves differently", outcome.warnings());
    let lines = |wanted: &[Verdict]| -> Vec<String> {
        outcome.items().iter().filter(|item| wanted.contains(&item.verdict)).map(line).collect()
    };
    section(&mut text, "Left out", &lines(&[Verdict::LeftOut, Verdict::Unknown, Verdict::NotBuilt]));
    section(&mut text, "Moved", &lines(&[Verdict::Moved]));
    section(&mut text, "Nothing to do", &grouped(outcome.items()));
    let shipped = outcome.items().iter().filter(|item| item.verdict == Verdict::Shipped).count();
    if shipped > 0 {
        let _ = writeln!(text, "{shipped} more need nothing: the product's own files have them as they are here.");
    }
    if text.is_empty() {
        text.push_str("There is no setting in these files.\n");
    }
    text
}

fn section(text: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(text, "{title} ({}):", lines.len());
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
    text.push('\n');
}

fn line(item: &Item) -> String {
    let between = if item.verdict == Verdict::Moved { " is now " } else { ": " };
    format!("{}:{} {}{between}{}", item.file, item.line, item.name, item.text)
}

/// What is needless for the same reason is one line.
fn grouped(items: &[Item]) -> Vec<String> {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for item in items.iter().filter(|item| item.verdict == Verdict::Needless) {
        let names = by_reason.entry(&item.text).or_default();
        if !names.contains(&item.name.as_str()) {
            names.push(&item.name);
        }
    }
    by_reason.into_iter().map(|(reason, names)| format!("{}: {reason}", names.join(", "))).collect()
}
