//! What a backend elsewhere lets a user do, in the words of RabbitMQ's OAuth 2 scopes:
//! `read:VHOST/NAME`, `write:VHOST/NAME/KEY`, `configure:VHOST/NAME`, `tag:TAG`. Beside them
//! there is `role:NAME`: the permissions of a user of this broker, as they are now.
//!
//! Each part is a wildcard: `*` stands for any letters, also none, and `%2A` for a star. A routing
//! key that is left out is any key. A scope that is none of these gives nothing: tokens carry
//! scopes for other programs, too.

use std::collections::BTreeSet;

use crate::{Resource, Right, Tags};

/// Most scopes that count, as in RabbitMQ.
pub const MOST_SCOPES: usize = 2048;

/// A set of permissions: by wildcards, and by roles of this broker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scopes {
    scopes: Vec<Scope>,
    roles: BTreeSet<Box<str>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Scope {
    /// As it was written.
    text: Box<str>,
    right: Right,
    vhost: Wildcard,
    name: Wildcard,
    key: Wildcard,
}

impl Scopes {
    /// The permissions and the tags that these scopes give.
    ///
    /// # Errors
    /// The number of the scopes, if it is above [`MOST_SCOPES`].
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<(Self, Tags), usize> {
        let (mut found, mut tags, mut count) = (Self::default(), Vec::new(), 0);
        for word in words {
            count += 1;
            match word.split_once(':') {
                _ if count > MOST_SCOPES => {}
                Some(("tag", tag)) => tags.push(tag),
                Some(("role", "")) => {}
                Some(("role", role)) => drop(found.roles.insert(role.into())),
                Some((right, place)) => found.scopes.extend(Scope::parse(right, place)),
                None => {}
            }
        }
        if count > MOST_SCOPES { Err(count) } else { Ok((found, Tags::new(tags))) }
    }

    /// The roles: users of this broker whose permissions these are, too.
    pub(crate) fn roles(&self) -> &BTreeSet<Box<str>> {
        &self.roles
    }

    /// The first that gives `right` on `resource`, as it was written.
    pub(crate) fn find(&self, vhost: &str, resource: Resource<'_>, right: Right) -> Option<&str> {
        let name = resource.checked_name();
        let gives = |scope: &&Scope| scope.right == right && scope.vhost.matches(vhost) && scope.name.matches(name);
        self.scopes.iter().find(gives).map(|scope| &*scope.text)
    }

    /// Whether some permission holds in this virtual host.
    pub(crate) fn enters(&self, vhost: &str) -> bool {
        self.scopes.iter().any(|scope| scope.vhost.matches(vhost))
    }

    /// Whether one of them gives `right` on `resource`.
    pub(crate) fn allows(&self, vhost: &str, resource: Resource<'_>, right: Right) -> bool {
        self.find(vhost, resource, right).is_some()
    }

    /// Whether one of them gives `right` on the routing key of a topic exchange.
    pub(crate) fn allows_key(&self, vhost: &str, exchange: &str, key: &str, right: Right) -> bool {
        self.scopes.iter().any(|scope| {
            scope.right == right && scope.vhost.matches(vhost) && scope.name.matches(exchange) && scope.key.matches(key)
        })
    }
}

impl Scope {
    fn parse(word: &str, place: &str) -> Option<Self> {
        let text = format!("{word}:{place}").into();
        let right = match word {
            "configure" => Right::Configure,
            "write" => Right::Write,
            "read" => Right::Read,
            _ => return None,
        };
        let mut parts = place.split('/');
        let (vhost, name) = (parts.next()?, parts.next()?);
        let key = parts.next().unwrap_or("*");
        if parts.next().is_some() {
            return None;
        }
        Some(Self {
            text,
            right,
            vhost: Wildcard::parse(vhost)?,
            name: Wildcard::parse(name)?,
            key: Wildcard::parse(key)?,
        })
    }
}

/// Texts with any letters between them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wildcard {
    first: Vec<u8>,
    /// Those behind a star, in order.
    others: Vec<Vec<u8>>,
}

impl Wildcard {
    /// `None` for a percent sign without two hexadecimal digits behind it.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('*').map(decoded);
        let first = parts.next()??;
        Some(Self { first, others: parts.collect::<Option<_>>()? })
    }

    fn matches(&self, text: &str) -> bool {
        let text = text.as_bytes();
        let Some((last, between)) = self.others.split_last() else { return text == self.first };
        let Some(mut rest) = text.strip_prefix(&self.first[..]) else { return false };
        for part in between {
            match find(rest, part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    if part.is_empty() { Some(0) } else { text.windows(part.len()).position(|window| window == part) }
}

/// A text without percent encoding; `+` is a space there, as in forms.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => digit(bytes.next()?)? << 4 | digit(bytes.next()?)?,
            byte => byte,
        });
    }
    Some(out)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_as_globs() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "anything", true),
            ("", "", true),
            ("", "x", false),
            ("a*", "abc", true),
            ("a*", "ba", false),
            ("*a", "aa", true),
            ("a*a", "a", false),
            ("a*b*c", "a1b2b3c", true),
            ("a*b*c", "acb", false),
            ("**x**", "axb", true),
            ("%2F", "/", true),
            ("%2A", "*", true),
            ("%2A", "x", false),
            ("a+b", "a b", true),
            ("ä*", "äx", true),
        ] {
            assert_eq!(Wildcard::parse(pattern).unwrap().matches(text), expected, "{pattern} on {text}");
        }
        for wrong in ["%", "%2", "%zz", "a*%f"] {
            assert_eq!(Wildcard::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_scope_gives_one_right_in_its_place_and_nothing_else() {
        let words = [
            "read:%2F/orders*/eu.*",
            "write:*/amq.default",
            "configure:dev",
            "openid",
            "tag:monitoring",
            "role:readers",
            "role:",
            "x:a/b",
            "read:a/b/c/d",
            "read:%zz/*",
        ];
        let (scopes, tags) = Scopes::parse(words).unwrap();
        assert_eq!(tags, Tags::new(["monitoring"]));
        assert_eq!(scopes.roles().iter().map(|role| &**role).collect::<Vec<_>>(), ["readers"]);
        assert_eq!(scopes.find("dev", Resource::exchange(""), Right::Write), Some("write:*/amq.default"));
        for (vhost, resource, right, expected) in [
            ("/", Resource::queue("orders.1"), Right::Read, true),
            ("/", Resource::queue("orders.1"), Right::Write, false),
            ("other", Resource::queue("orders.1"), Right::Read, false),
            ("/", Resource::queue("my.orders"), Right::Read, false),
            ("other", Resource::exchange(""), Right::Write, true),
            ("dev", Resource::queue("q"), Right::Configure, false),
            ("a", Resource::queue("b"), Right::Read, false),
        ] {
            assert_eq!(scopes.allows(vhost, resource, right), expected, "{right} {resource:?} in {vhost}");
        }
        for (key, expected) in [("eu.de", true), ("us", false)] {
            assert_eq!(scopes.allows_key("/", "orders", key, Right::Read), expected, "{key}");
        }
        assert!(scopes.allows_key("/", "amq.default", "any", Right::Write));
        assert!(scopes.enters("anywhere"), "writing is allowed everywhere");
        assert!(!Scopes::parse(["read:a/*"]).unwrap().0.enters("b"));
        assert!(!Scopes::parse(["tag:administrator"]).unwrap().0.enters("/"));
    }

    #[test]
    fn too_many_scopes_are_refused_as_a_whole() {
        assert_eq!(Scopes::parse(vec!["tag:a"; MOST_SCOPES + 1]), Err(MOST_SCOPES + 1));
        assert!(Scopes::parse(vec!["tag:a"; MOST_SCOPES]).is_ok());
    }
}
