//! Whether a second declaration equals the existing one; if not, the first difference in RabbitMQ's
//! words.
//!
//! Only arguments that the existing queue may have are compared. Values are compared within a class
//! of types: integers of all widths are one class, floating point of both another.

use std::fmt::Display;

use super::{ALTERNATE_EXCHANGE, NEED_NOT_BE_REPEATED, QUEUE_TYPE, QueueType, known_to};
use crate::error::Error;
use crate::routing::ExchangeKind;
use crate::value::{Table, Value, seconds_of_ms};

/// The declaration of an existing or a wanted queue.
#[derive(Copy, Clone, PartialEq, Debug)]
pub(crate) struct Declared<'a> {
    /// Survives a restart. An exclusive queue counts as not durable, whatever its declaration says.
    pub(crate) durable: bool,
    /// Deleted with its last consumer.
    pub(crate) auto_delete: bool,
    /// As the client gave them.
    pub(crate) arguments: &'a Table,
}

/// The declaration of an existing or a wanted exchange.
#[derive(Copy, Clone, PartialEq, Debug)]
pub(crate) struct DeclaredExchange<'a> {
    /// How it routes.
    pub(crate) kind: ExchangeKind,
    /// Survives a restart.
    pub(crate) durable: bool,
    /// Deleted with its last binding.
    pub(crate) auto_delete: bool,
    /// Clients may not publish to it.
    pub(crate) internal: bool,
    /// As the client gave them.
    pub(crate) arguments: &'a Table,
}

/// The first difference between two declarations of queue `name` in `vhost`, as an error of kind
/// `Precondition`. Exclusivity is not compared here: it has an error of another kind, which comes
/// first.
pub(crate) fn inequivalence(name: &str, vhost: &str, existing: &Declared<'_>, wanted: &Declared<'_>) -> Option<Error> {
    let object = format!("queue '{name}' in vhost '{vhost}'");
    // An existing queue has a known type.
    let mut known = QueueType::lists(existing.arguments).iter().copied().flatten();
    property(&object, "durable", existing.durable, wanted.durable)
        .or_else(|| property(&object, "auto_delete", existing.auto_delete, wanted.auto_delete))
        .or_else(|| known.find_map(|key| argument(&object, key, existing.arguments, wanted.arguments)))
}

/// The first difference between two declarations of exchange `name` in `vhost`, as an error of kind
/// `Precondition`. The hashed value of a consistent-hash exchange is compared too, unlike in
/// RabbitMQ's plugin: no argument is accepted and ignored.
pub(crate) fn exchange_inequivalence(
    name: &str,
    vhost: &str,
    existing: &DeclaredExchange<'_>,
    wanted: &DeclaredExchange<'_>,
) -> Option<Error> {
    let object = format!("exchange '{name}' in vhost '{vhost}'");
    let kinds = (existing.kind.name(), wanted.kind.name());
    let mut known = [ALTERNATE_EXCHANGE].iter().chain(known_to(existing.kind));
    property(&object, "type", kinds.0, kinds.1)
        .or_else(|| property(&object, "durable", existing.durable, wanted.durable))
        .or_else(|| property(&object, "auto_delete", existing.auto_delete, wanted.auto_delete))
        .or_else(|| property(&object, "internal", existing.internal, wanted.internal))
        .or_else(|| known.find_map(|key| argument(&object, key, existing.arguments, wanted.arguments)))
}

fn property<T: PartialEq + Display>(object: &str, key: &str, existing: T, wanted: T) -> Option<Error> {
    (existing != wanted).then(|| quoted(object, key, &existing.to_string(), &wanted.to_string()))
}

fn argument(object: &str, key: &str, existing: &Table, wanted: &Table) -> Option<Error> {
    // A missing type equals the default one.
    if key == QUEUE_TYPE && QueueType::of(existing).is_ok() && QueueType::of(existing) == QueueType::of(wanted) {
        return None;
    }
    match (existing.get(key), wanted.get(key)) {
        (None, None) => None,
        (Some(_), None) if NEED_NOT_BE_REPEATED.contains(&key) => None,
        (Some(existing), Some(wanted)) if same(existing, wanted) => None,
        (Some(existing), Some(wanted)) if shown(existing) != shown(wanted) => {
            Some(quoted(object, key, &shown(existing), &shown(wanted)))
        }
        // The types make the difference, so the text names them.
        (existing, wanted) => Some(difference(object, key, &typed(existing), &typed(wanted))),
    }
}

fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::F32(one), Value::F64(other)) | (Value::F64(other), Value::F32(one)) => f64::from(*one) == *other,
        _ => one == other || one.as_integer().is_some_and(|number| other.as_integer() == Some(number)),
    }
}

fn quoted(object: &str, key: &str, existing: &str, wanted: &str) -> Error {
    difference(object, key, &format!("'{existing}'"), &format!("'{wanted}'"))
}

fn difference(object: &str, key: &str, existing: &str, wanted: &str) -> Error {
    Error::precondition(format!("inequivalent arg '{key}' for {object}: received {wanted} but current is {existing}"))
}

fn typed(value: Option<&Value>) -> String {
    match value {
        None => "none".to_owned(),
        Some(value) => format!("the value '{}' of type '{}'", shown(value), value.type_name()),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Bool(truth) => truth.to_string(),
        Value::F32(number) => number.to_string(),
        Value::F64(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Timestamp(time) => seconds_of_ms(*time).to_string(),
        Value::Decimal { scale, value } => format!("{value}e-{scale}"),
        Value::Null => "undefined".to_owned(),
        Value::Array(values) => format!("a list of {}", values.len()),
        Value::Table(table) => format!("a table of {}", table.len()),
        integer => integer.as_integer().map(|number| number.to_string()).unwrap_or_default(),
    }
}
