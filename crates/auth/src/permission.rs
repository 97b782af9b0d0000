//! Permissions as RabbitMQ has them: three patterns per user and virtual host, searched for
//! anywhere in the name.
//!
//! What the patterns are, and what a match may cost, is in `pattern.rs`.

use crate::{Pattern, PatternError};

/// What an operation does to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Right {
    /// Declare or delete.
    Configure,
    /// Put messages in: publish, be the destination of a binding.
    Write,
    /// Take messages out: consume, get, purge, be the source of a binding.
    Read,
}

impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Configure => "configure",
            Self::Write => "write",
            Self::Read => "read",
        })
    }
}

/// The kinds of things that permissions speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResourceKind {
    /// An exchange. The empty name is the default exchange, checked as `amq.default`.
    Exchange,
    /// A queue.
    Queue,
}

impl std::fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Exchange => "exchange",
            Self::Queue => "queue",
        })
    }
}

/// One thing in a virtual host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resource<'a> {
    /// What it is.
    pub kind: ResourceKind,
    /// Its name as the client gave it.
    pub name: &'a str,
}

impl<'a> Resource<'a> {
    /// The exchange called `name`.
    pub fn exchange(name: &'a str) -> Self {
        Self { kind: ResourceKind::Exchange, name }
    }

    /// The queue called `name`.
    pub fn queue(name: &'a str) -> Self {
        Self { kind: ResourceKind::Queue, name }
    }

    /// The name that patterns are matched against and that messages show.
    pub fn checked_name(&self) -> &'a str {
        match self.kind {
            ResourceKind::Exchange if self.name.is_empty() => "amq.default",
            _ => self.name,
        }
    }
}

/// Why an operation is not allowed. Its text is the one that RabbitMQ's clients know, without the
/// code in front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denied {
    /// The user has no permissions in this virtual host at all.
    Vhost {
        /// The virtual host.
        vhost: Box<str>,
        /// The user.
        user: Box<str>,
    },
    /// The user's pattern for this right does not match the routing key.
    Topic {
        /// What the operation needed.
        right: Right,
        /// The routing key.
        key: Box<str>,
        /// The exchange.
        exchange: Box<str>,
        /// The virtual host.
        vhost: Box<str>,
        /// The user.
        user: Box<str>,
    },
    /// The user's pattern for this right does not match the name.
    Resource {
        /// What the operation needed.
        right: Right,
        /// What kind of thing it was about.
        kind: ResourceKind,
        /// The name of that thing.
        name: Box<str>,
        /// The virtual host.
        vhost: Box<str>,
        /// The user.
        user: Box<str>,
    },
}

impl std::fmt::Display for Denied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Vhost { vhost, user } => write!(f, "access to vhost '{vhost}' refused for user '{user}'"),
            Self::Topic { right, key, exchange, vhost, user } => write!(
                f,
                "{right} access to topic '{key}' in exchange '{exchange}' in vhost '{vhost}' refused for user '{user}'"
            ),
            Self::Resource { right, kind, name, vhost, user } => {
                write!(f, "{right} access to {kind} '{name}' in vhost '{vhost}' refused for user '{user}'")
            }
        }
    }
}

impl std::error::Error for Denied {}

/// What a user may do in one virtual host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permission {
    /// Names the user may declare and delete.
    pub configure: Pattern,
    /// Names the user may put messages into.
    pub write: Pattern,
    /// Names the user may take messages from.
    pub read: Pattern,
}

impl Permission {
    /// Compiles the three patterns.
    ///
    /// # Errors
    /// When one of them cannot be used.
    pub fn new(configure: &str, write: &str, read: &str) -> Result<Self, PatternError> {
        Ok(Self { configure: Pattern::new(configure)?, write: Pattern::new(write)?, read: Pattern::new(read)? })
    }

    /// The permission to do everything.
    pub fn full() -> Self {
        let all = Pattern::all();
        Self { configure: all.clone(), write: all.clone(), read: all }
    }

    /// The pattern for a right.
    pub(crate) fn pattern(&self, right: Right) -> &Pattern {
        match right {
            Right::Configure => &self.configure,
            Right::Write => &self.write,
            Right::Read => &self.read,
        }
    }

    /// Whether this permission gives `right` on `resource`.
    pub fn allows(&self, resource: Resource<'_>, right: Right) -> bool {
        self.pattern(right).matches(resource.checked_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_exchange_has_a_name_here() {
        let permission = Permission::new("", "^amq\\.default$", "").unwrap();
        assert!(permission.allows(Resource::exchange(""), Right::Write));
        assert!(!permission.allows(Resource::queue(""), Right::Write));
        assert!(!permission.allows(Resource::exchange("amq.direct"), Right::Write));
        assert!(!permission.allows(Resource::exchange(""), Right::Read));
    }

    #[test]
    fn refusals_read_as_rabbitmq_words_them() {
        let denied = Denied::Resource {
            right: Right::Configure,
            kind: ResourceKind::Queue,
            name: "q".into(),
            vhost: "/".into(),
            user: "u".into(),
        };
        assert_eq!(denied.to_string(), "configure access to queue 'q' in vhost '/' refused for user 'u'");
        let denied = Denied::Vhost { vhost: "x".into(), user: "u".into() };
        assert_eq!(denied.to_string(), "access to vhost 'x' refused for user 'u'");
    }
}
