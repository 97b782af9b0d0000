//! Security settings as rights of roles. Only the most specific one of an address counts.

use std::collections::{BTreeMap, BTreeSet};

use roxmltree::Node;

use super::Artemis;
use crate::address::Match;
use crate::outcome::{Outcome, Verdict};
use crate::people::People;
use crate::rights::{self, Granted, Right, Together};
use crate::source::Refusal;
use crate::xml::{elements, name};

/// More matches than any file has: the work grows with their square.
const MOST: usize = 500;
/// What makes up the right to configure here: who may not do all of it, gets none of it.
const CONFIGURE: [&str; 4] =
    ["createDurableQueue", "deleteDurableQueue", "createNonDurableQueue", "deleteNonDurableQueue"];

/// Reads all of them.
pub(super) fn convert(
    artemis: &Artemis<'_, '_>,
    node: Node<'_, '_>,
    people: &People,
    outcome: &mut Outcome<'_>,
) -> Result<(), Refusal> {
    let mut granted = Vec::new();
    let mut managers = BTreeSet::new();
    for setting in elements(node) {
        let line = artemis.xml.line(setting);
        let Some(text) = setting.attribute("match").filter(|_| name(setting) == "security-setting") else {
            outcome.left_out(line, name(setting), "rights from elsewhere are not read; see auth_ldap.groups");
            outcome.warn(format!("line {line}: rights that a plugin gives are not here; no one has them"));
            continue;
        };
        // `address::queue` is about one queue.
        let text = text.rsplit_once("::").map_or(text, |(_, queue)| queue);
        let Some(at) = Match::new(text, artemis.wildcards) else {
            outcome.left_out(line, "security-setting", "its match is longer than a name can be");
            continue;
        };
        let vendors = text.starts_with("activemq.management") || text.starts_with("$sys.");
        let types = types(artemis, setting, outcome);
        if vendors || at.is_all() {
            managers.extend(types.iter().filter(|(_, types)| types.contains("manage")).map(|(role, _)| role.clone()));
        }
        if !vendors {
            granted.push(Granted { at, roles: rights_of(text, &types, outcome) });
        }
    }
    if granted.len() > MOST {
        return Err(Refusal::of(artemis.file, format!("it has more than {MOST} security settings")));
    }
    rights::declare(&granted, Together::Narrowest, people, outcome);
    for (role, members) in people.roles.iter().filter(|(role, _)| managers.contains(*role)) {
        for member in members {
            if let Some(user) = outcome.definitions.users.get_mut(member) {
                user.tags.insert("management");
            }
        }
        let _ = role;
    }
    if people.users.is_empty() {
        outcome.warn(
            "users and passwords are in files of their own: convert again with --users artemis-users.properties --roles \
             artemis-roles.properties",
        );
    }
    Ok(())
}

/// What each role may do at one match.
fn types(
    artemis: &Artemis<'_, '_>,
    setting: Node<'_, '_>,
    outcome: &mut Outcome<'_>,
) -> BTreeMap<String, BTreeSet<String>> {
    let mut types: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for permission in elements(setting) {
        let line = artemis.xml.line(permission);
        let kind = permission.attribute("type").unwrap_or_default();
        let known = matches!(
            kind,
            "send"
                | "consume"
                | "browse"
                | "manage"
                | "createAddress"
                | "deleteAddress"
                | "createTempQueue"
                | "deleteTempQueue"
        ) || CONFIGURE.contains(&kind);
        if !known {
            outcome.left_out(line, &format!("permission {kind}"), "there is no such right");
            continue;
        }
        outcome.note(line, &format!("permission {kind}"), Verdict::Moved, "rights of roles in the definitions");
        for role in permission.attribute("roles").unwrap_or_default().split(',').map(str::trim) {
            if !role.is_empty() {
                types.entry(role.to_owned()).or_default().insert(kind.to_owned());
            }
        }
    }
    types
}

fn rights_of(
    at: &str,
    types: &BTreeMap<String, BTreeSet<String>>,
    outcome: &mut Outcome<'_>,
) -> BTreeSet<(Right, String)> {
    let mut rights = BTreeSet::new();
    for (role, types) in types {
        if types.contains("send") {
            rights.insert((Right::Write, role.clone()));
        }
        // Who may browse but not consume must not take messages away.
        if types.contains("consume") {
            rights.insert((Right::Read, role.clone()));
        } else if types.contains("browse") {
            outcome.warn(format!("role {role} may browse {at} and not consume; here it may do neither"));
        }
        let some = CONFIGURE.iter().filter(|kind| types.contains(**kind)).count();
        if some == CONFIGURE.len() {
            rights.insert((Right::Configure, role.clone()));
        } else if some > 0 {
            outcome.warn(format!(
                "role {role} may create or delete some kinds of queues at {at}; here it may configure none, because that is \
                 for all kinds"
            ));
        }
    }
    rights
}

/// The switch for all of it.
pub(super) fn enabled(line: usize, value: &str, outcome: &mut Outcome<'_>) {
    if value == "false" {
        outcome.left_out(
            line,
            "security-enabled",
            "Hermod never runs without log-in; anonymous_user names a user for those",
        );
        outcome.warn("everyone could do everything (security-enabled); here clients log in, or are anonymous_user");
    } else {
        outcome.note(line, "security-enabled", Verdict::Shipped, "it always is");
    }
}
