//! Conversion between AMQP 0-9-1's properties and tables and the broker's neutral ones.
//!
//! A message that was published by AMQP 0-9-1 is delivered with its property bytes untouched. They
//! are written again in three cases: the broker adds something, consumers must not see all headers,
//! or the publisher spoke another protocol.

use std::borrow::Cow;

use broker::{
    Content, Counts, Dialect, DialectId, Dialects, Error, Field, Id, Message, Overlay, Properties, Selected,
    ms_of_seconds, seconds_of_ms,
};

use crate::codec::decode_properties;
use crate::codec::properties::BasicProperties;
use crate::codec::table::{self, Table, Value, ValueRef};

/// Property flags and values of the content header, as on the wire. The number stands in the
/// journal.
pub(crate) const ENCODING: DialectId = DialectId(1);

/// The most bytes of a property that is a text.
const SHORT: usize = 255;

/// Reads the properties of messages published by AMQP 0-9-1.
#[derive(Debug, Clone, Copy, Default)]
pub struct Amqp091Dialect;

impl Dialect for Amqp091Dialect {
    fn id(&self) -> DialectId {
        ENCODING
    }

    fn read(&self, content: Content<'_>) -> Result<Properties, Error> {
        let basic = decode_properties(content.properties)
            .map_err(|error| Error::internal(format!("stored AMQP properties cannot be read: {error}")))?;
        Ok(to_neutral(&basic))
    }

    fn look_up<'m>(&self, content: Content<'m>, field: Field<'_>) -> Selected<'m> {
        let Ok(basic) = decode_properties(content.properties) else { return Selected::Null };
        let text = match field {
            Field::Header(name) => {
                let value = basic.headers.and_then(|headers| headers.get(name));
                return value.map_or(Selected::Null, select);
            }
            Field::Timestamp => {
                return basic.timestamp.map_or(Selected::Null, |time| Selected::Int(ms_of_seconds(time)));
            }
            Field::ContentType => basic.content_type,
            Field::ContentEncoding => basic.content_encoding,
            Field::CorrelationId(_) => basic.correlation_id,
            Field::ReplyTo => basic.reply_to,
            Field::MessageId(_) => basic.message_id,
            Field::Kind => basic.kind,
            Field::UserId => basic.user_id,
            Field::AppId => basic.app_id,
        };
        text.map_or(Selected::Null, |bytes| select(ValueRef::Str(bytes)))
    }
}

/// A field as selectors see it: numbers, booleans and texts. Other types are unknown to them.
fn select(value: ValueRef<'_>) -> Selected<'_> {
    match value {
        ValueRef::Bool(truth) => Selected::Bool(truth),
        ValueRef::F32(number) => Selected::Float(number.into()),
        ValueRef::F64(number) => Selected::Float(number),
        ValueRef::Decimal { scale, value } => Selected::Float(f64::from(value) / 10f64.powi(scale.into())),
        ValueRef::Str(bytes) => Selected::Text(String::from_utf8_lossy(bytes)),
        ValueRef::Timestamp(seconds) => i64::try_from(seconds).map_or(Selected::Null, Selected::Int),
        ValueRef::Void | ValueRef::Bytes(_) | ValueRef::Array(_) | ValueRef::Table(_) => Selected::Null,
        integer => integer.as_integer().map_or(Selected::Null, Selected::Int),
    }
}

fn to_neutral(basic: &BasicProperties<'_>) -> Properties {
    Properties {
        content_type: text(basic.content_type),
        content_encoding: text(basic.content_encoding),
        headers: basic.headers.map(table_to_neutral).unwrap_or_default(),
        persistent: basic.delivery_mode == Some(2),
        priority: basic.priority,
        correlation_id: text(basic.correlation_id).map(Id::Text),
        reply_to: text(basic.reply_to),
        expiration: basic.expiration.and_then(|digits| str::from_utf8(digits).ok()?.parse().ok()),
        message_id: text(basic.message_id).map(Id::Text),
        timestamp: basic.timestamp.map(ms_of_seconds),
        kind: text(basic.kind),
        user_id: text(basic.user_id),
        app_id: text(basic.app_id),
        cluster_id: text(basic.cluster_id),
    }
}

/// The text of a property. Bytes that are not UTF-8 are replaced, because the neutral form is for
/// other protocols.
fn text(bytes: Option<&[u8]>) -> Option<String> {
    bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// Arguments and headers in the broker's types.
pub(crate) fn table_to_neutral(table: Table<'_>) -> broker::Table {
    broker::Table(table.iter().map(|(name, value)| (name.to_owned(), value_to_neutral(value))).collect())
}

pub(crate) fn value_to_neutral(value: ValueRef<'_>) -> broker::Value {
    match value {
        ValueRef::Bool(v) => broker::Value::Bool(v),
        ValueRef::I8(v) => broker::Value::I8(v),
        ValueRef::U8(v) => broker::Value::U8(v),
        ValueRef::I16(v) => broker::Value::I16(v),
        ValueRef::U16(v) => broker::Value::U16(v),
        ValueRef::I32(v) => broker::Value::I32(v),
        ValueRef::U32(v) => broker::Value::U32(v),
        ValueRef::I64(v) => broker::Value::I64(v),
        ValueRef::F32(v) => broker::Value::F32(v),
        ValueRef::F64(v) => broker::Value::F64(v),
        ValueRef::Decimal { scale, value } => broker::Value::Decimal { scale, value },
        ValueRef::Str(bytes) => match str::from_utf8(bytes) {
            Ok(text) => broker::Value::Text(text.to_owned()),
            Err(_) => broker::Value::Bytes(bytes.to_vec()),
        },
        ValueRef::Bytes(bytes) => broker::Value::Bytes(bytes.to_vec()),
        ValueRef::Array(array) => broker::Value::Array(array.iter().map(value_to_neutral).collect()),
        ValueRef::Timestamp(v) => broker::Value::Timestamp(ms_of_seconds(v)),
        ValueRef::Table(table) => broker::Value::Table(table_to_neutral(table)),
        ValueRef::Void => broker::Value::Null,
    }
}

fn value_from_neutral(value: &broker::Value) -> Value {
    match value {
        broker::Value::Null => Value::Void,
        broker::Value::Bool(v) => Value::Bool(*v),
        broker::Value::I8(v) => Value::I8(*v),
        broker::Value::U8(v) => Value::U8(*v),
        broker::Value::I16(v) => Value::I16(*v),
        broker::Value::U16(v) => Value::U16(*v),
        broker::Value::I32(v) => Value::I32(*v),
        broker::Value::U32(v) => Value::U32(*v),
        broker::Value::I64(v) => Value::I64(*v),
        broker::Value::F32(v) => Value::F32(*v),
        broker::Value::F64(v) => Value::F64(*v),
        broker::Value::Decimal { scale, value } => Value::Decimal { scale: *scale, value: *value },
        broker::Value::Text(text) => Value::Str(text.as_bytes().to_vec()),
        broker::Value::Bytes(bytes) => Value::Bytes(bytes.clone()),
        broker::Value::Timestamp(v) => Value::Timestamp(seconds_of_ms(*v)),
        broker::Value::Array(values) => Value::Array(values.iter().map(value_from_neutral).collect()),
        broker::Value::Table(table) => Value::Table(fields_from_neutral(table)),
        lacking => lacking.nearest().map_or(Value::Void, |nearest| value_from_neutral(&nearest)),
    }
}

fn fields_from_neutral(table: &broker::Table) -> Vec<(String, Value)> {
    table.0.iter().map(|(name, value)| (name.clone(), value_from_neutral(value))).collect()
}

/// The property bytes to deliver `message` with: as published if possible.
///
/// # Errors
/// If a stored message is in an encoding that this build does not know.
#[inline]
pub(crate) fn delivered_properties<'m>(
    message: &Message,
    properties: &'m [u8],
    counts: Counts,
    dialects: &Dialects,
) -> Result<Cow<'m, [u8]>, Error> {
    if message.dialect() != ENCODING {
        return Ok(Cow::Owned(from_neutral(&dialects.read_shown(message, counts)?)));
    }
    match message.overlay(counts, dialects) {
        None => Ok(Cow::Borrowed(properties)),
        Some(overlay) => laid_over(properties, &overlay).map(Cow::Owned),
    }
}

/// Properties of this protocol, encoded again with what the broker adds, hides and takes away.
fn laid_over(properties: &[u8], overlay: &Overlay) -> Result<Vec<u8>, Error> {
    let basic = decode_properties(properties)
        .map_err(|error| Error::internal(format!("stored AMQP properties cannot be read: {error}")))?;
    let mut headers = basic.headers.map(|headers| headers.to_fields());
    if let Some(fields) = &mut headers {
        fields.retain(|(name, _)| !overlay.covers(name));
    }
    if !overlay.headers().is_empty() {
        let added = overlay.headers().iter().map(|(name, value)| (name.to_string(), value_from_neutral(value)));
        headers.get_or_insert_default().extend(added);
    }
    let expiration = basic.expiration.filter(|_| !overlay.takes_expiration());
    Ok(with_headers(BasicProperties { expiration, ..basic }, headers))
}

/// The property bytes for a message of another protocol.
pub fn from_neutral(neutral: &Properties) -> Vec<u8> {
    let texts = Texts::of(neutral);
    let basic = without_headers(neutral, &texts);
    let mut fields = fields_from_neutral(&neutral.headers);
    fields.extend(odd_ids(neutral, &texts));
    with_headers(basic, (!fields.is_empty()).then_some(fields))
}

/// The texts of properties that have no text in the neutral form.
struct Texts<'a> {
    expiration: Option<String>,
    correlation_id: Option<Cow<'a, str>>,
    message_id: Option<Cow<'a, str>>,
}

impl<'a> Texts<'a> {
    fn of(neutral: &'a Properties) -> Self {
        // An id that does not fit whole would be another id.
        let id = |id: &'a Option<Id>| id.as_ref()?.as_text().filter(|text| text.len() <= SHORT);
        Self {
            expiration: neutral.expiration.map(|ms| ms.to_string()),
            correlation_id: id(&neutral.correlation_id),
            message_id: id(&neutral.message_id),
        }
    }
}

/// Ids that are too long for a property of this protocol, or no text. They become headers, as in
/// RabbitMQ.
fn odd_ids(neutral: &Properties, texts: &Texts<'_>) -> impl Iterator<Item = (String, Value)> {
    let header = |name: &str, id: &Option<Id>, text: &Option<Cow<'_, str>>| {
        let id = id.clone().filter(|_| text.is_none())?;
        Some((name.to_owned(), value_from_neutral(&id.into())))
    };
    let message_id = header("x-message-id", &neutral.message_id, &texts.message_id);
    let correlation_id = header("x-correlation-id", &neutral.correlation_id, &texts.correlation_id);
    message_id.into_iter().chain(correlation_id)
}

/// Encodes properties with these headers.
fn with_headers(basic: BasicProperties<'_>, headers: Option<Vec<(String, Value)>>) -> Vec<u8> {
    let encoded = headers.map(|fields| table::encode_fields(&fields));
    // This was just encoded, so it is a valid table unless it is too large. Then the message has no
    // headers.
    let headers = encoded.as_deref().map(|bytes| Table::new(bytes).unwrap_or_default());
    BasicProperties { headers, ..basic }.to_bytes()
}

/// Neutral properties as this protocol's, without the headers.
fn without_headers<'a>(neutral: &'a Properties, texts: &'a Texts<'a>) -> BasicProperties<'a> {
    let short = |text: &'a Option<Cow<'a, str>>| text.as_deref().map(str::as_bytes);
    let bytes = |text: &'a Option<String>| text.as_deref().map(str::as_bytes);
    BasicProperties {
        content_type: bytes(&neutral.content_type),
        content_encoding: bytes(&neutral.content_encoding),
        headers: None,
        delivery_mode: Some(if neutral.persistent { 2 } else { 1 }),
        priority: neutral.priority,
        correlation_id: short(&texts.correlation_id),
        reply_to: bytes(&neutral.reply_to),
        expiration: bytes(&texts.expiration),
        message_id: short(&texts.message_id),
        timestamp: neutral.timestamp.map(seconds_of_ms),
        kind: bytes(&neutral.kind),
        user_id: bytes(&neutral.user_id),
        app_id: bytes(&neutral.app_id),
        cluster_id: bytes(&neutral.cluster_id),
    }
}

/// Encodes the properties of a message that is about to be published.
///
/// # Errors
/// `Precondition` if a text or the name of a header is too long for this protocol.
pub(crate) fn encode(neutral: &Properties) -> Result<Vec<u8>, Error> {
    let headers = table::encode_fields(&fields_from_neutral(&neutral.headers));
    let headers = Some(Table::new(&headers).unwrap_or_default()).filter(|_| !neutral.headers.is_empty());
    let encoded = BasicProperties { headers, ..without_headers(neutral, &Texts::of(neutral)) }.to_bytes();
    // Encoding cuts texts that are too long. That is accepted for messages that another protocol
    // has published already, and refused here.
    let is_whole = Amqp091Dialect.read(Content { properties: &encoded, body: &[] }).is_ok_and(|read| read == *neutral);
    is_whole.then_some(encoded).ok_or_else(|| {
        let text = "the properties do not fit into AMQP 0-9-1: shorten texts and names of headers to 255 bytes";
        Error::precondition(text)
    })
}

#[cfg(test)]
mod tests {
    use broker::IdForm;

    use super::*;

    /// A message with these properties.
    fn properties(properties: &[u8]) -> Content<'_> {
        Content { properties, body: b"" }
    }

    #[test]
    fn every_value_survives_the_way_there_and_back() {
        let values = vec![
            Value::Void,
            Value::Bool(true),
            Value::I8(-1),
            Value::U8(1),
            Value::I16(-2),
            Value::U16(2),
            Value::I32(-3),
            Value::U32(3),
            Value::I64(-4),
            Value::F32(0.5),
            Value::F64(-0.5),
            Value::Decimal { scale: 1, value: 5 },
            Value::from("text"),
            Value::Bytes(vec![0xFF]),
            Value::Timestamp(6),
            Value::Array(vec![Value::Void]),
            Value::Table(vec![("k".to_owned(), Value::from("v"))]),
        ];
        let fields: Vec<_> = values.into_iter().enumerate().map(|(i, value)| (format!("f{i}"), value)).collect();
        let bytes = table::encode_fields(&fields);
        let neutral = table_to_neutral(Table::new(&bytes).expect("a valid table"));
        assert_eq!(fields_from_neutral(&neutral), fields);
    }

    #[test]
    fn selectors_see_numbers_truth_and_text() {
        for (value, expected) in [
            (Value::Void, Selected::Null),
            (Value::Bool(true), Selected::Bool(true)),
            (Value::I8(-1), Selected::Int(-1)),
            (Value::U32(3), Selected::Int(3)),
            (Value::I64(-4), Selected::Int(-4)),
            (Value::F32(0.5), Selected::Float(0.5)),
            (Value::F64(-0.5), Selected::Float(-0.5)),
            (Value::Decimal { scale: 1, value: 5 }, Selected::Float(0.5)),
            (Value::from("text"), Selected::text("text")),
            (Value::Bytes(vec![1]), Selected::Null),
            (Value::Timestamp(6), Selected::Int(6)),
            (Value::Array(vec![]), Selected::Null),
            (Value::Table(vec![]), Selected::Null),
        ] {
            let headers = table::encode_fields(&[("k".to_owned(), value)]);
            let headers = Some(Table::new(&headers).expect("a valid table"));
            let raw = BasicProperties { headers, ..BasicProperties::default() }.to_bytes();
            assert_eq!(Amqp091Dialect.look_up(properties(&raw), Field::Header("k")), expected);
        }
    }

    #[test]
    fn the_neutral_view_shows_every_property() {
        let headers = table::encode_fields(&[("h".to_owned(), Value::from("v"))]);
        let basic = BasicProperties {
            content_type: Some(b"text/plain"),
            content_encoding: Some(b"gzip"),
            headers: Some(Table::new(&headers).expect("a valid table")),
            delivery_mode: Some(2),
            priority: Some(3),
            correlation_id: Some(b"c"),
            reply_to: Some(b"r\xff"),
            expiration: Some(b"1500"),
            message_id: Some(b"m"),
            timestamp: Some(7),
            kind: Some(b"t"),
            user_id: Some(b"u"),
            app_id: Some(b"a"),
            cluster_id: Some(b"x"),
        };
        let some = |text: &str| Some(text.to_owned());
        let expected = Properties {
            content_type: some("text/plain"),
            content_encoding: some("gzip"),
            headers: broker::Table(vec![("h".to_owned(), broker::Value::Text("v".to_owned()))]),
            persistent: true,
            priority: Some(3),
            correlation_id: Some("c".into()),
            reply_to: some("r\u{FFFD}"),
            expiration: Some(1500),
            message_id: Some("m".into()),
            timestamp: Some(7000),
            kind: some("t"),
            user_id: some("u"),
            app_id: some("a"),
            cluster_id: some("x"),
        };
        let raw = basic.to_bytes();
        assert_eq!(Amqp091Dialect.read(properties(&raw)), Ok(expected));
        for (field, expected) in [
            (Field::Header("h"), Selected::text("v")),
            (Field::Header("absent"), Selected::Null),
            (Field::ContentType, Selected::text("text/plain")),
            (Field::ContentEncoding, Selected::text("gzip")),
            (Field::CorrelationId(IdForm::Jms), Selected::text("c")),
            (Field::ReplyTo, Selected::text("r\u{FFFD}")),
            (Field::MessageId(IdForm::Plain), Selected::text("m")),
            (Field::Timestamp, Selected::Int(7000)),
            (Field::Kind, Selected::text("t")),
            (Field::UserId, Selected::text("u")),
            (Field::AppId, Selected::text("a")),
        ] {
            assert_eq!(Amqp091Dialect.look_up(properties(&raw), field), expected, "{field:?}");
        }
        assert_eq!(Amqp091Dialect.look_up(properties(&[0]), Field::Kind), Selected::Null);
        assert!(Amqp091Dialect.read(properties(&[0])).is_err());
    }

    #[test]
    fn ids_of_other_protocols_are_texts_or_headers() {
        let (long, bytes) = ("x".repeat(256), vec![0, 0xff]);
        for (id, expected, header) in [
            (Id::from("m"), Some("m"), None),
            (Id::Number(u64::MAX), Some("18446744073709551615"), None),
            (Id::Uuid([0x11; 16]), Some("urn:uuid:11111111-1111-1111-1111-111111111111"), None),
            (Id::Bytes(b"utf-8".to_vec()), Some("utf-8"), None),
            (Id::Bytes(bytes.clone()), None, Some(broker::Value::Bytes(bytes))),
            (Id::Text(long.clone()), None, Some(broker::Value::Text(long))),
        ] {
            let neutral = Properties {
                message_id: Some(id.clone()),
                correlation_id: Some(id.clone()),
                timestamp: Some(1999),
                ..Properties::default()
            };
            let read = Amqp091Dialect.read(properties(&from_neutral(&neutral))).expect("they were just written");
            let expected = expected.map(Id::from);
            assert_eq!(
                (read.message_id, read.correlation_id, read.timestamp),
                (expected.clone(), expected, Some(1000))
            );
            for name in ["x-message-id", "x-correlation-id"] {
                assert_eq!(read.headers.get(name), header.as_ref(), "{id:?}");
            }
        }
    }

    #[test]
    fn values_that_it_lacks_are_the_nearest_that_it_has() {
        for (value, expected) in [
            (broker::Value::Timestamp(1999), Value::Timestamp(1)),
            (broker::Value::Timestamp(-1), Value::Timestamp(0)),
            (broker::Value::U64(5), Value::I64(5)),
            (broker::Value::U64(u64::MAX), Value::from("18446744073709551615")),
            (broker::Value::Symbol("s".to_owned()), Value::from("s")),
            (broker::Value::Char('c'), Value::from("c")),
            (broker::Value::Decimal32([0x31, 0x80, 2, 0xee]), Value::Decimal { scale: 2, value: 750 }),
            (broker::Value::Decimal32([0xb2, 0x80, 0, 1]), Value::from("-1")),
            (broker::Value::Array(vec![broker::Value::U64(5)]), Value::Array(vec![Value::I64(5)])),
        ] {
            assert_eq!(value_from_neutral(&value), expected, "{value:?}");
        }
    }
}
