//! Retained messages: the last value of each topic of a vhost, for those that subscribe later.
//!
//! A topic is an exchange and a routing key. A publish that sets values holds the lock of the table
//! from the change until its messages are in their queues. A subscription holds it from its
//! bindings until the first values are. So a subscriber gets each value once, and none after a
//! later one.
//!
//! Values are logged as facts about bundles of 16 places, so that restating one that changes often
//! says few others again. Invariant: a place has one value, and a topic one place.
//!
//! There may be a million. So a topic lies in its value alone, and all else names the place; the
//! name of its exchange lies with that, once.

mod exchanges;
mod order;
mod values;

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};

use journal::{Appender, Journal, LogId, Owner, Restatement, Ticket};
use parking_lot::{Mutex, MutexGuard};

use crate::encoding::{Malformed, Reader, write_text, write_varint};
use crate::memory::ledger::Declared;
use crate::message::retained::{RetainedBlock, StoredRetained};
use crate::message::{Arena, Message};
use crate::routing::{Load, Look, Sought, Tally, Weight};
use crate::store::facts::RETAINED;
use crate::store::owners::OwnerNumbers;
use exchanges::{Exchanges, Named, Topics};
use order::{At, Order};
use values::{BUNDLE, Kept, Values};

/// Beside a place: the user follows that the value counts for.
const OF_USER: u8 = 16;
/// The memory of a value besides its block: the growth of the process, Linux with glibc, by 184 000
/// values of 134 bytes.
const VALUE_COST: u64 = 80;
/// The bytes of its fact besides its block.
const FACT_BYTES: u64 = 48;
/// Topics that are looked at in one piece of a search.
const LOOKS: usize = 4096;
/// Bytes of messages in one piece.
const PIECE_BYTES: usize = 1 << 20;
/// Messages in one piece.
const PIECE: usize = 256;

/// The bytes of a logged value whose block has so many.
pub(crate) fn load_of(block: usize) -> Load {
    Load { logged: block as u64 + FACT_BYTES, memory: block as u64 + VALUE_COST }
}

/// Whether the log has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Logged {
    Yes,
    No,
}

impl Logged {
    fn of(kept: &Kept, exchange: TopicExchange) -> Self {
        if exchange.durable && kept.block.persistent() { Self::Yes } else { Self::No }
    }

    fn load(self, kept: &Kept, exchange: &str) -> Load {
        let load = Load { logged: load_of(kept.block.length(exchange)).logged, ..load_of(kept.block.size()) };
        if self == Self::Yes { load } else { load.unlogged() }
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
    exchanges: Exchanges,
    values: Values,
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
        self.find(exchange, topic).map(|(kept, exchange)| kept.block.length(exchange) as u64)
    }

    /// The value of a topic, and the name of its exchange.
    fn find(&self, exchange: Owner, topic: &str) -> Option<(&Kept, &str)> {
        let topics = self.exchanges.get(exchange)?;
        let (_, place) = topics.find(topic, &self.values).ok()?;
        Some((self.values.get(place)?, &topics.of.name))
    }

    /// The value of a topic.
    pub(crate) fn message(&self, exchange: Owner, topic: &str, now: u64) -> Option<Message> {
        let (Kept { block, .. }, exchange) = self.find(exchange, topic)?;
        Some(block.message(exchange, now, &mut Arena::of_few(block.copied_bytes(exchange))))
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
        let topic = message.routing_key();
        if message.body().is_empty() {
            return self.remove(exchange.id, topic, to).unwrap_or(Ticket::NONE);
        }
        self.stamp += 1;
        let topics = self.exchanges.enter(exchange, message.exchange());
        let found = topics.find(topic, &self.values);
        let place = found.map_or_else(
            |at| {
                let place = self.values.take_place(|| to.owners.take(to.log, 1));
                topics.order.insert(at, place);
                place
            },
            |(_, place)| place,
        );
        let of = topics.of.clone();
        let was_logged = self.take(place, &of).map_or(Logged::No, |(_, logged)| logged);
        let block = RetainedBlock::of(StoredRetained::of(message), of.number);
        let kept = Kept::new(block, payer.clone(), self.stamp);
        let ticket = match (Logged::of(&kept, exchange), was_logged) {
            (Logged::Yes, _) => {
                let mut appender = to.journal.appender(to.log);
                let owner = self.values.owner(place);
                kept.block.pieces(&of.name, |pieces| {
                    log_retained(&mut appender, owner, (place, exchange.id), (pieces, payer.user()));
                });
                appender.ticket()
            }
            (Logged::No, Logged::Yes) => self.log_removal(place, to),
            (Logged::No, Logged::No) => Ticket::NONE,
        };
        self.put(&of, place, kept);
        ticket
    }

    /// Removes the value of a topic. `None` if it has none.
    pub(crate) fn remove(&mut self, exchange: Owner, topic: &str, to: RetainedLog<'_>) -> Option<Ticket> {
        let topics = self.exchanges.get_mut(exchange)?;
        let (at, place) = topics.find(topic, &self.values).ok()?;
        topics.order.remove(at);
        let (is_last, of) = (topics.order.is_empty(), topics.of.clone());
        let (_, logged) = self.take(place, &of)?;
        if is_last {
            self.exchanges.remove(exchange);
        }
        self.stamp += 1;
        self.values.free(place);
        Some(if logged == Logged::Yes { self.log_removal(place, to) } else { Ticket::NONE })
    }

    /// Removes values that have expired, at most so many. Returns when the next one does.
    pub(crate) fn expire(&mut self, now: u64, most: usize, to: RetainedLog<'_>) -> Option<u64> {
        for _ in 0..most {
            let (at, place) = *self.expiring.first()?;
            if at > now {
                return Some(at);
            }
            let kept = self.values.get(place)?;
            let (exchange, topic) = (self.exchange_of(kept)?.exchange.id, kept.block.topic().to_owned());
            self.remove(exchange, &topic, to);
        }
        self.expiring.first().map(|(at, _)| *at)
    }

    /// Takes the values of an exchange out that has ended: the log has its end.
    fn end_exchange(&mut self, exchange: Owner) {
        let Some(Topics { of, order }) = self.exchanges.remove(exchange) else { return };
        for place in order.iter() {
            self.take(place, &of);
            self.values.free(place);
        }
    }

    fn exchange_of(&self, kept: &Kept) -> Option<&Named> {
        self.exchanges.numbered(kept.block.exchange()).map(|topics| &topics.of)
    }

    /// The next piece of a search: adds the messages that it finds.
    pub(crate) fn look(&self, search: &mut RetainedSearch, now: u64, found: &mut Vec<Message>) -> Searched {
        let Some(Topics { of, order }) = self.exchanges.get(search.exchange) else { return Searched::All };
        let (mut blocks, mut bytes, mut looks) = (Vec::new(), 0, 0);
        let mut at = self.seek(order, &search.from);
        let searched = loop {
            let Some(kept) = order.get(at).and_then(|place| self.values.get(place)) else { break Searched::All };
            let topic = kept.block.topic();
            if blocks.len() >= PIECE || bytes >= PIECE_BYTES || looks >= LOOKS {
                search.from = Bound::Included(topic.to_owned());
                break Searched::More;
            }
            looks += 1;
            at = match search.sought.look(topic) {
                Look::Match => {
                    if kept.stamp <= search.until && !kept.has_expired(now) {
                        bytes += kept.block.size();
                        blocks.push(&kept.block);
                    }
                    order.next(at)
                }
                Look::Next(from) => self.seek(order, &from),
                Look::End => break Searched::All,
            };
        };
        let mut arena = Arena::of_few(blocks.iter().map(|block| block.copied_bytes(&of.name)).sum());
        found.extend(blocks.into_iter().map(|block| block.message(&of.name, now, &mut arena)));
        searched
    }

    fn seek(&self, order: &Order, from: &Bound<String>) -> At {
        order.seek(|place| match from {
            Bound::Included(key) => self.values.topic(place) < key.as_str(),
            Bound::Excluded(key) => self.values.topic(place) <= key.as_str(),
            Bound::Unbounded => false,
        })
    }

    /// Says the values of a bundle again. False if it is not of this table.
    pub(crate) fn restate(&self, bundle: Owner, restatement: &Restatement<'_>, log: LogId) -> bool {
        let Some(values) = self.values.of_owner(bundle) else { return false };
        let appender = &mut restatement.appender(log);
        // One restatement in each turn of the log is enough, however many files mention it.
        appender.supersede(bundle);
        for (place, kept) in values {
            let Some(Named { exchange, name, .. }) = self.exchange_of(kept) else { continue };
            if Logged::of(kept, *exchange) == Logged::Yes {
                kept.block.pieces(name, |pieces| {
                    log_retained(appender, bundle, (place, exchange.id), (pieces, kept.paid.user()));
                });
            }
        }
        true
    }

    /// Takes a bundle that the log has, with its values, each with its place and who pays for it.
    pub(crate) fn recover(&mut self, bundle: Owner, values: Vec<(u32, RetainedFact, Declared)>) {
        let first = self.values.add(bundle);
        for (place, RetainedFact { exchange, block, .. }, paid) in values {
            self.stamp += 1;
            let (place, exchange) = (first + place, TopicExchange { id: exchange, durable: true });
            let topics = self.exchanges.enter(exchange, block.exchange());
            let of = topics.of.clone();
            let kept = Kept::new(RetainedBlock::of(block, of.number), paid, self.stamp);
            if let Err(at) = topics.find(kept.block.topic(), &self.values) {
                topics.order.insert(at, place);
                self.put(&of, place, kept);
            }
        }
        self.values.free_rest(first);
    }

    /// Puts a value into its place, which is in the order, and counts it.
    fn put(&mut self, of: &Named, place: u32, kept: Kept) {
        let load = Logged::of(&kept, of.exchange).load(&kept, &of.name);
        self.count.messages += 1;
        self.count.bytes += kept.block.length(&of.name) as u64;
        let all = self.weight.load();
        self.weight.set(Load { logged: all.logged + load.logged, memory: all.memory + load.memory });
        if let Some(at) = kept.block.expires_at() {
            self.expiring.insert((at, place));
        }
        self.values.replace(place, Some(kept));
    }

    /// Takes a value out of its place, which is not free yet, and counts it no more. Returns
    /// whether the log has it.
    fn take(&mut self, place: u32, of: &Named) -> Option<(Kept, Logged)> {
        let kept = self.values.replace(place, None)?;
        let logged = Logged::of(&kept, of.exchange);
        let (all, load) = (self.weight.load(), logged.load(&kept, &of.name));
        self.count.messages -= 1;
        self.count.bytes -= kept.block.length(&of.name) as u64;
        self.weight.set(Load { logged: all.logged - load.logged, memory: all.memory - load.memory });
        if let Some(at) = kept.block.expires_at() {
            self.expiring.remove(&(at, place));
        }
        Some((kept, logged))
    }

    fn log_removal(&self, place: u32, to: RetainedLog<'_>) -> Ticket {
        let mut bytes = Vec::with_capacity(1);
        write_varint(&mut bytes, u64::from(place) % BUNDLE as u64);
        let mut appender = to.journal.appender(to.log);
        appender.fact(None, self.values.owner(place), RETAINED, &[&bytes]);
        appender.ticket()
    }
}

/// Logs the value of a place, its exchange, its block in pieces, and the user that it counts for.
pub(crate) fn log_retained(
    appender: &mut Appender<'_>,
    bundle: Owner,
    (place, exchange): (u32, Owner),
    (block, user): (&[&[u8]], &str),
) {
    let mut bytes = Vec::with_capacity(11);
    write_varint(&mut bytes, u64::from(place) % BUNDLE as u64);
    write_varint(&mut bytes, exchange);
    if !user.is_empty() {
        bytes[0] |= OF_USER;
        write_text(&mut bytes, user);
    }
    let pieces: Vec<_> = std::iter::once(&bytes[..]).chain(block.iter().copied()).collect();
    appender.fact(None, bundle, RETAINED, &pieces);
}

/// A value, as logged.
#[derive(Debug)]
pub(crate) struct RetainedFact {
    pub(crate) exchange: Owner,
    /// The user that it counts for; none before versions that wrote it.
    pub(crate) set_by: Option<Box<str>>,
    pub(crate) block: StoredRetained,
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
    let block = StoredRetained::read(reader.rest()).map_err(|_| reader.malformed("a damaged message"))?;
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
