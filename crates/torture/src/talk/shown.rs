//! Properties in the words of each protocol: how they are published, and what a delivery shows of
//! them.

use amqp091::client::Received;
use amqp091::codec::table::{Value, ValueRef};
use amqp091::codec::{BasicProperties, Table, decode_properties};
use stomp::codec::Headers;

use crate::properties::{
    APP_ID, CONTENT_TYPE, CORRELATION_ID, DEATHS, FIRST_DEATH, Field, GROUP, LAST_DEATH, MESSAGE_ID, NUMBER,
    PERSISTENT, PRIORITY, RETURNS, STORY, Shown, TIMESTAMP, TYPE, WORD, story,
};
use crate::topology::KEY;

/// The delivery mode of what survives a restart.
const KEPT: u8 = 2;

/// The headers of the load among its properties.
pub(super) fn headers(own: &[Field]) -> Vec<(String, Value)> {
    let value = |(name, text): &Field| match *name {
        WORD | GROUP | KEY => Some(((*name).to_owned(), Value::from(text.as_str()))),
        NUMBER => Some((NUMBER.to_owned(), Value::I64(text.parse().unwrap_or_default()))),
        _ => None,
    };
    own.iter().filter_map(value).collect()
}

/// The other properties.
pub(super) fn properties(own: &[Field]) -> BasicProperties<'_> {
    let text = |wanted: &str| own.iter().find(|(name, _)| *name == wanted).map(|(_, text)| text.as_bytes());
    let number = |wanted: &str| own.iter().find(|(name, _)| *name == wanted).and_then(|(_, text)| text.parse().ok());
    BasicProperties {
        content_type: text(CONTENT_TYPE),
        correlation_id: text(CORRELATION_ID),
        message_id: text(MESSAGE_ID),
        timestamp: number(TIMESTAMP),
        kind: text(TYPE),
        app_id: text(APP_ID),
        ..BasicProperties::default()
    }
}

/// What a delivery of AMQP shows.
pub(super) fn by_amqp(message: &Received<'_>) -> Shown {
    let (exchange, key) = (message.exchange.to_owned(), message.routing_key.to_owned());
    // Properties that can't be read are none.
    let properties = decode_properties(message.properties).unwrap_or_default();
    let texts = [
        (CONTENT_TYPE, properties.content_type),
        (CORRELATION_ID, properties.correlation_id),
        (MESSAGE_ID, properties.message_id),
        (TYPE, properties.kind),
        (APP_ID, properties.app_id),
    ];
    let texts = texts.into_iter().filter_map(|(name, text)| Some((name, String::from_utf8_lossy(text?).into_owned())));
    let mut fields: Vec<Field> = texts.collect();
    fields.extend(properties.timestamp.map(|seconds| (TIMESTAMP, seconds.to_string())));
    fields.extend(properties.priority.map(|priority| (PRIORITY, priority.to_string())));
    fields.push((PERSISTENT, (properties.delivery_mode == Some(KEPT)).to_string()));
    if let Some(headers) = &properties.headers {
        for name in [WORD, NUMBER, GROUP, KEY, RETURNS].into_iter().chain(FIRST_DEATH).chain(LAST_DEATH) {
            fields.extend(headers.get(name).map(|value| (name, text(&value))));
        }
        fields.extend(deaths(headers));
    }
    Shown { exchange, key, fields, has_story: true }
}

/// The story of all deaths, and how many there were.
fn deaths(headers: &Table<'_>) -> Vec<Field> {
    let Some(ValueRef::Array(rows)) = headers.get(STORY) else { return Vec::new() };
    let (mut stories, mut counts) = (Vec::new(), Vec::new());
    for row in rows.iter() {
        let ValueRef::Table(row) = row else { continue };
        let [queue, reason, exchange, keys, count] = ["queue", "reason", "exchange", "routing-keys", "count"]
            .map(|name| row.get(name).as_ref().map_or(String::new(), text));
        stories.push(story(&queue, &reason, &exchange, &keys));
        counts.push(count);
    }
    vec![(STORY, stories.join("; ")), (DEATHS, counts.join("; "))]
}

/// A value as a text: numbers in digits, lists with commas.
fn text(value: &ValueRef<'_>) -> String {
    match value {
        ValueRef::Str(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        ValueRef::Array(items) => items.iter().map(|item| text(&item)).collect::<Vec<_>>().join(", "),
        other => other.as_integer().map_or_else(|| format!("{other:?}"), |number| number.to_string()),
    }
}

/// What a MESSAGE shows.
pub(super) fn by_stomp(headers: &Headers<'_>) -> Shown {
    let get = |name: &str| headers.get(name).map(|text| text.into_owned());
    let destination = get("destination").unwrap_or_default();
    let (exchange, key) = match (destination.strip_prefix("/exchange/"), destination.strip_prefix("/queue/")) {
        (Some(rest), _) => rest.split_once('/').unwrap_or((rest, "")),
        (None, queue) => ("", queue.unwrap_or(&destination)),
    };
    let names = [CONTENT_TYPE, CORRELATION_ID, MESSAGE_ID, TYPE, APP_ID, TIMESTAMP, PRIORITY, STORY, RETURNS];
    let names = names.into_iter().chain([WORD, NUMBER, GROUP, KEY]).chain(FIRST_DEATH).chain(LAST_DEATH);
    let mut fields: Vec<Field> = names.filter_map(|name| Some((name, get(name)?))).collect();
    fields.push((PERSISTENT, (get(PERSISTENT).as_deref() == Some("true")).to_string()));
    Shown { exchange: exchange.to_owned(), key: key.to_owned(), fields, has_story: false }
}

#[cfg(test)]
mod tests {
    use amqp091::codec::table::encode_fields;

    use super::*;
    use crate::properties;
    use crate::stamp::{DeliveryMode, Id, Stamp};
    use crate::topology::{PLAIN, QUEUES, bit};

    #[test]
    fn what_amqp_publishes_is_what_it_shows() {
        for seq in 0..100 {
            let id = Id { producer: 3, seq };
            let own = properties::of(id, DeliveryMode::Persistent);
            let fields = encode_fields(&headers(&own));
            let headers = Some(Table::new(&fields).unwrap());
            let sent = BasicProperties { headers, delivery_mode: Some(KEPT), ..super::properties(&own) }.to_bytes();
            let received = Received { exchange: "", routing_key: QUEUES[PLAIN].name, properties: &sent, body: b"" };
            let stamp = Stamp { id, transaction: None, queues: bit(PLAIN), due: 0 };
            assert_eq!(by_amqp(&received).difference(PLAIN, &stamp), None);
            let bare = Received { properties: &[0, 0], ..received };
            assert!(by_amqp(&bare).difference(PLAIN, &stamp).is_some());
        }
    }
}
