//! The world rebuilt from the journal: what was declared, which entries are left, and how far deliveries may have gone.
//!
//! The log is read once, in order, into plain maps; only then is it decided what is alive, since a restated declaration
//! may stand behind what it declares. No message is read. References of an owner that is not declared are dead. A fact that can't be read
//! stops the start: a broker with half a catalog would lose what it routes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use journal::{Address, Chunk, Opened, Owner, PAGE, Replay};

use crate::catalog::arguments::QueueArguments;
use crate::catalog::{Catalog, Exchange, OWNERS_PER_VHOST, Vhost, binding_of};
use crate::core::Core;
use crate::encoding::Malformed;
use crate::error::Error;
use crate::queue::{Bound, Lane, Queue, QueueParts, Reason, reason_code};
use crate::routing::{Bindings, Destination};
use crate::store::facts::{self, ExchangeFact, QueueFact};
use crate::store::pages::Pages;

#[derive(Debug, Default)]
struct Entries {
    pages: Pages,
    next_seq: u64,
    mark: u64,
    returns: BTreeMap<u64, u32>,
    dying: BTreeMap<u64, u8>,
}

/// What is left of a queue once everything is read.
#[derive(Debug)]
struct Left {
    lane: Lane,
    mark: u64,
    dying: BTreeMap<u64, u8>,
}

/// What the journal said, so far.
#[derive(Debug, Default)]
pub(crate) struct Rebuilt {
    vhosts: BTreeMap<Owner, String>,
    exchanges: BTreeMap<Owner, ExchangeFact>,
    queues: BTreeMap<Owner, QueueFact>,
    bound: HashMap<Owner, Vec<Bound>>,
    entries: HashMap<Owner, Entries>,
    left: HashMap<Owner, Left>,
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

    /// Drops what belongs to nobody, decides what is left of each queue, and counts the entries that are left by the file
    /// that their bodies lie in.
    pub(crate) fn settle_pages(&mut self, opened: &Opened) -> Result<BTreeMap<u32, u64>, Error> {
        let mut live = BTreeMap::new();
        for (owner, entries) in std::mem::take(&mut self.entries) {
            let Some(queue) = self.queues.get(&owner) else { continue };
            let left = entries.pages.finish(entries.next_seq, opened).map_err(|error| {
                Error::internal(format!("what is left of queue '{}' can't be told: {error}", queue.name))
            })?;
            let chunked = left.chunked;
            let lane = Lane::recovered(left.pages, entries.next_seq.max(1), entries.mark, entries.returns, chunked);
            for (file, count) in lane.files() {
                *live.entry(file).or_default() += count;
            }
            self.left.insert(owner, Left { lane, mark: entries.mark, dying: entries.dying });
        }
        Ok(live)
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
            let position = self.left.get(id).map_or((1, 0), |left| (left.lane.next(), left.mark));
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
                next_seq: position.0,
                mark: position.1,
                now,
            }));
        }
        Ok(())
    }

    fn vhost(&self, catalog: &Catalog, id: Owner) -> Option<Arc<Vhost>> {
        catalog.vhost(self.vhosts.get(&id)?)
    }

    /// Binds, and puts the entries into their queues. Returns entries whose death was decided.
    pub(crate) fn fill(&mut self, core: &Core) -> Result<Vec<Decided>, Error> {
        let mut left = std::mem::take(&mut self.left);
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
                decided.extend(left.remove(&queue.id).map(|left| left.fill(core, queue)));
            }
        }
        core.catalog.changed();
        Ok(decided)
    }
}

impl Left {
    fn fill(self, core: &Core, queue: &Arc<Queue>) -> Decided {
        queue.lock(core).recover(self.lane);
        let reasons = [Reason::Rejected, Reason::Expired, Reason::MaxLength, Reason::DeliveryLimit];
        let dying = self
            .dying
            .iter()
            .filter_map(|(seq, code)| Some((*seq, *reasons.iter().find(|reason| reason_code(**reason) == *code)?)));
        Decided { queue: Arc::clone(queue), dying: dying.collect() }
    }
}

/// A recovered queue, and its entries whose death was decided before the stop.
pub(crate) struct Decided {
    pub(crate) queue: Arc<Queue>,
    pub(crate) dying: Vec<(u64, Reason)>,
}

impl Decided {
    /// Finds out where these entries lie, if only an index knows. The error is in words.
    pub(crate) fn place(&self, core: &Core) -> Result<(), String> {
        let pages: BTreeSet<_> = self.dying.iter().map(|(seq, _)| seq / PAGE).collect();
        for page in pages {
            core.place(&self.queue, page)?;
        }
        Ok(())
    }
}

impl Replay for Rebuilt {
    fn cold(&mut self, owner: Owner, page: u64, _: u64, chunk: Chunk) {
        if self.see(owner) {
            self.entries.entry(owner).or_default().pages.cold(page, chunk);
        }
    }

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
        entries.pages.reference(first_seq, bodies);
        entries.next_seq = entries.next_seq.max(first_seq + bodies.len() as u64);
        entries.mark = mark;
    }

    fn settled(&mut self, owner: Owner, _reason: u8, runs: &[(u64, u64)]) {
        if !self.see(owner) {
            return;
        }
        let entries = self.entries.entry(owner).or_default();
        for (first, count) in runs {
            entries.pages.settle(*first, *count);
            forget(&mut entries.returns, *first, *count);
            forget(&mut entries.dying, *first, *count);
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

/// Removes the keys of a run.
fn forget<T>(map: &mut BTreeMap<u64, T>, first: u64, count: u64) {
    let end = first.saturating_add(count);
    while let Some((key, _)) = map.range(first..end).next() {
        let key = *key;
        map.remove(&key);
    }
}
