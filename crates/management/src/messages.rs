//! Messages of a queue for an operator: shown as text, or sent back to where they came from.

use std::sync::atomic::AtomicBool;

use broker::{Browse, Browsed, ErrorKind, Properties, Table, Value as Field};
use serde_json::{Map, Value, json};

use crate::control::Answer;
use crate::report::{MessageRow, RedriveRow};
use crate::source::Source;

/// Messages that one answer shows at most, and bytes of their bodies and headers.
const MOST: u64 = 1000;
const MOST_BYTES: usize = 16 << 20;
/// Bytes of a body that are shown.
const SHOWN: usize = 4096;

impl Source {
    pub(crate) fn browse(&self, browse: &Browse<'_>, gone: &AtomicBool) -> Answer {
        let mut rows = Vec::new();
        let mut bytes = 0;
        let browse = Browse { limit: browse.limit.min(MOST), ..*browse };
        let full = std::cell::Cell::new(false);
        let wanted = || self.is_wanted(gone) && !full.get();
        let shown = self.broker.browse(&browse, &wanted, &mut |browsed| {
            bytes += browsed.message.properties().len() + browsed.message.body().len().min(SHOWN);
            if bytes > MOST_BYTES && !rows.is_empty() {
                full.set(true);
            }
            if !full.get() {
                rows.push(message_row(browsed));
            }
        });
        shown.map_or_else(refused, |()| Answer::Browsed(rows))
    }

    pub(crate) fn redrive(&self, browse: &Browse<'_>, dry_run: bool, gone: &AtomicBool) -> Answer {
        let redriven = match self.broker.redrive(browse, dry_run, &|| self.is_wanted(gone)) {
            Ok(redriven) => redriven,
            Err(error) => return refused(error),
        };
        if redriven.moved > 0 && !dry_run {
            let (moved, queue, vhost) = (redriven.moved, browse.queue, browse.vhost);
            tracing::info!(
                "{moved} dead letters of queue '{queue}' in vhost '{vhost}' sent back to where they came from"
            );
        }
        Answer::Redriven(RedriveRow {
            moved: redriven.moved,
            alive: redriven.alive,
            homeless: redriven.homeless,
            refused: redriven.refused,
            out_of_room: redriven.out_of_room,
        })
    }
}

fn refused(error: broker::Error) -> Answer {
    match error.kind {
        ErrorKind::NotFound => Answer::NoSuchQueue(error.text),
        _ => Answer::Refused(error.text),
    }
}

fn message_row(browsed: Browsed) -> MessageRow {
    let Browsed { number, message, properties, redelivered } = browsed;
    let body = message.body();
    let beginning = &body[..body.len().min(SHOWN)];
    MessageRow {
        number,
        exchange: message.exchange().to_owned(),
        routing_key: message.routing_key().to_owned(),
        redelivered,
        taken_at: message.published_at(),
        headers: table(&properties.headers),
        properties: named(properties),
        bytes: body.len() as u64,
        body: shown(beginning),
    }
}

/// Text as it is, other bytes escaped.
fn shown(body: &[u8]) -> String {
    let mut text = String::new();
    for chunk in body.utf8_chunks() {
        text.push_str(chunk.valid());
        text.push_str(&chunk.invalid().escape_ascii().to_string());
    }
    text
}

/// The properties that there are, by the names of AMQP 0-9-1.
fn named(properties: Properties) -> Map<String, Value> {
    let mut map = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            map.insert(name.to_owned(), value);
        }
    };
    set("content_type", properties.content_type.map(Value::from));
    set("content_encoding", properties.content_encoding.map(Value::from));
    set("delivery_mode", properties.persistent.then(|| json!(2)));
    set("priority", properties.priority.map(Value::from));
    set("correlation_id", properties.correlation_id.map(Value::from));
    set("reply_to", properties.reply_to.map(Value::from));
    set("expiration", properties.expiration.map(Value::from));
    set("message_id", properties.message_id.map(Value::from));
    set("timestamp", properties.timestamp.map(Value::from));
    set("type", properties.kind.map(Value::from));
    set("user_id", properties.user_id.map(Value::from));
    set("app_id", properties.app_id.map(Value::from));
    map
}

fn table(table: &Table) -> Map<String, Value> {
    table.0.iter().map(|(name, field)| (name.clone(), value(field))).collect()
}

fn value(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(truth) => json!(truth),
        Field::F32(number) => json!(number),
        Field::F64(number) => json!(number),
        Field::Decimal { scale, value } => json!(f64::from(*value) / 10f64.powi((*scale).into())),
        Field::Text(text) => json!(text),
        Field::Bytes(bytes) => json!(bytes.escape_ascii().to_string()),
        Field::Timestamp(seconds) => json!(seconds),
        Field::Array(fields) => fields.iter().map(value).collect(),
        Field::Table(fields) => Value::Object(table(fields)),
        integer => integer.as_integer().map_or(Value::Null, Value::from),
    }
}
