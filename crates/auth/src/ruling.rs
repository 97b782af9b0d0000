//! The rule that allows an operation or not: what [`crate::Authority`] decides by, and what it
//! tells of a decision.

use crate::{Pattern, Resource, Right, TopicPattern, User};

/// The rule that decides, as it is kept.
pub(crate) enum Rule<'a> {
    NoUser,
    NoPermissions,
    Granted(&'a Pattern),
    Refused(&'a Pattern),
}

impl<'a> Rule<'a> {
    /// The rule for a right of a user on a resource in a vhost.
    pub(crate) fn of(user: Option<&'a User>, vhost: &str, resource: Resource<'_>, right: Right) -> Self {
        let Some(user) = user else { return Self::NoUser };
        let Some(permission) = user.permissions.get(vhost) else { return Self::NoPermissions };
        let pattern = permission.pattern(right);
        if permission.allows(resource, right) { Self::Granted(pattern) } else { Self::Refused(pattern) }
    }

    pub(crate) fn allows(&self) -> bool {
        matches!(self, Self::Granted(_))
    }
}

/// The rule for a routing key of a topic exchange, as it is kept.
pub(crate) enum TopicRule<'a> {
    Free,
    Granted(&'a TopicPattern),
    Refused(&'a TopicPattern),
}

impl<'a> TopicRule<'a> {
    /// The rule for a user, an exchange and a key.
    pub(crate) fn of(user: Option<&'a User>, vhost: &str, exchange: &str, key: &str, right: Right) -> Self {
        let Some(permission) = user.and_then(|user| user.topic_permission(vhost, exchange)) else { return Self::Free };
        let pattern = match right {
            Right::Read => &permission.read,
            Right::Write | Right::Configure => &permission.write,
        };
        if pattern.matches(key) { Self::Granted(pattern) } else { Self::Refused(pattern) }
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
    },
    /// The pattern is not found in the name.
    Refused {
        /// The pattern.
        pattern: String,
    },
}

impl Ruling {
    /// Whether the operation is allowed.
    pub fn allows(&self) -> bool {
        matches!(self, Self::Free | Self::Granted { .. })
    }
}

impl From<Rule<'_>> for Ruling {
    fn from(rule: Rule<'_>) -> Self {
        let text = |pattern: &Pattern| pattern.as_str().to_owned();
        match rule {
            Rule::NoUser => Self::NoUser,
            Rule::NoPermissions => Self::NoPermissions,
            Rule::Granted(pattern) => Self::Granted { pattern: text(pattern) },
            Rule::Refused(pattern) => Self::Refused { pattern: text(pattern) },
        }
    }
}

impl From<TopicRule<'_>> for Ruling {
    fn from(rule: TopicRule<'_>) -> Self {
        let text = |pattern: &TopicPattern| pattern.as_str().to_owned();
        match rule {
            TopicRule::Free => Self::Free,
            TopicRule::Granted(pattern) => Self::Granted { pattern: text(pattern) },
            TopicRule::Refused(pattern) => Self::Refused { pattern: text(pattern) },
        }
    }
}
