//! The view of a message for selectors: its properties under the names of JMS and of AMQP 0-9-1,
//! and its headers.
//!
//! `docs/manual/selectors.md` lists the names. A lookup reads no more of the message than it needs.

use std::borrow::Cow;

use selector::{Lookup, Value};

use crate::message::Message;
use crate::message::dialect::{Dialects, Field, IdForm};
use crate::message::overlay::Counts;
use crate::value::seconds_of_ms;

/// A message under a selector.
pub(crate) struct Selected<'m> {
    pub(crate) message: &'m Message,
    pub(crate) dialects: &'m Dialects,
    /// It may have been delivered before.
    pub(crate) redelivered: bool,
}

impl Selected<'_> {
    /// The value of this name, if it is text, a number or a truth value. Numbers count as their
    /// digits, so that all protocols can express the same value.
    pub(crate) fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        Some(match self.get(name) {
            Value::Text(text) => text,
            Value::Int(number) => Cow::Owned(number.to_string()),
            Value::Float(number) => Cow::Owned(number.to_string()),
            Value::Bool(truth) => Cow::Owned(truth.to_string()),
            Value::Null => return None,
        })
    }

    fn facts(&self) -> Facts<'_> {
        let message = self.message;
        Facts {
            persistent: message.persistent(),
            priority: message.priority(),
            published_at: Some(message.published_at()),
            expiration: message.expiration(),
            exchange: message.exchange(),
            routing_key: message.routing_key(),
            redelivered: self.redelivered,
        }
    }

    /// A header that the broker adds, such as `x-first-death-queue`.
    fn added(&self, name: &str) -> Option<Value<'static>> {
        let overlay = self.message.overlay(Counts::default(), self.dialects)?;
        let (_, value) = overlay.headers().iter().find(|(known, _)| *known == name)?;
        Some(value.clone().into_selected())
    }
}

/// What the broker itself knows of a message.
pub(crate) struct Facts<'m> {
    pub(crate) persistent: bool,
    pub(crate) priority: u8,
    /// Milliseconds since 1970, if it has been published.
    pub(crate) published_at: Option<u64>,
    /// Its time to live in milliseconds.
    pub(crate) expiration: Option<u64>,
    pub(crate) exchange: &'m str,
    pub(crate) routing_key: &'m str,
    pub(crate) redelivered: bool,
}

impl<'m> Facts<'m> {
    /// The value of a name; `field` knows what its publisher said.
    pub(crate) fn get(self, name: &str, field: &dyn Fn(Field<'_>) -> Value<'m>) -> Value<'m> {
        if name.starts_with("JMS") {
            return self.jms(name, field);
        }
        match name.strip_prefix("amqp.") {
            Some(property) => self.amqp(property, field),
            None => field(Field::Header(name)),
        }
    }

    /// The names that begin with JMS; others of them are headers that JMS clients set.
    fn jms(self, name: &str, field: &dyn Fn(Field<'_>) -> Value<'m>) -> Value<'m> {
        let published = self.published_at.map_or(Value::Null, time);
        match name {
            "JMSDeliveryMode" => Value::text(if self.persistent { "PERSISTENT" } else { "NON_PERSISTENT" }),
            "JMSPriority" => Value::Int(self.priority.into()),
            "JMSTimestamp" => match field(Field::Timestamp) {
                Value::Int(milliseconds) => Value::Int(milliseconds),
                _ => published,
            },
            "JMSExpiration" => match (self.expiration, self.published_at) {
                (None, _) => Value::Int(0),
                (Some(ttl), Some(at)) => time(at.saturating_add(ttl)),
                (Some(_), None) => Value::Null,
            },
            "JMSMessageID" => field(Field::MessageId(IdForm::Jms)),
            "JMSCorrelationID" => field(Field::CorrelationId(IdForm::Jms)),
            "JMSReplyTo" => field(Field::ReplyTo),
            "JMSType" => field(Field::Kind),
            "JMSXUserID" => field(Field::UserId),
            "JMSRedelivered" => Value::Bool(self.redelivered),
            header => field(Field::Header(header)),
        }
    }

    /// The properties of AMQP 0-9-1, by its names.
    fn amqp(self, name: &str, field: &dyn Fn(Field<'_>) -> Value<'m>) -> Value<'m> {
        match name {
            "content_type" => field(Field::ContentType),
            "content_encoding" => field(Field::ContentEncoding),
            "delivery_mode" => Value::Int(if self.persistent { 2 } else { 1 }),
            "priority" => Value::Int(self.priority.into()),
            "correlation_id" => field(Field::CorrelationId(IdForm::Plain)),
            "reply_to" => field(Field::ReplyTo),
            "expiration" => self.expiration.map_or(Value::Null, time),
            "message_id" => field(Field::MessageId(IdForm::Plain)),
            "timestamp" => match field(Field::Timestamp) {
                Value::Int(milliseconds) => Value::Int(seconds_of_ms(milliseconds) as i64),
                _ => Value::Null,
            },
            "type" => field(Field::Kind),
            "user_id" => field(Field::UserId),
            "app_id" => field(Field::AppId),
            "exchange" => Value::text(self.exchange),
            "routing_key" => Value::text(self.routing_key),
            "redelivered" => Value::Bool(self.redelivered),
            _ => Value::Null,
        }
    }
}

impl Lookup for Selected<'_> {
    fn get(&self, name: &str) -> Value<'_> {
        let added = if name.starts_with("x-") { self.added(name) } else { None };
        added.unwrap_or_else(|| self.facts().get(name, &|field| self.dialects.look_up(self.message, field)))
    }
}

/// A number of milliseconds.
fn time(milliseconds: u64) -> Value<'static> {
    i64::try_from(milliseconds).map_or(Value::Null, Value::Int)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use selector::Selector;

    use super::*;
    use crate::error::Error;
    use crate::message::cc::Copies;
    use crate::message::dialect::{Content, Dialect, DialectId};
    use crate::message::id::Id;
    use crate::message::properties::Properties;
    use crate::message::{Arena, Head};
    use crate::value::{Table, Value as Field};

    /// A dialect with one message, whatever the bytes are.
    struct OneDialect;

    impl Dialect for OneDialect {
        fn id(&self) -> DialectId {
            DialectId(77)
        }

        fn read(&self, _: Content<'_>) -> Result<Properties, Error> {
            let text = |text: &str| Some(text.to_owned());
            let headers = [
                ("color", Field::Text("red".into())),
                ("weight", Field::U8(5)),
                ("price", Field::Decimal { scale: 2, value: 1250 }),
                ("rate", Field::F32(0.5)),
                ("gift", Field::Bool(true)),
                ("since", Field::Timestamp(60_999)),
                ("cost", Field::Decimal64([0x31, 0x80, 0, 0, 0, 0, 0x02, 0xee])),
                ("debt", Field::Decimal32([0xb2, 0x80, 0, 1])),
                ("nothing", Field::Decimal32([0x7c, 0, 0, 0])),
                ("list", Field::Array(vec![])),
                ("JMSXGroupID", Field::Text("g".into())),
            ];
            Ok(Properties {
                content_type: text("text/plain"),
                content_encoding: text("gzip"),
                headers: Table(headers.map(|(name, value)| (name.to_owned(), value)).into()),
                correlation_id: Some(Id::Number(7)),
                reply_to: text("r"),
                message_id: Some(Id::from("ID:1")),
                timestamp: Some(1_600_000_000_123),
                kind: text("car"),
                user_id: text("u"),
                app_id: text("a"),
                ..Properties::default()
            })
        }
    }

    #[test]
    fn every_name_finds_its_property() {
        let dialects = Dialects::new(vec![Arc::new(OneDialect)]);
        let head = Head {
            dialect: DialectId(77),
            persistent: true,
            priority: Some(7),
            published_at: 1_700_000_000_123,
            expiration: Some(1000),
            copies: Copies::None,
            instructed: false,
            delayed: false,
            exchange: "orders",
            routing_key: "eu.de",
            properties: b"",
            annotations: b"",
            publisher: b"",
        };
        let message = Arena::default().add(&head, b"");
        let selected = Selected { message: &message, dialects: &dialects, redelivered: true };
        for text in [
            "JMSDeliveryMode = 'PERSISTENT'",
            "JMSPriority = 7",
            "JMSTimestamp = 1600000000123",
            "JMSExpiration = 1700000001123",
            "JMSMessageID = 'ID:1'",
            "JMSCorrelationID = 'ID:AMQP_ULONG:7'",
            "JMSReplyTo = 'r'",
            "JMSType = 'car'",
            "JMSXUserID = 'u'",
            "JMSRedelivered",
            "JMSXGroupID = 'g'",
            "JMSXOther IS NULL",
            "amqp.content_type = 'text/plain'",
            "amqp.content_encoding = 'gzip'",
            "amqp.delivery_mode = 2",
            "amqp.priority = 7",
            "amqp.correlation_id = '7'",
            "amqp.reply_to = 'r'",
            "amqp.expiration = 1000",
            "amqp.message_id = 'ID:1'",
            "amqp.timestamp = 1600000000",
            "amqp.type = 'car'",
            "amqp.user_id = 'u'",
            "amqp.app_id = 'a'",
            "amqp.exchange = 'orders'",
            "amqp.routing_key LIKE 'eu.%'",
            "amqp.redelivered = TRUE",
            "amqp.color IS NULL",
            "color = 'red'",
            "weight + 1 = 6",
            "price = 12.5",
            "rate = 0.5",
            "gift",
            "since = 60",
            "cost = 7.5",
            "debt = -1",
            "nothing IS NULL",
            "list IS NULL",
            "absent IS NULL",
        ] {
            let selector = Selector::parse(text).unwrap().unwrap();
            assert!(selector.matches(&selected), "{text}");
        }
        let strange = Arena::default().add(&Head { dialect: DialectId(78), ..head }, b"");
        let selected = Selected { message: &strange, dialects: &dialects, redelivered: false };
        assert_eq!(selected.get("color"), Value::Null);
    }
}
