//! The headers with a publisher's instructions for one message: the id that makes it a duplicate,
//! when it is due, and whether it is retained.
//!
//! A protocol says at publish whether a message has such headers ([`is_instruction`]), and its
//! block keeps that. So they are not looked for in a message without them.

use std::sync::Arc;

use crate::clock::{LONGEST_SPAN_MS, SPAN_WANTED, TIME_WANTED};
use crate::error::Error;
use crate::value::{Table, Value, seconds_of_ms};

/// The headers with a message's id for deduplication, as RabbitMQ's plugin and Artemis call it. The
/// first one counts.
const IDS: [&str; 2] = ["x-deduplication-header", "_AMQ_DUPL_ID"];
/// How long a message's id is remembered, in milliseconds. It overrides the exchange or queue.
const REMEMBERED_FOR: &str = "x-cache-ttl";
/// The longest id, in bytes: ids are stored in memory and in the log as they are.
const ID_MAX: usize = 255;
/// The delay of a message in milliseconds: in AMQP 1.0's annotations, and as ActiveMQ calls it.
const AFTER: [&str; 2] = ["x-opt-delivery-delay", "AMQ_SCHEDULED_DELAY"];
/// When it is due, in milliseconds since 1970: in AMQP 1.0's annotations, and as Artemis calls it.
const AT: [&str; 2] = ["x-opt-delivery-time", "_AMQ_SCHED_DELIVERY"];
/// The delay in milliseconds of a message through a delayed exchange.
pub(crate) const DELAY: &str = "x-delay";

/// Whether the message becomes the last value of its topic.
pub(crate) const RETAIN: &str = "x-retain";

/// The longest delay, as a signed number.
const LONGEST: i64 = LONGEST_SPAN_MS as i64;

/// Whether a header of this name is an instruction for the broker.
#[inline]
pub fn is_instruction(name: &str) -> bool {
    matches!(
        name,
        "x-deduplication-header"
            | "_AMQ_DUPL_ID"
            | "x-delay"
            | "x-opt-delivery-delay"
            | "x-opt-delivery-time"
            | "AMQ_SCHEDULED_DELAY"
            | "_AMQ_SCHED_DELIVERY"
            | "x-retain"
    )
}

/// The instructions in the headers of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Instructions {
    /// Its id for deduplication.
    pub(crate) id: Option<Arc<[u8]>>,
    /// How long the id is remembered, in milliseconds.
    pub(crate) remembered_for: Option<u64>,
    /// When it is due, in milliseconds since 1970.
    at: Option<u64>,
    /// Its delay in milliseconds.
    after: Option<u64>,
}

impl Instructions {
    /// Reads them. Integers count as their digits, so that all protocols can express the same id.
    ///
    /// # Errors
    /// `Precondition` names the header that can't be understood.
    pub(crate) fn read(headers: &Table) -> Result<Self, Error> {
        let mut read = Self::default();
        if let Some((name, value)) = first(headers, &IDS) {
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
            let ms = ms.ok_or_else(|| refuse(REMEMBERED_FOR, &format!("{SPAN_WANTED} and above 0"), value))?;
            read.remembered_for = Some(ms as u64);
        }
        read.at = first_time(headers, &AT, TIME_WANTED, i64::MAX)?;
        read.after = first_time(headers, &AFTER, SPAN_WANTED, LONGEST)?;
        Ok(read)
    }

    /// The delay in milliseconds for a delayed exchange. A negative one is over.
    ///
    /// # Errors
    /// `Precondition` if it is invalid.
    pub(crate) fn exchange_delay(headers: &Table) -> Result<Option<u64>, Error> {
        let Some(value) = headers.get(DELAY) else { return Ok(None) };
        let ms = number_of(value).filter(|ms| *ms <= LONGEST);
        let ms = ms.ok_or_else(|| refuse(DELAY, SPAN_WANTED, value))?;
        Ok(u64::try_from(ms).ok().filter(|ms| *ms > 0))
    }

    /// Refuses headers whose due time is too far behind `published_at`.
    ///
    /// # Errors
    /// `Precondition` names the header.
    pub(crate) fn check_due(&self, headers: &Table, published_at: u64) -> Result<(), Error> {
        let latest = published_at.saturating_add(LONGEST_SPAN_MS);
        match first(headers, &AT) {
            Some((name, value)) if self.at.is_some_and(|at| at > latest) => Err(refuse(name, TIME_WANTED, value)),
            _ => Ok(()),
        }
    }

    /// When a message is due, in milliseconds since 1970. It was published at `published_at`,
    /// through an exchange with the delay `exchange`, if any. The message's own instructions count
    /// first. A stored message may be of a version that read every time farther ahead as ten years.
    pub(crate) fn due(&self, published_at: u64, exchange: Option<u64>) -> Option<u64> {
        let latest = published_at.saturating_add(LONGEST_SPAN_MS);
        let after = self.after.or(exchange).map(|ms| published_at.saturating_add(ms));
        self.at.or(after).map(|due| due.min(latest))
    }
}

/// Whether a message with these headers becomes the last value of its topic.
///
/// # Errors
/// `Precondition` for a value that is neither true nor false.
pub(crate) fn retains(headers: &Table) -> Result<bool, Error> {
    match headers.get(RETAIN) {
        None => Ok(false),
        Some(Value::Bool(truth)) => Ok(*truth),
        Some(Value::Text(text)) if text == "true" => Ok(true),
        Some(Value::Text(text)) if text == "false" => Ok(false),
        Some(other) => Err(refuse(RETAIN, "true or false", other)),
    }
}

/// The first of these headers that is there.
fn first<'a>(headers: &'a Table, names: &[&'a str]) -> Option<(&'a str, &'a Value)> {
    names.iter().find_map(|name| Some((*name, headers.get(name)?)))
}

/// The number in the first of these headers, which is `what`, at least 0 and at most `most`.
fn first_time(headers: &Table, names: &[&str], what: &str, most: i64) -> Result<Option<u64>, Error> {
    let Some((name, value)) = first(headers, names) else { return Ok(None) };
    let number = match value {
        Value::Timestamp(time) => Some(*time),
        other => number_of(other),
    };
    let number = number.filter(|number| (0..=most).contains(number)).ok_or_else(|| refuse(name, what, value))?;
    Ok(Some(number as u64))
}

fn id_of(value: &Value) -> Option<Arc<[u8]>> {
    Some(match value {
        Value::Text(text) => text.as_bytes().into(),
        Value::Bytes(bytes) => bytes.as_slice().into(),
        Value::Bool(truth) => truth.to_string().into_bytes().into(),
        Value::F32(number) => number.to_string().into_bytes().into(),
        Value::F64(number) => number.to_string().into_bytes().into(),
        Value::Timestamp(time) => seconds_of_ms(*time).to_string().into_bytes().into(),
        other => match other.as_integer() {
            Some(number) => number.to_string().into_bytes().into(),
            None => id_of(&other.nearest()?)?,
        },
    })
}

/// A number, the number in a text, or the whole part of a fraction, as RabbitMQ's plugins read it.
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
    fn a_message_is_retained_if_its_header_is_true() {
        for (value, expected) in [
            (Value::Bool(true), "Ok(true)"),
            (text("true"), "Ok(true)"),
            (Value::Bool(false), "Ok(false)"),
            (text("false"), "Ok(false)"),
            (Value::I32(1), "invalid message: header 'x-retain' must be true or false, not signedint"),
            (text("yes"), "invalid message: header 'x-retain' must be true or false, not longstr 'yes'"),
        ] {
            let said = retains(&table(&[(RETAIN, value)]));
            let said = said.map_or_else(|error| error.text, |retains| format!("Ok({retains})"));
            assert_eq!(said, expected);
        }
        assert_eq!((retains(&Table::default()), is_instruction(RETAIN)), (Ok(false), true));
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
                "header 'x-cache-ttl' must be a number of milliseconds, ten years at most and above 0, not signedint",
            ),
            (
                &[id(), (REMEMBERED_FOR, Value::I64(LONGEST + 1))],
                "header 'x-cache-ttl' must be a number of milliseconds, ten years at most and above 0, not long",
            ),
            (
                &[id(), (REMEMBERED_FOR, text("soon"))],
                "header 'x-cache-ttl' must be a number of milliseconds, ten years at most and above 0, not longstr 'soon'",
            ),
        ];
        for (fields, expected) in cases {
            let refused = Instructions::read(&table(fields)).unwrap_err();
            assert_eq!(refused.text, format!("invalid message: {expected}"), "{fields:?}");
        }
        let read = Instructions::read(&table(&[id(), (REMEMBERED_FOR, text("500"))])).unwrap();
        assert_eq!(read.remembered_for, Some(500));
    }

    #[test]
    fn a_message_is_due_as_it_says_first_then_as_its_exchange_says() {
        const BY: u64 = 1_000_000;
        let cases: &[(Fields<'_>, Option<u64>, Option<u64>)] = &[
            (&[], None, None),
            (&[], Some(5), Some(BY + 5)),
            (&[(AFTER[0], Value::I32(7))], None, Some(BY + 7)),
            (&[(AFTER[1], text("8"))], Some(5), Some(BY + 8)),
            (&[(AFTER[0], Value::F64(9.9))], None, Some(BY + 9)),
            (&[(AT[0], Value::Timestamp(2_000_000)), (AFTER[0], Value::I32(7))], Some(5), Some(2_000_000)),
            (&[(AT[1], Value::I64(3_000_000))], None, Some(3_000_000)),
            (&[(AT[1], Value::I64(i64::MAX))], None, Some(BY + 315_360_000_000)),
            (&[(AFTER[0], Value::I32(0))], Some(5), Some(BY)),
        ];
        for (fields, exchange, expected) in cases {
            assert_eq!(Instructions::read(&table(fields)).unwrap().due(BY, *exchange), *expected, "{fields:?}");
        }
        for (name, value) in [
            (AFTER[0], Value::I32(-1)),
            (AFTER[0], text("soon")),
            (AFTER[1], Value::I64(LONGEST + 1)),
            (AT[0], Value::I64(-1)),
            (AT[1], Value::Null),
        ] {
            let refused = Instructions::read(&table(&[(name, value)])).unwrap_err();
            assert!(refused.text.starts_with(&format!("invalid message: header '{name}' must be")), "{refused}");
        }
    }

    #[test]
    fn a_message_is_due_in_ten_years_at_the_latest() {
        let check = |name: &'static str, value: Value| {
            let headers = table(&[(name, value)]);
            Instructions::read(&headers).unwrap().check_due(&headers, 1000)
        };
        for name in AT {
            assert_eq!(check(name, Value::I64(LONGEST + 1000)), Ok(()));
            let refused = check(name, Value::I64(LONGEST + 1001)).unwrap_err();
            let expected = format!(
                "invalid message: header '{name}' must be a time in milliseconds since 1970, ten years ahead at most, not long"
            );
            assert_eq!(refused.text, expected);
        }
        assert!(check(AT[0], Value::Timestamp(LONGEST + 2000)).is_err());
        assert_eq!(check(AFTER[0], Value::I64(LONGEST)), Ok(()));
    }

    #[test]
    fn an_exchange_delays_by_whole_milliseconds_above_0() {
        let cases = [
            (Value::I32(5), Ok(Some(5))),
            (Value::U32(u32::MAX), Ok(Some(4_294_967_295))),
            (text("60000"), Ok(Some(60_000))),
            (Value::F64(1.7), Ok(Some(1))),
            (Value::I32(0), Ok(None)),
            (Value::I64(-5000), Ok(None)),
            (Value::Null, Err(())),
            (text("soon"), Err(())),
            (Value::I64(LONGEST + 1), Err(())),
        ];
        for (value, expected) in cases {
            let headers = table(&[(DELAY, value)]);
            assert_eq!(Instructions::exchange_delay(&headers).map_err(drop), expected, "{headers:?}");
        }
        assert_eq!(Instructions::exchange_delay(&table(&[])), Ok(None));
    }
}
