//! `rabbitmq.conf`, by the grammar of Cuttlefish: `key = value`, a `#` outside quotes begins a
//! comment, the last line of a key wins.

use super::Entry;
use crate::source::{Refusal, Source};

/// Reads a file.
pub(crate) fn read(file: &Source) -> Result<Vec<Entry>, Refusal> {
    let mut entries = Vec::new();
    let mut lines = file.lines();
    while let Some((line, text)) = lines.next() {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if let Some(included) = text.strip_prefix("include ") {
            entries.push(Entry { line, key: "include".to_owned(), value: included.trim().to_owned() });
            continue;
        }
        let Some((key, value)) = text.split_once('=') else {
            return Err(Refusal::at(file, line, "expected a line KEY = VALUE, as rabbitmq.conf has them"));
        };
        let key = key.trim().replace("\\.", ".");
        check_key(file, line, &key)?;
        let value = value.trim_start();
        let value = if let Some(long) = value.strip_prefix("'''") {
            several_lines(long, &mut lines).ok_or_else(|| Refusal::at(file, line, "the ''' that ends it is missing"))?
        } else if let Some(quoted) = value.strip_prefix('\'') {
            let end = quoted.find('\'').ok_or_else(|| Refusal::at(file, line, "the ' that ends it is missing"))?;
            quoted[..end].to_owned()
        } else {
            bare(value, line, &key, &mut entries)
        };
        if value.is_empty() {
            return Err(Refusal::at(file, line, format!("{key} has no value; RabbitMQ refuses that, too")));
        }
        entries.push(Entry { line, key, value });
    }
    Ok(entries)
}

/// A value up to its comment. A password that a comment cuts is said.
fn bare(value: &str, line: usize, key: &str, entries: &mut Vec<Entry>) -> String {
    let Some((before, _)) = value.split_once('#') else { return value.trim_end().to_owned() };
    if !before.is_empty() && !before.ends_with([' ', '\t']) {
        entries.push(Entry { line, key: format!("cut.{key}"), value: String::new() });
    }
    before.trim_end().to_owned()
}

fn several_lines<'a>(first: &str, lines: &mut impl Iterator<Item = (usize, &'a str)>) -> Option<String> {
    if let Some((inside, _)) = first.split_once("'''") {
        return Some(inside.to_owned());
    }
    let mut value = first.to_owned();
    for (_, text) in lines {
        value.push('\n');
        if let Some((inside, _)) = text.split_once("'''") {
            value.push_str(inside);
            return Some(value);
        }
        value.push_str(text);
    }
    None
}

fn check_key(file: &Source, line: usize, key: &str) -> Result<(), Refusal> {
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '$'))
    };
    let of_kernel =
        ["net.ipv", "net.core.", "net.netfilter.", "vm.", "fs.", "fs/"].iter().any(|start| key.starts_with(start));
    if key.split('.').all(is_word) && !of_kernel {
        return Ok(());
    }
    let text = if of_kernel {
        "this is no key of rabbitmq.conf; it looks like a setting of the kernel (sysctl)"
    } else {
        "this is no key of rabbitmq.conf"
    };
    Err(Refusal::at(file, line, text))
}
