//! STOMP headers and the neutral properties of a message, in both directions.
//!
//! The broker stores those header lines of the SEND that belong to the message, in the order of
//! arrival, with the escapes of STOMP 1.2. `read` can read everything that `check` accepted. The
//! names are those of RabbitMQ's STOMP plugin.

use std::borrow::Cow;

use broker::{
    Content, Dialect, DialectId, Error, Field, Id, LONGEST_SPAN_MS, Properties, SPAN_WANTED, Selected, TIME_WANTED,
    Value, decimal_text, ms_of_seconds, seconds_of_ms,
};
use memchr::memchr;

use crate::codec::unescape;

/// The frame's header lines `name:value\n`, escaped as STOMP 1.2 writes them. The number stands in
/// the journal.
pub(crate) const ENCODING: DialectId = DialectId(2);

/// The dialect of messages that were published over STOMP.
#[derive(Debug, Clone, Copy, Default)]
pub struct StompDialect;

impl Dialect for StompDialect {
    fn id(&self) -> DialectId {
        ENCODING
    }

    fn read(&self, content: Content<'_>) -> Result<Properties, Error> {
        let mut properties = Properties::default();
        for (name, value) in lines(content.properties) {
            let value = text(value);
            match name {
                b"content-type" => properties.content_type = Some(value),
                b"content-encoding" => properties.content_encoding = Some(value),
                b"persistent" => properties.persistent = value == "true",
                b"priority" => properties.priority = value.trim().parse().ok(),
                b"correlation-id" => properties.correlation_id = Some(Id::Text(value)),
                b"reply-to" => properties.reply_to = Some(value),
                b"expiration" => properties.expiration = value.trim().parse().ok(),
                b"amqp-message-id" => properties.message_id = Some(Id::Text(value)),
                b"timestamp" => properties.timestamp = value.trim().parse().ok().map(ms_of_seconds),
                b"type" => properties.kind = Some(value),
                b"user-id" => properties.user_id = Some(value),
                b"app-id" => properties.app_id = Some(value),
                _ => properties.headers.0.push((text(name), Value::Text(value))),
            }
        }
        Ok(properties)
    }

    fn look_up<'m>(&self, content: Content<'m>, field: Field<'_>) -> Selected<'m> {
        let name = match field {
            Field::Header(name) => name,
            Field::ContentType => "content-type",
            Field::ContentEncoding => "content-encoding",
            Field::CorrelationId(_) => "correlation-id",
            Field::ReplyTo => "reply-to",
            Field::MessageId(_) => "amqp-message-id",
            Field::Timestamp => "timestamp",
            Field::Kind => "type",
            Field::UserId => "user-id",
            Field::AppId => "app-id",
        };
        let found =
            lines(content.properties).find(|(known, _)| *known == name.as_bytes() || is_escaped_as(known, name));
        let Some(Ok(value)) = found.map(|(_, value)| str::from_utf8(value)) else { return Selected::Null };
        match field {
            Field::Timestamp => value.trim().parse().map_or(Selected::Null, |time| Selected::Int(ms_of_seconds(time))),
            _ => Selected::Text(unescape(value)),
        }
    }
}

/// Whether a stored name has escapes and is this name.
fn is_escaped_as(known: &[u8], name: &str) -> bool {
    memchr(b'\\', known).is_some() && str::from_utf8(known).is_ok_and(|known| unescape(known) == Cow::Borrowed(name))
}

/// The stored header lines as written; names and values still have escapes.
pub(crate) fn lines(raw: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    raw.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = memchr(b':', line)?;
        Some((&line[..colon], &line[colon + 1..]))
    })
}

/// A stored name or value without escapes. Only UTF-8 is ever stored.
pub(crate) fn text(raw: &[u8]) -> String {
    unescape(&String::from_utf8_lossy(raw)).into_owned()
}

/// The values that a SEND gives to the broker, checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Marked {
    pub(crate) persistent: bool,
    pub(crate) priority: Option<u8>,
    /// Milliseconds.
    pub(crate) expiration: Option<u64>,
    /// Whether it has headers with instructions for the broker.
    pub(crate) instructed: bool,
}

impl Marked {
    /// Reads `expires`, by which ActiveMQ and Artemis give the time of death in milliseconds since
    /// 1970; 0 is never. If a message has a time to live too, the earlier end counts.
    pub(crate) fn expires(&mut self, value: &str, now: u64) -> Result<(), Error> {
        let left = value.trim().parse().map(|at: u64| (at > 0).then(|| at.saturating_sub(now)));
        match left {
            Ok(None) => Ok(()),
            Ok(Some(left)) if left <= LONGEST_SPAN_MS => {
                self.lives(left);
                Ok(())
            }
            _ => Err(Error::precondition(format!("header 'expires' must be {TIME_WANTED}, not '{value}'"))),
        }
    }

    /// Limits the time to live to these milliseconds.
    fn lives(&mut self, ms: u64) {
        self.expiration = Some(self.expiration.map_or(ms, |other| other.min(ms)));
    }

    /// Reads one header of a SEND, and refuses a value that could not be read back. The error names
    /// the header.
    pub(crate) fn note(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let refuse = |what: &str| Err(Error::precondition(format!("header '{name}' must be {what}, not '{value}'")));
        match name {
            "persistent" => self.persistent = value == "true",
            "priority" => match value.trim().parse() {
                Ok(priority) => self.priority = Some(priority),
                Err(_) => return refuse("a number from 0 to 255"),
            },
            "expiration" => match value.trim().parse() {
                Ok(ms) if ms <= LONGEST_SPAN_MS => self.lives(ms),
                _ => return refuse(SPAN_WANTED),
            },
            "timestamp" if value.trim().parse::<u64>().is_err() => {
                return refuse("a number of seconds since 1970");
            }
            _ => self.instructed |= broker::is_instruction(name),
        }
        Ok(())
    }
}

/// Passes the headers that a STOMP subscriber sees for these properties to `add`, in a fixed order.
pub(crate) fn write(properties: &Properties, add: &mut dyn FnMut(&str, &str)) {
    let mut optional = |name: &str, value: &Option<String>| {
        if let Some(value) = value {
            add(name, value);
        }
    };
    // An id of bytes that are no text is left out, as such a header is.
    let id = |id: &Option<Id>| Some(id.as_ref()?.as_text()?.into_owned());
    optional("content-type", &properties.content_type);
    optional("content-encoding", &properties.content_encoding);
    optional("correlation-id", &id(&properties.correlation_id));
    optional("reply-to", &properties.reply_to);
    optional("amqp-message-id", &id(&properties.message_id));
    optional("type", &properties.kind);
    optional("user-id", &properties.user_id);
    optional("app-id", &properties.app_id);
    optional("priority", &properties.priority.map(|number| number.to_string()));
    optional("expiration", &properties.expiration.map(|number| number.to_string()));
    optional("timestamp", &properties.timestamp.map(|time| seconds_of_ms(time).to_string()));
    if properties.persistent {
        add("persistent", "true");
    }
    write_fields(properties.headers.0.iter().map(|(name, value)| (name.as_str(), value)), add);
}

/// Headers of a MESSAGE that only the server may set.
const SERVERS: [&str; 6] = ["subscription", "message-id", "ack", "destination", "redelivered", "content-length"];

/// Passes each field that can be a header of a MESSAGE to `add`. Lists, tables and bytes have no
/// text form in STOMP and are left out, as in RabbitMQ's plugin. A field without a name is left
/// out, because no STOMP client reads it. So is a field with the name of a header of the server: a
/// client could take it for that header.
pub(crate) fn write_fields<'f>(fields: impl Iterator<Item = (&'f str, &'f Value)>, add: &mut dyn FnMut(&str, &str)) {
    for (name, value) in fields.filter(|(name, _)| !name.is_empty() && !SERVERS.contains(name)) {
        if let Some(value) = as_text(value) {
            add(name, &value);
        }
    }
}

fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.clone()),
        Value::Bool(yes) => Some(yes.to_string()),
        Value::F32(number) => Some(number.to_string()),
        Value::F64(number) => Some(number.to_string()),
        Value::Timestamp(time) => Some(seconds_of_ms(*time).to_string()),
        Value::Decimal { scale, value } => Some(decimal_text(*scale, *value)),
        Value::Null | Value::Bytes(_) | Value::Array(_) | Value::Table(_) => None,
        other => match other.nearest() {
            Some(nearest) => as_text(&nearest),
            None => other.as_integer().map(|number| number.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use broker::{IdForm, Table};

    use super::*;

    /// A message with these header lines.
    fn sent(properties: &[u8]) -> Content<'_> {
        Content { properties, body: b"" }
    }

    const ALL: &[u8] = b"content-type:text/plain\ncontent-encoding:gzip\npersistent:true\npriority:7\n\
        correlation-id:c\\c1\nreply-to:/queue/r\nexpiration:60000\namqp-message-id:m\ntimestamp:1700000000\n\
        type:t\nuser-id:guest\napp-id:a\nx\\ny:\\\\z\n";

    fn neutral() -> Properties {
        Properties {
            content_type: Some("text/plain".into()),
            content_encoding: Some("gzip".into()),
            headers: Table(vec![("x\ny".into(), Value::Text("\\z".into()))]),
            persistent: true,
            priority: Some(7),
            correlation_id: Some("c:1".into()),
            reply_to: Some("/queue/r".into()),
            expiration: Some(60_000),
            message_id: Some("m".into()),
            timestamp: Some(1_700_000_000_000),
            kind: Some("t".into()),
            user_id: Some("guest".into()),
            app_id: Some("a".into()),
            // Its name does not exist in this protocol.
            cluster_id: None,
        }
    }

    #[test]
    fn every_property_crosses_in_both_directions() {
        assert_eq!(StompDialect.read(sent(ALL)).unwrap(), neutral());
        let mut shown = Vec::new();
        write(&neutral(), &mut |name, value| shown.push(format!("{name}:{value}")));
        let mut stored: Vec<String> = lines(ALL).map(|(n, v)| format!("{}:{}", text(n), text(v))).collect();
        shown.sort();
        stored.sort();
        assert_eq!(shown, stored);
        assert_eq!(StompDialect.read(sent(b"")).unwrap(), Properties::default());
    }

    #[test]
    fn selectors_see_headers_as_text() {
        for (field, expected) in [
            (Field::Header("x\ny"), Selected::text("\\z")),
            (Field::Header("priority"), Selected::text("7")),
            (Field::Header("absent"), Selected::Null),
            (Field::ContentType, Selected::text("text/plain")),
            (Field::ContentEncoding, Selected::text("gzip")),
            (Field::CorrelationId(IdForm::Plain), Selected::text("c:1")),
            (Field::ReplyTo, Selected::text("/queue/r")),
            (Field::MessageId(IdForm::Jms), Selected::text("m")),
            (Field::Timestamp, Selected::Int(1_700_000_000_000)),
            (Field::Kind, Selected::text("t")),
            (Field::UserId, Selected::text("guest")),
            (Field::AppId, Selected::text("a")),
        ] {
            assert_eq!(StompDialect.look_up(sent(ALL), field), expected, "{field:?}");
        }
        assert_eq!(StompDialect.look_up(sent(b""), Field::Kind), Selected::Null);
    }

    #[test]
    fn fields_that_cannot_be_headers_of_a_message_are_left_out() {
        let fields = [
            ("a", Value::I8(-1)),
            ("b", Value::Bool(true)),
            ("c", Value::Null),
            ("d", Value::Array(vec![])),
            ("e", Value::Table(Table::default())),
            ("f", Value::F64(0.5)),
            ("g", Value::Bytes(vec![1])),
            ("h", Value::Timestamp(9999)),
            ("", Value::Bool(true)),
            ("content-length", Value::I32(0)),
            ("ack", Value::Text("S-0-1".into())),
            ("content-length2", Value::I32(0)),
            ("i", Value::U64(u64::MAX)),
            ("j", Value::Char('x')),
            ("k", Value::Decimal { scale: 2, value: 1250 }),
            ("l", Value::Decimal32([0xb2, 0x80, 0, 1])),
            ("l", Value::Bool(false)),
        ];
        let mut shown = Vec::new();
        write_fields(fields.iter().map(|(name, value)| (*name, value)), &mut |name, value| {
            shown.push(format!("{name}:{value}"))
        });
        let others = ["i:18446744073709551615", "j:x", "k:12.50", "l:-1", "l:false"];
        assert_eq!(shown, [&["a:-1", "b:true", "f:0.5", "h:9", "content-length2:0"][..], &others].concat());
    }

    #[test]
    fn ids_of_other_protocols_are_texts_or_left_out() {
        for (id, expected) in [
            (Id::from("m"), Some("m")),
            (Id::Number(7), Some("7")),
            (Id::Uuid([0x11; 16]), Some("urn:uuid:11111111-1111-1111-1111-111111111111")),
            (Id::Bytes(b"utf-8".to_vec()), Some("utf-8")),
            (Id::Bytes(vec![0xff]), None),
        ] {
            let properties =
                Properties { correlation_id: Some(id.clone()), message_id: Some(id), ..Properties::default() };
            let mut shown = Vec::new();
            write(&properties, &mut |name, value| shown.push(format!("{name}:{value}")));
            let both = ["correlation-id", "amqp-message-id"].map(|name| expected.map(|id| format!("{name}:{id}")));
            assert_eq!(shown, both.into_iter().flatten().collect::<Vec<_>>());
        }
    }

    #[test]
    fn numbers_are_checked_when_they_are_published() {
        for (name, value, expected) in [
            ("persistent", "true", Some(Marked { persistent: true, ..Marked::default() })),
            ("persistent", "yes", Some(Marked::default())),
            ("priority", " 255 ", Some(Marked { priority: Some(255), ..Marked::default() })),
            ("priority", "256", None),
            ("priority", "high", None),
            ("expiration", "0", Some(Marked { expiration: Some(0), ..Marked::default() })),
            ("expiration", "5184000000", Some(Marked { expiration: Some(5_184_000_000), ..Marked::default() })),
            ("expiration", "315360000000", Some(Marked { expiration: Some(315_360_000_000), ..Marked::default() })),
            ("expiration", "315360000001", None),
            ("expiration", "-1", None),
            ("timestamp", "1", Some(Marked::default())),
            ("timestamp", "now", None),
            ("other", "x", Some(Marked::default())),
            ("_AMQ_DUPL_ID", "x", Some(Marked { instructed: true, ..Marked::default() })),
        ] {
            let mut marked = Marked::default();
            let noted = marked.note(name, value);
            assert_eq!(noted.is_ok().then_some(marked), expected, "{name}:{value}");
            assert!(noted.is_ok() || noted.unwrap_err().text.contains(name));
        }
    }

    #[test]
    fn of_a_lifetime_and_a_time_of_death_the_earlier_end_counts() {
        for (expires, lifetime, expected) in [
            ("0", None, Some(None)),
            ("1500", None, Some(Some(500))),
            ("900", None, Some(Some(0))),
            ("1500", Some("100"), Some(Some(100))),
            ("1500", Some("900"), Some(Some(500))),
            ("315360001000", None, Some(Some(315_360_000_000))),
            ("315360001001", None, None),
            ("315360001001", Some("100"), None),
            ("9223372036854775807", None, None),
            ("soon", None, None),
        ] {
            for first in [true, false] {
                let mut marked = Marked::default();
                let note = |marked: &mut Marked| lifetime.is_none_or(|ms| marked.note("expiration", ms).is_ok());
                let noted = if first { note(&mut marked) } else { true };
                let taken = marked.expires(expires, 1000).is_ok() && noted && (first || note(&mut marked));
                assert_eq!(taken.then_some(marked.expiration), expected, "{expires} {lifetime:?}");
            }
        }
    }
}
