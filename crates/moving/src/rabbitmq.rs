//! RabbitMQ: three forms of its settings become one list of entries, and the table says what each
//! entry becomes here.

mod conf;
mod environment;
mod listen;
mod special;
mod table;
mod terms;

use std::collections::BTreeMap;

pub(crate) use conf::read as conf;
pub(crate) use environment::read as environment;
pub(crate) use terms::read as terms;

use self::table::{Form, Rule};
use crate::outcome::{Outcome, Verdict};
use crate::source::is_placeholder;

/// A setting as the source has it. The name is that of `rabbitmq.conf`, whatever the form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) line: usize,
    pub(crate) key: String,
    pub(crate) value: String,
}

/// Where the name of a free part of the key ends: `loopback_users.guest` is about `guest`.
fn last(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// Settings that several entries decide together.
#[derive(Default)]
struct Gathered {
    /// By key, the last one wins.
    entries: BTreeMap<String, (String, Entry)>,
}

impl Gathered {
    /// The value of a key.
    fn value(&self, key: &str) -> Option<&str> {
        self.entries.get(key).map(|(_, entry)| entry.value.as_str())
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key).map(|(_, entry)| entry)
    }

    /// Entries whose keys begin so, in the order of their keys.
    fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries
            .range(prefix.to_owned()..)
            .map(|(_, (_, entry))| entry)
            .take_while(move |entry| entry.key.starts_with(prefix))
    }

    /// The same in the order of the numbers that their keys end with.
    fn numbered<'a>(&'a self, prefix: &'a str) -> Vec<&'a Entry> {
        let mut entries: Vec<_> = self.below(prefix).collect();
        let number =
            |entry: &Entry| entry.key[prefix.len()..].split('.').next().and_then(|part| part.parse::<u64>().ok());
        entries.sort_by_key(|entry| number(entry).unwrap_or(u64::MAX));
        entries
    }

    fn is_true(&self, key: &str) -> bool {
        self.value(key) == Some("true")
    }
}

/// Converts all entries of all files together.
pub(crate) fn convert(files: Vec<(String, Vec<Entry>)>, outcome: &mut Outcome<'_>) {
    let mut gathered = Gathered::default();
    for (file, entries) in files {
        for entry in entries {
            gathered.entries.insert(entry.key.clone(), (file.clone(), entry));
        }
    }
    for (file, entry) in gathered.entries.values() {
        outcome.now_in(file);
        single(entry, outcome);
    }
    listen::convert(&gathered, outcome);
    special::convert(&gathered, outcome);
}

/// An entry that stands for itself.
fn single(entry: &Entry, outcome: &mut Outcome<'_>) {
    let Entry { line, key, value } = entry;
    let rule = table::rule(key);
    let unresolved = value.contains("$(");
    if unresolved && !matches!(rule, Some(Rule::Needless(_) | Rule::Lacking(_) | Rule::NotBuilt(_))) {
        return special::unresolved(entry, outcome);
    }
    match rule {
        Some(Rule::Set(setting, form)) => match form.read(value) {
            Some(read) => outcome.set(*line, key, setting, read),
            None if matches!(form, Form::Number) && value == "infinity" => {
                outcome.needless(*line, key, format!("without a bound of its own, as by default; {setting} is one"));
            }
            None if is_placeholder(value) => {
                outcome.left_out(*line, key, format!("its value looks like a placeholder; write {setting} by hand"));
            }
            None => outcome.left_out(*line, key, format!("its value is no {}; RabbitMQ refuses it, too", form.noun())),
        },
        Some(Rule::Needless(why)) => outcome.needless(*line, key, *why),
        Some(Rule::Lacking(why)) => outcome.left_out(*line, key, *why),
        Some(Rule::NotBuilt(why)) => outcome.not_built(*line, key, *why),
        // Decided with others, and noted there.
        Some(Rule::Together) => {}
        None => outcome.note(*line, key, Verdict::Unknown, table::unknown(key)),
    }
}
