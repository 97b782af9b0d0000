//! What becomes of a message's properties on its way, in AMQP 0-9-1.
//!
//! Most messages keep their bytes. They are written again for what the specification of the shovel
//! asks, and for one thing besides: `CC` and `BCC` on the way to a queue. The source has routed the
//! message by them already, so the destination must not do it again; they go on under another name.

use amqp091::codec::table::{Table, Value, encode_field, encode_fields};
use amqp091::codec::{BasicProperties, decode_properties};

use crate::spec::{Destination, GiveTo, Overrides, TextProperty, Timestamp};

/// The headers by which a broker routes a message to further queues, and what they are called after
/// that.
const COPIES: [(&str, &str); 2] = [("CC", "x-shovelled-cc"), ("BCC", "x-shovelled-bcc")];
/// The header that says where a message has come along.
const TRAIL: &str = "x-shovelled";
/// The header that says when.
const WHEN: &str = "x-shovelled-timestamp";

/// What has to be done to the properties of each message.
#[derive(Debug)]
pub(crate) struct Rewriting {
    overrides: Overrides,
    trail: Vec<(String, Value)>,
    timestamp: Timestamp,
    /// Whether headers that route are renamed.
    copies: Copies,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Copies {
    Kept,
    Renamed,
}

impl Rewriting {
    pub(crate) fn of(destination: &Destination) -> Self {
        let Destination { to, properties, trail, timestamp, .. } = destination;
        let copies = if matches!(to, GiveTo::Queue(_)) { Copies::Renamed } else { Copies::Kept };
        let trail = trail.iter().map(|(name, text)| (name.clone(), Value::from(text.as_str()))).collect();
        Self { overrides: properties.clone(), trail, timestamp: *timestamp, copies }
    }

    /// Renames headers that route, and leaves all else as it is.
    pub(crate) fn of_copies() -> Self {
        let (overrides, timestamp) = (Overrides::default(), Timestamp::None);
        Self { overrides, trail: Vec::new(), timestamp, copies: Copies::Renamed }
    }

    /// The new bytes; `None` if the old ones do. `seconds` is the time since 1970.
    ///
    /// # Errors
    /// If the old ones can't be read.
    pub(crate) fn apply(&self, raw: &[u8], seconds: u64) -> Result<Option<Vec<u8>>, String> {
        let adds = !self.trail.is_empty() || self.timestamp == Timestamp::Added;
        let given = decode_properties(raw).map_err(|error| format!("properties that can't be read: {error:?}"))?;
        let routes = self.copies == Copies::Renamed
            && given.headers.is_some_and(|headers| COPIES.iter().any(|(name, _)| headers.get(name).is_some()));
        if !adds && !routes && self.overrides.is_empty() {
            return Ok(None);
        }
        let fields = (adds || routes).then(|| self.fields(given.headers.unwrap_or_default(), seconds));
        let mut properties = self.overridden(given);
        if let Some(fields) = &fields {
            let table = Table::new(fields).map_err(|error| format!("headers that can't be written: {error:?}"))?;
            properties.headers = Some(table);
        }
        Ok(Some(properties.to_bytes()))
    }

    fn fields(&self, given: Table<'_>, seconds: u64) -> Vec<u8> {
        let adds_trail = !self.trail.is_empty();
        let mut trail = vec![Value::Table(self.trail.clone())];
        let mut fields = Vec::new();
        for (name, value) in given.to_fields() {
            match name.as_str() {
                TRAIL if adds_trail => {
                    if let Value::Array(earlier) = value {
                        trail.extend(earlier);
                    }
                }
                WHEN if self.timestamp == Timestamp::Added => {}
                name => encode_field(&mut fields, self.renamed(name), &value),
            }
        }
        if adds_trail {
            encode_field(&mut fields, TRAIL, &Value::Array(trail));
        }
        if self.timestamp == Timestamp::Added {
            encode_field(&mut fields, WHEN, &Value::I64(i64::try_from(seconds).unwrap_or(i64::MAX)));
        }
        fields
    }

    fn renamed<'n>(&self, name: &'n str) -> &'n str {
        match self.copies {
            Copies::Kept => name,
            Copies::Renamed => COPIES.iter().find(|(from, _)| *from == name).map_or(name, |(_, to)| to),
        }
    }

    fn overridden<'p>(&'p self, mut properties: BasicProperties<'p>) -> BasicProperties<'p> {
        let Overrides { texts, delivery_mode, priority, timestamp } = &self.overrides;
        for (property, text) in texts {
            let place = match property {
                TextProperty::ContentType => &mut properties.content_type,
                TextProperty::ContentEncoding => &mut properties.content_encoding,
                TextProperty::CorrelationId => &mut properties.correlation_id,
                TextProperty::ReplyTo => &mut properties.reply_to,
                TextProperty::Expiration => &mut properties.expiration,
                TextProperty::MessageId => &mut properties.message_id,
                TextProperty::Type => &mut properties.kind,
                TextProperty::UserId => &mut properties.user_id,
                TextProperty::AppId => &mut properties.app_id,
                TextProperty::ClusterId => &mut properties.cluster_id,
            };
            *place = Some(text.as_bytes());
        }
        properties.delivery_mode = delivery_mode.or(properties.delivery_mode);
        properties.priority = priority.or(properties.priority);
        properties.timestamp = timestamp.or(properties.timestamp);
        properties
    }
}

/// The bytes of a table with these fields.
pub(crate) fn table_bytes(fields: &[(String, Value)]) -> Vec<u8> {
    encode_fields(fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Missing, Queue};

    fn destination(to: GiveTo) -> Destination {
        Destination {
            uris: Vec::new(),
            to,
            properties: Overrides::default(),
            trail: Vec::new(),
            timestamp: Timestamp::None,
        }
    }

    fn queue() -> GiveTo {
        GiveTo::Queue(Queue { name: "q".into(), missing: Missing::Fail })
    }

    fn with(fields: &[(String, Value)]) -> Vec<u8> {
        let bytes = table_bytes(fields);
        let headers = Some(Table::new(&bytes).unwrap());
        BasicProperties { headers, delivery_mode: Some(2), ..BasicProperties::default() }.to_bytes()
    }

    fn headers(bytes: &[u8]) -> Vec<(String, Value)> {
        decode_properties(bytes).unwrap().headers.unwrap().to_fields()
    }

    #[test]
    fn a_message_on_its_way_to_a_queue_is_not_routed_again() {
        let copies = Value::Array(vec![Value::from("other")]);
        let given = with(&[("CC".into(), copies.clone()), ("a".into(), Value::I32(1))]);
        let rewritten = Rewriting::of(&destination(queue())).apply(&given, 0).unwrap().unwrap();
        assert_eq!(headers(&rewritten), [("x-shovelled-cc".into(), copies), ("a".into(), Value::I32(1))]);
        assert_eq!(decode_properties(&rewritten).unwrap().delivery_mode, Some(2));
        let exchange = GiveTo::Exchange { name: None, key: None };
        assert_eq!(Rewriting::of(&destination(exchange)).apply(&given, 0).unwrap(), None);
        assert_eq!(Rewriting::of(&destination(queue())).apply(&with(&[]), 0).unwrap(), None);
    }

    #[test]
    fn the_trail_grows_at_its_front() {
        let mut destination = destination(queue());
        destination.trail = vec![("shovel-name".into(), "second".into())];
        destination.timestamp = Timestamp::Added;
        let first = Value::Table(vec![("shovel-name".into(), Value::from("first"))]);
        let given = with(&[(TRAIL.into(), Value::Array(vec![first.clone()])), (WHEN.into(), Value::I64(1))]);
        let rewritten = Rewriting::of(&destination).apply(&given, 7).unwrap().unwrap();
        let second = Value::Table(vec![("shovel-name".into(), Value::from("second"))]);
        let expected = [(TRAIL.to_owned(), Value::Array(vec![second, first])), (WHEN.to_owned(), Value::I64(7))];
        assert_eq!(headers(&rewritten), expected);
    }

    #[test]
    fn properties_are_replaced_and_others_stay() {
        let mut destination = destination(queue());
        destination.properties.texts = vec![(TextProperty::AppId, "app".into())];
        destination.properties.priority = Some(3);
        let rewritten = Rewriting::of(&destination).apply(&with(&[]), 0).unwrap().unwrap();
        let read = decode_properties(&rewritten).unwrap();
        assert_eq!((read.app_id, read.priority, read.delivery_mode), (Some(&b"app"[..]), Some(3), Some(2)));
        assert!(Rewriting::of(&destination).apply(b"\xff", 0).is_err());
    }
}
