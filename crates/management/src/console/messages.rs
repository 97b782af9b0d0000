//! Messages on pages: publishing one, and browsing those that wait in a queue without taking any.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use axum::http::StatusCode;
use broker::Browse;
use maud::{Markup, html};
use serde_json::{Map, Value as Json};

use super::figure;
use super::form::Fields;
use super::parts::Form;
use super::trouble::Trouble;
use super::visitor::Visitor;
use crate::api;
use crate::change::Refused;
use crate::courier::Outgoing;
use crate::messages;
use crate::report::MessageRow;
use crate::source::Source;

/// Messages that a page shows if it is not told, and at most.
const SOME: u64 = 20;
const MOST: u64 = 200;

/// Where a message is published to.
pub(super) struct Address<'a> {
    pub(super) vhost: &'a str,
    pub(super) exchange: &'a str,
    pub(super) routing_key: &'a str,
}

/// The form that publishes a message to the address of a page.
pub(super) fn publishing(path: &str, sent: &Fields) -> Markup {
    publish_form(path, "Publish a message to this queue", &Form::of("publish", sent), html! {})
}

/// The form that publishes a message, with a field for its routing key.
pub(super) fn publishing_with_key(path: &str, sent: &Fields) -> Markup {
    let form = Form::of("publish", sent);
    let key = form.field("routing_key", "Routing key", "text", "");
    publish_form(path, "Publish a message", &form, key)
}

fn publish_form(path: &str, title: &str, form: &Form, key: Markup) -> Markup {
    let fields = html! {
        (key)
        (form.choice("delivery_mode", "Delivery mode", &[("2", "persistent"), ("1", "transient")]))
        (form.long("payload", "Payload", ""))
        (form.long("headers", "Headers", "as a JSON object: {\"region\": \"eu\"}"))
        (form.long("properties", "Properties", "others, as a JSON object: {\"message_id\": \"7\"}"))
    };
    form.folded(title, &format!("{path}/publish"), fields, "Publish")
}

/// Publishes what a form says. Returns the line that tells of it.
pub(super) async fn publish(
    visitor: &Visitor,
    source: &Arc<Source>,
    address: Address<'_>,
    fields: &Fields,
) -> Result<String, Trouble> {
    visitor.asker.enters(source, address.vhost)?;
    let mut properties = fields.object("properties", "Properties")?;
    let headers = fields.object("headers", "Headers")?;
    if !headers.is_empty() {
        put(&mut properties, "headers", Json::Object(headers))?;
    }
    if fields.text("delivery_mode") == "2" {
        put(&mut properties, "delivery_mode", 2.into())?;
    }
    let message = Outgoing {
        exchange: address.exchange.to_owned(),
        routing_key: address.routing_key.to_owned(),
        properties: messages::properties(&properties)?,
        body: fields.text("payload").as_bytes().to_vec(),
    };
    let (caller, vhost) = (visitor.asker.caller(), address.vhost.to_owned());
    let routed = api::blocking(source, &visitor.asker, move |source| source.publish(&vhost, &message, caller)).await?;
    if routed {
        return Ok("The message is published and confirmed.".to_owned());
    }
    let text = format!("The message reached no queue: no binding matches routing key '{}'.", address.routing_key);
    Err(Trouble::new(StatusCode::BAD_REQUEST, text))
}

fn put(properties: &mut Map<String, Json>, name: &str, value: Json) -> Result<(), String> {
    match properties.insert(name.to_owned(), value) {
        Some(_) => Err(format!("{name} is among the properties and has a field of its own: fill in one.")),
        None => Ok(()),
    }
}

/// The form that leads to the messages of a queue.
pub(super) fn browsing(path: &str) -> Markup {
    browse_form(path, &Fields::default())
}

fn browse_form(path: &str, query: &Fields) -> Markup {
    html! {
        form .filter method="get" action={ (path) "/messages" } {
            label for="count" { "Messages" }
            input #count name="count" inputmode="numeric" size="4"
                value=(if query.text("count").is_empty() { "20" } else { query.text("count") });
            label for="selector" { "Selector" }
            input #selector name="selector" value=(query.text("selector")) size="32" spellcheck="false"
                placeholder="region = 'eu' AND amount > 10";
            button { "Browse" }
        }
        p .hint { "Browsing takes nothing: the messages stay where they are, and as they are." }
    }
}

/// The messages of a queue that fit the query, from the front.
pub(super) async fn browsed(
    visitor: &Visitor,
    source: &Arc<Source>,
    (vhost, name): (&str, &str),
    path: &str,
    query: &Fields,
) -> Result<Markup, Trouble> {
    let limit = query.number("count", "Messages")?.unwrap_or(SOME).min(MOST);
    let selector = query.text("selector").to_owned();
    let (of, queue) = (vhost.to_owned(), name.to_owned());
    let caller = visitor.asker.caller();
    let answer = api::blocking(source, &visitor.asker, move |source| {
        let browse = Browse { vhost: &of, queue: &queue, selector: &selector, limit };
        source.browse(&browse, &caller, &AtomicBool::new(false)).map_err(Refused::from)
    });
    let rows = answer.await?;
    Ok(html! {
        (browse_form(path, query))
        @if rows.is_empty() { p .empty { "No ready message fits." } }
        @for row in &rows { (message(row)) }
        @if rows.len() as u64 == limit { p .hint { "There may be more: ask for up to " (MOST) "." } }
    })
}

fn message(row: &MessageRow) -> Markup {
    let is_cut = row.bytes > row.body.len() as u64;
    html! {
        article .card.message {
            header {
                strong { "#" (row.number) }
                span { "exchange " code { (if row.exchange.is_empty() { "(default)" } else { &row.exchange }) } }
                span { "routing key " code { (row.routing_key) } }
                span { (figure::bytes(row.bytes)) }
                @if row.redelivered { span { "may have been delivered before" } }
            }
            @if !row.properties.is_empty() || !row.headers.is_empty() {
                dl .facts {
                    @for (name, value) in &row.properties { (property(name, value)) }
                    @for (name, value) in &row.headers { (property(&format!("header {name}"), value)) }
                }
            }
            pre tabindex="0" { (row.body) @if is_cut { "…" } }
        }
    }
}

fn property(name: &str, value: &Json) -> Markup {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    html! { div { dt { (name) } dd { (text) } } }
}
