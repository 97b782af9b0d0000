//! Who a connection is, once it has logged in, with the decisions it has lately been given.
//!
//! The decisions are valid for one generation of the [`crate::Authority`]. Any change of a user
//! starts a new one, so a withdrawn right is gone at the next operation.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{PasswordHash, ResourceKind, Right, Tags};

/// Decisions kept per identity. A connection seldom uses more names in turn (RabbitMQ keeps 12 per
/// channel).
const KEPT: usize = 16;

/// A user that has logged in. One per connection: it holds a small cache.
#[derive(Debug)]
pub struct Identity {
    user: Arc<str>,
    tags: Tags,
    /// What its password was checked against, if it brought one.
    password: Option<PasswordHash>,
    /// It acts for the operator of the server, who may do everything.
    operator: bool,
    granted: Mutex<Granted>,
}

/// What was allowed lately. Refusals are not kept: they end a channel anyway, and their text is
/// built afresh.
#[derive(Debug, Default)]
struct Granted {
    generation: u64,
    /// The next place to overwrite when all are taken.
    next: usize,
    entries: Vec<Grant>,
}

#[derive(Debug)]
struct Grant {
    vhost: Box<str>,
    name: Box<str>,
    kind: ResourceKind,
    right: Right,
}

/// One question: may the user do `right` to the thing of this kind and name in `vhost`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) vhost: &'a str,
    pub(crate) name: &'a str,
    pub(crate) kind: ResourceKind,
    pub(crate) right: Right,
}

/// The same user, without the decisions.
impl Clone for Identity {
    fn clone(&self) -> Self {
        let (operator, password) = (self.operator, self.password.clone());
        Self { operator, password, ..Self::new(Arc::clone(&self.user), self.tags.clone()) }
    }
}

impl Identity {
    pub(crate) fn new(user: Arc<str>, tags: Tags) -> Self {
        Self { user, tags, password: None, operator: false, granted: Mutex::default() }
    }

    /// A user that has shown the password of this hash.
    pub(crate) fn by_password(user: Arc<str>, tags: Tags, hash: PasswordHash) -> Self {
        Self { password: Some(hash), ..Self::new(user, tags) }
    }

    /// The hash of the password that it has shown.
    pub(crate) fn password(&self) -> Option<&PasswordHash> {
        self.password.as_ref()
    }

    /// The operator of the server, under a name for logs. It has every right, everywhere: give it
    /// only to those that the operating system has let in.
    pub fn operator(name: &str) -> Self {
        Self { operator: true, ..Self::new(name.into(), Tags::new(["administrator"])) }
    }

    /// True for the operator of the broker, who may do everything.
    pub fn is_operator(&self) -> bool {
        self.operator
    }

    /// The name of the user.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The tags the user had when it logged in.
    pub fn tags(&self) -> &Tags {
        &self.tags
    }

    /// Whether this was allowed before, in this generation.
    pub(crate) fn was_granted(&self, generation: u64, asked: Question<'_>) -> bool {
        let granted = self.granted.lock();
        granted.generation == generation
            && granted.entries.iter().any(|grant| {
                grant.right == asked.right
                    && grant.kind == asked.kind
                    && *grant.name == *asked.name
                    && *grant.vhost == *asked.vhost
            })
    }

    /// Keeps a decision that was made from the users of `generation`.
    pub(crate) fn keep(&self, generation: u64, asked: Question<'_>) {
        let mut granted = self.granted.lock();
        if granted.generation != generation {
            *granted = Granted { generation, ..Granted::default() };
        }
        let grant = Grant { vhost: asked.vhost.into(), name: asked.name.into(), kind: asked.kind, right: asked.right };
        if granted.entries.len() < KEPT {
            granted.entries.push(grant);
        } else {
            let place = granted.next;
            granted.entries[place] = grant;
            granted.next = (place + 1) % KEPT;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_end_with_their_generation_and_their_number_is_bounded() {
        let identity = Identity::new("u".into(), Tags::default());
        let names: Vec<String> = (0..3 * KEPT).map(|i| format!("q{i}")).collect();
        let ask = |name| Question { vhost: "/", name, kind: ResourceKind::Queue, right: Right::Read };
        for name in &names {
            identity.keep(1, ask(name));
            assert!(identity.was_granted(1, ask(name)));
            assert!(!identity.was_granted(1, Question { right: Right::Write, ..ask(name) }));
            assert!(!identity.was_granted(1, Question { vhost: "other", ..ask(name) }));
            assert!(!identity.was_granted(1, Question { kind: ResourceKind::Exchange, ..ask(name) }));
            assert!(!identity.was_granted(2, ask(name)));
        }
        assert_eq!(identity.granted.lock().entries.len(), KEPT);
        assert!(!identity.was_granted(1, ask(&names[0])));
        identity.keep(2, ask("x"));
        assert!(!identity.was_granted(2, ask(&names[3 * KEPT - 1])));
    }
}
