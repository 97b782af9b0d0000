//! The headers by which a publisher tells the broker what to do with one message: what makes it a duplicate of another.
//!
//! A protocol says at publish whether a message has such headers ([`is_instruction`]), and its block keeps that: whoever
//! routes or delivers one without need not look for them.

use std::sync::Arc;

use crate::error::Error;
use crate::message::value::{Table, Value};

/// What makes a message a duplicate, as RabbitMQ's plugin and as Artemis calls it; the first one counts.
const IDS: [&str; 2] = ["x-deduplication-header", "_AMQ_DUPL_ID"];
/// How long a message's id is remembered, in milliseconds, instead of what the exchange or queue says.
const REMEMBERED_FOR: &str = "x-cache-ttl";
/// The longest id, in bytes: ids are kept in memory and in the log as they are.
const ID_MAX: usize = 255;
/// The longest time that a header may name, in milliseconds: ten years.
const LONGEST: i64 = 315_360_000_000;

/// Whether a header of this name tells the broker what to do with the message.
#[inline]
pub fn is_instruction(name: &str) -> bool {
    matches!(name, "x-deduplication-header" | "_AMQ_DUPL_ID")
}

/// What the headers of a message say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Instructions {
    /// What makes it a duplicate.
    pub(crate) id: Option<Arc<[u8]>>,
    /// How long that is remembered, in milliseconds.
    pub(crate) remembered_for: Option<u64>,
}

impl Instructions {
    /// Reads them. Integers count as their digits, so that every protocol can say the same.
    ///
    /// # Errors
    /// `Precondition` names the header that can't be understood.
    pub(crate) fn read(headers: &Table) -> Result<Self, Error> {
        let mut read = Self::default();
        if let Some((name, value)) = IDS.iter().find_map(|name| Some((name, headers.get(name)?))) {
            let id = id_of(value).ok_or_else(|| refuse(name, "text, bytes or a number", value))?;
            if id.is_empty() || id.len() > ID_MAX {
                return Err(Error::precondition(format!(
                    "invalid message: header '{name}' must have 1 to {ID_MAX} bytes, not {}",
                    id.len()
                )));
            }
            read.id = Some(id);
        }
        if read.id.is_some()
            && let Some(value) = headers.get(REMEMBERED_FOR)
        {
            let ms = number_of(value).filter(|ms| (1..=LONGEST).contains(ms));
            let ms = ms.ok_or_else(|| refuse(REMEMBERED_FOR, "a number of milliseconds above 0", value))?;
            read.remembered_for = Some(ms as u64);
        }
        Ok(read)
    }
}

fn id_of(value: &Value) -> Option<Arc<[u8]>> {
    Some(match value {
        Value::Text(text) => text.as_bytes().into(),
        Value::Bytes(bytes) => bytes.as_slice().into(),
        Value::Bool(truth) => truth.to_string().into_bytes().into(),
        Value::F32(number) => number.to_string().into_bytes().into(),
        Value::F64(number) => number.to_string().into_bytes().into(),
        Value::Timestamp(seconds) => seconds.to_string().into_bytes().into(),
        other => other.as_integer()?.to_string().into_bytes().into(),
    })
}

/// A number, or text that says one, or the whole part of a fraction, as RabbitMQ's plugins take it.
fn number_of(value: &Value) -> Option<i64> {
    match value {
        Value::Text(text) => text.trim().parse().ok(),
        Value::F32(number) => Some(number.trunc() as i64),
        Value::F64(number) => Some(number.trunc() as i64),
        other => other.as_integer(),
    }
}

fn refuse(name: &str, what: &str, value: &Value) -> Error {
    let kind = value.type_name();
    let shown = value.as_text().map_or_else(String::new, |text| format!(" '{text}'"));
    Error::precondition(format!("invalid message: header '{name}' must be {what}, not {kind}{shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Fields<'a> = &'a [(&'a str, Value)];

    fn table(fields: Fields<'_>) -> Table {
        Table(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn ids_are_alike_in_every_type_that_can_say_them() {
        let cases: &[(Fields<'_>, Option<&str>)] = &[
            (&[], None),
            (&[("other", text("a"))], None),
            (&[(IDS[0], text("a"))], Some("a")),
            (&[(IDS[1], text("b")), (IDS[0], text("a"))], Some("a")),
            (&[(IDS[1], Value::Bytes(b"b".to_vec()))], Some("b")),
            (&[(IDS[0], Value::I8(-7))], Some("-7")),
            (&[(IDS[0], text("-7"))], Some("-7")),
            (&[(IDS[0], Value::F64(1.5))], Some("1.5")),
            (&[(IDS[0], Value::Bool(true))], Some("true")),
        ];
        for (fields, expected) in cases {
            let id = Instructions::read(&table(fields)).unwrap().id;
            assert_eq!(id.as_deref(), expected.map(str::as_bytes), "{fields:?}");
            let named = fields.iter().any(|(name, _)| is_instruction(name));
            assert_eq!(named, expected.is_some(), "{fields:?}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let id = || (IDS[0], text("a"));
        let long = "x".repeat(256);
        let cases: &[(Fields<'_>, &str)] = &[
            (&[(IDS[0], Value::Null)], "header 'x-deduplication-header' must be text, bytes or a number, not void"),
            (&[(IDS[1], Value::Array(vec![]))], "header '_AMQ_DUPL_ID' must be text, bytes or a number, not array"),
            (&[(IDS[0], text(""))], "header 'x-deduplication-header' must have 1 to 255 bytes, not 0"),
            (&[(IDS[0], text(&long))], "header 'x-deduplication-header' must have 1 to 255 bytes, not 256"),
            (
                &[id(), (REMEMBERED_FOR, Value::I32(0))],
                "header 'x-cache-ttl' must be a number of milliseconds above 0, not signedint",
            ),
            (
                &[id(), (REMEMBERED_FOR, text("soon"))],
                "header 'x-cache-ttl' must be a number of milliseconds above 0, not longstr 'soon'",
            ),
        ];
        for (fields, expected) in cases {
            let refused = Instructions::read(&table(fields)).unwrap_err();
            assert_eq!(refused.text, format!("invalid message: {expected}"), "{fields:?}");
        }
        let read = Instructions::read(&table(&[id(), (REMEMBERED_FOR, text("500"))])).unwrap();
        assert_eq!(read.remembered_for, Some(500));
    }
}
