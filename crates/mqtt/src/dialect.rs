//! MQTT's properties and the neutral properties of a message, in both directions.
//!
//! The broker stores for each message a byte of flags, the mark of the client that published it,
//! and the properties that are the message's own, in the encoding and order of MQTT 5. `read` can
//! read all that [`store`] wrote. Names in the other protocols are those of RabbitMQ.

use broker::{Content, Dialect, DialectId, Error, Field, Id, Properties as Neutral, Selected, Table, Value};

use crate::address::{key_of_topic, topic_of_key};
use crate::codec::{Properties, PropertyBlock, PropertyId, PropertyValue, QoS};

/// The number stands in the journal.
pub(crate) const ENCODING: DialectId = DialectId(5);

/// The header that makes a message the value of its topic.
const RETAIN: &str = "x-retain";
/// The header with the topic for answers, in other protocols.
const REPLY_TOPIC: &str = "x-reply-to-topic";
/// The header that says in other protocols that a message came as the value of its topic.
const RETAINED_VALUE: &str = "x-retained";
/// Headers that packets say otherwise: by the flag RETAIN, and by the response topic.
const SAID: [&str; 3] = [RETAIN, RETAINED_VALUE, REPLY_TOPIC];
/// Bits of the flags.
const QOS: u8 = 0b11;
const RETAINED: u8 = 1 << 2;
/// Flags and mark.
const HEAD: usize = 1 + 8;

/// The mark of a client: a number that follows from its identifier (FNV-1a). A subscription without
/// the messages of its own client compares it. Who finds another identifier with the same mark
/// hides only messages of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(u64);

impl Mark {
    /// The mark of this client of this user.
    pub(crate) fn of(user: &str, client_id: &str) -> Self {
        let bytes = user.bytes().chain([0]).chain(client_id.bytes());
        Self(bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)))
    }
}

/// The mark of the client that published a message, in what is stored of it.
pub(crate) fn mark_of(raw: &[u8]) -> Option<Mark> {
    let [_, mark @ ..] = *raw.first_chunk::<HEAD>()?;
    Some(Mark(u64::from_be_bytes(mark)))
}

/// The dialect of messages that were published over MQTT.
#[derive(Debug, Clone, Copy, Default)]
pub struct MqttDialect;

/// Whether a property is the message's own, and is kept with it.
fn is_kept(id: PropertyId) -> bool {
    use PropertyId::{ContentType, CorrelationData, MessageExpiry, PayloadFormat, ResponseTopic, UserProperty};
    matches!(id, PayloadFormat | MessageExpiry | ContentType | ResponseTopic | CorrelationData | UserProperty)
}

/// How a message was published, and by which client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Published {
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) by: Mark,
}

/// Writes what is stored of a message.
pub(crate) fn store(published: Published, properties: Properties<'_>, into: &mut Vec<u8>) {
    into.clear();
    into.push(published.qos as u8 | if published.retain { RETAINED } else { 0 });
    into.extend_from_slice(&published.by.0.to_be_bytes());
    let all_kept = properties.iter().all(|(id, _)| is_kept(id));
    if all_kept {
        into.extend_from_slice(properties.bytes());
    } else {
        let mut kept = PropertyBlock::default();
        properties.iter().filter(|(id, _)| is_kept(*id)).for_each(|(id, value)| _ = kept.put(id, value));
        into.extend_from_slice(kept.as_properties().bytes());
    }
}

/// What is stored of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored<'m> {
    pub(crate) qos: QoS,
    /// As it was published.
    pub(crate) retain: bool,
    pub(crate) properties: Properties<'m>,
}

impl<'m> Stored<'m> {
    /// Reads what [`store`] wrote.
    pub(crate) fn read(raw: &'m [u8]) -> Result<Self, Error> {
        let bad = || Error::internal("the stored properties of a message of MQTT are damaged");
        let (head, block) = raw.split_first_chunk::<HEAD>().ok_or_else(bad)?;
        let [flags, ..] = *head;
        Ok(Self {
            qos: QoS::of(flags & QOS).ok_or_else(bad)?,
            retain: flags & RETAINED != 0,
            properties: Properties::of_publish(block).map_err(|_| bad())?,
        })
    }
}

/// An identifier of bytes is text where it can be.
fn id_of(bytes: &[u8]) -> Id {
    match std::str::from_utf8(bytes) {
        Ok(text) => Id::Text(text.to_owned()),
        Err(_) => Id::Bytes(bytes.to_vec()),
    }
}

impl Dialect for MqttDialect {
    fn id(&self) -> DialectId {
        ENCODING
    }

    fn read(&self, content: Content<'_>) -> Result<Neutral, Error> {
        let stored = Stored::read(content.properties)?;
        let mut neutral = Neutral { persistent: stored.qos != QoS::AtMostOnce || stored.retain, ..Neutral::default() };
        let mut headers = Table::default();
        if stored.retain {
            headers.0.push((RETAIN.to_owned(), Value::Bool(true)));
        }
        for (id, value) in stored.properties.iter() {
            match (id, value) {
                (PropertyId::ContentType, PropertyValue::Text(text)) => neutral.content_type = Some(text.to_owned()),
                (PropertyId::MessageExpiry, PropertyValue::Number(seconds)) => {
                    neutral.expiration = Some(u64::from(seconds) * 1000);
                }
                (PropertyId::ResponseTopic, PropertyValue::Text(topic)) => {
                    let mut key = String::new();
                    key_of_topic(topic, &mut key);
                    headers.0.push((REPLY_TOPIC.to_owned(), Value::Text(key)));
                }
                (PropertyId::CorrelationData, PropertyValue::Binary(bytes)) => {
                    neutral.correlation_id = Some(id_of(bytes));
                }
                (PropertyId::UserProperty, PropertyValue::Pair(name, value)) => {
                    headers.0.push((name.to_owned(), Value::Text(value.to_owned())));
                }
                _ => {}
            }
        }
        neutral.headers = headers;
        Ok(neutral)
    }

    fn look_up<'m>(&self, content: Content<'m>, field: Field<'_>) -> Selected<'m> {
        let Ok(stored) = Stored::read(content.properties) else { return Selected::Null };
        let text = |id| stored.properties.text(id).map_or(Selected::Null, |text| Selected::Text(text.into()));
        match field {
            Field::Header(RETAIN) if stored.retain => Selected::Bool(true),
            Field::Header(name) if name != REPLY_TOPIC => {
                let pairs = stored.properties.iter().filter_map(|(_, value)| match value {
                    PropertyValue::Pair(known, value) if known == name => Some(value),
                    _ => None,
                });
                pairs.map(|value| Selected::Text(value.into())).next().unwrap_or(Selected::Null)
            }
            Field::ContentType => text(PropertyId::ContentType),
            Field::CorrelationId(_) => {
                match stored.properties.binary(PropertyId::CorrelationData).map(std::str::from_utf8) {
                    Some(Ok(text)) => Selected::Text(text.into()),
                    _ => Selected::Null,
                }
            }
            Field::Header(_) => match stored.properties.text(PropertyId::ResponseTopic) {
                Some(topic) => {
                    let mut key = String::new();
                    key_of_topic(topic, &mut key);
                    Selected::Text(key.into())
                }
                None => Selected::Null,
            },
            _ => Selected::Null,
        }
    }
}

/// Writes the properties of a message of another protocol, as MQTT 5 has them. What has no text is
/// left out.
pub(crate) fn write(neutral: &Neutral, left: Option<u32>, block: &mut PropertyBlock) {
    if let Some(left) = left {
        block.number(PropertyId::MessageExpiry, left);
    }
    if let Some(text) = neutral.content_type.as_deref().filter(|text| is_text(text)) {
        block.text(PropertyId::ContentType, text);
    }
    match &neutral.correlation_id {
        Some(Id::Bytes(bytes)) => _ = block.binary(PropertyId::CorrelationData, bytes),
        Some(id) => {
            id.as_text().into_iter().for_each(|text| _ = block.binary(PropertyId::CorrelationData, text.as_bytes()))
        }
        None => {}
    }
    let answers = neutral.headers.get(REPLY_TOPIC).and_then(|value| match value {
        Value::Text(key) => Some(topic_of_key(key)),
        _ => None,
    });
    if let Some(topic) = answers.filter(|topic| is_text(topic)) {
        block.text(PropertyId::ResponseTopic, &topic);
    }
    for (name, value) in neutral.headers.0.iter().filter(|(name, _)| !SAID.contains(&name.as_str())) {
        put_header(name, value, block);
    }
}

/// Adds a header as a user property. What has no text is left out.
pub(crate) fn put_header(name: &str, value: &Value, block: &mut PropertyBlock) {
    if let Some(value) = as_text(value).filter(|value| is_text(value) && is_text(name)) {
        block.pair(name, &value);
    }
}

/// Whether a string of MQTT can say it.
fn is_text(text: &str) -> bool {
    text.len() <= crate::codec::TEXT_MAX && !text.contains('\0')
}

fn as_text(value: &Value) -> Option<String> {
    Some(match value {
        Value::Text(text) => text.clone(),
        Value::Bool(truth) => truth.to_string(),
        Value::F32(number) => number.to_string(),
        Value::F64(number) => number.to_string(),
        Value::Timestamp(time) => broker::seconds_of_ms(*time).to_string(),
        Value::Decimal { scale, value } => broker::decimal_text(*scale, *value),
        Value::Null | Value::Bytes(_) | Value::Array(_) | Value::Table(_) => return None,
        other => match other.nearest() {
            Some(Value::Text(text)) => text,
            Some(nearest) => nearest.as_integer()?.to_string(),
            None => other.as_integer()?.to_string(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Published {
        Published { qos: QoS::AtLeastOnce, retain: false, by: Mark::of("u", "c") }
    }

    fn stored(published: Published) -> Vec<u8> {
        let mut block = PropertyBlock::default();
        block
            .number(PropertyId::TopicAlias, 3)
            .number(PropertyId::MessageExpiry, 9)
            .text(PropertyId::ContentType, "text/plain")
            .text(PropertyId::ResponseTopic, "a/b.c")
            .binary(PropertyId::CorrelationData, b"id")
            .pair("k", "1")
            .pair("k", "2");
        let mut into = Vec::new();
        store(published, block.as_properties(), &mut into);
        into
    }

    #[test]
    fn other_protocols_see_what_was_published() {
        let raw = stored(Published { retain: true, ..plain() });
        let neutral = MqttDialect.read(Content { properties: &raw, body: b"" }).unwrap();
        let text = |text: &str| Value::Text(text.to_owned());
        let headers = [
            ("x-retain", Value::Bool(true)),
            ("x-reply-to-topic", text("a.b%2Ec")),
            ("k", text("1")),
            ("k", text("2")),
        ];
        assert_eq!(neutral.headers.0, headers.map(|(name, value)| (name.to_owned(), value)));
        assert_eq!((neutral.expiration, neutral.persistent), (Some(9000), true));
        assert_eq!(neutral.correlation_id, Some(Id::Text("id".to_owned())));
        for field in
            [Field::Header("k"), Field::Header("x-reply-to-topic"), Field::Header("x-retain"), Field::ContentType]
        {
            let looked_up = MqttDialect.look_up(Content { properties: &raw, body: b"" }, field);
            assert_ne!(looked_up, Selected::Null, "{field:?}");
        }
    }

    #[test]
    fn what_belongs_to_one_packet_is_not_kept_and_the_order_is() {
        let raw = stored(plain());
        let read = Stored::read(&raw).unwrap();
        assert_eq!((read.qos, read.retain), (QoS::AtLeastOnce, false));
        assert_eq!(mark_of(&raw), Some(Mark::of("u", "c")));
        assert_eq!(read.properties.number(PropertyId::TopicAlias), None);
        let mut block = PropertyBlock::default();
        write(&MqttDialect.read(Content { properties: &raw, body: b"" }).unwrap(), Some(4), &mut block);
        let written = block.as_properties();
        assert_eq!(written.text(PropertyId::ResponseTopic), Some("a/b.c"));
        assert_eq!(written.binary(PropertyId::CorrelationData), Some(&b"id"[..]));
        assert_eq!(written.number(PropertyId::MessageExpiry), Some(4));
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        let raw = stored(plain());
        for end in 0..HEAD + 2 {
            assert_eq!(Stored::read(&raw[..end]).is_err(), end != HEAD, "{end}");
        }
        assert!(Stored::read(&[3; HEAD]).is_err());
    }

    #[test]
    fn clients_have_marks_of_their_own() {
        assert_ne!(Mark::of("u", "c"), Mark::of("uc", ""));
        assert_ne!(Mark::of("u", "c"), Mark::of("u", "d"));
    }
}
