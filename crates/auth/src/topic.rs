//! Permissions on topics: which routing keys a user may publish with to a topic exchange, and bind
//! by to take from it.
//!
//! A user without such a permission for an exchange may use any key there. The patterns may name
//! who acts: `{username}` and `{vhost}` stand for the names of the user and of the virtual host,
//! letter by letter. `{client_id}` stands for the name of the client, as one word of a key. So does
//! `{username}` for clients whose keys are topics ([`Spelling`]).
//!
//! A pattern is compiled when it is set, as long as it is the same for all clients of its user.
//! Others are compiled when they are asked for, and [`Expansions`] keeps the last of them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::{Pattern, PatternError};

const USER: &str = "{username}";
const VHOST: &str = "{vhost}";
const CLIENT: &str = "{client_id}";
/// Letters that are written otherwise in a word.
const SPECIAL: [char; 4] = ['.', '*', '#', '%'];

/// How the name of a user stands in a routing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Spelling {
    /// Letter by letter.
    #[default]
    Letters,
    /// As one word: for clients whose keys are topics, where `.` is a letter as any other. Without
    /// that, a user `a.b` would have the topics of `a` and not its own.
    Word,
    /// As one or the other: for what a client has made that is not there to be asked.
    Either,
}

/// Who acts, as patterns may name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Actor<'a> {
    /// The user.
    pub user: &'a str,
    /// What its client is called; `None` for one without a name.
    pub client: Option<&'a str>,
    /// How patterns name the user.
    pub spelling: Spelling,
}

impl<'a> Actor<'a> {
    /// A user whose name stands letter by letter, by a client of this name.
    pub fn new(user: &'a str, client: Option<&'a str>) -> Self {
        Self { user, client, spelling: Spelling::Letters }
    }

    /// Whether a pattern that names the user must be read with another name than the letters.
    fn is_spelled(self) -> bool {
        self.spelling != Spelling::Letters && self.user.contains(SPECIAL)
    }

    fn spelled(self, spelling: Spelling) -> Self {
        Self { spelling, ..self }
    }
}

/// A pattern for routing keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPattern {
    source: Box<str>,
    /// Its variables stand for names as they are, whatever letters these are made of. `None` if
    /// that is another pattern for each client.
    expanded: Option<Pattern>,
}

impl TopicPattern {
    fn new(source: &str, user: &str, vhost: &str) -> Result<Self, PatternError> {
        // The name of a client changes no more than what letters it stands for.
        let expanded = Pattern::with_names(source, &[(USER, user), (VHOST, vhost), (CLIENT, "x")])?;
        let expanded = Some(expanded).filter(|_| !source.contains(CLIENT));
        Ok(Self { source: source.into(), expanded })
    }

    /// The pattern as it was given.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Whether it is another pattern for each client.
    pub fn names_client(&self) -> bool {
        self.expanded.is_none()
    }

    /// Whether the pattern is found anywhere in `key`, for a user that has it itself. For a client
    /// without a name `{client_id}` stands for these letters. One with a name of more than 1 KiB
    /// matches nothing.
    pub(crate) fn matches(&self, actor: Actor<'_>, vhost: &str, key: &str, expansions: &Expansions) -> bool {
        if actor.is_spelled() && self.source.contains(USER) {
            return self.matches_spelled(actor, vhost, key, expansions);
        }
        match &self.expanded {
            Some(expanded) => expanded.matches(key),
            None => expansions.matches(&self.source, actor, vhost, key),
        }
    }

    /// The same, where the name of the user is spelled in a way of its own.
    fn matches_spelled(&self, actor: Actor<'_>, vhost: &str, key: &str, expansions: &Expansions) -> bool {
        let by = |spelling| expansions.matches(&self.source, actor.spelled(spelling), vhost, key);
        match actor.spelling {
            Spelling::Either => by(Spelling::Letters) || by(Spelling::Word),
            spelling => by(spelling),
        }
    }

    /// The same for a user that has the pattern from a role: `{username}` stands for its own name.
    pub(crate) fn matches_by_role(&self, actor: Actor<'_>, vhost: &str, key: &str, expansions: &Expansions) -> bool {
        if self.source.contains(USER) {
            return self.matches_spelled(actor, vhost, key, expansions);
        }
        self.matches(actor, vhost, key, expansions)
    }
}

/// Patterns with the names of those who have asked lately, so that a client does not make the
/// broker compile one for each of its messages. The number is bounded, in two generations: what has
/// not been asked for while one filled goes with it.
#[derive(Debug, Default)]
pub(crate) struct Expansions(Mutex<Generations>);

/// The longest name of a client that patterns can name, in bytes.
const LONGEST_CLIENT: usize = 1024;
/// Patterns of one generation.
const GENERATION: usize = 256;

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<Named, Option<Arc<Pattern>>>,
    old: HashMap<Named, Option<Arc<Pattern>>>,
}

/// A pattern, and the names in it: of the user, the virtual host, the client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Named {
    source: Box<str>,
    names: [Box<str>; 3],
}

/// A name as one word of a routing key, as topics of MQTT have it. Clients choose their names: one
/// with a separator or a wildcard in it would reach what is another's.
fn as_word(name: &str) -> String {
    let mut word = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            '.' => word.push_str("%2E"),
            '*' => word.push_str("%2A"),
            '#' => word.push_str("%23"),
            '%' => word.push_str("%25"),
            _ => word.push(letter),
        }
    }
    word
}

impl Expansions {
    fn matches(&self, source: &str, actor: Actor<'_>, vhost: &str, key: &str) -> bool {
        let client = match actor.client {
            _ if !source.contains(CLIENT) => "",
            // As in RabbitMQ, the variable stands for itself, so what else the pattern has matches.
            None | Some("") => CLIENT,
            Some(long) if long.len() > LONGEST_CLIENT => return false,
            Some(client) => client,
        };
        let user = if actor.is_spelled() { as_word(actor.user).into() } else { actor.user.into() };
        let names = [user, vhost.into(), as_word(client).into()];
        let named = Named { source: source.into(), names };
        let expanded = self.expand(named);
        expanded.is_some_and(|pattern| pattern.matches(key))
    }

    /// `None` for a pattern that is too large to use with these names: it matches nothing.
    fn expand(&self, named: Named) -> Option<Arc<Pattern>> {
        let known = |generations: &mut Generations| {
            generations.young.get(&named).cloned().or_else(|| generations.old.remove(&named))
        };
        let known = known(&mut self.0.lock());
        let expanded = known.unwrap_or_else(|| {
            let [user, vhost, client] = &named.names;
            Pattern::with_names(&named.source, &[(USER, user), (VHOST, vhost), (CLIENT, client)]).ok().map(Arc::new)
        });
        let mut generations = self.0.lock();
        if generations.young.len() >= GENERATION {
            generations.old = std::mem::take(&mut generations.young);
        }
        generations.young.insert(named, expanded.clone());
        expanded
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

    fn matches(pattern: &str, client: Option<&str>, key: &str) -> bool {
        let permission = TopicPermission::new("a.b", "/", pattern, "").unwrap();
        assert_eq!(permission.write.as_str(), pattern);
        let (actor, expansions) = (Actor::new("a.b", client), Expansions::default());
        let by_user = permission.write.matches(actor, "/", key, &expansions);
        assert_eq!(permission.write.matches_by_role(actor, "/", key, &expansions), by_user, "{pattern} on {key}");
        by_user
    }

    #[test]
    fn variables_stand_for_names_letter_by_letter() {
        for (pattern, key, expected) in [
            ("^{username}\\.", "a.b.c", true),
            ("^{username}\\.", "axb.c", false),
            ("^{vhost}-{username}$", "/-a.b", true),
            ("", "", true),
            ("", "k", false),
            (".*", "k", true),
        ] {
            assert_eq!(matches(pattern, None, key), expected, "{pattern} on {key}");
        }
        assert!(TopicPermission::new("u", "/", "(", "").is_err());
        assert!(TopicPermission::new("u", "/", "{client_id}(", "").is_err());
    }

    /// Clients choose their names: none may stand for more than itself.
    #[test]
    fn a_client_matches_by_its_own_name_alone() {
        for (pattern, client, key, expected) in [
            ("^dev\\.{client_id}$", "one", "dev.one", true),
            ("^dev\\.{client_id}$", "one", "dev.two", false),
            ("^dev\\.{client_id}$", ".*", "dev.one", false),
            ("^dev\\.{client_id}$", ".*", "dev.%2E%2A", true),
            ("^dev\\.{client_id}\\.", "*", "dev.*.x", false),
            ("^dev\\.{client_id}$", "#", "dev.#", false),
            ("^dev\\.{client_id}\\.", "one.in", "dev.one.in.x", false),
            ("^dev\\.{client_id}\\.", "one.in", "dev.one%2Ein.x", true),
            ("^dev\\.{client_id}\\.", "one%2Ein", "dev.one%2Ein.x", false),
            ("^dev\\.{client_id}$", "one|", "dev.", false),
            ("^dev\\.{client_id}$", "(?:)", "dev.", false),
            ("^dev\\.\\Q{client_id}\\E$", "\\E.*", "dev.one", false),
            ("^dev\\.\\Q{client_id}\\E$", "\\E.*", "dev.\\E%2E%2A", true),
            // One that looks like a variable is none.
            ("^\\Q{client_id}\\E$", "{username}", "a.b", false),
            ("^{client_id}$", "{username}", "a.b", false),
            ("^{client_id}$", "{username}", "{username}", true),
            ("^[{client_id}]$", "a", "b", false),
            ("^{username}/{client_id}/", "one", "a.b/one/x", true),
        ] {
            assert_eq!(matches(pattern, Some(client), key), expected, "{pattern} for {client} on {key}");
        }
        // What a pattern has besides the variable is for clients without a name, too.
        for (pattern, key, expected) in [
            ("^dev\\.{client_id}$|^all$", "all", true),
            ("^dev\\.{client_id}$|^all$", "dev.one", false),
            ("^dev\\.{client_id}$|^all$", "dev.", false),
            ("^dev\\.{client_id}$|^all$", "dev.{client_id}", true),
            ("^dev\\.(?!{client_id}$)", "dev.one", true),
        ] {
            for client in [None, Some("")] {
                assert_eq!(matches(pattern, client, key), expected, "{pattern} for {client:?} on {key}");
            }
        }
    }

    /// Where keys are topics, a user has the topics of its own name, and no other ones.
    #[test]
    fn a_user_is_a_word_of_a_topic() {
        for (user, key, by_letters, by_word) in [
            ("a", "a.x", true, true),
            ("a", "a.b.x", true, true),
            ("a", "a%2Eb.x", false, false),
            ("a.b", "a.b.x", true, false),
            ("a.b", "a%2Eb.x", false, true),
            ("a%2Eb", "a%2Eb.x", true, false),
            ("a%2Eb", "a%252Eb.x", false, true),
            ("*", "*.x", true, false),
            ("*", "%2A.x", false, true),
            ("#", "#.x", true, false),
        ] {
            let expansions = Expansions::default();
            for pattern in ["^{username}\\.", "^(?={username}\\.)", "^{username}\\.(?:{client_id}|.*)"] {
                let permission = TopicPermission::new(user, "/", pattern, "").unwrap();
                let matches = |spelling| {
                    let actor = Actor { spelling, ..Actor::new(user, Some("c")) };
                    let by_user = permission.write.matches(actor, "/", key, &expansions);
                    assert_eq!(permission.write.matches_by_role(actor, "/", key, &expansions), by_user);
                    by_user
                };
                let found = [Spelling::Letters, Spelling::Word, Spelling::Either].map(matches);
                assert_eq!(found, [by_letters, by_word, by_letters || by_word], "{user} on {key} by {pattern}");
            }
        }
    }

    #[test]
    fn what_is_kept_for_clients_is_bounded() {
        let expansions = Expansions::default();
        let permission = TopicPermission::new("u", "/", "^{client_id}$", "").unwrap();
        for number in 0..3 * GENERATION {
            let client = number.to_string();
            let actor = Actor::new("u", Some(&client));
            assert!(permission.write.matches(actor, "/", &client, &expansions));
            assert!(!permission.write.matches(actor, "/", "x", &expansions));
        }
        let kept = expansions.0.lock();
        assert!(kept.young.len() <= GENERATION && kept.old.len() <= GENERATION);
    }
}
