//! Selectors as data: what the specification and other brokers' suites say of them, and a naive
//! oracle.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic here is a failed test")]

mod cases;
mod errors;
mod oracle;

use selector::{Lookup, Value};

/// Properties by name.
pub(crate) struct Named<'a>(pub(crate) &'a [(&'a str, Value<'a>)]);

impl Lookup for Named<'_> {
    fn get(&self, name: &str) -> Value<'_> {
        self.0.iter().find(|(known, _)| *known == name).map_or(Value::Null, |(_, value)| value.clone())
    }
}
