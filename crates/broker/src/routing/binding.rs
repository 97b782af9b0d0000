//! One binding, what makes two of them the same one (destination, key and arguments, whatever the
//! order of the arguments), and how many there are of all exchanges together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::encoding::{table_bytes, write_table, write_text};
use crate::error::Error;
use crate::value::Table;

/// Where a binding leads.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Destination {
    /// The queue of this id.
    Queue(u64),
    /// The exchange of this id, which routes the message further.
    Exchange(u64),
}

/// What leads from one exchange to a destination.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Binding {
    /// Where it leads.
    pub(crate) destination: Destination,
    /// The binding key; a headers or fanout exchange keeps it but does not look at it.
    pub(crate) key: String,
    /// What a headers exchange matches; other kinds keep it but do not look at it.
    pub(crate) arguments: Table,
}

/// How many bindings there are, of all exchanges that were given the same one, and what
/// declarations weigh. Each exchange's [`super::Bindings`], and each [`Weight`], keep it true for
/// as long as they are.
#[derive(Clone, Default, Debug)]
pub(crate) struct Tally {
    all: Arc<Counts>,
    /// Of the bindings those that this part counts.
    part: Arc<AtomicU64>,
}

#[derive(Default, Debug)]
struct Counts {
    bindings: AtomicU64,
    logged: AtomicU64,
    memory: AtomicU64,
}

/// What one or more declarations weigh, counted as long as it is.
#[derive(Debug, Default)]
pub(crate) struct Weight {
    tally: Tally,
    load: Load,
}

/// Bytes of declarations.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    /// That the log says of them.
    pub(crate) logged: u64,
    /// In memory, for names, keys and arguments.
    pub(crate) memory: u64,
}

/// What a record of the log takes besides its text, in bytes.
const RECORD_BYTES: usize = 48;

impl Load {
    /// Of a declaration that is logged.
    pub(crate) fn of(name: &str, arguments: &Table) -> Self {
        let logged = (RECORD_BYTES + name.len() + table_bytes(arguments)) as u64;
        Self { logged, memory: (name.len() + arguments.heap_bytes()) as u64 }
    }

    /// The same of one that is not.
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

    /// It weighs something else from now on.
    pub(crate) fn set(&mut self, load: Load) {
        let counts = &self.tally.all;
        counts.logged.fetch_add(load.logged.wrapping_sub(self.load.logged), Ordering::Relaxed);
        counts.memory.fetch_add(load.memory.wrapping_sub(self.load.memory), Ordering::Relaxed);
        self.load = load;
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.set(Load::default());
    }
}

impl Tally {
    /// One that counts with this one, and what it counts itself besides.
    pub(crate) fn part(&self) -> Self {
        Self { all: Arc::clone(&self.all), part: Arc::default() }
    }

    pub(crate) fn count(&self) -> u64 {
        self.all.bindings.load(Ordering::Relaxed)
    }

    /// Those of its part.
    pub(crate) fn part_count(&self) -> u64 {
        self.part.load(Ordering::Relaxed)
    }

    /// What all declarations weigh together.
    pub(crate) fn load(&self) -> Load {
        Load { logged: self.all.logged.load(Ordering::Relaxed), memory: self.all.memory.load(Ordering::Relaxed) }
    }

    /// Counts one more, unless that is one too many.
    pub(super) fn admit(&self, limit: u64) -> bool {
        let more = |count| (count < limit).then_some(count + 1);
        let admitted = self.all.bindings.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        self.part.fetch_add(u64::from(admitted), Ordering::Relaxed);
        admitted
    }

    pub(super) fn left(&self, count: usize) {
        self.all.bindings.fetch_sub(count as u64, Ordering::Relaxed);
        self.part.fetch_sub(count as u64, Ordering::Relaxed);
    }
}

/// Key and arguments of a binding in one comparable form. Bytes, because field values have neither
/// order nor, with floating point, an equality to rely on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct BindingIdentity(Box<[u8]>);

impl Binding {
    /// Bytes of memory for its key and arguments, which are kept three times.
    pub(super) fn heap_bytes(&self) -> u64 {
        (3 * self.key.len() + 2 * self.arguments.heap_bytes()) as u64
    }
}

impl BindingIdentity {
    /// Not behind any other.
    pub(super) fn least() -> Self {
        Self(Box::default())
    }

    /// An error when the arguments are nested too deep to be kept.
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
