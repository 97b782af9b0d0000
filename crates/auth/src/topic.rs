//! Permissions on topics: which routing keys a user may publish with to a topic exchange, and bind by to take from it.
//!
//! A user without such a permission for an exchange may use any key there. The patterns may name who acts: `{username}` and
//! `{vhost}` stand for the user's and the virtual host's name, letter by letter.

use crate::{Pattern, PatternError};

/// A pattern for routing keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPattern {
    source: Box<str>,
    /// With the variables replaced: a name is matched as it is, whatever letters it is made of.
    expanded: Pattern,
}

impl TopicPattern {
    fn new(source: &str, user: &str, vhost: &str) -> Result<Self, PatternError> {
        let expanded = source.replace("{username}", &regex::escape(user)).replace("{vhost}", &regex::escape(vhost));
        Ok(Self { source: source.into(), expanded: Pattern::new(&expanded)? })
    }

    /// The pattern as it was given.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Whether the pattern is found anywhere in `key`.
    pub fn matches(&self, key: &str) -> bool {
        self.expanded.matches(key)
    }
}

/// What a user may do with the routing keys of one exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPermission {
    /// Keys the user may publish with.
    pub write: TopicPattern,
    /// Keys the user may bind by.
    pub read: TopicPattern,
}

impl TopicPermission {
    /// Compiles the two patterns for this user in this virtual host.
    ///
    /// # Errors
    /// When one of them cannot be used.
    pub fn new(user: &str, vhost: &str, write: &str, read: &str) -> Result<Self, PatternError> {
        Ok(Self { write: TopicPattern::new(write, user, vhost)?, read: TopicPattern::new(read, user, vhost)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_stand_for_names_letter_by_letter() {
        for (pattern, key, expected) in [
            ("^{username}\\.", "a.b.c", true),
            ("^{username}\\.", "axb.c", false),
            ("^{vhost}-{username}$", "/-a.b", true),
            ("^{client_id}$", "a.b", false),
            ("", "", true),
            ("", "k", false),
            (".*", "k", true),
        ] {
            let Ok(permission) = TopicPermission::new("a.b", "/", pattern, "") else {
                assert_eq!((pattern, expected), ("^{client_id}$", false));
                continue;
            };
            assert_eq!(permission.write.matches(key), expected, "{pattern} on {key}");
            assert_eq!(permission.write.as_str(), pattern);
        }
        assert!(TopicPermission::new("u", "/", "(", "").is_err());
    }
}
