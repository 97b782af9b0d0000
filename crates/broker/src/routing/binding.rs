//! One binding, what makes two of them the same one (destination, key and arguments, whatever the order of the arguments),
//! and how many there are of all exchanges together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::encoding::{write_table, write_text};
use crate::error::Error;
use crate::message::value::Table;

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

/// How many bindings there are, of all exchanges that were given the same one. Each exchange's [`super::Bindings`] keep it true
/// for as long as they are.
#[derive(Clone, Default, Debug)]
pub(crate) struct Tally(Arc<AtomicU64>);

impl Tally {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts one more, unless that is one too many.
    pub(super) fn admit(&self, limit: u64) -> bool {
        let more = |count| (count < limit).then_some(count + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    pub(super) fn left(&self, count: usize) {
        self.0.fetch_sub(count as u64, Ordering::Relaxed);
    }
}

/// Key and arguments of a binding in one comparable form. Bytes, because field values have neither order nor, with
/// floating point, an equality to rely on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Identity(Box<[u8]>);

impl Identity {
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
