//! Who a connection is, once it has logged in, with the decisions it has lately been given.
//!
//! The decisions are valid for one generation of the [`crate::Authority`]. Any change of a user
//! starts a new one, so a withdrawn right is gone at the next operation.

use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::{Mutex, RwLockReadGuard};

use crate::again::Held;
use crate::asking::{About, Asked, Asking};
use crate::backend::Grant;
use crate::{Actor, PasswordHash, ResourceKind, Right, Spelling, Tags};

/// Decisions kept per identity. A connection seldom uses more names in turn (RabbitMQ keeps 12 per
/// channel).
const KEPT: usize = 16;

/// A user that has logged in. One per connection: it holds a small cache.
#[derive(Debug)]
pub struct Identity {
    user: Arc<str>,
    tags: Tags,
    proof: Proof,
    /// What its client is called.
    client: Option<Arc<str>>,
    spelling: Spelling,
    /// Who decides about what it does, and where it has come from; `None` if that is known here.
    asking: Option<(Arc<Asking>, IpAddr)>,
    granted: Mutex<Granted>,
}

/// What lets an identity in.
#[derive(Debug, Clone)]
enum Proof {
    /// A certificate, a setting, or a backend elsewhere that says no more than who it is.
    Name,
    /// The password of this hash.
    Password(PasswordHash),
    /// The operating system: it acts for the operator of the server, who may do everything.
    Operator,
    /// A backend elsewhere, which says what it may do. A renewal replaces that for all copies.
    Grant(Arc<Held>),
}

/// Why a grant can't take another's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotRenewed {
    /// The identity has none: it was not let in by a backend that gives rights.
    HasNone,
    /// The new one is of another user, or of another backend.
    OtherUser,
}

impl std::fmt::Display for NotRenewed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::HasNone => "this user's rights are not renewed by a secret",
            Self::OtherUser => "the new secret is of another user",
        })
    }
}

impl std::error::Error for NotRenewed {}

/// What was allowed lately. Refusals are not kept: they end a channel anyway, and their text is
/// built afresh.
#[derive(Debug, Default)]
struct Granted {
    generation: u64,
    /// The next place to overwrite when all are taken.
    next: usize,
    entries: Vec<Decision>,
}

#[derive(Debug)]
struct Decision {
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
        let (proof, client, spelling) = (self.proof.clone(), self.client.clone(), self.spelling);
        let asking = self.asking.clone();
        Self { proof, client, spelling, asking, ..Self::new(Arc::clone(&self.user), self.tags.clone()) }
    }
}

impl Identity {
    pub(crate) fn new(user: Arc<str>, tags: Tags) -> Self {
        let (proof, spelling) = (Proof::Name, Spelling::Letters);
        Self { user, tags, proof, client: None, spelling, asking: None, granted: Mutex::default() }
    }

    /// A user that has shown the password of this hash.
    pub(crate) fn by_password(user: Arc<str>, tags: Tags, hash: PasswordHash) -> Self {
        Self { proof: Proof::Password(hash), ..Self::new(user, tags) }
    }

    /// A user that a backend elsewhere has let in, with these rights.
    pub(crate) fn by_grant(grant: Arc<Grant>) -> Self {
        let (user, tags) = (Arc::clone(&grant.user), grant.tags.clone());
        Self { proof: Proof::Grant(Arc::new(Held::new(grant))), ..Self::new(user, tags) }
    }

    /// What holds the rights that a backend elsewhere has given it, for all its copies.
    pub(crate) fn held(&self) -> Option<&Arc<Held>> {
        match &self.proof {
            Proof::Grant(held) => Some(held),
            Proof::Name | Proof::Operator | Proof::Password(_) => None,
        }
    }

    /// The same user from this address, whose operations a program elsewhere decides about.
    pub(crate) fn decided_by(self, asking: Arc<Asking>, from: IpAddr) -> Self {
        Self { asking: Some((asking, from)), ..self }
    }

    /// Whether a program elsewhere decides about each of its operations: to ask for a right may
    /// wait.
    pub fn is_decided_elsewhere(&self) -> bool {
        self.asking.is_some()
    }

    /// What that program says; `None` if there is none.
    pub(crate) fn decided(&self, vhost: &str, about: About<'_>) -> Option<bool> {
        let (asking, from) = self.asking.as_ref()?;
        let asked = Asked { actor: self.actor(), tags: &self.tags, from: *from, vhost, about };
        Some(asking.allows(&asked))
    }

    /// How long what is decided elsewhere counts; `None` if it is decided here.
    pub fn decisions_last(&self) -> Option<std::time::Duration> {
        self.asking.as_ref().map(|(asking, _)| asking.keeps_for())
    }

    /// The hash of the password that it has shown.
    pub(crate) fn password(&self) -> Option<&PasswordHash> {
        match &self.proof {
            Proof::Password(hash) => Some(hash),
            Proof::Name | Proof::Operator | Proof::Grant(_) => None,
        }
    }

    /// What a backend elsewhere has said of it last. It is not renewed while this is held.
    pub(crate) fn grant(&self) -> Option<RwLockReadGuard<'_, Arc<Grant>>> {
        self.held().map(|held| held.read())
    }

    /// The name of the backend elsewhere that has given it its rights.
    pub fn backend(&self) -> Option<&'static str> {
        self.grant().map(|grant| grant.backend)
    }

    /// Whether a backend elsewhere has given it this role.
    pub fn has_role(&self, role: &str) -> bool {
        self.grant().is_some_and(|grant| grant.scopes.roles().contains(role))
    }

    /// When its rights end, in milliseconds since 1970.
    pub fn expires(&self) -> Option<u64> {
        self.grant()?.expires
    }

    /// Takes over the rights of `newer`, the same user let in again.
    ///
    /// # Errors
    /// When it is not the same, or has no rights to renew.
    pub fn renew(&self, newer: &Self) -> Result<(), NotRenewed> {
        let Proof::Grant(held) = &self.proof else { return Err(NotRenewed::HasNone) };
        let newer = Arc::clone(&*newer.grant().ok_or(NotRenewed::OtherUser)?);
        let mut held = held.write();
        if (&held.user, held.backend) != (&newer.user, newer.backend) {
            return Err(NotRenewed::OtherUser);
        }
        *held = newer;
        // A decision is kept while the grant is held for reading, so none of the old is kept later.
        *self.granted.lock() = Granted::default();
        Ok(())
    }

    /// The operator of the server, under a name for logs. It has every right, everywhere: give it
    /// only to those that the operating system has let in.
    pub fn operator(name: &str) -> Self {
        Self { proof: Proof::Operator, ..Self::new(name.into(), Tags::new(["administrator"])) }
    }

    /// True for the operator of the broker, who may do everything.
    pub fn is_operator(&self) -> bool {
        matches!(self.proof, Proof::Operator)
    }

    /// The same user as a client of this name, which topic permissions may be about.
    #[must_use]
    pub fn named(self, client: Option<&str>) -> Self {
        Self { client: client.map(Arc::from), ..self }
    }

    /// The same user, whose name stands so in routing keys.
    #[must_use]
    pub fn spelled(self, spelling: Spelling) -> Self {
        Self { spelling, ..self }
    }

    /// Who acts, for topic permissions.
    pub fn actor(&self) -> Actor<'_> {
        Actor { user: &self.user, client: self.client.as_deref(), spelling: self.spelling }
    }

    /// The name of the user.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The tags the user had when it logged in.
    pub fn tags(&self) -> &Tags {
        &self.tags
    }

    /// Forgets the decisions, which will be made again.
    pub fn forget_decisions(&self) {
        *self.granted.lock() = Granted::default();
    }

    /// Whether this was allowed before, in this generation.
    pub(crate) fn was_granted(&self, generation: u64, asked: Question<'_>) -> bool {
        let granted = self.granted.lock();
        granted.generation == generation
            && granted.entries.iter().any(|kept| {
                kept.right == asked.right
                    && kept.kind == asked.kind
                    && *kept.name == *asked.name
                    && *kept.vhost == *asked.vhost
            })
    }

    /// Keeps a decision that was made from the users of `generation`.
    pub(crate) fn keep(&self, generation: u64, asked: Question<'_>) {
        let mut granted = self.granted.lock();
        if granted.generation != generation {
            *granted = Granted { generation, ..Granted::default() };
        }
        let decision =
            Decision { vhost: asked.vhost.into(), name: asked.name.into(), kind: asked.kind, right: asked.right };
        if granted.entries.len() < KEPT {
            // Most clients ask for one thing, again and again.
            if granted.entries.is_empty() {
                granted.entries.reserve_exact(1);
            }
            granted.entries.push(decision);
        } else {
            let place = granted.next;
            granted.entries[place] = decision;
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
