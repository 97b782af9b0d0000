//! What the clients of a user have under way when its rights change: consumers, bindings of their
//! own queues, the connection.
//!
//! Operations are checked as they are asked for. What goes on by itself is held to the new rights
//! here, before the change is answered. Whoever begins such a thing at the same moment checks once
//! more when it has begun.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use auth::{Resource, Right, User};
use hashbrown::HashMap;

use crate::catalog::Vhost;
use crate::engine::Engine;
use crate::queue::{Queue, Visit};
use crate::routing::{Binding, Destination, ExchangeKind};
use crate::session::ClientShared;

/// Clients by their numbers.
type Clients = HashMap<u64, Arc<ClientShared>>;

/// Bindings that are looked at while a vhost is locked: a millisecond or so.
const LOOKED_AT_ONCE: usize = 10_000;

/// What is other about a user, of all that its clients have to be held to. Tags and limits count
/// when something is asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    password: bool,
    /// The vhosts in which it has other permissions.
    vhosts: BTreeSet<Box<str>>,
}

impl Change {
    pub(crate) fn between(before: &User, after: &User) -> Self {
        let mut vhosts: BTreeSet<_> = differing(&before.permissions, &after.permissions).cloned().collect();
        let topics = differing(&before.topic_permissions, &after.topic_permissions);
        vhosts.extend(topics.map(|(vhost, _)| vhost.clone()));
        Self { password: before.password != after.password, vhosts }
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

/// A binding with what else the right to it depends on.
struct Held {
    exchange: Arc<str>,
    is_topic: bool,
    binding: Binding,
}

impl Engine {
    /// Holds the clients of a user to what it may do now. Those that it could not log in as, or not
    /// to this vhost, are closed; consumers whose queues it must not read are cancelled, and
    /// bindings that it could not make now are taken from exclusive queues.
    pub(crate) fn hold_to_rights(&self, user: &str, change: &Change) {
        if change.is_none() {
            return;
        }
        let mut vhosts: HashMap<String, Clients> = HashMap::new();
        for client in self.clients_of(user) {
            if !self.authority.is_current(&client.identity) {
                client.kick(&format!("the password of user '{user}' has changed"));
                continue;
            }
            if !change.vhosts.contains(client.vhost.as_str()) {
                continue;
            }
            if self.authority.enter(&client.identity, &client.vhost).is_err() {
                client.kick(&format!("user '{user}' has no access to vhost '{}' any more", client.vhost));
            } else {
                vhosts.entry(client.vhost.clone()).or_default().insert(client.number, client);
            }
        }
        let mut work = Vec::new();
        for (name, clients) in vhosts {
            let Some(vhost) = self.catalog.vhost(&name) else { continue };
            self.sever(&vhost, &clients);
            let queues: Vec<_> = vhost.tables.read().queues().cloned().collect();
            let mut visit = Visit { context: self, now: self.clock.unix_ms(), work: &mut work };
            queues.iter().for_each(|queue| self.expel_unentitled(queue, &clients, &mut visit));
        }
        self.run_work(&mut work);
    }

    fn clients_of(&self, user: &str) -> Vec<Arc<ClientShared>> {
        self.clients.lock().values().filter(|client| client.user == user).cloned().collect()
    }

    /// Cancels the consumers that these clients, which are all of one user, have on a queue that it
    /// must not read.
    fn expel_unentitled(&self, queue: &Arc<Queue>, clients: &Clients, visit: &mut Visit<'_>) {
        let unentitled = OnceCell::new();
        let leaves = |client| {
            let Some(client) = clients.get(&client) else { return false };
            let asked = Resource::queue(&queue.name);
            let ask = || self.authority.authorize(&client.identity, &queue.vhost, asked, Right::Read).is_err();
            *unentitled.get_or_init(ask)
        };
        queue.expel(&leaves, visit);
    }

    /// Takes bindings that the user could not make now from the exclusive queues of its clients,
    /// and cancels the consumers of these: a subscription to a topic is such a queue. What others
    /// may use as well stays as it was declared.
    fn sever(&self, vhost: &Vhost, clients: &Clients) {
        let (own, exchanges) = {
            let tables = vhost.tables.read();
            let owner = |queue: &Queue| queue.exclusive_to.and_then(|owner| clients.get(&owner));
            let own: HashMap<u64, (Arc<Queue>, &ClientShared)> =
                tables.queues().filter_map(|queue| Some((queue.id, (Arc::clone(queue), &**owner(queue)?)))).collect();
            (own, tables.exchange_names())
        };
        let mut exchanges = exchanges.iter();
        let mut lost = Vec::new();
        while !own.is_empty() && !exchanges.as_slice().is_empty() {
            for held in some_bindings(vhost, &mut exchanges, &|queue| own.contains_key(&queue)) {
                let Destination::Queue(id) = held.binding.destination else { continue };
                let Some((queue, client)) = own.get(&id) else { continue };
                if !self.may_bind(client, &held, queue) {
                    lost.push((held.exchange, held.binding, Arc::clone(queue)));
                }
            }
        }
        self.unbind_lost(vhost, lost, &|client| clients.contains_key(&client));
    }

    /// Asks what declaring the binding asks.
    fn may_bind(&self, client: &ClientShared, held: &Held, queue: &Queue) -> bool {
        let (authority, identity, vhost, name) = (&self.authority, &client.identity, &client.vhost, &held.exchange);
        let is_open =
            !held.is_topic || authority.authorize_topic(identity, vhost, name, &held.binding.key, Right::Read).is_ok();
        let asked = [(Resource::queue(&queue.name), Right::Write), (Resource::exchange(name), Right::Read)];
        is_open && asked.into_iter().all(|(asked, right)| authority.authorize(identity, vhost, asked, right).is_ok())
    }

    /// Takes away these bindings of exclusive queues, and the consumers that their owners have
    /// there. The log knows nothing of such queues and their bindings.
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
            let Some(exchange) = tables.exchange_mut(&name) else { continue };
            if exchange.bindings.remove(&binding) && exchange.auto_delete && exchange.bindings.is_empty() {
                self.end_exchange(&mut tables, &name);
            }
            drop(tables);
            self.catalog.changed();
            queue.expel(owns, &mut visit);
        }
        self.run_work(&mut work);
    }
}

/// The bindings to some queues of so many of these exchanges as can be looked through at once. What
/// they need is asked without the lock.
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
        assert!(Change::between(&before, &after).is_none());
        after.permissions.remove("gone");
        after.permissions.insert("narrowed".into(), Permission::new("", "", "").unwrap());
        after.permissions.insert("new".into(), Permission::full());
        let topic = TopicPermission::new("u", "topic", "", "").unwrap();
        after.topic_permissions.insert(("topic".into(), "amq.topic".into()), topic);
        let vhosts = |names: &[&str]| names.iter().map(|name| Box::from(*name)).collect();
        let change = Change { password: false, vhosts: vhosts(&["gone", "narrowed", "new", "topic"]) };
        assert_eq!(Change::between(&before, &after), change);
        let change = Change { password: false, vhosts: vhosts(&["gone", "narrowed", "new", "topic"]) };
        assert_eq!(Change::between(&after, &before), change);
    }
}
