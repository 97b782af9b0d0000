//! Messages of a queue for an operator: shown as text, or sent back to where they came from.

use std::sync::atomic::AtomicBool;

use auth::{Resource, Right};
use broker::{Browse, Browsed, Browsing, Error, Id, Properties, RedriveMode, Table, seconds_of_ms};
use serde_json::{Map, Value, json};

use crate::change::{AUDIT, Caller};
use crate::json::{json, object, typed};
use crate::report::{MessageRow, RedriveRow};
use crate::source::Source;

/// Headers that JSON can't say as an object, with their types, in their order.
const TYPED_HEADERS: &str = "hermod_headers";
/// Most messages of one answer, and most bytes of their bodies and headers.
const MOST: u64 = 1000;
const MOST_BYTES: usize = 16 << 20;
/// Bytes of a body that are shown.
const SHOWN: usize = 4096;

impl Source {
    /// Shows messages to a caller that may read from the queue, and tells the audit log.
    pub(crate) fn browse(
        &self,
        browse: &Browse<'_>,
        caller: &Caller,
        gone: &AtomicBool,
    ) -> Result<Vec<MessageRow>, Error> {
        self.may_browse(browse, caller)?;
        let rows = self.rows_of(browse, gone)?;
        tell_of_browsing(caller, [browse.vhost, browse.queue], rows.len() as u64);
        Ok(rows)
    }

    /// Begins to show all messages to a caller that may read from the queue. Who shows them tells
    /// the audit log.
    pub(crate) fn begin_browsing(&self, browse: &Browse<'_>, caller: &Caller) -> Result<Browsing, Error> {
        self.may_browse(browse, caller)?;
        self.broker.begin_browsing(browse)
    }

    fn may_browse(&self, browse: &Browse<'_>, caller: &Caller) -> Result<(), Error> {
        let Browse { vhost, queue, .. } = *browse;
        let asked = self.broker.authority().authorize(&caller.identity, vhost, Resource::queue(queue), Right::Read);
        asked.map_err(|denied| Error::refused(format!("to see messages: {denied}")))
    }

    fn rows_of(&self, browse: &Browse<'_>, gone: &AtomicBool) -> Result<Vec<MessageRow>, Error> {
        let mut rows = Vec::new();
        let mut bytes = 0;
        let browse = Browse { limit: browse.limit.min(MOST), ..*browse };
        let full = std::cell::Cell::new(false);
        let wanted = || self.is_wanted(gone) && !full.get();
        self.broker.browse(&browse, &wanted, &mut |browsed| {
            bytes += browsed.message.properties().len() + browsed.message.body().len().min(SHOWN);
            bytes += typed::weight(&browsed.properties.headers);
            if bytes > MOST_BYTES && !rows.is_empty() {
                full.set(true);
            }
            if !full.get() {
                rows.push(message_row(browsed));
            }
        })?;
        Ok(rows)
    }

    pub(crate) fn redrive(
        &self,
        browse: &Browse<'_>,
        mode: RedriveMode,
        gone: &AtomicBool,
    ) -> Result<RedriveRow, Error> {
        let redriven = self.broker.redrive(browse, mode, &|| self.is_wanted(gone))?;
        if redriven.moved > 0 && mode == RedriveMode::Move {
            let (moved, queue, vhost) = (redriven.moved, browse.queue, browse.vhost);
            tracing::info!(
                "{moved} dead letters of queue '{queue}' in vhost '{vhost}' sent back to where they came from"
            );
        }
        Ok(RedriveRow {
            moved: redriven.moved,
            alive: redriven.alive,
            homeless: redriven.homeless,
            refused: redriven.refused,
            out_of_room: redriven.out_of_room,
        })
    }
}

/// Tells the audit log who has seen how many messages of a queue in a vhost.
pub(crate) fn tell_of_browsing(caller: &Caller, [vhost, queue]: [&str; 2], count: u64) {
    let (who, from) = (caller.identity.user(), &caller.from);
    tracing::info!(target: AUDIT, %who, %from, vhost, queue, count, "messages browsed");
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
        headers: object(&properties.headers),
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

/// Properties as RabbitMQ's HTTP API shows them, with the headers among them.
pub(crate) fn as_published(properties: Properties) -> Map<String, Value> {
    let headers = object(&properties.headers);
    let expiration = properties.expiration;
    let mut map = named(properties);
    if let Some(ms) = expiration {
        map.insert("expiration".to_owned(), json!(ms.to_string()));
    }
    if !headers.is_empty() {
        map.insert("headers".to_owned(), Value::Object(headers));
    }
    map
}

/// Properties from such an object.
///
/// # Errors
/// Which of them is not valid, as a text.
pub(crate) fn properties(fields: &Map<String, Value>) -> Result<Properties, String> {
    let mut properties = Properties::default();
    for (name, value) in fields {
        let wrong = |wanted: &str| format!("property '{name}' must be {wanted}, not {value}");
        let text = || value.as_str().map(str::to_owned).ok_or_else(|| wrong("a text"));
        match name.as_str() {
            "content_type" => properties.content_type = Some(text()?),
            "content_encoding" => properties.content_encoding = Some(text()?),
            "correlation_id" => properties.correlation_id = Some(Id::Text(text()?)),
            "reply_to" => properties.reply_to = Some(text()?),
            "message_id" => properties.message_id = Some(Id::Text(text()?)),
            "type" => properties.kind = Some(text()?),
            "user_id" => properties.user_id = Some(text()?),
            "app_id" => properties.app_id = Some(text()?),
            "cluster_id" => properties.cluster_id = Some(text()?),
            "delivery_mode" => match value.as_u64() {
                Some(mode @ (1 | 2)) => properties.persistent = mode == 2,
                _ => return Err(wrong("1 or 2")),
            },
            "priority" => {
                let priority = value.as_u64().and_then(|number| u8::try_from(number).ok());
                properties.priority = Some(priority.ok_or_else(|| wrong("a whole number from 0 to 255"))?);
            }
            "timestamp" => {
                let time = value.as_i64().filter(|seconds| *seconds >= 0).and_then(|seconds| seconds.checked_mul(1000));
                properties.timestamp = Some(time.ok_or_else(|| wrong("seconds since 1970"))?);
            }
            "expiration" => {
                let ms = value.as_u64().or_else(|| value.as_str()?.parse().ok());
                properties.expiration = Some(ms.ok_or_else(|| wrong("a text of milliseconds, ten years at most"))?);
            }
            "headers" | TYPED_HEADERS => {}
            _ => return Err(format!("there is no property '{name}'")),
        }
    }
    properties.headers = headers(fields.get("headers"), fields.get(TYPED_HEADERS))?;
    Ok(properties)
}

/// Headers from either of their two forms, or from both if they say the same.
fn headers(plain: Option<&Value>, list: Option<&Value>) -> Result<Table, String> {
    let fields =
        |value: &Value| value.as_object().cloned().ok_or_else(|| format!("headers must be an object, not {value}"));
    let plain = plain.map(fields).transpose()?;
    let Some(list) = list else { return crate::json::table(&plain.unwrap_or_default()) };
    let headers = typed::table(list)?;
    // Numbers are compared as they are read from the text that an answer has for them.
    let shown: Option<Map<String, Value>> = serde_json::from_str(&json!(object(&headers)).to_string()).ok();
    if plain.is_some() && plain != shown {
        return Err(format!("headers and {TYPED_HEADERS} differ: leave out either"));
    }
    Ok(headers)
}

/// The properties that are set, by the names of AMQP 0-9-1, and headers that no object can show.
fn named(properties: Properties) -> Map<String, Value> {
    let typed_headers = (!typed::is_plain(&properties.headers)).then(|| typed::list(&properties.headers));
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
    set("correlation_id", properties.correlation_id.map(id));
    set("reply_to", properties.reply_to.map(Value::from));
    set("expiration", properties.expiration.map(Value::from));
    set("message_id", properties.message_id.map(id));
    set("timestamp", properties.timestamp.map(|time| json!(seconds_of_ms(time))));
    set("type", properties.kind.map(Value::from));
    set("user_id", properties.user_id.map(Value::from));
    set("app_id", properties.app_id.map(Value::from));
    set("cluster_id", properties.cluster_id.map(Value::from));
    set(TYPED_HEADERS, typed_headers);
    map
}

/// An id as text, as AMQP 0-9-1 shows it. Bytes that are none are escaped.
fn id(id: Id) -> Value {
    id.as_text().map_or_else(|| json(&id.clone().into()), |text| json!(text))
}
