//! Permissions as RabbitMQ has them: three patterns per user and virtual host, searched for anywhere in the name.
//!
//! The patterns run on a linear-time engine with a size limit, so that neither a pattern nor a name can stall the broker.

use regex::{Regex, RegexBuilder};

/// Longest pattern that is accepted, in bytes.
pub(crate) const MAX_PATTERN: usize = 4096;
/// Memory that one compiled pattern, and one cache of its automaton, may take.
const PATTERN_MEMORY: usize = 1024 * 1024;

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
    pub(crate) fn checked_name(&self) -> &'a str {
        match self.kind {
            ResourceKind::Exchange if self.name.is_empty() => "amq.default",
            _ => self.name,
        }
    }
}

/// Why an operation is not allowed. Its text is the one that RabbitMQ's clients know, without the code in front.
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

/// A pattern that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternError {
    /// The beginning of the pattern as it was given.
    pub pattern: String,
    /// What is wrong with it.
    pub reason: String,
}

impl std::fmt::Display for PatternError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the permission pattern '{}' cannot be used: {}", self.pattern, self.reason)
    }
}

impl std::error::Error for PatternError {}

/// One pattern of a permission. The empty pattern matches nothing but the empty name, as `^$` does.
#[derive(Clone)]
pub struct Pattern {
    source: Box<str>,
    matcher: Matcher,
}

#[derive(Clone)]
enum Matcher {
    All,
    EmptyName,
    Search(Regex),
}

impl Pattern {
    /// Compiles `source`.
    ///
    /// # Errors
    /// When it is no regular expression, uses look-around or back-references (which have no linear-time engine), or is
    /// too large.
    pub fn new(source: &str) -> Result<Self, PatternError> {
        let error = |reason: String| PatternError { pattern: source.chars().take(80).collect(), reason };
        if source.len() > MAX_PATTERN {
            return Err(error(format!("it is {} bytes long, at most {MAX_PATTERN} are allowed", source.len())));
        }
        let matcher = match source {
            "" | "^$" => Matcher::EmptyName,
            ".*" | "^.*$" | "^.*" | ".*$" => Matcher::All,
            _ => Matcher::Search(
                RegexBuilder::new(source)
                    .size_limit(PATTERN_MEMORY)
                    .dfa_size_limit(PATTERN_MEMORY)
                    .build()
                    .map_err(|failure| error(failure.to_string()))?,
            ),
        };
        Ok(Self { source: source.into(), matcher })
    }

    /// The pattern as it was given.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Whether the pattern is found anywhere in `name`.
    pub fn matches(&self, name: &str) -> bool {
        match &self.matcher {
            Matcher::All => true,
            Matcher::EmptyName => name.is_empty(),
            Matcher::Search(regex) => regex.is_match(name),
        }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Pattern {}

impl std::fmt::Debug for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pattern({:?})", self.source)
    }
}

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
        let all = Pattern { source: ".*".into(), matcher: Matcher::All };
        Self { configure: all.clone(), write: all.clone(), read: all }
    }

    /// Whether this permission gives `right` on `resource`.
    pub fn allows(&self, resource: Resource<'_>, right: Right) -> bool {
        let pattern = match right {
            Right::Configure => &self.configure,
            Right::Write => &self.write,
            Right::Read => &self.read,
        };
        pattern.matches(resource.checked_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_searched_for_anywhere() {
        for (pattern, name, expected) in [
            (".*", "orders", true),
            (".*", "", true),
            ("", "orders", false),
            ("", "", true),
            ("^$", "orders", false),
            ("^$", "", true),
            ("ord", "my-orders", true),
            ("^ord", "my-orders", false),
            ("^(amq\\.gen.*|amq\\.default)$", "amq.gen-1234", true),
            ("^(amq\\.gen.*|amq\\.default)$", "amq.default", true),
            ("^(amq\\.gen.*|amq\\.default)$", "amq.direct", false),
            ("^größe$", "größe", true),
            ("a.c", "abc", true),
            ("a.c", "ac", false),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap().matches(name), expected, "{pattern:?} in {name:?}");
        }
    }

    #[test]
    fn patterns_that_cannot_be_run_safely_are_refused() {
        let long = "a".repeat(MAX_PATTERN + 1);
        for pattern in ["(", "(?=x)", "(a)\\1", "(\\w{100}){100}", &long] {
            let error = Pattern::new(pattern).unwrap_err();
            assert!(error.to_string().starts_with("the permission pattern '"), "{error}");
        }
    }

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
