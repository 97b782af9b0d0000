//! A message of one protocol as one of the other, where the ends of a shovel speak both.
//!
//! What corresponds to what is known to the program that runs shovels, and handed in: a broker has
//! it for its clients already. Where a message goes is decided here.

use std::borrow::Cow;
use std::sync::Arc;

use amqp10::codec::Message;
use amqp091::client::Received;

use crate::headers::Rewriting;

/// The annotation in which a message of AMQP 1.0 has the routing key of AMQP 0-9-1, as in RabbitMQ.
const ROUTING_KEY: &str = "x-routing-key";

/// Turns messages of AMQP 0-9-1 and 1.0 into each other.
pub trait Translate: Send + Sync {
    /// The sections of a message of AMQP 1.0 (part 3, §3.2) for one of 0-9-1.
    ///
    /// # Errors
    /// If the message can't be read.
    fn to_amqp10(&self, message: &Received<'_>) -> Result<Vec<u8>, String>;

    /// A message of AMQP 0-9-1 for the sections of one of 1.0.
    ///
    /// # Errors
    /// If the message can't be read.
    fn to_amqp091<'m>(&self, sections: &'m [u8]) -> Result<Translated<'m>, String>;
}

/// What AMQP 0-9-1 has of a message besides where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Translated<'m> {
    /// Its properties, as a content header has them (4.2.6.1): flags and values.
    pub properties: Vec<u8>,
    /// Its body.
    pub body: Cow<'m, [u8]>,
}

/// See the module.
pub(crate) struct Translating {
    by: Arc<dyn Translate>,
    copies: Rewriting,
}

impl Translating {
    pub(crate) fn new(by: Arc<dyn Translate>) -> Self {
        Self { by, copies: Rewriting::of_copies() }
    }

    /// A message for AMQP 1.0. Its headers `CC` and `BCC` get the names under which they route no
    /// more: the source has made the copies.
    ///
    /// # Errors
    /// If the message can't be read.
    pub(crate) fn to_amqp10(&self, message: &Received<'_>) -> Result<Vec<u8>, String> {
        let renamed = self.copies.apply(message.properties, 0)?;
        let properties = renamed.as_deref().unwrap_or(message.properties);
        self.by.to_amqp10(&Received { properties, ..*message })
    }

    /// Hands a message for AMQP 0-9-1 to `give`. Its routing key is that of the annotation
    /// [`ROUTING_KEY`], else its subject.
    ///
    /// # Errors
    /// If the message can't be read, or that of `give`.
    pub(crate) fn to_amqp091(
        &self,
        sections: &[u8],
        give: impl FnOnce(&Received<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let message = Message::decode(sections).map_err(|error| format!("a message that can't be read: {error}"))?;
        let annotated = message.message_annotations.and_then(|map| map.get(ROUTING_KEY)?.as_text());
        let subject = message.properties.and_then(|properties| properties.subject);
        let Translated { properties, body } = self.by.to_amqp091(sections)?;
        let routing_key = annotated.or(subject).unwrap_or_default();
        give(&Received { exchange: "", routing_key, properties: &properties, body: &body })
    }
}

#[cfg(test)]
mod tests {
    use amqp10::codec::{Encode, Section, Value, message};
    use amqp091::codec::table::{Table, Value as Field, encode_fields};
    use amqp091::codec::{BasicProperties, decode_properties};

    use super::*;

    /// Passes on what it gets.
    struct Plain;

    impl Translate for Plain {
        fn to_amqp10(&self, message: &Received<'_>) -> Result<Vec<u8>, String> {
            Ok(message.properties.to_vec())
        }

        fn to_amqp091<'m>(&self, sections: &'m [u8]) -> Result<Translated<'m>, String> {
            Ok(Translated { properties: Vec::new(), body: Cow::Borrowed(sections) })
        }
    }

    #[test]
    fn headers_that_route_are_renamed() {
        let headers = encode_fields(&[("CC".to_owned(), Field::Array(vec![Field::from("k")]))]);
        let headers = Some(Table::new(&headers).unwrap());
        let properties = BasicProperties { headers, ..BasicProperties::default() }.to_bytes();
        let message = Received { exchange: "", routing_key: "q", properties: &properties, body: b"" };
        let given = Translating::new(Arc::new(Plain)).to_amqp10(&message).unwrap();
        let headers = decode_properties(&given).unwrap().headers.unwrap();
        assert_eq!(headers.to_fields()[0].0, "x-shovelled-cc");
    }

    #[test]
    fn the_key_is_that_of_the_annotation_else_the_subject() {
        let with = |annotation: Option<&str>, subject: Option<&str>| {
            let mut bytes = Vec::new();
            if let Some(key) = annotation {
                let pairs = vec![(Value::Symbol(ROUTING_KEY.to_owned()), Value::Str(key.to_owned()))];
                Section::MessageAnnotations.encode(&Value::Map(pairs), &mut bytes);
            }
            message::Properties { subject, ..message::Properties::default() }.encode(&mut bytes);
            Section::Value.encode(&Value::Str("body".to_owned()), &mut bytes);
            bytes
        };
        for (annotation, subject, expected) in [(Some("a"), Some("s"), "a"), (None, Some("s"), "s"), (None, None, "")] {
            let sections = with(annotation, subject);
            let mut key = None;
            let give = |message: &Received<'_>| {
                key = Some((message.routing_key.to_owned(), message.body.len()));
                Ok(())
            };
            Translating::new(Arc::new(Plain)).to_amqp091(&sections, give).unwrap();
            assert_eq!(key, Some((expected.to_owned(), sections.len())));
        }
        let refused = Translating::new(Arc::new(Plain)).to_amqp091(b"\xff", |_| Ok(()));
        assert!(refused.unwrap_err().contains("can't be read"));
    }
}
