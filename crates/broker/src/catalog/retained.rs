//! Retained messages: the last value of each topic of a vhost, for those that subscribe later.
//!
//! A topic is an exchange and a routing key. A publish that sets values holds the lock of the table
//! from the change until its messages are in their queues. A subscription holds it from its
//! bindings until the first values are. So a subscriber gets each value once, and none after a
//! later one.
//!
//! Values are logged as facts about bundles of 16 places, so that restating one that changes often
//! says few others again. Invariant: a place has one value, and a topic one place.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::ops::{Bound, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashMap;
use journal::{Appender, Journal, LogId, Owner, Restatement, Ticket};
use parking_lot::{Mutex, MutexGuard};

use crate::encoding::{Malformed, Reader, write_text, write_varint};
use crate::memory::ledger::Declared;
use crate::message::Message;
use crate::message::retained::{RetainedBlock, Sharing};
use crate::routing::{Load, Look, Sought, Tally, Weight};
use crate::store::facts::RETAINED;
use crate::store::owners::OwnerNumbers;

/// Places of a bundle.
const BUNDLE: usize = 16;
/// Beside a place: the user follows that the value counts for.
const OF_USER: u8 = 16;
/// The memory of a value besides its block: an estimate from the sizes of what holds it.
const VALUE_COST: u64 = 100;
/// The bytes of its fact besides its block.
const FACT_BYTES: u64 = 48;
/// Topics that are looked at in one piece of a search.
const LOOKS: usize = 4096;
/// Bytes of messages in one piece.
const PIECE_BYTES: usize = 1 << 20;
/// Messages in one piece.
const PIECE: usize = 256;

/// A value.
#[derive(Debug)]
struct Kept {
    block: RetainedBlock,
    paid: Declared,
    /// Which change set it.
    stamp: u64,
    place: u32,
    /// It is in the log.
    logged: bool,
}

impl Kept {
    fn load(&self) -> Load {
        let load = load_of(self.block.bytes().len());
        if self.logged { load } else { load.unlogged() }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.paid.changed(self.load().memory, 0);
    }
}

impl Sharing for Kept {
    fn block(&self) -> &RetainedBlock {
        &self.block
    }
}

/// The bytes of a logged value whose block has so many.
pub(crate) fn load_of(block: usize) -> Load {
    Load { logged: block as u64 + FACT_BYTES, memory: block as u64 + VALUE_COST }
}

/// A value in the order of its topic.
#[derive(Debug)]
struct ByTopic(Arc<Kept>);

impl Borrow<str> for ByTopic {
    fn borrow(&self) -> &str {
        self.0.block.topic()
    }
}

impl PartialEq for ByTopic {
    fn eq(&self, other: &Self) -> bool {
        self.0.block.topic() == other.0.block.topic()
    }
}

impl Eq for ByTopic {}

impl PartialOrd for ByTopic {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByTopic {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.block.topic().cmp(other.0.block.topic())
    }
}

/// The exchange of a topic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TopicExchange {
    pub(crate) id: Owner,
    /// It outlives a restart.
    pub(crate) durable: bool,
}

/// Where the table's facts go.
#[derive(Clone, Copy)]
pub(crate) struct RetainedLog<'a> {
    pub(crate) journal: &'a Journal,
    pub(crate) owners: &'a OwnerNumbers,
    /// The vhost's home.
    pub(crate) log: LogId,
}

/// A search for the values of one exchange, a piece at a time.
#[derive(Debug)]
pub(crate) struct RetainedSearch {
    pub(crate) exchange: Owner,
    sought: Sought,
    from: Bound<String>,
    /// Only values that were set by this change or before it.
    until: u64,
}

/// Whether a search goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Searched {
    More,
    All,
}

impl RetainedSearch {
    /// A search in all values, those to come included, from one topic on.
    pub(crate) fn new(exchange: Owner, sought: Sought, after: Option<String>) -> Self {
        let from = after.map_or_else(|| sought.first(), Bound::Excluded);
        Self { exchange, sought, from, until: u64::MAX }
    }
}

/// The number and the bytes of the values of a vhost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetainedCount {
    /// How many there are.
    pub messages: u64,
    /// Their bytes: properties, topics and bodies.
    pub bytes: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RetainedTable {
    exchanges: HashMap<Owner, BTreeSet<ByTopic>>,
    /// By places, which facts name them by.
    places: Vec<Option<Arc<Kept>>>,
    free: Vec<u32>,
    /// The owners of the places, each of [`BUNDLE`].
    bundles: Vec<Owner>,
    /// Where each of these is.
    places_of: HashMap<Owner, usize>,
    /// The exchanges by their names, which the values have.
    names: HashMap<Box<str>, Owner>,
    /// When values expire, with their places.
    expiring: BTreeSet<(u64, u32)>,
    /// The number of the last change.
    stamp: u64,
    count: RetainedCount,
    weight: Weight,
}

impl RetainedTable {
    pub(crate) fn count(&self) -> RetainedCount {
        self.count
    }

    /// The bytes of the block of a topic, if it has a value.
    pub(crate) fn block_bytes(&self, exchange: Owner, topic: &str) -> Option<u64> {
        self.find(exchange, topic).map(|kept| kept.block.bytes().len() as u64)
    }

    fn find(&self, exchange: Owner, topic: &str) -> Option<&Arc<Kept>> {
        Some(&self.exchanges.get(&exchange)?.get(topic)?.0)
    }

    /// The value of a topic.
    pub(crate) fn message(&self, exchange: Owner, topic: &str, now: u64) -> Option<Message> {
        self.find(exchange, topic).map(|kept| Message::of_retained(kept, now))
    }

    /// A search for what there is now, for one that gets all later values as they come.
    pub(crate) fn search(&self, exchange: Owner, sought: Sought) -> RetainedSearch {
        RetainedSearch { until: self.stamp, ..RetainedSearch::new(exchange, sought, None) }
    }

    /// Makes a message the value of its topic, or removes the value if the body is empty. Returns
    /// what must be flushed for that.
    pub(crate) fn set(
        &mut self,
        exchange: TopicExchange,
        message: &Message,
        payer: &Declared,
        to: RetainedLog<'_>,
    ) -> Ticket {
        if message.body().is_empty() {
            return self.remove(exchange.id, message.routing_key(), to).unwrap_or(Ticket::NONE);
        }
        self.stamp += 1;
        let old = self.take(exchange.id, message.routing_key());
        let place = old.as_ref().map(|old| old.place);
        let was_logged = old.is_some_and(|old| old.logged);
        let place = place.unwrap_or_else(|| self.new_place(to));
        let block = RetainedBlock::of(message);
        let logged = exchange.durable && block.persistent();
        let kept = Kept { block, paid: payer.clone(), stamp: self.stamp, place, logged };
        let ticket = match (logged, was_logged) {
            (true, _) => {
                let mut appender = to.journal.appender(to.log);
                log_retained(
                    &mut appender,
                    self.bundle_of(place),
                    (kept.place, exchange.id),
                    (&kept.block, kept.paid.user()),
                );
                appender.ticket()
            }
            (false, true) => self.log_removal(place, to),
            (false, false) => Ticket::NONE,
        };
        self.insert(exchange.id, kept);
        ticket
    }

    /// Removes the value of a topic. `None` if it has none.
    pub(crate) fn remove(&mut self, exchange: Owner, topic: &str, to: RetainedLog<'_>) -> Option<Ticket> {
        let old = self.take(exchange, topic)?;
        self.stamp += 1;
        self.free.push(old.place);
        Some(if old.logged { self.log_removal(old.place, to) } else { Ticket::NONE })
    }

    /// Removes values that have expired, at most so many. Returns when the next one does.
    pub(crate) fn expire(&mut self, now: u64, most: usize, to: RetainedLog<'_>) -> Option<u64> {
        for _ in 0..most {
            let (at, place) = *self.expiring.first()?;
            if at > now {
                return Some(at);
            }
            let kept = Arc::clone(self.places.get(place as usize)?.as_ref()?);
            let exchange = self.exchange_of(&kept)?;
            self.remove(exchange, kept.block.topic(), to);
        }
        self.expiring.first().map(|(at, _)| *at)
    }

    /// Takes the values of an exchange out that has ended: the log has its end.
    fn end_exchange(&mut self, exchange: Owner) {
        for ByTopic(kept) in self.exchanges.remove(&exchange).unwrap_or_default() {
            self.forget(&kept);
            self.free.push(kept.place);
        }
        self.names.retain(|_, id| *id != exchange);
    }

    fn exchange_of(&self, kept: &Kept) -> Option<Owner> {
        self.names.get(kept.block.exchange()).copied()
    }

    /// The next piece of a search: adds the messages that it finds.
    pub(crate) fn look(&self, search: &mut RetainedSearch, now: u64, found: &mut Vec<Message>) -> Searched {
        let Some(topics) = self.exchanges.get(&search.exchange) else { return Searched::All };
        let mut bytes = 0;
        for _ in 0..LOOKS {
            if found.len() >= PIECE || bytes >= PIECE_BYTES {
                return Searched::More;
            }
            let from = as_text(&search.from);
            let Some(ByTopic(kept)) = topics.range::<str, _>((from, Bound::Unbounded)).next() else {
                return Searched::All;
            };
            search.from = match search.sought.look(kept.block.topic()) {
                Look::Match => {
                    let expired = kept.block.expires_at().is_some_and(|at| at <= now);
                    if kept.stamp <= search.until && !expired {
                        bytes += kept.block.bytes().len();
                        found.push(Message::of_retained(kept, now));
                    }
                    Bound::Excluded(kept.block.topic().to_owned())
                }
                Look::Next(next) => next,
                Look::End => return Searched::All,
            };
        }
        Searched::More
    }

    /// Says the values of a bundle again. False if it is not of this table.
    pub(crate) fn restate(&self, bundle: Owner, restatement: &Restatement<'_>, log: LogId) -> bool {
        let Some(index) = self.places_of.get(&bundle) else { return false };
        let appender = &mut restatement.appender(log);
        // One restatement in each turn of the log is enough, however many files mention it.
        appender.supersede(bundle);
        let first = index * BUNDLE;
        for kept in self.places.iter().skip(first).take(BUNDLE).flatten().filter(|kept| kept.logged) {
            if let Some(exchange) = self.exchange_of(kept) {
                log_retained(appender, bundle, (kept.place, exchange), (&kept.block, kept.paid.user()));
            }
        }
        true
    }

    /// Takes a bundle that the log has, with its values, each with its place and who pays for it.
    pub(crate) fn recover(&mut self, bundle: Owner, values: Vec<(u32, RetainedFact, Declared)>) {
        let places = self.add_bundle(bundle);
        for (place, RetainedFact { exchange, block, .. }, paid) in values {
            self.stamp += 1;
            let place = places.start + place;
            self.insert(exchange, Kept { block, paid, stamp: self.stamp, place, logged: true });
        }
        self.free.extend(places.filter(|place| self.places[*place as usize].is_none()));
    }

    fn insert(&mut self, exchange: Owner, kept: Kept) {
        let load = kept.load();
        kept.paid.changed(0, load.memory);
        self.count.messages += 1;
        self.count.bytes += kept.block.bytes().len() as u64;
        let all = self.weight.load();
        self.weight.set(Load { logged: all.logged + load.logged, memory: all.memory + load.memory });
        if let Some(at) = kept.block.expires_at() {
            self.expiring.insert((at, kept.place));
        }
        if !self.names.contains_key(kept.block.exchange()) {
            self.names.insert(kept.block.exchange().into(), exchange);
        }
        let (place, kept) = (kept.place as usize, Arc::new(kept));
        self.places[place] = Some(Arc::clone(&kept));
        self.exchanges.entry(exchange).or_default().insert(ByTopic(kept));
    }

    /// Takes a value out. Its place is not free yet.
    #[expect(clippy::mutable_key_type, reason = "the order is that of topics, which stay as they are")]
    fn take(&mut self, exchange: Owner, topic: &str) -> Option<Arc<Kept>> {
        let topics = self.exchanges.get_mut(&exchange)?;
        let ByTopic(kept) = topics.take(topic)?;
        if topics.is_empty() {
            self.exchanges.remove(&exchange);
            self.names.remove(kept.block.exchange());
        }
        self.forget(&kept);
        Some(kept)
    }

    /// Counts a value no more that is in no set of topics.
    fn forget(&mut self, kept: &Kept) {
        let (all, load) = (self.weight.load(), kept.load());
        self.count.messages -= 1;
        self.count.bytes -= kept.block.bytes().len() as u64;
        self.weight.set(Load { logged: all.logged - load.logged, memory: all.memory - load.memory });
        if let Some(at) = kept.block.expires_at() {
            self.expiring.remove(&(at, kept.place));
        }
        self.places[kept.place as usize] = None;
    }

    fn new_place(&mut self, to: RetainedLog<'_>) -> u32 {
        if self.free.is_empty() {
            let places = self.add_bundle(to.owners.take(to.log, 1));
            self.free.extend(places.rev());
        }
        self.free.pop().unwrap_or_default()
    }

    /// Adds a bundle, and returns its places.
    fn add_bundle(&mut self, owner: Owner) -> Range<u32> {
        let first = self.places.len() as u32;
        self.places_of.insert(owner, self.bundles.len());
        self.bundles.push(owner);
        if self.places.len() == self.places.capacity() {
            // By an eighth: there may be many, and each is small.
            self.places.reserve_exact((self.places.len() / 8).max(BUNDLE));
        }
        self.places.extend(std::iter::repeat_n(None, BUNDLE));
        first..first + BUNDLE as u32
    }

    fn bundle_of(&self, place: u32) -> Owner {
        self.bundles[place as usize / BUNDLE]
    }

    fn log_removal(&self, place: u32, to: RetainedLog<'_>) -> Ticket {
        let mut bytes = Vec::with_capacity(1);
        write_varint(&mut bytes, u64::from(place) % BUNDLE as u64);
        let mut appender = to.journal.appender(to.log);
        appender.fact(None, self.bundle_of(place), RETAINED, &[&bytes]);
        appender.ticket()
    }
}

fn as_text(from: &Bound<String>) -> Bound<&str> {
    match from {
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}

/// Logs the value of a place, its exchange, and the user that it counts for.
pub(crate) fn log_retained(
    appender: &mut Appender<'_>,
    bundle: Owner,
    (place, exchange): (u32, Owner),
    (block, user): (&RetainedBlock, &str),
) {
    let mut bytes = Vec::with_capacity(11);
    write_varint(&mut bytes, u64::from(place) % BUNDLE as u64);
    write_varint(&mut bytes, exchange);
    if !user.is_empty() {
        bytes[0] |= OF_USER;
        write_text(&mut bytes, user);
    }
    appender.fact(None, bundle, RETAINED, &[&bytes, block.bytes()]);
}

/// A value, as logged.
#[derive(Debug)]
pub(crate) struct RetainedFact {
    pub(crate) exchange: Owner,
    /// The user that it counts for; none before versions that wrote it.
    pub(crate) set_by: Option<Box<str>>,
    pub(crate) block: RetainedBlock,
}

/// Reads a fact.
///
/// It is a place of a bundle, and what that has, if it has a value.
pub(crate) fn read_retained(bytes: &[u8]) -> Result<(u32, Option<RetainedFact>), Malformed> {
    let mut reader = Reader::new(bytes);
    let first = reader.byte()?;
    let (place, is_of_user) = (first & !OF_USER, first & OF_USER != 0);
    if usize::from(place) >= BUNDLE {
        return Err(reader.malformed("no place of a bundle"));
    }
    if reader.is_empty() && !is_of_user {
        return Ok((place.into(), None));
    }
    let exchange = reader.varint()?;
    let set_by = if is_of_user { Some(reader.text()?.into()) } else { None };
    let block = RetainedBlock::from_stored(reader.rest()).map_err(|_| reader.malformed("a damaged message"))?;
    Ok((place.into(), Some(RetainedFact { exchange, set_by, block })))
}

/// The table of a vhost, and its lock: see the module.
#[derive(Debug, Default)]
pub(crate) struct Retained {
    table: Mutex<RetainedTable>,
    /// Exchanges that have ended, whose values are to go.
    ended: Mutex<Vec<Owner>>,
    /// It has, or had, a value.
    is_used: AtomicBool,
}

impl Retained {
    /// An empty one. `tally` counts its bytes.
    pub(crate) fn new(tally: &Tally) -> Self {
        let table = RetainedTable { weight: Weight::new(tally, Load::default()), ..RetainedTable::default() };
        Self { table: Mutex::new(table), ..Self::default() }
    }

    /// Whether there is any value. Without the lock, so one may come and go meanwhile.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Locked before the groups of a log and the vhost's tables, and never while these are locked.
    pub(crate) fn lock(&self) -> MutexGuard<'_, RetainedTable> {
        self.is_used.store(true, Ordering::Relaxed);
        let mut table = self.table.lock();
        let ended = std::mem::take(&mut *self.ended.lock());
        ended.into_iter().for_each(|exchange| table.end_exchange(exchange));
        table
    }

    /// The values of an exchange go, at the next look at the table.
    pub(crate) fn exchange_ended(&self, exchange: Owner) {
        if self.is_used() {
            self.ended.lock().push(exchange);
        }
    }
}
