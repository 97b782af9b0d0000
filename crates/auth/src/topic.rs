//! Permissions on topics: which routing keys a user may publish with to a topic exchange, and bind
//! by to take from it.
//!
//! A user without such a permission for an exchange may use any key there. The patterns may name
//! who acts: `{username}` and `{vhost}` stand for the user's and the virtual host's name, letter by
//! letter.

use crate::{Pattern, PatternError};

/// A pattern for routing keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPattern {
    source: Box<str>,
    /// Its variables stand for names as they are, whatever letters these are made of.
    expanded: Pattern,
}

impl TopicPattern {
    fn new(source: &str, user: &str, vhost: &str) -> Result<Self, PatternError> {
        let expanded = Pattern::with_names(source, &[("{username}", user), ("{vhost}", vhost)])?;
        Ok(Self { source: source.into(), expanded })
    }

    /// The pattern as it was given.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Whether the pattern is found anywhere in `key`.
    pub fn matches(&self, key: &str) -> bool {
        self.expanded.matches(key)
    }

    /// The same for a user that has the pattern from a role: `{username}` stands for its own name.
    pub(crate) fn matches_for(&self, user: &str, vhost: &str, key: &str) -> bool {
        if !self.source.contains("{username}") {
            return self.matches(key);
        }
        let own = Pattern::with_names(&self.source, &[("{username}", user), ("{vhost}", vhost)]);
        // With a longer name the pattern may be too large to use: then it matches nothing.
        own.is_ok_and(|own| own.matches(key))
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
            // It is for protocols whose clients have one: here it is letters.
            ("^{client_id}$", "a.b", false),
            ("", "", true),
            ("", "k", false),
            (".*", "k", true),
        ] {
            let permission = TopicPermission::new("a.b", "/", pattern, "").unwrap();
            assert_eq!(permission.write.matches(key), expected, "{pattern} on {key}");
            assert_eq!(permission.write.as_str(), pattern);
        }
        assert!(TopicPermission::new("u", "/", "(", "").is_err());
    }
}
