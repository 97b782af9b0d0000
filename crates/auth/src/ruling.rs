//! The rule that allows an operation or not: what [`crate::Authority`] decides by, and what it
//! tells of a decision.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::topic::{Actor, Expansions};
use crate::{Pattern, Resource, Right, Scopes, TopicPattern, User};

/// All users by name.
pub(crate) type Users = BTreeMap<Arc<str>, User>;

/// A pattern that decides, and the role that it is from; `None` for the user's own.
pub(crate) struct Found<'a, P> {
    pattern: &'a P,
    role: Option<&'a str>,
}

/// The rule that decides, as it is kept.
pub(crate) enum Rule<'a> {
    NoUser,
    NoPermissions,
    Granted(Found<'a, Pattern>),
    Refused(Found<'a, Pattern>),
}

/// The roles that are there, each with its name.
fn roles<'a>(
    users: &'a Users,
    roles: impl IntoIterator<Item = &'a Box<str>>,
) -> impl Iterator<Item = (Option<&'a str>, &'a User)> {
    roles.into_iter().filter_map(|role| Some((Some(&**role), users.get(&**role)?)))
}

/// A user and then its roles, each with its name.
fn holders<'a>(users: &'a Users, user: &'a User) -> impl Iterator<Item = (Option<&'a str>, &'a User)> {
    std::iter::once((None, user)).chain(roles(users, &user.roles))
}

/// Whether a role has a permission in a virtual host.
pub(crate) fn roles_enter(users: &Users, scopes: &Scopes, vhost: &str) -> bool {
    roles(users, scopes.roles()).any(|(_, role)| role.permissions.contains_key(vhost))
}

/// Whether a role has `right` on an exchange, and on this routing key of it.
pub(crate) fn roles_allow_key(
    users: &Users,
    scopes: &Scopes,
    (actor, expansions): (Actor<'_>, &Expansions),
    (vhost, exchange): (&str, &str),
    key: &str,
    right: Right,
) -> bool {
    roles(users, scopes.roles()).any(|(_, role)| {
        let may = |permission: &crate::Permission| permission.allows(Resource::exchange(exchange), right);
        let pattern = role.topic_permission(vhost, exchange).map(|topic| match right {
            Right::Read => &topic.read,
            Right::Write | Right::Configure => &topic.write,
        });
        role.permissions.get(vhost).is_some_and(may)
            && pattern.is_none_or(|pattern| pattern.matches_by_role(actor, vhost, key, expansions))
    })
}

/// Whether a user has a permission in a virtual host, its own or by a role.
pub(crate) fn enters(users: &Users, user: &str, vhost: &str) -> bool {
    users.get(user).is_some_and(|user| holders(users, user).any(|(_, holder)| holder.permissions.contains_key(vhost)))
}

impl<'a> Rule<'a> {
    /// The rule for a right of a user on a resource in a vhost: the first pattern that allows it,
    /// the user's own before those of its roles; else the first that does not.
    pub(crate) fn of(users: &'a Users, user: &str, vhost: &str, resource: Resource<'_>, right: Right) -> Self {
        match users.get(user) {
            Some(user) => Self::of_holders(holders(users, user), vhost, resource, right),
            None => Self::NoUser,
        }
    }

    /// The same for the roles that a backend elsewhere gives.
    pub(crate) fn of_roles(
        users: &'a Users,
        scopes: &'a Scopes,
        vhost: &str,
        resource: Resource<'_>,
        right: Right,
    ) -> Self {
        Self::of_holders(roles(users, scopes.roles()), vhost, resource, right)
    }

    fn of_holders(
        holders: impl Iterator<Item = (Option<&'a str>, &'a User)>,
        vhost: &str,
        resource: Resource<'_>,
        right: Right,
    ) -> Self {
        let mut refused = None;
        for (role, holder) in holders {
            let Some(permission) = holder.permissions.get(vhost) else { continue };
            let found = Found { pattern: permission.pattern(right), role };
            if permission.allows(resource, right) {
                return Self::Granted(found);
            }
            refused = refused.or(Some(found));
        }
        refused.map_or(Self::NoPermissions, Self::Refused)
    }

    pub(crate) fn allows(&self) -> bool {
        matches!(self, Self::Granted(_))
    }
}

/// The rule for a routing key of a topic exchange, as it is kept.
pub(crate) enum TopicRule<'a> {
    Free,
    Granted(Found<'a, TopicPattern>),
    Refused(Found<'a, TopicPattern>),
}

impl<'a> TopicRule<'a> {
    /// The rule for a user, an exchange and a key. Any key is free if neither the user nor one of
    /// its roles has a topic permission for the exchange.
    pub(crate) fn of(
        users: &'a Users,
        (actor, expansions): (Actor<'_>, &Expansions),
        (vhost, exchange): (&str, &str),
        key: &str,
        right: Right,
    ) -> Self {
        let Some(user) = users.get(actor.user) else { return Self::Free };
        let mut refused = None;
        for (role, holder) in holders(users, user) {
            let Some(permission) = holder.topic_permission(vhost, exchange) else { continue };
            let pattern = match right {
                Right::Read => &permission.read,
                Right::Write | Right::Configure => &permission.write,
            };
            let matches = match role {
                None => pattern.matches(actor, vhost, key, expansions),
                Some(_) => pattern.matches_by_role(actor, vhost, key, expansions),
            };
            if matches {
                return Self::Granted(Found { pattern, role });
            }
            refused = refused.or(Some(Found { pattern, role }));
        }
        refused.map_or(Self::Free, Self::Refused)
    }

    pub(crate) fn allows(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }
}

/// Why an operation is allowed or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ruling {
    /// There is no such user.
    NoUser,
    /// The user has no permissions in the virtual host.
    NoPermissions,
    /// No rule asks: any routing key may be used.
    Free,
    /// The pattern is found in the name.
    Granted {
        /// The pattern.
        pattern: String,
        /// The role that has it; `None` for the user's own.
        role: Option<String>,
    },
    /// A scope that a backend elsewhere gives is about it.
    Scope(String),
    /// A program elsewhere decides about each operation, and has said so.
    Elsewhere {
        /// What it says.
        allows: bool,
    },
    /// The pattern is not found in the name.
    Refused {
        /// The pattern.
        pattern: String,
        /// The role that has it; `None` for the user's own.
        role: Option<String>,
    },
}

impl Ruling {
    /// Whether the operation is allowed.
    pub fn allows(&self) -> bool {
        matches!(self, Self::Free | Self::Granted { .. } | Self::Scope(_) | Self::Elsewhere { allows: true })
    }
}

impl From<Rule<'_>> for Ruling {
    fn from(rule: Rule<'_>) -> Self {
        let parts = |found: Found<'_, Pattern>| (found.pattern.as_str().to_owned(), found.role.map(str::to_owned));
        match rule {
            Rule::NoUser => Self::NoUser,
            Rule::NoPermissions => Self::NoPermissions,
            Rule::Granted(found) => Self::granted(parts(found)),
            Rule::Refused(found) => Self::refused(parts(found)),
        }
    }
}

impl From<TopicRule<'_>> for Ruling {
    fn from(rule: TopicRule<'_>) -> Self {
        let parts = |found: Found<'_, TopicPattern>| (found.pattern.as_str().to_owned(), found.role.map(str::to_owned));
        match rule {
            TopicRule::Free => Self::Free,
            TopicRule::Granted(found) => Self::granted(parts(found)),
            TopicRule::Refused(found) => Self::refused(parts(found)),
        }
    }
}

impl Ruling {
    fn granted((pattern, role): (String, Option<String>)) -> Self {
        Self::Granted { pattern, role }
    }

    fn refused((pattern, role): (String, Option<String>)) -> Self {
        Self::Refused { pattern, role }
    }
}
