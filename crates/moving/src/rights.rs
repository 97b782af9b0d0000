//! Rights of roles by address, as patterns of permissions.

use std::collections::{BTreeMap, BTreeSet};

use crate::address::Match;
use crate::definitions::{Rights, User};
use crate::outcome::Outcome;
use crate::people::People;

/// Exchanges that lead to every queue or topic, by which a narrow right would become a wide one.
const RESERVED: &str = r"amq\..*";

/// What a role may do with the names of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Right {
    Configure,
    Write,
    Read,
}

/// How several matches of one name work together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Together {
    /// Only the most specific one counts: Artemis.
    Narrowest,
    /// Each gives its rights: ActiveMQ.
    Sum,
}

/// The rights at one match.
#[derive(Debug, Clone)]
pub(crate) struct Granted {
    pub(crate) at: Match,
    pub(crate) roles: BTreeSet<(Right, String)>,
}

/// The pattern of all names for which `role` has `right`. Empty if there are none.
pub(crate) fn pattern(granted: &[Granted], role: &str, right: Right, together: Together) -> String {
    let wanted = (right, role.to_owned());
    let mut parts = Vec::new();
    for here in granted.iter().filter(|here| here.roles.contains(&wanted)) {
        let narrower = granted.iter().filter(|other| {
            together == Together::Narrowest && other.at.rank() > here.at.rank() && !other.roles.contains(&wanted)
        });
        let mut except: Vec<_> = narrower.map(|other| other.at.body()).collect();
        if !except.is_empty() && right != Right::Configure {
            except.push(RESERVED.to_owned());
        }
        parts.push(match except.as_slice() {
            [] => here.at.body(),
            except => format!("(?!(?:{})$){}", except.join("|"), here.at.body()),
        });
    }
    match parts.as_slice() {
        [] => String::new(),
        [all] if all == ".*" => ".*".to_owned(),
        parts => format!("^(?:{})$", parts.join("|")),
    }
}

/// Declares users, their roles, and what the roles may do.
pub(crate) fn declare(granted: &[Granted], together: Together, people: &People, outcome: &mut Outcome<'_>) {
    let roles: BTreeSet<_> = granted.iter().flat_map(|here| &here.roles).map(|(_, role)| role.clone()).collect();
    let names: BTreeMap<_, _> = roles
        .iter()
        .chain(people.roles.keys())
        // A user of the same name must not get the role's rights by its name.
        .map(|role| (role.clone(), if people.users.contains_key(role) { format!("role.{role}") } else { role.clone() }))
        .collect();
    let mut narrow = false;
    for role in &roles {
        let pattern = |right| pattern(granted, role, right, together);
        let rights =
            Rights { configure: pattern(Right::Configure), write: pattern(Right::Write), read: pattern(Right::Read) };
        narrow |= !matches!(rights.write.as_str(), "" | ".*") || !matches!(rights.read.as_str(), "" | ".*");
        let name = &names[role];
        outcome.definitions.users.entry(name.clone()).or_default();
        outcome.definitions.permissions.insert(name.clone(), rights);
    }
    for (user, password) in &people.users {
        let of = people.roles.iter().filter(|(_, members)| members.contains(user));
        let roles = of.map(|(role, _)| names[role].clone()).filter(|name| outcome.definitions.users.contains_key(name));
        let user_entry = User { password: password.clone(), roles: roles.collect(), ..User::default() };
        outcome.definitions.users.insert(user.clone(), user_entry);
    }
    if narrow {
        outcome.warn(
            "roles that may use some addresses only have no right to the exchanges amq.default and amq.topic, because \
             these lead to every queue and topic: their clients publish to an exchange of their own, or get a user that may",
        );
    }
}

/// Whether anyone could use the other broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    Open,
    Closed,
}

/// Definitions take the place of the default user. Says so if no one can log in; of an open broker
/// the default user remains, for this machine alone.
pub(crate) fn remain(before: Before, outcome: &mut Outcome<'_>) {
    const GUEST: &str = "guest";
    let definitions = &mut outcome.definitions;
    if definitions.is_empty() || definitions.users.values().any(|user| user.password.is_some()) {
        return;
    }
    if before == Before::Open {
        let tags = BTreeSet::from(["administrator"]);
        let guest = User { password: Some(GUEST.to_owned()), tags, ..User::default() };
        definitions.users.insert(GUEST.to_owned(), guest);
        let all = || ".*".to_owned();
        definitions.permissions.insert(GUEST.to_owned(), Rights { configure: all(), write: all(), read: all() });
        return;
    }
    outcome.warn(
        "with these definitions there is no default user, and no user here has a password: give one a password on the \
         broker's machine, by hermod users add",
    );
}
