//! What becomes of a message's annotations on its way, in AMQP 1.0.
//!
//! The bare message stays as it is, immutable within the network (§3.2). So what a shovel says
//! stands in message annotations, under the names that RabbitMQ gives them.

use amqp10::codec::{Encode, Message, Section, Value};

use crate::spec::{Destination, Timestamp};

/// The annotation that says when a message came along, in milliseconds since 1970.
const WHEN: &str = "x-opt-shovelled-timestamp";

/// The annotations that each message gets.
#[derive(Debug)]
pub(crate) struct Annotating {
    trail: Vec<(String, String)>,
    timestamp: Timestamp,
}

impl Annotating {
    pub(crate) fn of(destination: &Destination) -> Self {
        Self { trail: destination.trail.clone(), timestamp: destination.timestamp }
    }

    /// The new bytes; `None` if the old ones do. `milliseconds` is the time since 1970.
    ///
    /// # Errors
    /// If the old ones can't be read.
    pub(crate) fn apply(&self, raw: &[u8], milliseconds: u64) -> Result<Option<Vec<u8>>, String> {
        let when = (self.timestamp == Timestamp::Added).then(|| i64::try_from(milliseconds).unwrap_or(i64::MAX));
        if self.trail.is_empty() && when.is_none() {
            return Ok(None);
        }
        let message = Message::decode(raw).map_err(|error| format!("a message that can't be read: {error}"))?;
        let symbol = |name: &str| Value::Symbol(name.to_owned());
        let mut new: Vec<_> = self.trail.iter().map(|(name, text)| (symbol(name), Value::Str(text.clone()))).collect();
        new.extend(when.map(|when| (symbol(WHEN), Value::I64(when))));
        let given = message.message_annotations.into_iter().flat_map(|map| map.iter());
        let mut all: Vec<(Value, Value)> = given.map(|(name, value)| (name.into(), value.into())).collect();
        all.retain(|(name, _)| new.iter().all(|(other, _)| other != name));
        all.extend(new);
        let mut out = Vec::with_capacity(raw.len() + 128);
        if let Some(header) = message.header {
            header.encode(&mut out);
        }
        Section::MessageAnnotations.encode(&Value::Map(all), &mut out);
        out.extend_from_slice(message.bare);
        out.extend_from_slice(message.footer_section);
        Ok(Some(out))
    }
}

#[cfg(test)]
mod tests {
    use amqp10::codec::ValueRef;
    use amqp10::codec::message::Header;

    use super::*;

    fn text(text: &str) -> Value {
        Value::Str(text.to_owned())
    }

    fn annotated(annotations: Vec<(Value, Value)>) -> Vec<u8> {
        let mut bytes = Vec::new();
        Header { durable: true, ..Header::default() }.encode(&mut bytes);
        Section::MessageAnnotations.encode(&Value::Map(annotations), &mut bytes);
        Section::ApplicationProperties.encode(&Value::Map(vec![(text("a"), text("b"))]), &mut bytes);
        Section::Value.encode(&text("body"), &mut bytes);
        bytes
    }

    #[test]
    fn annotations_are_added_or_replaced_and_the_bare_message_stays() {
        let symbol = |name: &str| Value::Symbol(name.to_owned());
        let given = annotated(vec![(symbol("x-opt-shovel-name"), text("first")), (symbol("x-opt-a"), Value::I64(1))]);
        let trail = vec![("x-opt-shovel-name".to_owned(), "second".to_owned())];
        let annotating = Annotating { trail, timestamp: Timestamp::Added };
        let bytes = annotating.apply(&given, 7).unwrap().unwrap();
        let (old, new) = (Message::decode(&given).unwrap(), Message::decode(&bytes).unwrap());
        assert_eq!((new.header, new.bare), (old.header, old.bare));
        let found: Vec<_> = new.message_annotations.unwrap().iter().collect();
        let expected = [
            (ValueRef::Symbol("x-opt-a"), ValueRef::I64(1)),
            (ValueRef::Symbol("x-opt-shovel-name"), ValueRef::Str("second")),
            (ValueRef::Symbol(WHEN), ValueRef::I64(7)),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn without_a_wish_the_bytes_are_not_read() {
        let annotating = Annotating { trail: Vec::new(), timestamp: Timestamp::None };
        assert_eq!(annotating.apply(b"\xff", 0), Ok(None));
        let annotating = Annotating { trail: Vec::new(), timestamp: Timestamp::Added };
        assert!(annotating.apply(b"\xff", 0).is_err());
    }
}
