//! All definitions, written as RabbitMQ's document, so that both RabbitMQ and Hermod can read it.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};

use super::{HERMOD_HASH, HERMOD_ROLES, HERMOD_SUBSCRIPTION, OPERATOR_POLICY, VHOST_LIMITS};
use crate::listing;
use crate::resources::{Listed, global_parameters, shovels};
use crate::source::Source;

/// The names of RabbitMQ's own hashes begin like this; it reads no others.
const OF_RABBITMQ: &str = "rabbit_password_hashing_";
/// The algorithm that RabbitMQ itself writes for an empty hash.
const USUAL: &str = "rabbit_password_hashing_sha256";

/// All definitions. They do not include exclusive and transient queues, or what every vhost has.
pub(crate) fn export(source: &Source) -> Json {
    let facts = &source.facts;
    let list = |what: Listed| listing::all(source, what.collection(), None);
    let is_durable = |row: &Json| row["durable"] == true && row["exclusive"] != true;
    let declared = |name: &Json| name.as_str().is_some_and(|name| !name.is_empty() && !name.starts_with("amq."));
    let queues: Vec<Json> = list(Listed::Queues).into_iter().filter(is_durable).collect();
    let mut exchanges = list(Listed::Exchanges);
    exchanges.retain(|row| is_durable(row) && declared(&row["name"]));
    let (of_queues, of_exchanges) = (names(&queues), names(&exchanges));
    let has = |names: &BTreeSet<Place>, binding: &Json, field: &str| names.contains(&place(binding, field));
    let mut bindings = list(Listed::Bindings);
    bindings.retain(|binding| {
        let source = binding["source"].as_str().unwrap_or_default();
        let from = source.starts_with("amq.") || has(&of_exchanges, binding, "source");
        let to = match binding["destination_type"] == "queue" {
            true => has(&of_queues, binding, "destination"),
            false => !declared(&binding["destination"]) || has(&of_exchanges, binding, "destination"),
        };
        !source.is_empty() && from && to
    });
    let limits = list(Listed::VhostLimits).into_iter().map(
        |row| json!({ "component": VHOST_LIMITS, "vhost": row["vhost"], "name": "limits", "value": row["value"] }),
    );
    let bounds = list(Listed::OperatorPolicies).into_iter().map(|row| {
        let value = narrow(&row, &["pattern", "apply-to", "definition", "priority"]);
        json!({ "component": OPERATOR_POLICY, "vhost": row["vhost"], "name": row["name"], "value": value })
    });
    let shovels = source.broker.shovels();
    let shovels = shovels.iter().map(shovels::exported);
    json!({
        "product_name": "Hermod",
        "product_version": facts.version,
        "rabbit_version": facts.compat_version,
        "rabbitmq_version": facts.compat_version,
        "users": list(Listed::Users).into_iter().map(user).collect::<Vec<_>>(),
        "vhosts": narrowed(&list(Listed::Vhosts), &["name", "description", "tags", "default_queue_type", "metadata"]),
        "permissions": list(Listed::Permissions),
        "topic_permissions": list(Listed::TopicPermissions),
        "parameters": limits.chain(bounds).chain(shovels).collect::<Vec<_>>(),
        "global_parameters": global_parameters::all(&source.broker),
        "policies": narrowed(
            &list(Listed::Policies), &["vhost", "name", "pattern", "apply-to", "definition", "priority"],
        ),
        "queues": queues.iter().map(queue).collect::<Vec<_>>(),
        "exchanges": narrowed(
            &exchanges, &["name", "vhost", "type", "durable", "auto_delete", "internal", "arguments"],
        ),
        "bindings": narrowed(&bindings, &["source", "vhost", "destination", "destination_type", "routing_key", "arguments"]),
    })
}

/// Vhost and name.
type Place = (String, String);

fn place(row: &Json, name: &str) -> Place {
    let text = |field: &str| row[field].as_str().unwrap_or_default().to_owned();
    (text("vhost"), text(name))
}

fn names(rows: &[Json]) -> BTreeSet<Place> {
    rows.iter().map(|row| place(row, "name")).collect()
}

/// The definitions in a vhost, without its name.
pub(super) fn export_vhost(source: &Source, vhost: &str) -> Json {
    let mut document = export(source);
    let Json::Object(lists) = &mut document else { return document };
    let vhosts = lists.remove("vhosts").unwrap_or_default();
    for list in ["users", "permissions", "topic_permissions", "global_parameters"] {
        lists.remove(list);
    }
    for rows in lists.values_mut().filter_map(Json::as_array_mut) {
        rows.retain(|row| row["vhost"] == vhost);
        for row in rows.iter_mut().filter_map(Json::as_object_mut) {
            row.remove("vhost");
        }
    }
    if let Some(own) = vhosts.as_array().and_then(|rows| rows.iter().find(|row| row["name"] == vhost)) {
        for field in ["description", "tags", "default_queue_type", "metadata"] {
            lists.insert(field.to_owned(), own[field].clone());
        }
        lists.insert("original_vhost_name".to_owned(), json!(vhost));
    }
    document
}

/// A user. RabbitMQ would refuse a document with a hash that it can't read. Such a hash goes into a
/// field of its own, which RabbitMQ ignores: there the user has no password.
fn user(row: Json) -> Json {
    let roles = row["roles"].clone();
    let mut row = narrow(&row, &["name", "password_hash", "hashing_algorithm", "tags", "limits"]);
    if roles.as_array().is_some_and(|roles| !roles.is_empty()) {
        row[HERMOD_ROLES] = roles;
    }
    if row["hashing_algorithm"].as_str().is_some_and(|name| !name.is_empty() && !name.starts_with(OF_RABBITMQ)) {
        row[HERMOD_HASH] = std::mem::replace(&mut row["password_hash"], json!(""));
        row["hashing_algorithm"] = json!(USUAL);
    } else if row["password_hash"] == "" {
        row["hashing_algorithm"] = json!(USUAL);
    }
    row
}

/// A queue. Its subscription goes into a field of its own, which RabbitMQ ignores: there it is a
/// queue with bindings.
fn queue(row: &Json) -> Json {
    let mut queue = narrow(row, &["name", "vhost", "type", "durable", "auto_delete", "arguments"]);
    if let Some(subscription) = row.get("subscription").filter(|subscription| !subscription.is_null()) {
        queue[HERMOD_SUBSCRIPTION] = subscription.clone();
    }
    queue
}

/// Some fields of each row.
fn narrowed(rows: &[Json], fields: &[&str]) -> Vec<Json> {
    rows.iter().map(|row| narrow(row, fields)).collect()
}

fn narrow(row: &Json, fields: &[&str]) -> Json {
    let some: Map<_, _> = fields.iter().map(|field| ((*field).to_owned(), row[*field].clone())).collect();
    Json::Object(some)
}
