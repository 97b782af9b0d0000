//! Configurations of other brokers, and their files of users and roles. Any text is refused, or
//! becomes settings and a report; each item of the report lies within its file.

use moving::{Outcome, Source, Sources};

/// The configuration, and behind a zero byte each a file of users and one of roles, if any.
pub(super) fn configuration(input: &[u8]) {
    let mut parts = input.splitn(3, |byte| *byte == 0);
    let mut next = |name| parts.next().map(|bytes| Source::new(name, bytes));
    let (file, users, roles) = (next("file"), next("users"), next("roles"));
    let (Some(Ok(file)), users, roles) = (file, users.transpose(), roles.transpose()) else { return };
    let (Ok(users), Ok(roles)) = (users, roles) else { return };
    let files = [file];
    let sources = Sources { files: &files, users: users.as_ref(), roles: roles.as_ref() };
    let outcome = match moving::convert(sources, &takes) {
        Ok(outcome) => outcome,
        Err(refusal) => return assert!(!refusal.to_string().is_empty()),
    };
    let lines = input.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count() + 1;
    for item in outcome.items() {
        assert!((1..=lines).contains(&item.line), "{item:?} of {lines} lines");
        assert!(!item.name.is_empty(), "{item:?}");
    }
    let written = |outcome: &Outcome<'_>| {
        (outcome.toml("definitions.json"), outcome.definitions(), moving::report(outcome), outcome.warnings().to_vec())
    };
    let again = moving::convert(sources, &takes).expect("it was taken before");
    assert_eq!(written(&outcome), written(&again), "the same files become the same");
}

/// Takes what settings of these kinds take.
fn takes(setting: &str, value: &str) -> Result<(), String> {
    let is_number = value.chars().all(|letter| letter.is_ascii_digit());
    let is_wrong = setting.starts_with("ports.") && !is_number;
    if is_wrong { Err("no number".to_owned()) } else { Ok(()) }
}
