//! Messages of AMQP 0-9-1 and 1.0 as each other, as this broker has them for its clients: by way of
//! the neutral view of their properties. `docs/mapping/amqp10.md` says what becomes of what.

use std::time::{SystemTime, UNIX_EPOCH};

use amqp10::Amqp10Dialect;
use amqp10::dialect::{Acquired, Origin, publish, write_neutral};
use amqp091::Amqp091Dialect;
use amqp091::client::Received;
use broker::{Content, Dialect, Error};
use shovel::{Translate, Translated};

/// See the module.
pub(super) struct Dialects;

impl Translate for Dialects {
    fn to_amqp10(&self, message: &Received<'_>) -> Result<Vec<u8>, String> {
        let Received { exchange, routing_key, properties, body } = *message;
        let properties = Amqp091Dialect.read(Content { properties, body }).map_err(unreadable)?;
        let acquired = Acquired { first: true, origin: Some(Origin { exchange, routing_key }), ..Acquired::default() };
        let mut sections = Vec::with_capacity(body.len() + 256);
        write_neutral(&properties, body, acquired, &mut sections);
        Ok(sections)
    }

    fn to_amqp091<'m>(&self, sections: &'m [u8]) -> Result<Translated<'m>, String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let published = publish(sections, u64::try_from(now).unwrap_or(u64::MAX)).map_err(unreadable)?;
        let content = Content { properties: &published.properties, body: &published.body };
        let mut properties = Amqp10Dialect.read(content).map_err(unreadable)?;
        // A time of death counts, too.
        properties.expiration = published.expiration;
        Ok(Translated { properties: amqp091::from_neutral(&properties), body: published.body })
    }
}

fn unreadable(error: Error) -> String {
    format!("a message that can't be translated: {error}")
}

#[cfg(test)]
mod tests {
    use broker::{Properties, Table, Value};

    use super::*;

    fn properties() -> Properties {
        let some = |text: &str| Some(text.to_owned());
        Properties {
            content_type: some("text/plain"),
            content_encoding: some("gzip"),
            headers: Table(vec![("h".to_owned(), Value::I32(1)), ("JMSXGroupID".to_owned(), Value::Text("g".into()))]),
            persistent: true,
            priority: Some(7),
            correlation_id: Some("c".into()),
            reply_to: some("answers/here"),
            expiration: Some(60_000),
            message_id: Some("m".into()),
            timestamp: Some(7000),
            kind: some("k"),
            user_id: some("u"),
            app_id: some("a"),
            cluster_id: None,
        }
    }

    #[test]
    fn a_message_that_went_there_and_back_is_the_same() {
        let given = amqp091::from_neutral(&properties());
        let message = Received { exchange: "e", routing_key: "r", properties: &given, body: b"body" };
        let sections = Dialects.to_amqp10(&message).unwrap();
        let back = Dialects.to_amqp091(&sections).unwrap();
        let content = Content { properties: &back.properties, body: &back.body };
        let mut read = Amqp091Dialect.read(content).unwrap();
        let origin = ["x-exchange", "x-routing-key"].map(|name| read.headers.get(name).cloned());
        assert_eq!(origin, ["e", "r"].map(|text| Some(Value::Text(text.to_owned()))));
        read.headers.0.retain(|(name, _)| !name.starts_with("x-"));
        read.headers.0.sort_by(|(one, _), (other, _)| other.cmp(one));
        assert_eq!((read, &*back.body), (properties(), &b"body"[..]));
    }

    #[test]
    fn what_cannot_be_read_says_so() {
        let message = Received { exchange: "", routing_key: "", properties: &[0], body: b"" };
        for refused in [Dialects.to_amqp10(&message).map(drop), Dialects.to_amqp091(b"\xff").map(drop)] {
            assert!(refused.unwrap_err().contains("can't be translated"));
        }
    }
}
