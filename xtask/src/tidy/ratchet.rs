//! Rules that parts of the tree still break: how often each may, in a table that only gets shorter.
//!
//! A part is a crate, or a folder or the files at the root. It may break a rule exactly as often as
//! `not_yet.toml` says. More is a finding; so is less, until the number is lowered. The option
//! `--not-yet` shows the places in a part, and `--lower` lowers all numbers.

use std::collections::BTreeMap;
use std::path::Path;

use super::Finding;

/// Where the table is.
const TABLE: &str = "xtask/src/tidy/not_yet.toml";
/// What stands above it.
const HEADER: &str = "# How often each part of the tree may still break a rule. Numbers only go down; a part or a rule\n\
                      # without a number may not. `cargo xtask tidy --lower` writes this file.\n";

/// A rule that came later than the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    BannedWord,
    BoolParameter,
    WideLine,
    WideStruct,
}

impl Rule {
    const ALL: [Self; 4] = [Self::BannedWord, Self::BoolParameter, Self::WideLine, Self::WideStruct];

    /// Its key in the table.
    const fn key(self) -> &'static str {
        match self {
            Self::BannedWord => "banned_words",
            Self::BoolParameter => "bool_parameters",
            Self::WideLine => "wide_lines",
            Self::WideStruct => "wide_structs",
        }
    }
}

/// A place where such a rule is broken.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) rule: Rule,
    finding: Finding,
}

impl Broken {
    pub(super) fn new(rule: Rule, path: &Path, line: usize, text: String) -> Self {
        Self { rule, finding: Finding::new(path, line, text) }
    }
}

/// How often a part breaks a rule.
type Counts = BTreeMap<String, BTreeMap<String, usize>>;

/// Holds what is broken against the table of the tree at `root`.
///
/// # Errors
/// When the table can't be read.
pub(super) fn check(root: &Path, broken: Vec<Broken>, findings: &mut Vec<Finding>) -> Result<(), String> {
    let text = std::fs::read_to_string(root.join(TABLE)).map_err(|error| format!("cannot read {TABLE}: {error}"))?;
    compare(&read(&text)?, broken, findings);
    Ok(())
}

/// All places in the part called `name` where a rule is broken, whether it may be or not.
pub(super) fn places(broken: Vec<Broken>, name: &str) -> Vec<Finding> {
    broken.into_iter().map(|broken| broken.finding).filter(|finding| part(&finding.path) == name).collect()
}

/// Lowers the numbers of the table to what is broken; none is raised.
///
/// # Errors
/// When the table can't be read or written.
pub(super) fn lower(root: &Path, broken: &[Broken]) -> Result<(), String> {
    let path = root.join(TABLE);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("cannot read {TABLE}: {error}"))?;
    let lowered = lowered(&read(&text)?, broken);
    std::fs::write(&path, write(&lowered)).map_err(|error| format!("cannot write {TABLE}: {error}"))
}

fn compare(allowed: &Counts, broken: Vec<Broken>, findings: &mut Vec<Finding>) {
    let counts = counts(&broken);
    let number = |counts: &Counts, part: &str, rule: &str| {
        counts.get(part).and_then(|rules| rules.get(rule)).copied().unwrap_or_default()
    };
    for (part, rules) in allowed {
        for (rule, most) in rules {
            let count = number(&counts, part, rule);
            let what_to_do = if count > *most {
                "the option `--not-yet` shows where"
            } else if count < *most || *most == 0 || !Rule::ALL.iter().any(|known| known.key() == rule) {
                "lower the number, or let `--lower` do it"
            } else {
                continue;
            };
            let text = format!("[{part}] {rule} = {most}, and there are {count}: {what_to_do}");
            findings.push(Finding::new(Path::new(TABLE), 0, text));
        }
    }
    let unlisted = |broken: &Broken| number(allowed, &part(&broken.finding.path), broken.rule.key()) == 0;
    findings.extend(broken.into_iter().filter(unlisted).map(|broken| broken.finding));
}

fn lowered(allowed: &Counts, broken: &[Broken]) -> Counts {
    let mut counts = counts(broken);
    for (part, rules) in &mut counts {
        for (rule, count) in &mut *rules {
            let most = allowed.get(part).and_then(|rules| rules.get(rule)).copied().unwrap_or_default();
            *count = most.min(*count);
        }
        rules.retain(|_, count| *count > 0);
    }
    counts.retain(|_, rules| !rules.is_empty());
    counts
}

fn counts(broken: &[Broken]) -> Counts {
    let mut counts = Counts::new();
    for Broken { rule, finding } in broken {
        *counts.entry(part(&finding.path)).or_default().entry(rule.key().to_owned()).or_default() += 1;
    }
    counts
}

/// The part of the tree that a file belongs to.
fn part(path: &Path) -> String {
    let mut names = path.parent().unwrap_or(path).iter().map(|name| name.to_string_lossy().into_owned());
    let first = names.next();
    match (first, names.next()) {
        (None, _) => "root".to_owned(),
        (Some(first), Some(name)) if first == "crates" => name,
        (Some(first), _) => first,
    }
}

fn read(text: &str) -> Result<Counts, String> {
    toml::from_str(text).map_err(|error| format!("{TABLE}: {error}"))
}

fn write(counts: &Counts) -> String {
    let mut text = HEADER.to_owned();
    for (part, rules) in counts {
        text += &format!("\n[{part}]\n");
        text.extend(rules.iter().map(|(rule, count)| format!("{rule} = {count}\n")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(count: usize) -> Vec<Broken> {
        let one = |line| Broken::new(Rule::WideLine, Path::new("crates/a/src/b.rs"), line, "wide".to_owned());
        (0..count).map(one).collect()
    }

    #[test]
    fn a_part_may_break_a_rule_as_often_as_the_table_says() {
        for (table, count, expected) in [
            ("[a]\nwide_lines = 2", 2, 0),
            ("[a]\nwide_lines = 2", 3, 1),
            ("[a]\nwide_lines = 2", 1, 1),
            ("[a]\nwide_lines = 2", 0, 1),
            ("[a]\nwide_structs = 1\nwide_lines = 1", 1, 1),
            ("[a]\nwide_lines = 0", 0, 1),
            ("[b]\nunheard_of = 1", 0, 1),
            ("", 2, 2),
            ("", 0, 0),
        ] {
            let mut findings = Vec::new();
            compare(&read(table).unwrap(), broken(count), &mut findings);
            assert_eq!(findings.len(), expected, "{table} {count}: {findings:?}");
        }
    }

    #[test]
    fn numbers_are_lowered_and_never_raised() {
        for (table, count, expected) in [
            ("[a]\nwide_lines = 2", 1, "\n[a]\nwide_lines = 1\n"),
            ("[a]\nwide_lines = 2", 3, "\n[a]\nwide_lines = 2\n"),
        ] {
            assert_eq!(write(&lowered(&read(table).unwrap(), &broken(count))), format!("{HEADER}{expected}"));
        }
        assert_eq!(write(&lowered(&read("[a]\nwide_lines = 2").unwrap(), &broken(0))), HEADER);
    }

    #[test]
    fn parts_are_crates_and_folders() {
        for (path, expected) in
            [("crates/a/src/b.rs", "a"), ("docs/a/b.md", "docs"), ("README.md", "root"), ("xtask/src/a.rs", "xtask")]
        {
            assert_eq!(part(Path::new(path)), expected);
        }
    }
}
