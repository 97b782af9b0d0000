//! The effects of a change of a user's rights on its clients and its subscriptions: on consumers,
//! bindings of their own queues, and connections.
//!
//! Operations are checked when they are requested. Consumers, bindings and connections go on by
//! themselves, and are checked against the new rights here, before the change is answered. One that
//! begins at the same moment checks once more after it has begun.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use auth::{Identity, Resource, Right, Spelling, User};
use hashbrown::HashMap;

use crate::catalog::declaration::topic_of_note;
use crate::catalog::direct::DirectFilter;
use crate::catalog::subscriptions::{Sharing, SubscriptionFact};
use crate::catalog::{Vhost, binding_of};
use crate::engine::Engine;
use crate::engine::clients::{ByNumber, ClientShared};
use crate::queue::{Queue, Visit};
use crate::routing::{Binding, Destination, ExchangeKind};

/// Bindings that are looked at while a vhost is locked: a millisecond or so.
const LOOKED_AT_ONCE: usize = 10_000;

/// The changed parts of a user that affect its clients. Tags and limits count at the next request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangedRights {
    password: bool,
    /// The vhosts in which it has other permissions.
    vhosts: BTreeSet<Box<str>>,
}

impl ChangedRights {
    pub(crate) fn between(before: &User, after: &User) -> Self {
        let mut vhosts: BTreeSet<_> = differing(&before.permissions, &after.permissions).cloned().collect();
        let topics = differing(&before.topic_permissions, &after.topic_permissions);
        vhosts.extend(topics.map(|(vhost, _)| vhost.clone()));
        Self { password: before.password != after.password, vhosts }
    }

    /// Of the members of a role that comes or goes.
    pub(crate) fn of_role(role: &User) -> Self {
        Self { password: false, vhosts: role.vhosts().map(Box::from).collect() }
    }

    /// The user gets a role or loses it.
    pub(crate) fn add_role(&mut self, role: &User) {
        self.vhosts.extend(role.vhosts().map(Box::from));
    }

    /// What this means to those that have the user as a role.
    pub(crate) fn as_of_role(&self) -> Self {
        Self { password: false, vhosts: self.vhosts.clone() }
    }

    fn is_none(&self) -> bool {
        !self.password && self.vhosts.is_empty()
    }
}

/// Keys that do not have the same value in both.
fn differing<'a, K: Ord, V: PartialEq>(
    one: &'a BTreeMap<K, V>,
    other: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = &'a K> {
    let changed = one.iter().filter(|(key, value)| other.get(key) != Some(value)).map(|(key, _)| key);
    changed.chain(other.keys().filter(|key| !one.contains_key(key)))
}

/// A binding, with the other facts that the right to it depends on.
struct Held {
    exchange: Arc<str>,
    is_topic: bool,
    binding: Binding,
}

impl Engine {
    /// Enforces the rights of a user on its clients and its subscriptions. Clients that could no
    /// longer log in, or not to this vhost, are closed. Consumers are cancelled if the user must
    /// not read their queues. Bindings that it could not make now are removed from exclusive
    /// queues and from subscriptions, whether their clients are there or not.
    pub(crate) fn hold_to_rights(&self, user: &str, change: &ChangedRights) {
        if change.is_none() {
            return;
        }
        let mut vhosts: HashMap<&str, ByNumber> =
            change.vhosts.iter().map(|vhost| (&**vhost, ByNumber::default())).collect();
        for client in self.clients_of(user) {
            if !self.authority.is_current(&client.identity) {
                client.kick(&format!("the password of user '{user}' has changed"));
                continue;
            }
            let Some(clients) = vhosts.get_mut(client.vhost.as_str()) else { continue };
            if self.authority.enter(&client.identity, &client.vhost).is_err() {
                client.kick(&format!("user '{user}' has no access to vhost '{}' any more", client.vhost));
            } else {
                clients.insert(client.number, client);
            }
        }
        let identity = self.authority.identity_of(user).map(Arc::new);
        vhosts.iter().for_each(|(vhost, clients)| self.take_away(vhost, clients, user, identity.as_ref()));
    }

    /// The same for clients that have a role, which changes so, from elsewhere. Each has rights of
    /// its own.
    pub(crate) fn hold_guests_to_rights(&self, role: &str, change: &ChangedRights) {
        let is_concerned = |client: &&Arc<ClientShared>| {
            change.vhosts.contains(client.vhost.as_str()) && client.identity.has_role(role)
        };
        let guests: Vec<_> = self.clients.lock().values().filter(is_concerned).cloned().collect();
        guests.iter().for_each(|client| self.hold_one_to_rights(client));
    }

    /// The same for one client whose rights come from elsewhere.
    pub(crate) fn hold_one_to_rights(&self, client: &Arc<ClientShared>) {
        let (user, vhost) = (&client.user, &client.vhost);
        if self.authority.enter(&client.identity, vhost).is_err() {
            return client.kick(&format!("user '{user}' has no access to vhost '{vhost}' any more"));
        }
        if client.identity.is_decided_elsewhere() {
            // It has no rights that could have changed: each is asked for, and not under the locks
            // that come here.
            return;
        }
        let identity = Arc::new(client.identity.clone());
        let clients = ByNumber::from_iter([(client.number, Arc::clone(client))]);
        self.take_away(vhost, &clients, user, Some(&identity));
    }

    /// Asks a backend elsewhere again what a user may do, and takes away from its clients what that
    /// does not cover any more. Returns whether its rights have changed. Waits for the answer.
    ///
    /// # Errors
    /// When the backend can't be asked; then nothing has changed.
    pub(crate) fn ask_again(&self, backend: &'static str, user: &Arc<str>) -> Result<bool, String> {
        if !self.authority.ask_again(backend, user)? {
            return Ok(false);
        }
        let is_concerned =
            |client: &&Arc<ClientShared>| client.user == **user && client.identity.backend() == Some(backend);
        let concerned: Vec<_> = self.clients.lock().values().filter(is_concerned).cloned().collect();
        concerned.iter().for_each(|client| self.hold_one_to_rights(client));
        Ok(true)
    }

    /// The subscriptions of a user that is deleted get nothing more.
    pub(crate) fn sever_subscriptions_of(&self, user: &str) {
        for vhost in self.catalog.vhosts() {
            self.take_away(&vhost.name, &ByNumber::default(), user, None);
        }
    }

    /// Holds subscriptions to the rights of their users. A crash may have come between a change of
    /// these and its effect. Users that are not known here are known elsewhere.
    pub(crate) fn hold_subscriptions_to_rights(&self) {
        for vhost in self.catalog.vhosts() {
            let mut users: HashMap<Box<str>, Option<Arc<Identity>>> = HashMap::new();
            let mut known = |user: &str| {
                let new = || self.authority.identity_of(user).map(Arc::new);
                users.entry(user.into()).or_insert_with(new).clone()
            };
            let own = subscribed(&vhost).into_iter().filter_map(|Subscribed { queue, user, client }| {
                let identity = known(&user)?;
                Some((queue.id, Owned { queue, identity: Some(as_client(&identity, client.as_deref())) }))
            });
            self.sever(&vhost, &own.collect(), &|_| false);
        }
    }

    /// Takes away bindings and consumers in a vhost that a user could not have now, with these
    /// clients. Without an identity it may do nothing.
    fn take_away(&self, vhost: &str, clients: &ByNumber, user: &str, identity: Option<&Arc<Identity>>) {
        let Some(vhost) = self.catalog.vhost(vhost) else { return };
        let mut work = Vec::new();
        let own = owned_by(&vhost, clients, user).into_iter().map(|(queue, client)| {
            let identity = identity.map(|identity| as_client(identity, client.as_deref()));
            (queue.id, Owned { queue, identity })
        });
        self.sever(&vhost, &own.collect(), &|client| clients.contains_key(&client));
        if clients.is_empty() {
            return;
        }
        self.end_unentitled(&vhost, clients);
        let queues: Vec<_> = vhost.tables.read().queues().cloned().collect();
        let mut visit = Visit { context: self, now: self.clock.unix_ms(), work: &mut work };
        queues.iter().for_each(|queue| self.expel_unentitled(&vhost, queue, clients, &mut visit));
        self.run_work(&mut work);
    }

    /// Those whose rights are the user's. A client of that name whose rights come from elsewhere is
    /// not concerned.
    fn clients_of(&self, user: &str) -> Vec<Arc<ClientShared>> {
        let is_of = |client: &&Arc<ClientShared>| client.user == user && client.identity.backend().is_none();
        self.clients.lock().values().filter(is_of).cloned().collect()
    }

    /// Cancels the consumers of these clients, which are all of one user, on a queue that it must
    /// not read, or on a shared subscription to what it must not read.
    fn expel_unentitled(&self, vhost: &Vhost, queue: &Arc<Queue>, clients: &ByNumber, visit: &mut Visit<'_>) {
        let shared = shared_bindings(vhost, queue, self);
        let known = RefCell::new(HashMap::new());
        let leaves = |number| {
            let Some(client) = clients.get(&number) else { return false };
            let asked = Resource::queue(&queue.name);
            let ask = || {
                self.authority.authorize(&client.identity, &queue.vhost, asked, Right::Read).is_err()
                    || !shared.iter().all(|held| self.may_bind(&client.identity, held, queue))
            };
            *known.borrow_mut().entry(number).or_insert_with(ask)
        };
        queue.expel(&leaves, visit);
    }

    /// Removes bindings from queues that their users could not make now, and cancels the consumers
    /// there that `owns` is true of. A subscription to a topic is such a queue, whether its client
    /// is there or not; what it has already stays. Shared queues stay as they were declared.
    fn sever(&self, vhost: &Vhost, own: &HashMap<u64, Owned>, owns: &dyn Fn(u64) -> bool) {
        let exchanges = vhost.tables.read().exchange_names();
        let mut exchanges = exchanges.iter();
        let mut lost = Vec::new();
        while !own.is_empty() && !exchanges.as_slice().is_empty() {
            for held in some_bindings(vhost, &mut exchanges, &|queue| own.contains_key(&queue)) {
                let Destination::Queue(id) = held.binding.destination else { continue };
                let Some(Owned { queue, identity }) = own.get(&id) else { continue };
                if !identity.as_ref().is_some_and(|identity| self.may_bind(identity, &held, queue)) {
                    lost.push((held.exchange, held.binding, Arc::clone(queue)));
                }
            }
        }
        self.unbind_lost(vhost, lost, owns);
    }

    /// Ends the subscribers without a queue that ask for what the user may not have any more.
    fn end_unentitled(&self, vhost: &Vhost, clients: &ByNumber) {
        let direct: Vec<_> = vhost.tables.read().direct.iter().cloned().collect();
        for subscriber in direct {
            let Some(client) = clients.get(&subscriber.to.called().client) else { continue };
            let (authority, identity, name) = (&self.authority, &client.identity, &client.vhost);
            let may = |filter: &DirectFilter| {
                let topic = || authority.authorize_topic(identity, name, &filter.exchange, &filter.key, Right::Read);
                let exchange = Resource::exchange(&filter.exchange);
                (!filter.is_topic || topic().is_ok())
                    && authority.authorize(identity, name, exchange, Right::Read).is_ok()
            };
            if !subscriber.filters.iter().all(may) {
                self.end_direct(vhost, subscriber.id);
                subscriber.cancel();
            }
        }
    }

    /// Checks the rights that declaring the binding needs.
    fn may_bind(&self, identity: &Identity, held: &Held, queue: &Queue) -> bool {
        let (authority, vhost, name) = (&self.authority, &*queue.vhost, &held.exchange);
        let key = topic_of_note(&held.binding.key);
        let is_open = !held.is_topic || authority.authorize_topic(identity, vhost, name, key, Right::Read).is_ok();
        let asked = [(Resource::queue(&queue.name), Right::Write), (Resource::exchange(name), Right::Read)];
        is_open && asked.into_iter().all(|(asked, right)| authority.authorize(identity, vhost, asked, right).is_ok())
    }

    /// Removes these bindings, and the consumers there that `owns` is true of.
    pub(crate) fn unbind_lost(
        &self,
        vhost: &Vhost,
        lost: Vec<(Arc<str>, Binding, Arc<Queue>)>,
        owns: &dyn Fn(u64) -> bool,
    ) {
        let mut work = Vec::new();
        let mut visit = Visit { context: self, now: self.clock.unix_ms(), work: &mut work };
        for (name, binding, queue) in lost {
            let mut tables = vhost.tables.write();
            if tables.queue_by_id(queue.id).is_none() {
                continue;
            }
            self.unbind(vhost, &mut tables, &name, &binding);
            drop(tables);
            if queue.exclusive_to.is_none() {
                let (vhost, exchange, key) = (&vhost.name, &name, &binding.key);
                tracing::warn!(
                    %vhost, queue = %queue.name, %exchange, %key,
                    "subscription narrowed: its user may not read this any more"
                );
            }
            queue.expel(owns, &mut visit);
        }
        self.run_work(&mut work);
    }
}

/// A queue, and whose rights its bindings are held against; none for a user that is deleted.
struct Owned {
    queue: Arc<Queue>,
    identity: Option<Arc<Identity>>,
}

/// The user as this client, which may be away: whether its keys are topics is not known then.
fn as_client(identity: &Arc<Identity>, client: Option<&str>) -> Arc<Identity> {
    match client {
        None => Arc::clone(identity),
        client => Arc::new(Identity::clone(identity).named(client).spelled(Spelling::Either)),
    }
}

/// The queue of a subscription that belongs to one user, and what its client is called.
struct Subscribed {
    queue: Arc<Queue>,
    user: Box<str>,
    client: Option<Box<str>>,
}

fn subscribed(vhost: &Vhost) -> Vec<Subscribed> {
    let tables = vhost.tables.read();
    let queues = tables.subscriptions.queues().filter_map(|id| {
        let fact = tables.subscriptions.of_queue(id)?;
        let is_of_one = fact.name.client.is_some() || fact.sharing == Sharing::Exclusive;
        let queue = tables.queue_by_id(id).filter(|queue| is_of_one && queue.exclusive_to.is_none())?;
        let client = fact.name.client.as_deref().map(Box::from);
        Some(Subscribed { queue: Arc::clone(queue), user: queue.payer()?.user().into(), client })
    });
    queues.collect()
}

/// The exclusive queues of these clients, and the subscriptions of their user, each with what its
/// client is called.
fn owned_by(vhost: &Vhost, clients: &ByNumber, user: &str) -> Vec<(Arc<Queue>, Option<Box<str>>)> {
    let own = subscribed(vhost).into_iter().filter(|subscribed| *subscribed.user == *user);
    let mut owned: Vec<_> = own.map(|Subscribed { queue, client, .. }| (queue, client)).collect();
    if !clients.is_empty() {
        let tables = vhost.tables.read();
        owned.extend(tables.queues().filter_map(|queue| {
            let owner = clients.get(&queue.exclusive_to?)?;
            Some((Arc::clone(queue), owner.name.as_deref().map(Box::from)))
        }));
    }
    owned
}

/// The bindings of a subscription that many may share; none of any other queue.
fn shared_bindings(vhost: &Vhost, queue: &Arc<Queue>, engine: &Engine) -> Vec<Held> {
    let tables = vhost.tables.read();
    let is_shared = |fact: &Arc<SubscriptionFact>| fact.sharing == Sharing::Shared && fact.name.client.is_none();
    if !tables.subscriptions.of_queue(queue.id).is_some_and(is_shared) {
        return Vec::new();
    }
    let bound = queue.lock(engine).bindings.as_slice().to_vec();
    let held = bound.into_iter().filter_map(|bound| {
        let exchange = tables.exchange_by_id(bound.exchange)?;
        Some(Held {
            exchange: Arc::clone(&exchange.name),
            is_topic: exchange.kind == ExchangeKind::Topic,
            binding: binding_of(Destination::Queue(queue.id), bound.key, &bound.arguments),
        })
    });
    held.collect()
}

/// The bindings to some queues, from as many of these exchanges as can be looked through at once.
/// Their rights are checked without the lock.
fn some_bindings(
    vhost: &Vhost,
    exchanges: &mut std::slice::Iter<'_, Arc<str>>,
    is_own: &dyn Fn(u64) -> bool,
) -> Vec<Held> {
    let tables = vhost.tables.read();
    let (mut found, mut looked_at) = (Vec::new(), 0);
    while looked_at < LOOKED_AT_ONCE
        && let Some(name) = exchanges.next()
    {
        let Some(exchange) = tables.exchange(name) else { continue };
        looked_at += 1 + exchange.bindings.len();
        let own = |binding: &&Binding| matches!(binding.destination, Destination::Queue(queue) if is_own(queue));
        let held = |binding: &Binding| Held {
            exchange: Arc::clone(&exchange.name),
            is_topic: exchange.kind == ExchangeKind::Topic,
            binding: binding.clone(),
        };
        found.extend(exchange.bindings.iter().filter(own).map(held));
    }
    found
}

#[cfg(test)]
mod tests {
    use auth::{Permission, Tags, TopicPermission};

    use super::*;

    #[test]
    fn only_a_password_and_permissions_are_a_change_and_only_where_they_are_other() {
        let mut before = User::new("u", None);
        before.permissions.insert("kept".into(), Permission::full());
        before.permissions.insert("gone".into(), Permission::full());
        before.permissions.insert("narrowed".into(), Permission::full());
        let mut after = before.clone();
        after.tags = Tags::new(["administrator"]);
        after.limits.connections = Some(1);
        assert!(ChangedRights::between(&before, &after).is_none());
        after.permissions.remove("gone");
        after.permissions.insert("narrowed".into(), Permission::new("", "", "").unwrap());
        after.permissions.insert("new".into(), Permission::full());
        let topic = TopicPermission::new("u", "topic", "", "").unwrap();
        after.topic_permissions.insert(("topic".into(), "amq.topic".into()), topic);
        let vhosts = |names: &[&str]| names.iter().map(|name| Box::from(*name)).collect();
        let change = ChangedRights { password: false, vhosts: vhosts(&["gone", "narrowed", "new", "topic"]) };
        assert_eq!(ChangedRights::between(&before, &after), change);
        let change = ChangedRights { password: false, vhosts: vhosts(&["gone", "narrowed", "new", "topic"]) };
        assert_eq!(ChangedRights::between(&after, &before), change);
    }
}
