//! What the clients of a user have under way when its rights change: consumers, bindings of their own queues, the connection.
//!
//! Operations are checked as they are asked for. What goes on by itself is held to the new rights here, before the change
//! is answered. Whoever begins such a thing at the same moment checks once more when it has begun.

use std::cell::OnceCell;
use std::sync::Arc;

use auth::{Resource, Right};
use hashbrown::HashMap;

use crate::catalog::{Exchange, Vhost};
use crate::core::Core;
use crate::queue::{Queue, Visit};
use crate::routing::{Binding, Destination, ExchangeKind};
use crate::session::ClientShared;

/// Clients by their numbers.
type Clients = HashMap<u64, Arc<ClientShared>>;

impl Core {
    /// Holds the clients of a user to what it may do now. Those that it could not log in as, or not to this vhost, are closed;
    /// consumers whose queues it must not read are cancelled, and bindings that it could not make now are taken from exclusive queues.
    pub(crate) fn hold_to_rights(&self, user: &str) {
        let mut vhosts: HashMap<String, Clients> = HashMap::new();
        for client in self.clients_of(user) {
            if !self.authority.is_current(&client.identity) {
                client.kick(&format!("the password of user '{user}' has changed"));
            } else if self.authority.enter(&client.identity, &client.vhost).is_err() {
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
            let mut visit = Visit { core: self, now: self.clock.unix_ms(), work: &mut work };
            queues.iter().for_each(|queue| self.expel_unentitled(queue, &clients, &mut visit));
        }
        self.run_work(&mut work);
    }

    fn clients_of(&self, user: &str) -> Vec<Arc<ClientShared>> {
        self.clients.lock().values().filter(|client| client.user == user).cloned().collect()
    }

    /// Cancels the consumers that these clients, which are all of one user, have on a queue that it must not read.
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

    /// Takes bindings that the user could not make now from the exclusive queues of its clients, and cancels the consumers of
    /// these: a subscription to a topic is such a queue. What others may use as well stays as it was declared.
    fn sever(&self, vhost: &Vhost, clients: &Clients) {
        let owner = |queue: &Queue| queue.exclusive_to.and_then(|owner| clients.get(&owner));
        let mut lost = Vec::new();
        {
            let tables = vhost.tables.read();
            let own: HashMap<u64, (Arc<Queue>, &ClientShared)> =
                tables.queues().filter_map(|queue| Some((queue.id, (Arc::clone(queue), &**owner(queue)?)))).collect();
            if own.is_empty() {
                return;
            }
            for exchange in tables.exchanges() {
                for binding in exchange.bindings.iter() {
                    let Destination::Queue(id) = binding.destination else { continue };
                    let Some((queue, client)) = own.get(&id) else { continue };
                    if !self.may_bind(client, exchange, binding, queue) {
                        lost.push((Arc::clone(&exchange.name), binding.clone(), Arc::clone(queue)));
                    }
                }
            }
        }
        self.unbind_lost(vhost, lost, &|client| clients.contains_key(&client));
    }

    /// Asks what declaring the binding asks.
    fn may_bind(&self, client: &ClientShared, exchange: &Exchange, binding: &Binding, queue: &Queue) -> bool {
        let (authority, identity, vhost, name) = (&self.authority, &client.identity, &client.vhost, &exchange.name);
        let is_open = exchange.kind != ExchangeKind::Topic
            || authority.authorize_topic(identity, vhost, name, &binding.key, Right::Read).is_ok();
        let asked = [(Resource::queue(&queue.name), Right::Write), (Resource::exchange(name), Right::Read)];
        is_open && asked.into_iter().all(|(asked, right)| authority.authorize(identity, vhost, asked, right).is_ok())
    }

    /// Takes away these bindings of exclusive queues, and the consumers that their owners have there. The log knows nothing of such
    /// queues and their bindings.
    pub(crate) fn unbind_lost(
        &self,
        vhost: &Vhost,
        lost: Vec<(Arc<str>, Binding, Arc<Queue>)>,
        owns: &dyn Fn(u64) -> bool,
    ) {
        let mut work = Vec::new();
        let mut visit = Visit { core: self, now: self.clock.unix_ms(), work: &mut work };
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
