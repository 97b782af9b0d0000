//! Conversion between AMQP 0-9-1's properties and tables and the broker's neutral ones.
//!
//! A message that was published by AMQP 0-9-1 is delivered with its property bytes untouched. They
//! are written again in three cases: the broker adds something, consumers must not see all headers,
//! or the publisher spoke another protocol.

use std::borrow::Cow;

use broker::{Counts, Dialect, DialectId, Dialects, Error, Field, Message, Overlay, Properties, Selected};

use crate::codec::decode_properties;
use crate::codec::properties::BasicProperties;
use crate::codec::table::{self, Table, Value, ValueRef};

/// Property flags and values of the content header, as on the wire. The number stands in the
/// journal.
pub(crate) const ENCODING: DialectId = DialectId(1);

/// Reads the properties of messages published by AMQP 0-9-1.
#[derive(Debug, Clone, Copy, Default)]
pub struct Amqp091Dialect;

impl Dialect for Amqp091Dialect {
    fn id(&self) -> DialectId {
        ENCODING
    }

    fn read(&self, raw: &[u8]) -> Result<Properties, Error> {
        let basic = decode_properties(raw)
            .map_err(|error| Error::internal(format!("stored AMQP properties cannot be read: {error}")))?;
        Ok(to_neutral(&basic))
    }

    fn look_up<'m>(&self, raw: &'m [u8], field: Field<'_>) -> Selected<'m> {
        let Ok(basic) = decode_properties(raw) else { return Selected::Null };
        let text = match field {
            Field::Header(name) => {
                let value = basic.headers.and_then(|headers| headers.get(name));
                return value.map_or(Selected::Null, select);
            }
            Field::Timestamp => {
                return basic.timestamp.map_or(Selected::Null, |time| select(ValueRef::Timestamp(time)));
            }
            Field::ContentType => basic.content_type,
            Field::ContentEncoding => basic.content_encoding,
            Field::CorrelationId => basic.correlation_id,
            Field::ReplyTo => basic.reply_to,
            Field::MessageId => basic.message_id,
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
        correlation_id: text(basic.correlation_id),
        reply_to: text(basic.reply_to),
        expiration: basic.expiration.and_then(|digits| str::from_utf8(digits).ok()?.parse().ok()),
        message_id: text(basic.message_id),
        timestamp: basic.timestamp,
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
        ValueRef::Timestamp(v) => broker::Value::Timestamp(v),
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
        broker::Value::Timestamp(v) => Value::Timestamp(*v),
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
    message: &'m Message,
    counts: Counts,
    dialects: &Dialects,
) -> Result<Cow<'m, [u8]>, Error> {
    if message.dialect() != ENCODING {
        return Ok(Cow::Owned(from_neutral(&dialects.read_shown(message, counts)?)));
    }
    match message.overlay(counts, dialects) {
        None => Ok(Cow::Borrowed(message.properties())),
        Some(overlay) => laid_over(message.properties(), &overlay).map(Cow::Owned),
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
        let added = overlay.headers().iter().map(|(name, value)| ((*name).to_owned(), value_from_neutral(value)));
        headers.get_or_insert_default().extend(added);
    }
    let expiration = basic.expiration.filter(|_| !overlay.takes_expiration());
    Ok(with_headers(BasicProperties { expiration, ..basic }, headers))
}

/// The property bytes for a message of another protocol.
fn from_neutral(neutral: &Properties) -> Vec<u8> {
    let expiration = neutral.expiration.map(|ms| ms.to_string());
    let basic = without_headers(neutral, expiration.as_deref());
    with_headers(basic, (!neutral.headers.is_empty()).then(|| fields_from_neutral(&neutral.headers)))
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
fn without_headers<'a>(neutral: &'a Properties, expiration: Option<&'a str>) -> BasicProperties<'a> {
    let bytes = |text: &'a Option<String>| text.as_deref().map(str::as_bytes);
    BasicProperties {
        content_type: bytes(&neutral.content_type),
        content_encoding: bytes(&neutral.content_encoding),
        headers: None,
        delivery_mode: Some(if neutral.persistent { 2 } else { 1 }),
        priority: neutral.priority,
        correlation_id: bytes(&neutral.correlation_id),
        reply_to: bytes(&neutral.reply_to),
        expiration: expiration.map(str::as_bytes),
        message_id: bytes(&neutral.message_id),
        timestamp: neutral.timestamp,
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
    let expiration = neutral.expiration.map(|ms| ms.to_string());
    let encoded = BasicProperties { headers, ..without_headers(neutral, expiration.as_deref()) }.to_bytes();
    // Encoding cuts texts that are too long. That is accepted for messages that another protocol
    // has published already, and refused here.
    let is_whole = Amqp091Dialect.read(&encoded).is_ok_and(|read| read == *neutral);
    is_whole.then_some(encoded).ok_or_else(|| {
        let text = "the properties do not fit into AMQP 0-9-1: shorten texts and names of headers to 255 bytes";
        Error::precondition(text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(Amqp091Dialect.look_up(&raw, Field::Header("k")), expected);
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
            correlation_id: some("c"),
            reply_to: some("r\u{FFFD}"),
            expiration: Some(1500),
            message_id: some("m"),
            timestamp: Some(7),
            kind: some("t"),
            user_id: some("u"),
            app_id: some("a"),
            cluster_id: some("x"),
        };
        let raw = basic.to_bytes();
        assert_eq!(Amqp091Dialect.read(&raw), Ok(expected));
        for (field, expected) in [
            (Field::Header("h"), Selected::text("v")),
            (Field::Header("absent"), Selected::Null),
            (Field::ContentType, Selected::text("text/plain")),
            (Field::ContentEncoding, Selected::text("gzip")),
            (Field::CorrelationId, Selected::text("c")),
            (Field::ReplyTo, Selected::text("r\u{FFFD}")),
            (Field::MessageId, Selected::text("m")),
            (Field::Timestamp, Selected::Int(7)),
            (Field::Kind, Selected::text("t")),
            (Field::UserId, Selected::text("u")),
            (Field::AppId, Selected::text("a")),
        ] {
            assert_eq!(Amqp091Dialect.look_up(&raw, field), expected, "{field:?}");
        }
        assert_eq!(Amqp091Dialect.look_up(&[0], Field::Kind), Selected::Null);
        assert!(Amqp091Dialect.read(&[0]).is_err());
    }
}
