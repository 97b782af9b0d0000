//! Users, passwords and roles from `artemis-users.properties`, ActiveMQ's `users.properties`, and
//! the files of roles beside them.

use std::collections::{BTreeMap, BTreeSet};

use crate::outcome::{Outcome, Verdict};
use crate::source::{Refusal, Source};

/// Who can log in.
#[derive(Debug, Default, Clone)]
pub(crate) struct People {
    /// Users, with their passwords as far as these can be taken over.
    pub(crate) users: BTreeMap<String, Option<String>>,
    /// Members of each role.
    pub(crate) roles: BTreeMap<String, BTreeSet<String>>,
}

/// Reads both files.
pub(crate) fn read(
    users: Option<&Source>,
    roles: Option<&Source>,
    outcome: &mut Outcome<'_>,
) -> Result<People, Refusal> {
    let mut people = People::default();
    if let Some(file) = users {
        outcome.now_in(&file.name);
        for (line, name, value) in properties(file)? {
            people.user(line, &name, &value, outcome);
        }
    }
    if let Some(file) = roles {
        outcome.now_in(&file.name);
        let mut seen = BTreeMap::new();
        for (line, role, members) in properties(file)? {
            if let Some(earlier) = seen.insert(role.clone(), line) {
                outcome.warn(format!(
                    "{}: the role {role} stands there twice; line {line} counts, as before, and line {earlier} does not",
                    file.name
                ));
            }
            let members: BTreeSet<_> =
                members.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
            for member in &members {
                people.users.entry(member.clone()).or_default();
            }
            people.roles.insert(role.clone(), members);
            outcome.note(line, &role, Verdict::Moved, "a role in the definitions");
        }
    }
    Ok(people)
}

impl People {
    fn user(&mut self, line: usize, name: &str, value: &str, outcome: &mut Outcome<'_>) {
        // Karaf writes the roles behind the password, certificates have a subject in its place.
        let (password, roles) = match value.split_once(',') {
            Some((password, roles)) if !password.contains('=') => (password.trim(), roles),
            _ => (value.trim(), ""),
        };
        for role in roles.split(',').map(str::trim).filter(|role| !role.is_empty()) {
            self.roles.entry(role.to_owned()).or_default().insert(name.to_owned());
        }
        let is_subject = password.contains('=') && password.to_ascii_uppercase().starts_with("CN=");
        let kept = if is_subject {
            outcome.left_out(line, name, "a certificate's subject; log in by EXTERNAL, and see tls.login_from");
            None
        } else if password.starts_with("ENC(") {
            outcome.left_out(line, name, "the hash of its password is Artemis' own; give it a password by hand");
            None
        } else if password.is_empty() {
            outcome.left_out(line, name, "it has no password; give it one by hand");
            None
        } else {
            outcome.note(line, name, Verdict::Moved, "a user in the definitions");
            Some(password.to_owned())
        };
        self.users.insert(name.to_owned(), kept);
    }
}

/// The lines `name = value` or `name:value` of a file of properties.
fn properties(file: &Source) -> Result<Vec<(usize, String, String)>, Refusal> {
    let mut found = Vec::new();
    for (line, text) in file.lines() {
        let text = text.trim();
        if text.is_empty() || text.starts_with(['#', '!']) {
            continue;
        }
        if text.starts_with('<') {
            return Err(Refusal::at(file, line, "a file of properties has lines NAME = VALUE"));
        }
        let at = text.find(['=', ':', ' ', '\t']).unwrap_or(text.len());
        let (name, rest) = text.split_at(at);
        let value = rest.trim_start_matches([' ', '\t']);
        let value = value.strip_prefix(['=', ':']).unwrap_or(value);
        found.push((line, name.to_owned(), value.trim().to_owned()));
    }
    Ok(found)
}
