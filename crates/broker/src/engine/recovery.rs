//! The broker's state rebuilt from the journal: the declarations, the remaining entries, and how
//! far deliveries may have gone.
//!
//! The log is read once, in order, into plain maps. Only then is it decided what is alive, since a
//! restated declaration may come after records that need it. No message is read. References of an
//! undeclared owner are dead. An unreadable fact stops the start: a broker with half a catalog
//! would lose the messages that it routes.
//!
//! The same maps may go on to take records one by one (`following.rs`), and become a broker later.

mod following;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use auth::{Authority, AuthoritySettings};
use hashbrown::{HashMap, HashSet};
use journal::{Address, Chunk, Owner, PAGE, Replay};

use crate::arguments::{ExchangeArguments, QueueArguments};
use crate::catalog::change::{Change, NewExchange, NewQueue};
use crate::catalog::definitions;
use crate::catalog::definitions::{DefinitionKey, Sort};
use crate::catalog::facts as catalog_facts;
use crate::catalog::retained::{RetainedFact, read_retained};
use crate::catalog::shovels::Shovel;
use crate::catalog::subscriptions::{Subscription, SubscriptionFact};
use crate::catalog::system::{System, SystemChange, read_system_change};
use crate::catalog::tasks::Task;
use crate::catalog::wills::{WillFact, WillKept};
use crate::catalog::{Catalog, Exchange, Tables, Vhost, binding_of};
use crate::encoding::Malformed;
use crate::engine::Engine;
use crate::engine::open_error::OpenError;
use crate::engine::pages::{Pages, ReadChunk, UnreadableEntries};
use crate::error::Error;
use crate::memory::ledger::Declared;
use crate::queue::facts as queue_facts;
use crate::queue::{
    Bound, EntryAnnotations, ExactlyOnce, Lanes, LastValues, Position, Positions, Queue, Reason, Recovered, Returns,
    SeenIds, Span, reason_code,
};
use crate::routing::{Destination, Tally, Weight};
use crate::settings::UnknownArguments;
use crate::store::facts::{self, ExchangeFact, QueueFact};
use crate::store::owners::OwnerNumbers;
use crate::store::runs::read_valued;
use crate::value::Table;

#[derive(Debug, Default)]
struct Entries {
    pages: Pages,
    positions: Positions,
    returns: BTreeMap<u64, Returns>,
    dying: BTreeMap<u64, u8>,
    /// The due times of entries that came back.
    waiting: BTreeMap<u64, u64>,
    seen: SeenIds,
    latest: LastValues,
    annotations: EntryAnnotations,
    exactly_once: ExactlyOnce,
}

impl Entries {
    fn returned(&mut self, seq: u64, returns: u64) {
        self.returns.entry(seq).or_default().take_in(returns);
    }

    fn decided(&mut self, seq: u64, reason: u64) {
        self.dying.insert(seq, u8::try_from(reason).unwrap_or(u8::MAX));
    }
}

/// The remaining entries of a queue, after the whole log.
#[derive(Debug)]
struct Left {
    lanes: Lanes,
    dying: BTreeMap<u64, u8>,
    waiting: BTreeMap<u64, u64>,
    seen: SeenIds,
    latest: LastValues,
    annotations: EntryAnnotations,
    exactly_once: ExactlyOnce,
}

/// Messages that are kept outside of queues.
#[derive(Debug, Default)]
struct KeptMessages {
    /// The values of topics: by their bundles, then by their places.
    retained: BTreeMap<Owner, BTreeMap<u32, RetainedFact>>,
    wills: BTreeMap<Owner, WillFact>,
}

/// The owners that belong to a queue.
#[derive(Debug, Default)]
struct OfQueues {
    /// The queue and the span of each bucket.
    buckets: BTreeMap<Owner, (Owner, Span)>,
    /// The queue of each bundle of ids or keys.
    bundles: HashMap<Owner, Owner>,
}

/// What was dropped.
#[derive(Debug, Default)]
struct Ended {
    owners: HashSet<Owner>,
    /// There was something, though it may not be among the owners any more.
    any: bool,
}

/// The records of the journal, so far.
#[derive(Debug, Default)]
pub(crate) struct Rebuilt {
    exchanges: BTreeMap<Owner, ExchangeFact>,
    queues: BTreeMap<Owner, QueueFact>,
    of_queues: OfQueues,
    bound: HashMap<Owner, Vec<Bound>>,
    /// By their queues.
    subscriptions: HashMap<Owner, SubscriptionFact>,
    entries: HashMap<Owner, Entries>,
    left: HashMap<Owner, Left>,
    messages: KeptMessages,
    /// Policies, tasks and shovels.
    definitions: BTreeMap<Owner, (DefinitionKey, Table)>,
    /// Damaged segments, with a description of each damage.
    pub(crate) lost_segments: BTreeMap<u32, String>,
    /// Queues with unreadable entries.
    pub(crate) lost: BTreeMap<Owner, UnreadableEntries>,
    /// What each user had declared.
    declared: HashMap<Box<str>, Declared>,
    ended: Ended,
    owners: OwnerNumbers,
    damage: Option<String>,
}

/// The state that the log leaves: the system as in a live broker, and of all else what the records
/// say.
pub(crate) struct Replayed {
    pub(crate) system: System,
    pub(crate) catalog: Catalog,
    pub(crate) authority: Arc<Authority>,
    pub(crate) rebuilt: Rebuilt,
}

impl Replayed {
    /// The state before any record. `authority` knows no user yet.
    pub(crate) fn new(authority: Arc<Authority>) -> Self {
        let (system, catalog, rebuilt) = (System::default(), Catalog::default(), Rebuilt::default());
        Self { system, catalog, authority, rebuilt }
    }

    /// The state before any record.
    ///
    /// # Errors
    /// For settings that can't be used.
    pub(crate) fn with(authority: AuthoritySettings) -> Result<Self, OpenError> {
        let authority = Authority::new(authority).map_err(|error| OpenError::DefaultUser(error.to_string()))?;
        Ok(Self::new(Arc::new(authority)))
    }

    /// Decides what is alive, and declares it. Counts the entries by the file of their bodies.
    ///
    /// # Errors
    /// For a fact that can't be read, and a declaration that can't be taken.
    pub(crate) fn declare(&mut self, read: &ReadChunk<'_>, now: u64) -> Result<BTreeMap<u32, u64>, OpenError> {
        if let Some(damage) = self.rebuilt.damage() {
            return Err(OpenError::Damaged(damage.to_owned()));
        }
        let live = self.rebuilt.settle_pages(&self.system, read);
        self.rebuilt.declare(&self.catalog, &self.system, now)?;
        Ok(live)
    }
}

impl Rebuilt {
    fn apply(&mut self, owner: Owner, kind: u8, bytes: &[u8]) -> Result<(), Malformed> {
        match kind {
            facts::EXCHANGE => {
                self.exchanges.insert(owner, facts::read_exchange(bytes)?);
            }
            facts::QUEUE => {
                self.queues.insert(owner, facts::read_queue(bytes)?);
            }
            facts::BUCKET => {
                self.of_queues.buckets.insert(owner, queue_facts::read_bucket(bytes)?);
            }
            facts::BIND | facts::UNBIND => {
                let bound = queue_facts::read_binding(bytes)?;
                let list = self.bound.entry(owner).or_default();
                list.retain(|other| *other != bound);
                if kind == facts::BIND {
                    list.push(bound);
                }
            }
            facts::SUBSCRIPTION => {
                self.subscriptions.insert(owner, SubscriptionFact::read(bytes)?);
            }
            facts::RETAINED => {
                let (place, value) = read_retained(bytes)?;
                let bundle = self.messages.retained.entry(owner).or_default();
                match value {
                    Some(value) => drop(bundle.insert(place, value)),
                    None => drop(bundle.remove(&place)),
                }
            }
            facts::WILL => {
                self.messages.wills.insert(owner, WillFact::read(bytes)?);
            }
            facts::DEFINITION => {
                let (key, value) = definitions::read_definition(bytes)?;
                self.definitions.insert(owner, (key, value));
            }
            facts::SEEN => {
                let fact = queue_facts::read_seen(bytes)?;
                self.of_queues.bundles.insert(owner, fact.queue);
                let seen = &mut self.entries.entry(fact.queue).or_default().seen;
                fact.ids.into_iter().for_each(|(place, kept)| seen.recover(owner, fact.scope, place, kept));
            }
            facts::KEYED => {
                let (queue, keys) = queue_facts::read_keyed(bytes)?;
                self.of_queues.bundles.insert(owner, queue);
                let latest = &mut self.entries.entry(queue).or_default().latest;
                keys.into_iter().for_each(|(place, keyed)| latest.recover(owner, place, keyed));
            }
            _ => self.apply_to_entries(owner, kind, bytes)?,
        }
        Ok(())
    }

    fn apply_to_entries(&mut self, owner: Owner, kind: u8, bytes: &[u8]) -> Result<(), Malformed> {
        let entries = self.entries.entry(owner).or_default();
        match kind {
            facts::ACCOUNTED => {
                let (next, pages) = facts::read_accounted(bytes)?;
                entries.pages.state(next, &pages);
            }
            facts::POSITION => {
                let (next, mark) = facts::read_pair(bytes)?;
                let position = entries.positions.of_mut(next);
                *position = Position { next: position.next.max(next), mark };
            }
            facts::RETURNS => {
                let (seq, returns) = facts::read_pair(bytes)?;
                entries.returned(seq, returns);
            }
            facts::RETURNS_RUNS => {
                let said = read_valued(bytes)?;
                said.entries().for_each(|seq| entries.returned(seq, said.value));
            }
            facts::RETRY => {
                let (seq, due) = facts::read_pair(bytes)?;
                entries.waiting.insert(seq, due);
            }
            facts::ANNOTATIONS => {
                let (seq, annotations) = queue_facts::read_annotations(bytes)?;
                entries.annotations.set(seq, annotations);
            }
            facts::EXACTLY_ONCE => entries.exactly_once.recover(bytes)?,
            facts::DYING => {
                let (seq, reason) = facts::read_pair(bytes)?;
                entries.decided(seq, reason);
            }
            facts::DYING_RUNS => {
                let said = read_valued(bytes)?;
                said.entries().for_each(|seq| entries.decided(seq, said.value));
            }
            _ => {
                self.damage.get_or_insert_with(|| format!("a fact of kind {kind}, which this build does not know"));
            }
        }
        Ok(())
    }

    fn see(&mut self, owner: Owner) -> bool {
        self.owners.see(owner);
        !self.ended.owners.contains(&owner)
    }

    /// Moves the numbers over that were used.
    pub(crate) fn take_owners(&mut self) -> OwnerNumbers {
        std::mem::take(&mut self.owners)
    }

    /// True when nothing has ever ended here.
    pub(crate) fn is_fresh(&self) -> bool {
        self.ended.owners.is_empty() && !self.ended.any
    }

    /// Forgets everything in a vhost that is gone: the end of a vhost is one record, which ends all
    /// in it.
    fn end_with_vhosts(&mut self, system: &System) {
        self.exchanges.retain(|_, fact| system.vhost(fact.vhost).is_some());
        self.queues.retain(|_, fact| system.vhost(fact.vhost).is_some());
        self.definitions.retain(|_, (key, _)| system.vhost(key.vhost).is_some());
    }

    /// The reason why the broker can't start, if there is one.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Drops records without an owner, decides which entries of each queue remain, and counts these
    /// by the file of their bodies.
    pub(crate) fn settle_pages(&mut self, system: &System, read: &ReadChunk<'_>) -> BTreeMap<u32, u64> {
        self.end_with_vhosts(system);
        let mut live = BTreeMap::new();
        for (owner, entries) in std::mem::take(&mut self.entries) {
            let queue = self.of_queues.buckets.get(&owner).map_or(owner, |(queue, _)| *queue);
            if !self.queues.contains_key(&queue) {
                continue;
            }
            let damaged = |segment| self.lost_segments.contains_key(&segment);
            let next = |page| entries.positions.next_of_page(page);
            let left = entries.pages.finish(&next, read, &damaged);
            if !left.lost.is_none() {
                self.lost.insert(queue, left.lost);
            }
            let lanes = Lanes::recovered(left.pages, entries.positions, entries.returns, left.indexed);
            for (file, count) in lanes.files() {
                *live.entry(file).or_default() += count;
            }
            let Entries { dying, waiting, seen, latest, annotations, exactly_once, .. } = entries;
            self.left.insert(owner, Left { lanes, dying, waiting, seen, latest, annotations, exactly_once });
        }
        live
    }

    /// Every queue: its owner, vhost and name, and the number of its remaining entries.
    pub(crate) fn queue_counts(&self, system: &System) -> impl Iterator<Item = (Owner, String, String, u64)> {
        self.queues.iter().map(|(owner, fact)| {
            let vhost = system.vhost(fact.vhost).map(ToString::to_string).unwrap_or_default();
            let buckets =
                self.of_queues.buckets.iter().filter(|(_, (queue, _))| queue == owner).map(|(bucket, _)| bucket);
            let left = std::iter::once(owner).chain(buckets).filter_map(|owner| self.left.get(owner));
            let entries = left.map(|left| left.lanes.live() as u64).sum();
            (*owner, vhost, fact.name.clone(), entries)
        })
    }

    /// Descriptions of the lost entries of queues.
    pub(crate) fn losses(&self) -> HashMap<Owner, String> {
        self.lost.iter().map(|(owner, lost)| (*owner, lost.to_string())).collect()
    }

    /// The report of a start with damaged segments, a line for each file and each queue.
    pub(crate) fn news(&self, system: &System) -> Vec<String> {
        let segments = self.lost_segments.values().map(|what| {
            let meaning = if self.lost.is_empty() {
                "no queue misses anything in it, and it may be removed while the broker is stopped"
            } else {
                "its files are kept; restore them from a copy of this very moment, or see hermod repair"
            };
            format!("{what}; {meaning}")
        });
        let queues = self.lost.iter().filter_map(|(owner, lost)| {
            let QueueFact { vhost, name, .. } = self.queues.get(owner)?;
            let vhost = system.vhost(*vhost)?;
            Some(format!(
                "queue '{name}' in vhost '{vhost}': {lost}; it delivers what comes before and stops there, and all other \
                 queues go on; hermod repair '{name}' --vhost '{vhost}' says what can't be read"
            ))
        });
        segments.chain(queues).collect()
    }

    /// Declares everything in `catalog`, by the changes that made it. Bindings whose source is gone
    /// are dead.
    pub(crate) fn declare(&mut self, catalog: &Catalog, system: &System, now: u64) -> Result<(), Error> {
        let (exchanges, queues) = (std::mem::take(&mut self.exchanges), self.queues.clone());
        let vhost = |id| system.vhost(id).and_then(|name| catalog.vhost(name));
        // First, since what is declared is built with them.
        for (id, (key, fields)) in std::mem::take(&mut self.definitions) {
            let Some(vhost) = vhost(key.vhost) else { continue };
            if key.sort == Sort::Shovel {
                let shovel = Shovel::read(id, &key, &fields).ok_or_else(|| {
                    Error::internal(format!("the shovel '{}' of vhost '{}' can't be read", key.name, vhost.name))
                })?;
                vhost.tables.write().apply(Change::Shovel(Arc::new(shovel)));
                continue;
            }
            let Some(kind) = key.sort.policy() else {
                let task = Task::read(id, key.vhost, &fields).ok_or_else(|| {
                    Error::internal(format!("the task '{}' of vhost '{}' can't be read", key.name, vhost.name))
                })?;
                vhost.tables.write().apply(Change::Task(Arc::new(task)));
                continue;
            };
            let policy = catalog_facts::read_policy(id, kind, &key.name, &fields).ok_or_else(|| {
                let (kind, name, vhost) = (kind.name(), &key.name, &vhost.name);
                Error::internal(format!("the {kind} '{name}' of vhost '{vhost}' can't be read"))
            })?;
            vhost.tables.write().apply(Change::Policy(kind, Box::new(policy)));
        }
        for (id, fact) in exchanges {
            let Some(vhost) = vhost(fact.vhost) else { continue };
            let stored = UnknownArguments::Accept;
            let parsed = ExchangeArguments::parse(fact.kind, &fact.name, &vhost.name, &fact.arguments, stored)?;
            catalog.admit_exchange(u64::MAX);
            let tally = self.tally_of(&vhost, fact.declared_by.as_deref());
            let exchange = Exchange::new(NewExchange { id, fact, durable: true, parsed }, &tally);
            vhost.tables.write().apply(Change::Exchange(Box::new(exchange)));
        }
        for (id, fact) in queues {
            let Some(vhost) = vhost(fact.vhost) else { continue };
            let queue_type = QueueArguments::parse_stored(&fact.name, &vhost.name, &fact.arguments)?.queue_type;
            catalog.admit_queue(u64::MAX);
            let tally = self.tally_of(&vhost, fact.declared_by.as_deref());
            let mut tables = vhost.tables.write();
            let new = NewQueue { id, fact, durable: true, exclusive_to: None, queue_type, now };
            let queue = vhost.new_queue(&tables, new, &tally)?;
            tables.apply(Change::Queue(queue));
            if let Some(fact) = self.subscriptions.remove(&id) {
                let load = fact.load();
                tables.apply(Change::Subscription(Subscription::new(id, fact, load, &tally)));
            }
        }
        for vhost in catalog.vhosts() {
            self.bind(&mut vhost.tables.write())?;
        }
        self.retain(catalog);
        for (id, fact) in std::mem::take(&mut self.messages.wills) {
            let Some(vhost) = vhost(fact.vhost) else { continue };
            let weight = Weight::new(&self.tally_of(&vhost, Some(&fact.key.user)), fact.load());
            vhost.wills.lock().put(id, fact, weight, WillKept::Log);
        }
        Ok(())
    }

    /// Counts what this user had declared in a vhost.
    fn tally_of(&mut self, vhost: &Vhost, declared_by: Option<&str>) -> Tally {
        let payer = declared_by.map(|user| self.declared_by(user));
        vhost.bindings.paid_by_any(payer.as_ref())
    }

    /// What this user had declared.
    fn declared_by(&mut self, user: &str) -> Declared {
        self.declared.entry(user.into()).or_insert_with(|| Declared::by(user)).clone()
    }

    /// What each user had declared.
    pub(crate) fn take_declared(&mut self) -> impl Iterator<Item = Declared> + use<> {
        std::mem::take(&mut self.declared).into_values()
    }

    /// Gives each vhost its retained messages. Those of an exchange that is gone are dead.
    fn retain(&mut self, catalog: &Catalog) {
        let vhosts = catalog.vhosts();
        let ids = |vhost: &Arc<Vhost>| vhost.tables.read().exchanges().map(|exchange| exchange.id).collect::<Vec<_>>();
        let of_exchanges: HashMap<Owner, &Arc<Vhost>> =
            vhosts.iter().flat_map(|vhost| ids(vhost).into_iter().map(move |id| (id, vhost))).collect();
        for (bundle, mut values) in std::mem::take(&mut self.messages.retained) {
            values.retain(|_, fact| of_exchanges.contains_key(&fact.exchange));
            let first = values.first_key_value().and_then(|(_, fact)| of_exchanges.get(&fact.exchange));
            if let Some(vhost) = first {
                let paid = |(place, fact): (u32, RetainedFact)| {
                    let paid = fact.set_by.as_deref().map_or_else(Declared::default, |user| self.declared_by(user));
                    (place, fact, paid)
                };
                let values = values.into_iter().map(paid).collect();
                vhost.retained.lock().recover(bundle, values);
            }
        }
    }

    /// Binds the queues and exchanges of a vhost. A binding counts for the user whose queue or
    /// exchange it leads to.
    fn bind(&mut self, tables: &mut Tables) -> Result<(), Error> {
        let destination = |tables: &Tables, owner| match tables.queue_by_id(owner) {
            Some(_) => Some(Destination::Queue(owner)),
            None => tables.exchange_by_id(owner).map(|_| Destination::Exchange(owner)),
        };
        let here = self.bound.extract_if(|owner, _| destination(tables, *owner).is_some());
        for (owner, list) in here.collect::<Vec<_>>() {
            let Some(destination) = destination(tables, owner) else { continue };
            let payer = match tables.queue_by_id(owner) {
                Some(queue) => queue.payer(),
                None => tables.exchange_by_id(owner).and_then(|exchange| exchange.weight.payer().cloned()),
            };
            for bound in list {
                let Some(source) = tables.exchange_by_id(bound.exchange) else { continue };
                let binding = binding_of(destination, Arc::clone(&bound.key), &bound.arguments);
                if let Some(admitted) = source.bindings.admit(binding, u64::MAX)? {
                    let admitted = match &payer {
                        Some(payer) => admitted.paid_by(payer),
                        None => admitted,
                    };
                    tables.apply(Change::Bind(bound, admitted));
                }
            }
        }
        Ok(())
    }

    /// Puts the entries into their queues. Returns the entries with decided deaths or returns that
    /// wait.
    pub(crate) fn fill(&mut self, engine: &Engine) -> Vec<Decided> {
        let mut left = std::mem::take(&mut self.left);
        let mut decided = Vec::new();
        for vhost in engine.catalog.vhosts() {
            let tables = vhost.tables.read();
            for queue in tables.queues() {
                decided.extend(left.remove(&queue.id).map(|left| left.fill(engine, &tables, queue)));
            }
        }
        self.fill_buckets(engine, &mut left);
        engine.catalog.changed();
        decided
    }

    /// Makes the buckets of queues that are there. The pager moves the messages that are due by
    /// now.
    fn fill_buckets(&self, engine: &Engine, left: &mut HashMap<Owner, Left>) {
        let now = engine.clock.unix_ms();
        for (owner, (of, span)) in &self.of_queues.buckets {
            for vhost in engine.catalog.vhosts() {
                let mut tables = vhost.tables.write();
                let Some(queue) = tables.queue_by_id(*of).cloned() else { continue };
                let bucket = engine.new_bucket(&queue, *owner, *span, now);
                if let Some(left) = left.remove(owner) {
                    bucket.recover_delayed(left.lanes, engine);
                }
                queue.delays.lock().buckets.insert(*span, Arc::clone(&bucket));
                tables.insert_bucket(bucket);
            }
        }
    }
}

impl Left {
    fn fill(mut self, engine: &Engine, tables: &Tables, queue: &Arc<Queue>) -> Decided {
        queue.lock(engine).recover(self.lanes);
        queue.recover_annotations(self.annotations, engine);
        queue.recover_exactly_once(self.exactly_once, engine);
        if !self.seen.is_empty() {
            queue.recover_seen(self.seen, &|exchange| tables.exchange_by_id(exchange).is_some(), engine);
        }
        let reasons = [Reason::Rejected, Reason::Expired, Reason::MaxLength, Reason::DeliveryLimit];
        let dying = self
            .dying
            .iter()
            .filter_map(|(seq, code)| Some((*seq, *reasons.iter().find(|reason| reason_code(**reason) == *code)?)));
        let dying: Vec<_> = dying.collect();
        // An entry whose death is decided is no last value, as before the stop.
        dying.iter().for_each(|(seq, _)| self.latest.left(*seq));
        let keyed = queue.recover_latest(self.latest, engine);
        let now = engine.clock.unix_ms();
        let waiting = self.waiting.into_iter().filter(|(_, due)| *due > now).collect();
        Decided { queue: Arc::clone(queue), dying, waiting, keyed }
    }
}

/// A recovered queue, its entries whose death was decided before the stop, and those that wait
/// after a return.
pub(crate) struct Decided {
    pub(crate) queue: Arc<Queue>,
    pub(crate) dying: Vec<(u64, Reason)>,
    /// Each with its due time.
    pub(crate) waiting: Vec<(u64, u64)>,
    /// Its entries with keys.
    pub(crate) keyed: Recovered,
}

impl Decided {
    /// Finds the places of these entries, if only an index knows them. Damage is reported, and
    /// stops its queue when its turn comes. Decided entries of a damaged page are left as they are.
    pub(crate) fn place(&self, engine: &Engine) {
        let numbers = self.dying.iter().map(|(seq, _)| seq).chain(self.waiting.iter().map(|(seq, _)| seq));
        let pages: BTreeSet<_> = numbers.map(|seq| seq / PAGE).collect();
        for page in pages {
            if let Err(damage) = engine.place(&self.queue, page) {
                engine.pager.tell(damage);
            }
        }
        for page in &self.keyed.pages {
            // Damage is reported when the turn of the page comes, since no death was decided here.
            let _ = engine.place(&self.queue, *page);
        }
    }
}

impl Replay for Replayed {
    fn cold(&mut self, owner: Owner, page: u64, _: u64, chunk: Chunk) {
        if self.rebuilt.see(owner) {
            let entries = self.rebuilt.entries.entry(owner).or_default();
            // This makes the lane known.
            entries.positions.of_mut(page * PAGE);
            entries.pages.cold(page, chunk);
        }
    }

    fn fact(&mut self, owner: Owner, kind: u8, bytes: &[u8]) {
        if !self.rebuilt.see(owner) {
            return;
        }
        let applied = match read_system_change(owner, kind, bytes) {
            Ok(None) => self.rebuilt.apply(owner, kind, bytes).map_err(|error| {
                format!("a fact of kind {kind} about owner {owner} can't be read at byte {}: {}", error.at, error.what)
            }),
            Ok(Some(change)) => {
                self.rebuilt.owners.see(change.last_owner());
                self.system.apply(change, &self.catalog, &self.authority);
                Ok(())
            }
            Err(damage) => Err(damage),
        };
        if let Err(damage) = applied {
            self.rebuilt.damage.get_or_insert(damage);
        }
    }

    fn reference(&mut self, owner: Owner, first_seq: u64, mark: u64, bodies: &[Address]) {
        if !self.rebuilt.see(owner) {
            return;
        }
        let entries = self.rebuilt.entries.entry(owner).or_default();
        entries.pages.reference(first_seq, bodies);
        let position = entries.positions.of_mut(first_seq);
        let end = first_seq + bodies.len() as u64;
        // One of a group is told of late, when later ones have moved the mark further.
        let mark = if end <= position.next { position.mark.max(mark) } else { mark };
        *position = Position { next: position.next.max(end), mark };
    }

    fn settled(&mut self, owner: Owner, _reason: u8, runs: &[(u64, u64)]) {
        if !self.rebuilt.see(owner) {
            return;
        }
        let entries = self.rebuilt.entries.entry(owner).or_default();
        for (first, count) in runs {
            entries.pages.settle(*first, *count);
            forget(&mut entries.returns, *first, *count);
            forget(&mut entries.dying, *first, *count);
            forget(&mut entries.waiting, *first, *count);
            entries.latest.left_in_run(*first, *count);
            entries.annotations.left_in_run(*first, *count);
        }
    }

    fn dropped(&mut self, owner: Owner) {
        self.rebuilt.see(owner);
        self.rebuilt.ended.owners.insert(owner);
        self.system.apply(SystemChange::End { id: owner }, &self.catalog, &self.authority);
        self.rebuilt.definitions.remove(&owner);
        self.rebuilt.messages.retained.remove(&owner);
        self.rebuilt.messages.wills.remove(&owner);
        self.rebuilt.exchanges.remove(&owner);
        self.rebuilt.queues.remove(&owner);
        self.rebuilt.of_queues.buckets.remove(&owner);
        self.rebuilt.bound.remove(&owner);
        self.rebuilt.subscriptions.remove(&owner);
        self.rebuilt.entries.remove(&owner);
    }

    fn lost(&mut self, segment: u32, file: &str, what: &str) {
        self.rebuilt.lost_segments.insert(segment, format!("{file} is damaged: {what}"));
    }

    fn burnt(&mut self, owner: Owner, first_seq: u64, count: u64) {
        if self.rebuilt.see(owner) {
            let entries = self.rebuilt.entries.entry(owner).or_default();
            let position = entries.positions.of_mut(first_seq);
            position.next = position.next.max(first_seq.saturating_add(count));
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
