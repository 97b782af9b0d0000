//! Bindings, exchanges' names and arguments, as the pages of queues and of exchanges show them.

use broker::BindingReport;
use maud::{Markup, html};
use serde_json::{Map, Value as Json};

use super::parts::{Column, place, table};
use crate::json::object;

/// What stands for the default exchange, whose name is empty, in a path; as in RabbitMQ's API.
pub(super) const DEFAULT: &str = "amq.default";
/// The name of an exchange as a reader sees it.
pub(super) fn shown(name: &str) -> &str {
    if name.is_empty() { "(default)" } else { name }
}

/// The path of an exchange.
pub(super) fn path(vhost: &str, name: &str) -> String {
    place("exchanges", vhost, if name.is_empty() { DEFAULT } else { name })
}

/// A table of bindings. What ends one leads back to `back`.
pub(super) fn bindings(bindings: &[BindingReport], back: &str) -> Markup {
    let columns = [
        Column::text("From"),
        Column::text("To"),
        Column::text("Routing key"),
        Column::text("Arguments"),
        Column::text("Action"),
    ];
    let rows: Vec<Vec<Markup>> = bindings.iter().map(|binding| binding_row(binding, back)).collect();
    table("bindings", &columns, &rows, html! { "no bindings" })
}

fn binding_row(binding: &BindingReport, back: &str) -> Vec<Markup> {
    let to = match binding.to_queue {
        true => place("queues", &binding.vhost, &binding.destination),
        false => path(&binding.vhost, &binding.destination),
    };
    let kind = if binding.to_queue { "queue" } else { "exchange" };
    let table = object(&binding.arguments);
    let hidden = [
        ("back", back.to_owned()),
        ("vhost", binding.vhost.clone()),
        ("source", binding.source.clone()),
        ("destination", binding.destination.clone()),
        ("destination_type", kind.to_owned()),
        ("routing_key", binding.key.clone()),
        ("arguments", if table.is_empty() { String::new() } else { Json::Object(table.clone()).to_string() }),
    ];
    let end = html! {
        @if !binding.source.is_empty() {
            form method="post" action="/bindings/delete" {
                @for (name, value) in &hidden { input type="hidden" name=(name) value=(value); }
                button .small aria-label={ "Unbind " (binding.destination) } { "Unbind" }
            }
        }
    };
    vec![
        html! { a href=(path(&binding.vhost, &binding.source)) { (shown(&binding.source)) } },
        html! { (kind) " " a href=(to) { (binding.destination) } },
        html! { code { (binding.key) } },
        arguments(&table),
        end,
    ]
}

/// Arguments, one below the other.
pub(super) fn arguments(arguments: &Map<String, Json>) -> Markup {
    html! {
        @if arguments.is_empty() { "none" }
        @for (name, value) in arguments { span .argument { code { (name) } " = " (value) } }
    }
}
