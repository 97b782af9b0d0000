//! All users in memory, and the two questions that are asked about them: who is this, and may it do
//! that.
//!
//! The authority changes only by explicit calls. The caller journals the change ([`User::encode`])
//! and repeats it after a restart. Every operation of every protocol passes
//! [`Authority::authorize`]; nothing else grants a right.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::RwLock;

use crate::again::Connected;
use crate::asking::About;
use crate::identity::Question;
use crate::login::{Job, LoginCounts, Logins, People, Plan};
use crate::members::Members;
use crate::password::Work;
use crate::ruling::{Rule, Ruling, TopicRule, Users, enters, roles_allow_key, roles_enter};
use crate::sasl::MalformedResponse;
use crate::sasl::scram::{self, Exchange, First, Verifier};
use crate::throttle::{Attempt, Verdict};
use crate::topic::{Actor, Expansions};
use crate::{
    Cost, Denied, FailureLimits, Identity, Login, PasswordError, PasswordHash, Refusal, Resource, Right, Tags, User,
    UserError, UserLimits,
};

/// What an [`Authority`] is started with.
#[derive(Debug, Clone)]
pub struct AuthoritySettings {
    /// Users who may connect from loopback addresses only.
    pub loopback_users: BTreeSet<String>,
    /// Which backends are asked, and how.
    pub plan: Plan,
    /// Keeps new passwords for SCRAM-SHA-256.
    pub scram: bool,
    /// How often log-ins may fail.
    pub failures: FailureLimits,
    /// Fresh random bytes, new at every start of the process.
    pub boot_key: [u8; 32],
    /// Random bytes that outlive the process, as users do. SCRAM shows a salt also for a user that
    /// is not there: if a restart changed it, that would give the user away.
    pub decoy_key: [u8; 32],
}

impl AuthoritySettings {
    /// `guest` from loopback only, one thread, the usual limits.
    pub fn new(boot_key: [u8; 32]) -> Self {
        Self {
            loopback_users: BTreeSet::from(["guest".to_owned()]),
            plan: Plan::internal(),
            scram: false,
            failures: FailureLimits::default(),
            boot_key,
            decoy_key: boot_key,
        }
    }
}

/// Users, passwords and permissions.
pub struct Authority {
    people: People,
    /// Changes with `users`, while they are locked.
    members: RwLock<Members>,
    /// Counts the changes of `users`. It is raised while they are locked for writing, so a
    /// reader that holds the read lock knows which state it saw.
    generation: AtomicU64,
    decoy: PasswordHash,
    scram: bool,
    /// Some password is, or will be, kept for SCRAM-SHA-256.
    keeps_scram: AtomicBool,
    secret: [u8; 32],
    decoy_key: RwLock<[u8; 32]>,
    /// Exchanges of SCRAM begun.
    exchanges: AtomicU64,
    logins: Logins,
    expansions: Expansions,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("users", &self.people.users.read().len()).finish_non_exhaustive()
    }
}

impl Authority {
    /// An authority that knows no user yet.
    ///
    /// # Errors
    /// When the Argon2 implementation refuses the built-in parameters, which no input can cause.
    pub fn new(settings: AuthoritySettings) -> Result<Self, PasswordError> {
        let (asking, connected) = (settings.plan.asking(), Arc::new(Connected::new(&settings.plan.steps)));
        let people = People { asking, connected, ..People::default() };
        *people.loopback.write() = settings.loopback_users;
        Ok(Self {
            people: people.clone(),
            members: RwLock::default(),
            generation: AtomicU64::new(1),
            decoy: PasswordHash::decoy(settings.boot_key)?,
            scram: settings.scram,
            keeps_scram: AtomicBool::new(settings.scram),
            secret: settings.boot_key,
            decoy_key: RwLock::new(settings.decoy_key),
            exchanges: AtomicU64::new(0),
            logins: Logins::new(settings.plan, people, settings.failures, settings.boot_key),
            expansions: Expansions::default(),
        })
    }

    /// Adds a user or replaces the one of the same name.
    ///
    /// # Errors
    /// When [`User::check`] finds something; then nothing has changed.
    pub fn put(&self, user: User) -> Result<(), UserError> {
        user.check()?;
        if user.password.as_ref().is_some_and(|password| password.scram().is_some()) {
            self.keeps_scram.store(true, Ordering::Relaxed);
        }
        let mut users = self.people.users.write();
        let name: Arc<str> = user.name.as_ref().into();
        let before = users.get(&name).map(|user| user.roles.clone()).unwrap_or_default();
        self.members.write().change(&name, &before, &user.roles);
        users.insert(name, user);
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Removes a user. Returns whether there was one. Its connections lose every right at once.
    pub fn remove(&self, name: &str) -> bool {
        let mut users = self.people.users.write();
        let removed = users.remove(name);
        if let Some(user) = &removed {
            self.members.write().change(&name.into(), &user.roles, &BTreeSet::new());
        }
        self.generation.fetch_add(1, Ordering::Release);
        removed.is_some()
    }

    /// Takes back all permissions in a virtual host that goes away.
    pub fn remove_vhost(&self, vhost: &str) {
        let mut users = self.people.users.write();
        users.values_mut().for_each(|user| user.leave(vhost));
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Takes the key of decoys from a former run.
    pub fn set_decoy_key(&self, key: [u8; 32]) {
        *self.decoy_key.write() = key;
    }

    /// A copy of one user.
    pub fn user(&self, name: &str) -> Option<User> {
        self.people.users.read().get(name).cloned()
    }

    /// Copies of all users, by name.
    pub fn users(&self) -> Vec<User> {
        self.people.users.read().values().cloned().collect()
    }

    /// Starts a login by name and password. The outcome is there at once (see [`Login::take`]) when
    /// nothing needs computing; otherwise `waker` is called when it is. Never blocks, so it may be
    /// called from a connection. `from` is the peer's own address.
    pub fn login(&self, user: &str, password: &[u8], from: IpAddr, now: Instant, waker: Waker) -> Login {
        let attempt = Attempt { from, user };
        if password.is_empty() {
            return self.logins.refused(Refusal::EmptyPassword, attempt, now);
        }
        let Some(step) = self.logins.step_at(0, password) else {
            return self.logins.refused(Refusal::WrongCredentials, attempt, now);
        };
        if !self.people.may_come_from(user, from) {
            return self.logins.refused(Refusal::NotLoopback, attempt, now);
        }
        let verdict = self.logins.judge(attempt, now);
        if verdict == Verdict::Refuse {
            return self.logins.failed(attempt, verdict, now);
        }
        let known = {
            let users = self.people.users.read();
            users.get_key_value(user).and_then(|(name, user)| {
                user.password.as_ref().map(|hash| (name.clone(), user.tags.clone(), hash.clone()))
            })
        };
        // For an unknown user the decoy is checked: the refusal takes as long as that of a wrong
        // password.
        let (name, tags, hash) = known.unwrap_or_else(|| (Arc::from(user), Tags::default(), self.decoy.clone()));
        if self.logins.checks_own_passwords() && self.logins.remembers(&name, &hash, password, now) {
            return self.logins.succeeded(Identity::by_password(name, tags, hash), attempt, now);
        }
        if let Some(identity) = self.logins.answered(user, password, from, now) {
            return self.logins.succeeded(identity, attempt, now);
        }
        if verdict == Verdict::Compare {
            return self.logins.failed(attempt, verdict, now);
        }
        let kept = self.kept();
        self.logins.start(Job { step, user: name, tags, from, hash, kept, password: password.to_vec(), now, waker })
    }

    /// The kind of the hashes that are made now.
    fn new_kind(&self) -> Work {
        if self.scram { Work::Pbkdf2 } else { Work::Argon2 }
    }

    /// How passwords are kept: what every check has to compute.
    fn kept(&self) -> &'static [Work] {
        if self.keeps_scram.load(Ordering::Relaxed) { &[Work::Argon2, Work::Pbkdf2] } else { &[Work::Argon2] }
    }

    /// Lets a connection in as `user` without a password. That is for mechanisms without one: a
    /// certificate names the user, or the operator lets every peer in as that user. Where the user
    /// may connect from, and what it may do, is as ever.
    pub fn admit(&self, user: &str, from: IpAddr, now: Instant) -> Login {
        let attempt = Attempt { from, user };
        if !self.people.may_come_from(user, from) {
            return self.logins.refused(Refusal::NotLoopback, attempt, now);
        }
        let users = self.people.users.read();
        let known = users.get_key_value(user).filter(|_| self.logins.asks_own_users());
        let known = known.map(|(name, user)| Identity::new(name.clone(), user.tags.clone()));
        match known {
            Some(identity) => self.logins.decided(Ok(identity)),
            None => self.logins.refused(Refusal::WrongCredentials, attempt, now),
        }
    }

    /// The identity of a user of the broker's own, for what it has left behind. It has shown
    /// nothing, so no connection is let in by this.
    pub fn identity_of(&self, user: &str) -> Option<Identity> {
        let users = self.people.users.read();
        let (name, user) = users.get_key_value(user)?;
        Some(Identity::new(name.clone(), user.tags.clone()))
    }

    /// The hash of a new password, of the kind that log-ins here need. The salt must be fresh
    /// random bytes.
    ///
    /// # Errors
    /// When the password is empty or too long.
    pub fn hash_password(&self, password: &[u8], salt: [u8; 16]) -> Result<PasswordHash, PasswordError> {
        match self.scram {
            true => PasswordHash::create_scram(password, salt),
            false => PasswordHash::create(password, salt, Cost::default()),
        }
    }

    /// The same for a user that may be there. Gives the hash that it has, if that is of this
    /// password and of the kind of new ones. So to set the password again that is in force changes
    /// nothing. Takes as long as a log-in besides.
    ///
    /// # Errors
    /// When the password is empty or too long.
    pub fn set_password(&self, user: &str, password: &[u8], salt: [u8; 16]) -> Result<PasswordHash, PasswordError> {
        let known = self.people.users.read().get(user).and_then(|user| user.password.clone());
        let is_as_new = |hash: &PasswordHash| hash.is_as_new(self.new_kind()) && hash.matches(password);
        match known.filter(is_as_new) {
            Some(hash) => Ok(hash),
            None => self.hash_password(password, salt),
        }
    }

    /// Answers the first message of a log-in by SCRAM-SHA-256: the exchange, and the challenge. A
    /// user that is not there, or whose password is kept in another way, is challenged like one
    /// that is.
    ///
    /// # Errors
    /// When the message is none.
    pub fn challenge(&self, message: &[u8]) -> Result<(Exchange, String), MalformedResponse> {
        let first = First::parse(message)?;
        let users = self.people.users.read();
        let kept = users.get(first.user()).and_then(|user| user.password.as_ref()?.scram());
        drop(users);
        let verifier = kept.unwrap_or_else(|| Verifier::decoy(&self.decoy_key.read(), first.user()));
        let number = self.exchanges.fetch_add(1, Ordering::Relaxed);
        let nonce = STANDARD.encode(&scram::sign(&self.secret, format!("nonce {number}").as_bytes())[..18]);
        Ok(Exchange::start(&first, verifier, &nonce))
    }

    /// Checks the last message of a log-in by SCRAM-SHA-256. With a log-in that succeeds comes the
    /// server's proof.
    ///
    /// # Errors
    /// When the message is none.
    pub fn prove(
        &self,
        exchange: &Exchange,
        message: &[u8],
        from: IpAddr,
        now: Instant,
    ) -> Result<(Login, Option<String>), MalformedResponse> {
        let user = exchange.user();
        let attempt = Attempt { from, user };
        let proof = exchange.finish(message)?;
        if !self.people.may_come_from(user, from) {
            return Ok((self.logins.refused(Refusal::NotLoopback, attempt, now), None));
        }
        let verdict = self.logins.judge(attempt, now);
        if verdict == Verdict::Refuse {
            return Ok((self.logins.failed(attempt, verdict, now), None));
        }
        let users = self.people.users.read();
        let known = users.get_key_value(user).filter(|_| self.logins.checks_own_passwords());
        let known = known.and_then(|(name, user)| {
            let hash = user.password.clone().filter(|hash| hash.scram().is_some_and(|now| exchange.is_with(&now)))?;
            Some(Identity::by_password(name.clone(), user.tags.clone(), hash))
        });
        match known.zip(proof) {
            Some((identity, proof)) => Ok((self.logins.succeeded(identity, attempt, now), Some(proof))),
            None => Ok((self.logins.failed(attempt, verdict, now), None)),
        }
    }

    /// Says who may connect from loopback addresses only, from the next login on.
    pub fn set_loopback_users(&self, users: BTreeSet<String>) {
        *self.people.loopback.write() = users;
    }

    /// How the logins since the start have ended.
    pub fn login_counts(&self) -> LoginCounts {
        self.logins.counts()
    }

    /// [`Authority::login`] for callers that may wait: command line, HTTP, tests.
    ///
    /// # Errors
    /// When the login is refused.
    pub fn verify(&self, user: &str, password: &[u8], from: IpAddr, now: Instant) -> Result<Identity, Refusal> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let login = self.login(user, password, from, now, waker);
        loop {
            match login.take() {
                Some(outcome) => return outcome,
                None => std::thread::park(),
            }
        }
    }

    /// Whether an identity is still that of its user: the user is there, and the password is the
    /// one that it has shown. What a backend elsewhere has given ends by time alone
    /// ([`Identity::expires`]).
    pub fn is_current(&self, identity: &Identity) -> bool {
        if identity.is_operator() || identity.backend().is_some() {
            return true;
        }
        let users = self.people.users.read();
        let user = users.get(identity.user());
        user.is_some_and(|user| identity.password().is_none_or(|shown| user.password.as_ref() == Some(shown)))
    }

    /// Whether `identity` may enter `vhost`: it has a permission there, be it an empty one.
    ///
    /// # Errors
    /// When it may not.
    pub fn enter(&self, identity: &Identity, vhost: &str) -> Result<(), Denied> {
        let may_enter = identity.decided(vhost, About::Vhost).unwrap_or_else(|| match identity.grant() {
            Some(grant) => grant.scopes.enters(vhost) || roles_enter(&self.people.users.read(), &grant.scopes, vhost),
            None => enters(&self.people.users.read(), identity.user(), vhost),
        });
        match may_enter || identity.is_operator() {
            true => Ok(()),
            false => Err(Denied::Vhost { vhost: vhost.into(), user: identity.user().into() }),
        }
    }

    /// Whether `identity` has `right` on `resource` in `vhost`. Cheap for what the identity did
    /// lately.
    ///
    /// # Errors
    /// When it does not.
    pub fn authorize(
        &self,
        identity: &Identity,
        vhost: &str,
        resource: Resource<'_>,
        right: Right,
    ) -> Result<(), Denied> {
        if identity.is_operator() {
            return Ok(());
        }
        let asked = Question { vhost, name: resource.name, kind: resource.kind, right };
        if identity.was_granted(self.generation.load(Ordering::Acquire), asked) {
            return Ok(());
        }
        if self.grants(identity, asked, resource) {
            return Ok(());
        }
        Err(Denied::Resource {
            right,
            kind: resource.kind,
            name: resource.checked_name().into(),
            vhost: vhost.into(),
            user: identity.user().into(),
        })
    }

    /// Asks the grant of an identity, or else the rules of its user, and keeps a decision.
    fn grants(&self, identity: &Identity, asked: Question<'_>, resource: Resource<'_>) -> bool {
        let Question { vhost, right, .. } = asked;
        if let Some(allows) = identity.decided(vhost, About::Resource(resource, right)) {
            return allows;
        }
        if let Some(grant) = identity.grant() {
            let users = self.people.users.read();
            let generation = self.generation.load(Ordering::Acquire);
            let by_role = || Rule::of_roles(&users, &grant.scopes, vhost, resource, right).allows();
            let allows = grant.scopes.allows(vhost, resource, right) || by_role();
            if allows {
                identity.keep(generation, asked);
            }
            return allows;
        }
        let users = self.people.users.read();
        let generation = self.generation.load(Ordering::Acquire);
        let allows = Rule::of(&users, identity.user(), vhost, resource, right).allows();
        drop(users);
        if allows {
            identity.keep(generation, asked);
        }
        allows
    }
}

impl Authority {
    /// Starts to let in again, by a newer secret, an identity that a backend elsewhere has let in.
    /// Only that backend is asked. `None` for an identity of another kind, which has nothing to
    /// renew.
    pub fn renew(&self, identity: &Identity, secret: &[u8], from: IpAddr, now: Instant, waker: Waker) -> Option<Login> {
        let step = self.logins.step_of(identity.backend()?)?;
        let attempt = Attempt { from, user: identity.user() };
        if secret.is_empty() {
            return Some(self.logins.refused(Refusal::EmptyPassword, attempt, now));
        }
        let verdict = self.logins.judge(attempt, now);
        if verdict != Verdict::Look || self.logins.step_at(step, secret) != Some(step) {
            return Some(self.logins.failed(attempt, verdict, now));
        }
        Some(self.logins.start(Job {
            step,
            user: identity.user().into(),
            tags: Tags::default(),
            from,
            hash: self.decoy.clone(),
            kept: self.kept(),
            password: secret.to_vec(),
            now,
            waker,
        }))
    }

    /// Forgets what backends elsewhere have answered: they are asked again.
    pub fn forget_answers(&self) {
        self.logins.forget_answers();
    }

    /// How often backends elsewhere are asked again what those may do who are connected; `None` if
    /// none is.
    pub fn asks_again_every(&self) -> Option<Duration> {
        self.people.connected.every()
    }

    /// Backend and name of each user that is connected by rights that can be asked about again.
    pub fn connected_from_elsewhere(&self) -> Vec<(&'static str, Arc<str>)> {
        self.people.connected.users()
    }

    /// Asks a backend again what a user may do, on a thread that may wait. Returns whether that is
    /// something else now. It counts from then on.
    ///
    /// # Errors
    /// When the backend can't be asked; then nothing has changed.
    pub fn ask_again(&self, backend: &'static str, user: &Arc<str>) -> Result<bool, String> {
        let Some(grant) = self.people.connected.ask(backend, user)? else { return Ok(false) };
        // Who looks at users holds the rights first, so these are not changed with users locked.
        if !self.people.connected.give(user, &grant) {
            return Ok(false);
        }
        self.logins.forget_answers_about(backend, user);
        let _users = self.people.users.write();
        self.generation.fetch_add(1, Ordering::Release);
        Ok(true)
    }

    /// Whether an identity has this tag now.
    pub fn is_tagged(&self, identity: &Identity, tag: &str) -> bool {
        match identity.grant() {
            Some(grant) => grant.tags.has(tag),
            None => identity.is_operator() || self.has_tag(identity.user(), tag),
        }
    }

    /// Whether the tags of an identity are still those that it had when it logged in.
    pub fn has_its_tags(&self, identity: &Identity) -> bool {
        match identity.grant() {
            Some(grant) => grant.tags == *identity.tags(),
            None => self.user(identity.user()).is_some_and(|user| user.tags == *identity.tags()),
        }
    }

    /// Whether `identity` may publish to the topic exchange `exchange` with this routing key
    /// ([`Right::Write`]), or bind from it by that ([`Right::Read`]). Whether it may do that with
    /// the exchange at all is another question.
    ///
    /// # Errors
    /// When it may not.
    pub fn authorize_topic(
        &self,
        identity: &Identity,
        vhost: &str,
        exchange: &str,
        key: &str,
        right: Right,
    ) -> Result<(), Denied> {
        let who = (identity.actor(), &self.expansions);
        let here = || match identity.grant() {
            Some(grant) => {
                let by_role = |users: &Users| roles_allow_key(users, &grant.scopes, who, (vhost, exchange), key, right);
                grant.scopes.allows_key(vhost, exchange, key, right) || by_role(&self.people.users.read())
            }
            None if identity.is_operator() => true,
            None => {
                let users = self.people.users.read();
                TopicRule::of(&users, who, (vhost, exchange), key, right).allows()
            }
        };
        if identity.decided(vhost, About::Topic { exchange, key, right }).unwrap_or_else(here) {
            return Ok(());
        }
        Err(Denied::Topic {
            right,
            key: key.into(),
            exchange: exchange.into(),
            vhost: vhost.into(),
            user: identity.user().into(),
        })
    }

    /// The rule by which [`Authority::authorize`] decides for a user.
    pub fn explain(&self, user: &str, vhost: &str, resource: Resource<'_>, right: Right) -> Ruling {
        Rule::of(&self.people.users.read(), user, vhost, resource, right).into()
    }

    /// The rule by which [`Authority::authorize`] decides for an identity.
    pub fn explain_identity(&self, identity: &Identity, vhost: &str, resource: Resource<'_>, right: Right) -> Ruling {
        if let Some(allows) = identity.decided(vhost, About::Resource(resource, right)) {
            return Ruling::Elsewhere { allows };
        }
        let Some(grant) = identity.grant() else { return self.explain(identity.user(), vhost, resource, right) };
        match grant.scopes.find(vhost, resource, right) {
            Some(scope) => Ruling::Scope(scope.to_owned()),
            None => Rule::of_roles(&self.people.users.read(), &grant.scopes, vhost, resource, right).into(),
        }
    }

    /// The rule by which [`Authority::authorize_topic`] decides for a user and its client.
    pub fn explain_topic(&self, actor: Actor<'_>, vhost: &str, exchange: &str, key: &str, right: Right) -> Ruling {
        TopicRule::of(&self.people.users.read(), (actor, &self.expansions), (vhost, exchange), key, right).into()
    }

    /// Whether a user may enter a virtual host, by a permission of its own or of a role.
    pub fn may_enter(&self, user: &str, vhost: &str) -> bool {
        enters(&self.people.users.read(), user, vhost)
    }

    /// The users that have this role.
    pub fn members(&self, role: &str) -> Vec<User> {
        let users = self.people.users.read();
        let members = self.members.read();
        members.of(role).filter_map(|name| users.get(name)).cloned().collect()
    }

    /// Whether a user has this tag now.
    pub fn has_tag(&self, user: &str, tag: &str) -> bool {
        self.people.users.read().get(user).is_some_and(|user| user.tags.has(tag))
    }

    /// Whether more than one user is there without this tag.
    pub fn has_several_without(&self, tag: &str) -> bool {
        self.people.users.read().values().filter(|user| !user.tags.has(tag)).nth(1).is_some()
    }

    /// How much a user may have at a time. A user that is not known can't log in, so its limits do
    /// not matter.
    pub fn limits(&self, user: &str) -> UserLimits {
        self.people.users.read().get(user).map(|user| user.limits).unwrap_or_default()
    }
}

/// Wakes a thread that is parked in [`Authority::verify`].
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests;
