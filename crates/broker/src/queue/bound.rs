//! The durable bindings of a queue or an exchange, kept with it so that it can be restated without a search.

use journal::Owner;

use crate::message::value::Table;

/// A durable binding to this queue, kept here so that the queue can be restated and deleted without a search.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bound {
    pub(crate) exchange: Owner,
    pub(crate) key: String,
    /// By name: their order makes no other binding.
    pub(crate) arguments: Table,
}

impl Bound {
    pub(crate) fn new(exchange: Owner, key: &str, arguments: &Table) -> Self {
        let mut arguments = arguments.clone();
        arguments.0.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self { exchange, key: key.to_owned(), arguments }
    }
}

/// Adds a binding to those of a queue or an exchange, most of which have one.
pub(crate) fn keep_binding(list: &mut Vec<Bound>, bound: Bound) {
    list.reserve_exact(usize::from(list.is_empty()));
    list.push(bound);
}
