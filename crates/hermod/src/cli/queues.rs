//! `hermod queues`: the queues of a running broker.

use management::QueueRow;
use management::control::{Answer, Request};

use crate::cli::ask::{ask, strange};
use crate::cli::counted;
use crate::cli::output::{Form, show, show_json};
use crate::cli::table;
use crate::config::Settings;
use crate::config::value::size;
use crate::exit::Failure;

/// Asks and prints.
pub(crate) fn run(settings: &Settings, form: Form) -> Result<(), Failure> {
    let queues = match ask(settings, &Request::Queues)? {
        Answer::Queues(queues) => queues,
        other => return Err(strange(&other)),
    };
    if form == Form::Json {
        return show_json(&queues);
    }
    let rows: Vec<_> = queues.iter().map(row).collect();
    let head = [
        "vhost",
        "name",
        "type",
        "features",
        "ready",
        "unacked",
        "delayed",
        "consumers",
        "memory",
        "in",
        "out",
        "acked",
    ];
    let mut text = table::text(&head, &rows);
    for queue in queues.iter().filter(|queue| queue.moved.duplicates + queue.held.remembered > 0) {
        let (name, vhost, dropped) = (&queue.name, &queue.vhost, queue.moved.duplicates);
        let known = counted(queue.held.remembered, ["id", "ids"]);
        text += &format!("duplicates: {name} in {vhost}: {dropped} dropped, {known} known\n");
    }
    for queue in queues.iter().filter(|queue| queue.moved.superseded > 0) {
        text += &format!("superseded: {} in {}: {}\n", queue.name, queue.vhost, queue.moved.superseded);
    }
    for queue in &queues {
        for one in &queue.selectors {
            let (name, vhost, of) = (&queue.name, &queue.vhost, one.looked_at);
            text += &format!(
                "selector: {name} in {vhost}: {} ({}, {} of {of} selected)\n",
                one.selector,
                counted(one.consumers, ["consumer", "consumers"]),
                one.selected
            );
        }
        if !queue.declared.arguments_without_effect.is_empty() {
            let names = queue.declared.arguments_without_effect.join(", ");
            text += &format!("without effect: {} in {}: {names}\n", queue.name, queue.vhost);
        }
        if let Some(damage) = &queue.damaged {
            text += &format!("damaged: {} in {}: {damage}\n", queue.name, queue.vhost);
        }
    }
    show(&text)
}

fn row(queue: &QueueRow) -> Vec<String> {
    let features: Vec<_> = [
        (queue.declared.durable, "durable"),
        (queue.declared.exclusive, "exclusive"),
        (queue.declared.auto_delete, "auto-delete"),
    ]
    .iter()
    .filter(|(set, _)| *set)
    .map(|(_, name)| *name)
    .chain(queue.damaged.is_some().then_some("damaged"))
    .collect();
    vec![
        queue.vhost.clone(),
        queue.name.clone(),
        queue.declared.kind.clone(),
        features.join(","),
        queue.held.ready.to_string(),
        queue.held.unacked.to_string(),
        queue.held.delayed.to_string(),
        queue.consumers.to_string(),
        size(queue.held.bytes),
        queue.moved.published.to_string(),
        queue.moved.delivered.to_string(),
        queue.moved.acknowledged.to_string(),
    ]
}
