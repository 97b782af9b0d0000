//! The world rebuilt from the journal: what was declared, which entries are left, and how far deliveries may have gone.
//!
//! The log is read once, in order, into plain maps; only then is it decided what is alive, since a restated declaration
//! may stand behind what it declares. References of an owner that is not declared are dead. A fact that can't be read
//! stops the start: a broker with half a catalog would lose what it routes.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use journal::{Address, Opened, Owner, Replay};

use crate::catalog::arguments::QueueArguments;
use crate::catalog::{Catalog, Exchange, OWNERS_PER_VHOST, Vhost, binding_of};
use crate::core::Core;
use crate::encoding::Malformed;
use crate::error::Error;
use crate::message::Message;
use crate::queue::{Bound, Entry, Queue, QueueParts, Reason, State, reason_code};
use crate::routing::{Bindings, Destination};
use crate::store::facts::{self, ExchangeFact, QueueFact};

#[derive(Debug, Default)]
struct Entries {
    addresses: BTreeMap<u64, Address>,
    next_seq: u64,
    mark: u64,
    returns: HashMap<u64, u32>,
    dying: HashMap<u64, u8>,
}

/// What the journal said, so far.
#[derive(Debug, Default)]
pub(crate) struct Rebuilt {
    vhosts: BTreeMap<Owner, String>,
    exchanges: BTreeMap<Owner, ExchangeFact>,
    queues: BTreeMap<Owner, QueueFact>,
    bound: HashMap<Owner, Vec<Bound>>,
    entries: HashMap<Owner, Entries>,
    pub(crate) users: BTreeMap<Owner, Vec<u8>>,
    dropped: HashSet<Owner>,
    last_owner: Owner,
    damage: Option<String>,
}

impl Rebuilt {
    fn apply(&mut self, owner: Owner, kind: u8, bytes: &[u8]) -> Result<(), Malformed> {
        match kind {
            facts::VHOST => {
                self.vhosts.insert(owner, facts::read_name(bytes)?);
                self.last_owner = self.last_owner.max(owner + OWNERS_PER_VHOST - 1);
            }
            facts::EXCHANGE => {
                self.exchanges.insert(owner, facts::read_exchange(bytes)?);
            }
            facts::QUEUE => {
                self.queues.insert(owner, facts::read_queue(bytes)?);
            }
            facts::BIND | facts::UNBIND => {
                let bound = facts::read_binding(bytes)?;
                let list = self.bound.entry(owner).or_default();
                list.retain(|other| *other != bound);
                if kind == facts::BIND {
                    list.push(bound);
                }
            }
            facts::USER if bytes.is_empty() => {
                self.users.remove(&owner);
            }
            facts::USER => {
                self.users.insert(owner, bytes.to_vec());
            }
            _ => self.apply_to_entries(owner, kind, bytes)?,
        }
        Ok(())
    }

    fn apply_to_entries(&mut self, owner: Owner, kind: u8, bytes: &[u8]) -> Result<(), Malformed> {
        let entries = self.entries.entry(owner).or_default();
        let (first, second) = facts::read_pair(bytes)?;
        match kind {
            facts::POSITION => {
                entries.next_seq = entries.next_seq.max(first);
                entries.mark = second;
            }
            facts::RETURNS => {
                entries.returns.insert(first, u32::try_from(second).unwrap_or(u32::MAX));
            }
            facts::DYING => {
                entries.dying.insert(first, u8::try_from(second).unwrap_or(u8::MAX));
            }
            _ => {
                self.damage.get_or_insert_with(|| format!("a fact of kind {kind}, which this build does not know"));
            }
        }
        Ok(())
    }

    fn see(&mut self, owner: Owner) -> bool {
        self.last_owner = self.last_owner.max(owner);
        !self.dropped.contains(&owner)
    }

    /// The first owner that was never used.
    pub(crate) fn next_owner(&self) -> Owner {
        self.last_owner + 1
    }

    /// True when nothing was ever declared here.
    pub(crate) fn is_empty(&self) -> bool {
        self.vhosts.is_empty()
    }

    /// What keeps the broker from starting, if something does.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Drops what belongs to nobody, and lists the body of each entry that is left.
    pub(crate) fn live(&mut self) -> Vec<Address> {
        let queues = &self.queues;
        self.entries.retain(|owner, _| queues.contains_key(owner));
        self.entries.values().flat_map(|entries| entries.addresses.values().copied()).collect()
    }

    /// Reads the messages that are left.
    pub(crate) fn read_messages(&self, opened: &Opened) -> Result<Messages, Error> {
        let mut read: HashMap<Address, Message> = HashMap::new();
        for entries in self.entries.values() {
            for address in entries.addresses.values() {
                if read.contains_key(address) {
                    continue;
                }
                let block = opened.read(*address).map_err(|error| {
                    Error::internal(format!(
                        "the journal has lost a message that it should hold (file {}, offset {}): {error}",
                        address.file, address.offset
                    ))
                })?;
                read.insert(*address, Message::from_stored(block)?);
            }
        }
        Ok(read)
    }

    /// Declares everything in `catalog`. Bindings whose source is gone are dead.
    pub(crate) fn declare(&self, catalog: &Catalog, now: u64) -> Result<(), Error> {
        for (id, name) in &self.vhosts {
            catalog.insert_vhost(Arc::new(Vhost::new(*id, name)));
        }
        for (id, fact) in &self.exchanges {
            let Some(vhost) = self.vhost(catalog, fact.vhost) else { continue };
            catalog.admit_exchange(u64::MAX);
            vhost.tables.write().insert_exchange(Exchange {
                id: *id,
                name: fact.name.as_str().into(),
                kind: fact.kind,
                durable: true,
                auto_delete: fact.auto_delete,
                internal: fact.internal,
                arguments: fact.arguments.clone(),
                bindings: Bindings::new(fact.kind),
                bound: Vec::new(),
                predeclared: false,
            });
        }
        for (id, fact) in &self.queues {
            let Some(vhost) = self.vhost(catalog, fact.vhost) else { continue };
            let arguments = QueueArguments::parse(&fact.name, &vhost.name, &fact.arguments)?;
            let position = self.entries.get(id).map_or((1, 0), |entries| (entries.next_seq.max(1), entries.mark));
            catalog.admit_queue(u64::MAX);
            vhost.tables.write().insert_queue(Queue::new(QueueParts {
                id: *id,
                vhost: Arc::clone(&vhost.name),
                name: fact.name.as_str().into(),
                durable: true,
                exclusive_to: None,
                auto_delete: fact.auto_delete,
                arguments,
                declared: fact.arguments.clone(),
                // Entries are put in from the lowest; what lies above is reserved afterwards.
                next_seq: self.lowest(*id).unwrap_or(position.0),
                mark: position.1,
                now,
            }));
        }
        Ok(())
    }

    fn lowest(&self, owner: Owner) -> Option<u64> {
        self.entries.get(&owner)?.addresses.keys().next().copied()
    }

    fn vhost(&self, catalog: &Catalog, id: Owner) -> Option<Arc<Vhost>> {
        catalog.vhost(self.vhosts.get(&id)?)
    }

    /// Binds, and puts the entries into their queues. Returns entries whose death was decided.
    pub(crate) fn fill(&self, core: &Core, messages: &Messages) -> Result<Vec<Decided>, Error> {
        let mut decided = Vec::new();
        for vhost in core.catalog.vhosts() {
            let mut tables = vhost.tables.write();
            for (owner, list) in &self.bound {
                let queue = tables.queue_by_id(*owner).cloned();
                let destination = match queue {
                    Some(_) => Destination::Queue(*owner),
                    None if tables.exchange_by_id(*owner).is_some() => Destination::Exchange(*owner),
                    None => continue,
                };
                for bound in list {
                    let Some(source) = tables.exchange_by_id_mut(bound.exchange) else { continue };
                    source.bindings.insert(binding_of(destination, &bound.key, &bound.arguments))?;
                    match &queue {
                        Some(queue) => queue.lock(core).bindings.push(bound.clone()),
                        None => tables
                            .exchange_by_id_mut(*owner)
                            .into_iter()
                            .for_each(|exchange| exchange.bound.push(bound.clone())),
                    }
                }
            }
            for queue in tables.queues() {
                decided.extend(self.fill_queue(core, queue, messages));
            }
        }
        core.catalog.changed();
        Ok(decided)
    }

    fn fill_queue(&self, core: &Core, queue: &Arc<Queue>, messages: &Messages) -> Option<Decided> {
        let entries = self.entries.get(&queue.id)?;
        let mut inner = queue.lock(core);
        for (seq, address) in &entries.addresses {
            let Some(message) = messages.get(address).cloned() else { continue };
            let ttl = [message.expiration(), queue.arguments.message_ttl].into_iter().flatten().min();
            let expires_at = ttl.map_or(u64::MAX, |ttl| message.published_at().saturating_add(ttl));
            inner.restore(
                *seq,
                Entry {
                    message: Some(message),
                    address: Some(*address),
                    expires_at,
                    returns: entries.returns.get(seq).copied().unwrap_or(0),
                    redelivered: *seq < entries.mark,
                    state: State::Ready,
                },
            );
        }
        inner.reserve(entries.next_seq);
        drop(inner);
        let reasons = [Reason::Rejected, Reason::Expired, Reason::MaxLength, Reason::DeliveryLimit];
        let dying: Vec<_> = entries
            .dying
            .iter()
            .filter_map(|(seq, code)| Some((*seq, *reasons.iter().find(|reason| reason_code(**reason) == *code)?)))
            .collect();
        Some(Decided { queue: Arc::clone(queue), dying })
    }
}

/// Messages by where they lie.
pub(crate) type Messages = HashMap<Address, Message>;

/// A recovered queue, and its entries whose death was decided before the stop.
pub(crate) struct Decided {
    pub(crate) queue: Arc<Queue>,
    pub(crate) dying: Vec<(u64, Reason)>,
}

impl Replay for Rebuilt {
    fn fact(&mut self, owner: Owner, kind: u8, bytes: &[u8]) {
        if self.see(owner)
            && let Err(error) = self.apply(owner, kind, bytes)
        {
            self.damage.get_or_insert_with(|| {
                format!("a fact of kind {kind} about owner {owner} can't be read at byte {}: {}", error.at, error.what)
            });
        }
    }

    fn reference(&mut self, owner: Owner, first_seq: u64, mark: u64, bodies: &[Address]) {
        if !self.see(owner) {
            return;
        }
        let entries = self.entries.entry(owner).or_default();
        for (seq, address) in (first_seq..).zip(bodies) {
            entries.addresses.insert(seq, *address);
        }
        entries.next_seq = entries.next_seq.max(first_seq + bodies.len() as u64);
        entries.mark = mark;
    }

    fn settled(&mut self, owner: Owner, _reason: u8, runs: &[(u64, u64)]) {
        if !self.see(owner) {
            return;
        }
        let entries = self.entries.entry(owner).or_default();
        for (first, count) in runs {
            for seq in *first..first.saturating_add(*count) {
                entries.addresses.remove(&seq);
                entries.returns.remove(&seq);
                entries.dying.remove(&seq);
            }
        }
    }

    fn dropped(&mut self, owner: Owner) {
        self.see(owner);
        self.dropped.insert(owner);
        self.exchanges.remove(&owner);
        self.queues.remove(&owner);
        self.bound.remove(&owner);
        self.entries.remove(&owner);
        self.users.remove(&owner);
    }

    fn burnt(&mut self, owner: Owner, first_seq: u64, count: u64) {
        if self.see(owner) {
            let entries = self.entries.entry(owner).or_default();
            entries.next_seq = entries.next_seq.max(first_seq.saturating_add(count));
        }
    }
}
