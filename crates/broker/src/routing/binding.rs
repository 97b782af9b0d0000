//! One binding, its identity (destination, key and arguments, whatever the order of the arguments),
//! and the number of bindings of all exchanges together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::encoding::{table_bytes, write_table, write_text};
use crate::error::Error;
use crate::memory::ledger::Declared;
use crate::value::Table;

/// The destination of a binding.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Destination {
    /// The queue of this id.
    Queue(u64),
    /// The exchange of this id, which routes the message on.
    Exchange(u64),
    /// The subscriber of this id, whose client has no queue for it.
    Subscriber(u64),
}

impl Destination {
    /// The id of the queue, the exchange or the subscriber.
    pub(crate) fn id(self) -> u64 {
        match self {
            Self::Queue(id) | Self::Exchange(id) | Self::Subscriber(id) => id,
        }
    }
}

/// A binding of an exchange to a destination.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Binding {
    /// Where it leads.
    pub(crate) destination: Destination,
    /// The binding key, shared with the matcher and with its destination. A headers or fanout
    /// exchange keeps it and does not use it.
    pub(crate) key: Arc<str>,
    /// The fields that a headers exchange matches. Other kinds keep them and do not use them.
    pub(crate) arguments: Table,
}

/// The number of bindings of all exchanges with the same tally, and the bytes of declarations. Each
/// exchange's [`super::Bindings`], and each [`Weight`], counts in it while it lives.
#[derive(Clone, Default, Debug)]
pub(crate) struct Tally {
    all: Arc<Counts>,
    /// The bindings that this part counts.
    part: Arc<AtomicU64>,
    /// The user that declares what it weighs, if that is known.
    payer: Option<Declared>,
}

#[derive(Default, Debug)]
struct Counts {
    bindings: AtomicU64,
    logged: AtomicU64,
    memory: AtomicU64,
}

/// The bytes of one or more declarations, counted while it lives.
#[derive(Debug, Default)]
pub(crate) struct Weight {
    tally: Tally,
    load: Load,
}

/// The memory of a binding, counted for the user that made it while it lives.
#[derive(Debug)]
pub(super) struct Paid {
    payer: Declared,
    bytes: u64,
}

impl Paid {
    pub(super) fn new(payer: &Declared, bytes: u64) -> Self {
        payer.changed(0, bytes);
        Self { payer: payer.clone(), bytes }
    }
}

impl Drop for Paid {
    fn drop(&mut self) {
        self.payer.changed(self.bytes, 0);
    }
}

/// Bytes of declarations.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    /// In the log.
    pub(crate) logged: u64,
    /// In memory, with names, keys and arguments.
    pub(crate) memory: u64,
}

/// The memory of each object besides its texts, in bytes: the growth of the process, Linux with
/// glibc, by 20 000 queues, 4000 exchanges and 50 000 bindings. A queue that messages passed
/// through keeps a chunk of entries.
const QUEUE_COST: u64 = 1664;
const EXCHANGE_COST: u64 = 1408;
const BINDING_COST: u64 = 240;
const SUBSCRIPTION_COST: u64 = 320;
/// The bytes of a log record besides its text.
const RECORD_BYTES: usize = 48;

impl Load {
    fn of(name: &str, arguments: &Table, cost: u64) -> Self {
        let logged = (RECORD_BYTES + name.len() + table_bytes(arguments)) as u64;
        Self { logged, memory: cost + (name.len() + arguments.heap_bytes()) as u64 }
    }

    /// The bytes of a logged queue.
    pub(crate) fn of_queue(name: &str, arguments: &Table) -> Self {
        Self::of(name, arguments, QUEUE_COST)
    }

    /// The bytes of a logged exchange.
    pub(crate) fn of_exchange(name: &str, arguments: &Table) -> Self {
        Self::of(name, arguments, EXCHANGE_COST)
    }

    /// The bytes of a logged binding.
    pub(crate) fn of_binding(key: &str, arguments: &Table) -> Self {
        Self::of(key, arguments, BINDING_COST)
    }

    /// The bytes of a logged subscription, with so many bytes of names, which are kept twice, and
    /// of a selector.
    pub(crate) fn of_subscription(names: usize, selector: usize) -> Self {
        let logged = (RECORD_BYTES + names + selector) as u64;
        Self { logged, memory: SUBSCRIPTION_COST + (2 * names + selector) as u64 }
    }

    /// The same for a declaration that is not logged.
    pub(crate) fn unlogged(self) -> Self {
        Self { logged: 0, ..self }
    }
}

impl Weight {
    pub(crate) fn new(tally: &Tally, load: Load) -> Self {
        let mut weight = Self { tally: tally.clone(), load: Load::default() };
        weight.set(load);
        weight
    }

    pub(crate) fn load(&self) -> Load {
        self.load
    }

    /// The user that declares what it weighs.
    pub(crate) fn payer(&self) -> Option<&Declared> {
        self.tally.payer.as_ref()
    }

    /// Replaces its bytes.
    pub(crate) fn set(&mut self, load: Load) {
        let counts = &self.tally.all;
        counts.logged.fetch_add(load.logged.wrapping_sub(self.load.logged), Ordering::Relaxed);
        counts.memory.fetch_add(load.memory.wrapping_sub(self.load.memory), Ordering::Relaxed);
        if let Some(payer) = &self.tally.payer {
            payer.changed(self.load.memory, load.memory);
        }
        self.load = load;
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.set(Load::default());
    }
}

impl Tally {
    /// A tally that counts in this one, and its own part besides.
    pub(crate) fn part(&self) -> Self {
        Self { all: Arc::clone(&self.all), part: Arc::default(), payer: None }
    }

    /// The same tally, for what this user declares.
    pub(crate) fn paid_by(&self, payer: &Declared) -> Self {
        Self { payer: Some(payer.clone()), ..self.clone() }
    }

    /// The same tally, for what this user declares, or no one user.
    pub(crate) fn paid_by_any(&self, payer: Option<&Declared>) -> Self {
        Self { payer: payer.cloned(), ..self.clone() }
    }

    /// The same tally, for what no one user has declared.
    pub(super) fn unpaid(&self) -> Self {
        Self { payer: None, ..self.clone() }
    }

    pub(crate) fn count(&self) -> u64 {
        self.all.bindings.load(Ordering::Relaxed)
    }

    /// The bindings of its part.
    pub(crate) fn part_count(&self) -> u64 {
        self.part.load(Ordering::Relaxed)
    }

    /// The bytes of all declarations together.
    pub(crate) fn load(&self) -> Load {
        Load { logged: self.all.logged.load(Ordering::Relaxed), memory: self.all.memory.load(Ordering::Relaxed) }
    }

    /// Counts one more, unless the limit is reached.
    pub(super) fn admit(&self, limit: u64) -> bool {
        let more = |count| (count < limit).then_some(count + 1);
        let admitted = self.all.bindings.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        self.part.fetch_add(u64::from(admitted), Ordering::Relaxed);
        admitted
    }

    pub(crate) fn left(&self, count: usize) {
        self.all.bindings.fetch_sub(count as u64, Ordering::Relaxed);
        self.part.fetch_sub(count as u64, Ordering::Relaxed);
    }
}

/// Key and arguments of a binding in one comparable form. Bytes, because field values have neither
/// order nor, with floating point, an equality to rely on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct BindingIdentity(Box<[u8]>);

impl Binding {
    /// Bytes of memory, with its key and arguments. The key is stored twice, and counts once more
    /// for what its place besides the index takes.
    pub(super) fn heap_bytes(&self) -> u64 {
        BINDING_COST + (3 * self.key.len() + 2 * self.arguments.heap_bytes()) as u64
    }
}

impl BindingIdentity {
    /// The smallest identity of all.
    pub(super) fn least() -> Self {
        Self(Box::default())
    }

    /// An error when the arguments are nested too deep to be stored.
    pub(super) fn of(binding: &Binding) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        write_text(&mut bytes, &binding.key);
        if binding.arguments.len() < 2 {
            write_table(&mut bytes, &binding.arguments)?;
        } else {
            let mut sorted = binding.arguments.clone();
            sorted.0.sort_by(|(one, _), (other, _)| one.cmp(other));
            write_table(&mut bytes, &sorted)?;
        }
        Ok(Self(bytes.into_boxed_slice()))
    }
}
