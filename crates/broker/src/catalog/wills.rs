//! Wills: messages that clients leave with the broker, to be published when their connections end
//! without a word. A will may wait for a time after that.
//!
//! A will is a fact in the log of its vhost. Invariant: it is there until the log has its end,
//! which stands in one group with its publication. One that came while the log had no room is in
//! memory alone until it has some, and the log has nothing of it before that.

use std::collections::BTreeSet;
use std::ops::AddAssign;

use bytes::Bytes;
use hashbrown::HashMap;
use journal::{Appender, Owner};

use crate::encoding::{Malformed, Reader, write_text, write_varint};
use crate::message::Message;
use crate::routing::{Load, Weight};
use crate::store::facts::WILL;

/// The memory of a will besides its names and its message: an estimate from the sizes of what holds
/// it.
const COST: u64 = 320;
/// The bytes of its record besides these.
const RECORD_BYTES: u64 = 64;

/// Whose will it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WillKey {
    pub(crate) user: Box<str>,
    /// What the client is called.
    pub(crate) client: Box<str>,
}

/// Who knows the user of a will.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KnownBy {
    /// The broker.
    Broker,
    /// A backend elsewhere, which cannot be asked later what the user may do.
    Backend,
}

/// When the broker publishes a will.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Its client is connected. So many milliseconds after the end of that connection.
    After(u64),
    /// Then, in milliseconds since 1970.
    At(u64),
}

/// Where a will is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WillKept {
    /// In the log: it survives the end of the broker.
    Log,
    /// In memory, since the log has no room. It is logged as soon as it has.
    Memory,
}

/// A will, as logged.
#[derive(Debug, Clone)]
pub(crate) struct WillFact {
    pub(crate) vhost: Owner,
    pub(crate) key: WillKey,
    pub(crate) known_by: KnownBy,
    pub(crate) due: Due,
    pub(crate) message: Message,
}

/// Flags of a will in its record.
const BACKEND: u8 = 1;
const DUE: u8 = 2;

impl WillFact {
    /// The bytes that it counts for.
    pub(crate) fn load(&self) -> Load {
        load_of(self.key.user.len() + self.key.client.len(), self.message.block().len())
    }

    /// Logs it as this owner.
    pub(crate) fn log(&self, appender: &mut Appender<'_>, owner: Owner) {
        appender.fact(None, owner, WILL, &[&self.head(), self.message.block()]);
    }

    fn head(&self) -> Vec<u8> {
        let (flag, time) = match self.due {
            Due::After(delay) => (0, delay),
            Due::At(at) => (DUE, at),
        };
        let mut bytes = Vec::with_capacity(32 + self.key.user.len() + self.key.client.len());
        write_varint(&mut bytes, self.vhost);
        write_text(&mut bytes, &self.key.user);
        write_text(&mut bytes, &self.key.client);
        bytes.push(flag | if self.known_by == KnownBy::Backend { BACKEND } else { 0 });
        write_varint(&mut bytes, time);
        bytes
    }

    /// Reads the bytes of a fact.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let vhost = reader.varint()?;
        let key = WillKey { user: reader.text()?.into(), client: reader.text()?.into() };
        let flags = reader.byte()?;
        if flags & !(BACKEND | DUE) != 0 {
            return Err(reader.malformed("unknown flags of a will"));
        }
        let time = reader.varint()?;
        let block = Bytes::copy_from_slice(reader.rest());
        let message = Message::from_stored(block).map_err(|_| reader.malformed("a damaged message"))?;
        let known_by = if flags & BACKEND != 0 { KnownBy::Backend } else { KnownBy::Broker };
        let due = if flags & DUE != 0 { Due::At(time) } else { Due::After(time) };
        Ok(Self { vhost, key, known_by, due, message })
    }
}

/// The bytes of a will with so many bytes of names, and of its message.
pub(crate) fn load_of(names: usize, message: usize) -> Load {
    // The names are kept twice.
    Load { logged: RECORD_BYTES + (names + message) as u64, memory: COST + (2 * names + message) as u64 }
}

/// A will.
#[derive(Debug)]
struct Will {
    fact: WillFact,
    kept: WillKept,
    /// It is being published.
    is_claimed: bool,
    #[expect(dead_code, reason = "counted as long as it is there, not read")]
    weight: Weight,
}

/// How many wills a vhost has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WillCount {
    /// All of them.
    pub wills: u64,
    /// Those of clients that are gone, which wait for their time.
    pub waiting: u64,
    /// Those that were due, and wait for the end of an alarm.
    pub held_up: u64,
    /// Those that memory alone has, since the log has no room.
    pub in_memory: u64,
}

impl AddAssign for WillCount {
    fn add_assign(&mut self, more: Self) {
        self.wills += more.wills;
        self.waiting += more.waiting;
        self.held_up += more.held_up;
        self.in_memory += more.in_memory;
    }
}

/// What is shown of the wills of a client.
#[derive(Debug)]
pub(crate) struct ShownWill {
    /// The message of the one that it can take back, or else of the last that an alarm holds up.
    pub(crate) message: Message,
    /// When that one is due, in milliseconds since 1970, if the client is gone.
    pub(crate) due: Option<u64>,
    /// Where that one is kept.
    pub(crate) kept: WillKept,
    /// How many of them an alarm holds up.
    pub(crate) held_up: u64,
}

/// A will that is being published.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) owner: Owner,
    pub(crate) key: WillKey,
    pub(crate) known_by: KnownBy,
    pub(crate) message: Message,
}

/// The wills of a vhost. See the module.
#[derive(Debug, Default)]
pub(crate) struct WillTable {
    wills: HashMap<Owner, Will>,
    /// The one that a client can still take back.
    of_clients: HashMap<WillKey, Owner>,
    due: BTreeSet<(u64, Owner)>,
    /// Those that were due while an alarm was up, also when the client is back.
    held_up: BTreeSet<(WillKey, Owner)>,
    /// Those that memory alone has.
    in_memory: BTreeSet<Owner>,
}

impl WillTable {
    pub(crate) fn count(&self) -> WillCount {
        WillCount {
            wills: self.wills.len() as u64,
            waiting: (self.due.len() - self.held_up.len()) as u64,
            held_up: self.held_up.len() as u64,
            in_memory: self.in_memory.len() as u64,
        }
    }

    /// Adds a will, which its client can take back.
    pub(crate) fn put(&mut self, owner: Owner, fact: WillFact, weight: Weight, kept: WillKept) {
        if kept == WillKept::Memory {
            self.in_memory.insert(owner);
        }
        if let Due::At(at) = fact.due {
            self.due.insert((at, owner));
        }
        self.of_clients.insert(fact.key.clone(), owner);
        self.wills.insert(owner, Will { fact, kept, is_claimed: false, weight });
    }

    /// Logs a will of the log as it is now. False if there is no such will.
    pub(crate) fn log(&self, owner: Owner, appender: &mut Appender<'_>) -> bool {
        let will = self.wills.get(&owner).filter(|will| will.kept == WillKept::Log);
        will.into_iter().for_each(|will| will.fact.log(appender, owner));
        will.is_some()
    }

    /// Logs the first of those that memory alone has.
    pub(crate) fn log_from_memory(&mut self, appender: &mut Appender<'_>) {
        let Some(will) = self.in_memory.pop_first().and_then(|owner| Some((owner, self.wills.get_mut(&owner)?))) else {
            return;
        };
        let (owner, will) = will;
        will.kept = WillKept::Log;
        will.fact.log(appender, owner);
    }

    /// Whether memory alone has some of them.
    pub(crate) fn has_unlogged(&self) -> bool {
        !self.in_memory.is_empty()
    }

    /// The will that a client can take back.
    pub(crate) fn of_client(&self, key: &WillKey) -> Option<Owner> {
        self.of_clients.get(key).copied()
    }

    /// Those whose wills can be taken back, and those whose wills an alarm holds up; some are both.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &WillKey> {
        self.of_clients.keys().chain(self.held_up.iter().map(|(key, _)| key))
    }

    /// Those of a client that an alarm holds up, the oldest first.
    fn held_up_of(&self, key: &WillKey) -> impl DoubleEndedIterator<Item = Owner> {
        let of = |owner| (key.clone(), owner);
        self.held_up.range(of(Owner::MIN)..=of(Owner::MAX)).map(|(_, owner)| *owner)
    }

    /// The wills of a client: the one that it can take back, and those that an alarm holds up.
    pub(crate) fn all_of(&self, key: &WillKey) -> BTreeSet<Owner> {
        self.of_client(key).into_iter().chain(self.held_up_of(key)).collect()
    }

    /// What is shown of the wills of a client, if it has any.
    pub(crate) fn shown(&self, key: &WillKey) -> Option<ShownWill> {
        let owner = self.of_client(key).or_else(|| self.held_up_of(key).next_back())?;
        let Will { fact, kept, .. } = self.wills.get(&owner)?;
        let due = if let Due::At(at) = fact.due { Some(at) } else { None };
        Some(ShownWill {
            message: fact.message.clone(),
            due,
            kept: *kept,
            held_up: self.held_up_of(key).count() as u64,
        })
    }

    /// When the broker publishes a will.
    pub(crate) fn due(&self, owner: Owner) -> Option<Due> {
        self.wills.get(&owner).map(|will| will.fact.due)
    }

    /// Sets when the broker publishes it, in milliseconds since 1970.
    pub(crate) fn set_due(&mut self, owner: Owner, at: u64) {
        let Some(will) = self.wills.get_mut(&owner) else { return };
        if let Due::At(before) = std::mem::replace(&mut will.fact.due, Due::At(at)) {
            self.due.remove(&(before, owner));
        }
        self.due.insert((at, owner));
    }

    /// Its client cannot take it back any more.
    pub(crate) fn let_go(&mut self, owner: Owner) {
        let Some(will) = self.wills.get(&owner) else { return };
        if self.of_clients.get(&will.fact.key) == Some(&owner) {
            self.of_clients.remove(&will.fact.key);
        }
    }

    /// Takes a will out. Returns where it was kept; `None` if it is not there.
    pub(crate) fn remove(&mut self, owner: Owner) -> Option<WillKept> {
        self.let_go(owner);
        self.in_memory.remove(&owner);
        let Will { fact, kept, .. } = self.wills.remove(&owner)?;
        if let Due::At(at) = fact.due {
            self.due.remove(&(at, owner));
        }
        if !self.held_up.is_empty() {
            self.held_up.remove(&(fact.key, owner));
        }
        Some(kept)
    }

    /// Claims a will for its publication. `None` where another one has.
    pub(crate) fn claim(&mut self, owner: Owner) -> Option<Claimed> {
        let will = self.wills.get_mut(&owner).filter(|will| !will.is_claimed)?;
        will.is_claimed = true;
        let WillFact { key, known_by, message, .. } = will.fact.clone();
        Some(Claimed { owner, key, known_by, message })
    }

    /// Gives a claimed will back, which an alarm holds up: the broker tries again then, in
    /// milliseconds since 1970.
    pub(crate) fn hold_up(&mut self, owner: Owner, until: u64) {
        let Some(will) = self.wills.get_mut(&owner) else { return };
        will.is_claimed = false;
        self.held_up.insert((will.fact.key.clone(), owner));
        self.set_due(owner, until);
    }

    /// Wills that are due, at most so many.
    pub(crate) fn due_by(&self, now: u64, most: usize) -> Vec<Owner> {
        self.due.iter().take_while(|(at, _)| *at <= now).take(most).map(|(_, owner)| *owner).collect()
    }

    /// When the next one is due.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Those of clients that are, or were, connected, with their delays.
    pub(crate) fn of_connected(&self) -> Vec<(Owner, u64)> {
        let delay = |will: &Will| if let Due::After(delay) = will.fact.due { Some(delay) } else { None };
        self.wills.iter().filter_map(|(owner, will)| Some((*owner, delay(will)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Arena, Head};
    use crate::routing::Tally;

    fn fact(known_by: KnownBy, due: Due) -> WillFact {
        let message = Arena::of_few(64).add(&Head { exchange: "x", routing_key: "k", ..Head::EMPTY }, b"gone");
        WillFact { vhost: 300, key: WillKey { user: "u".into(), client: "c1".into() }, known_by, due, message }
    }

    #[test]
    fn a_will_is_stored_in_these_bytes_and_every_cut_is_noticed() {
        for (known_by, due, head) in [
            (KnownBy::Broker, Due::After(0), &b"\xac\x02\x01u\x02c1\0\0"[..]),
            (KnownBy::Backend, Due::After(300), b"\xac\x02\x01u\x02c1\x01\xac\x02"),
            (KnownBy::Broker, Due::At(5), b"\xac\x02\x01u\x02c1\x02\x05"),
        ] {
            let fact = fact(known_by, due);
            assert_eq!(fact.head(), head);
            let bytes = [head, fact.message.block()].concat();
            // The body of a message ends with its block, so only a cut in front of it shows.
            for end in 0..bytes.len() - fact.message.body().len() {
                assert!(WillFact::read(&bytes[..end]).is_err(), "cut at {end}");
            }
            let read = WillFact::read(&bytes).unwrap();
            assert_eq!((read.vhost, &read.key, read.known_by, read.due), (300, &fact.key, known_by, due));
            assert_eq!(read.message.block(), fact.message.block());
        }
        assert!(WillFact::read(b"\x01\x01u\x01c\x04\0").is_err());
    }

    #[test]
    fn a_client_takes_back_its_last_will_and_one_is_published_once() {
        let mut table = WillTable::default();
        let weight = || Weight::new(&Tally::default(), Load::default());
        let key = fact(KnownBy::Broker, Due::After(7)).key;
        table.put(1, fact(KnownBy::Broker, Due::After(7)), weight(), WillKept::Log);
        assert_eq!((table.of_client(&key), table.next_due(), table.of_connected()), (Some(1), None, vec![(1, 7)]));
        table.set_due(1, 10);
        table.let_go(1);
        table.put(2, fact(KnownBy::Broker, Due::At(20)), weight(), WillKept::Memory);
        assert!(table.has_unlogged());
        assert_eq!((table.of_client(&key), table.due_by(20, 9)), (Some(2), vec![1, 2]));
        assert_eq!((table.due_by(20, 1), table.due_by(9, 9)), (vec![1], vec![]));
        assert!(table.claim(1).is_some() && table.claim(1).is_none());
        table.hold_up(1, 30);
        let count = WillCount { wills: 2, waiting: 1, held_up: 1, in_memory: 1 };
        assert_eq!((table.due_by(29, 9), table.count()), (vec![2], count));
        let shown = table.shown(&key).unwrap();
        assert_eq!((shown.due, shown.kept, shown.held_up), (Some(20), WillKept::Memory, 1));
        assert_eq!((table.all_of(&key), table.keys().count()), (BTreeSet::from([1, 2]), 2));
        table.let_go(2);
        let shown = table.shown(&key).unwrap();
        assert_eq!((shown.due, shown.kept, shown.held_up), (Some(30), WillKept::Log, 1));
        assert!(table.claim(1).is_some());
        assert_eq!([1, 1, 2].map(|owner| table.remove(owner)), [Some(WillKept::Log), None, Some(WillKept::Memory)]);
        assert!(
            table.wills.is_empty() && table.held_up.is_empty() && !table.has_unlogged() && table.next_due().is_none()
        );
    }
}
