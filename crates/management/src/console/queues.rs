//! The list of queues, and declaring one.
//!
//! Names are filtered before anything else is read of a queue. Sorted by name, a page reads the
//! queues that it shows; sorted by a figure, it reads each queue once and keeps a page.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use broker::{Cause, QueueCounts, QueueReport, Standing};
use maud::{Markup, html};
use serde_json::{Map, Value as Json, json};

use super::form::Fields;
use super::frame::{Notice, Part, View};
use super::parts::{Column, Form, Listing, Mood, badge, place, table};
use super::trouble::{Shown, Trouble};
use super::visitor::Visitor;
use super::{figure, seen};
use crate::api;
use crate::diagnosis;
use crate::pace::Movement;
use crate::resources::{QueueChange, movement};
use crate::source::Source;

type Shared = State<Arc<Source>>;

/// Names that are read of a vhost between two looks at who else wants it.
const CHUNK: usize = 256;

pub(super) fn router() -> Router<Arc<Source>> {
    Router::new().route("/queues", get(list).post(declare))
}

/// Messages in, out and acknowledged of a queue, per second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rates {
    pub(super) published: f64,
    pub(super) delivered: f64,
    pub(super) acknowledged: f64,
}

impl Rates {
    pub(super) fn of(source: &Source, queue: &QueueReport) -> Self {
        let (stats, _) = movement(source, queue);
        let rate = |name: &str| stats[&format!("{name}_details")]["rate"].as_f64().unwrap_or_default();
        Self { published: rate("publish"), delivered: rate("deliver_get"), acknowledged: rate("ack") }
    }
}

/// The rows of a page, and the number of all rows.
struct Found {
    rows: Vec<(QueueReport, Rates)>,
    total: usize,
}

async fn list(visitor: Visitor, State(source): Shared, query: seen::Query) -> Shown {
    page(&visitor, &source, &query.0, &Fields::default(), Notice::None).await
}

async fn page(visitor: &Visitor, source: &Arc<Source>, query: &Fields, sent: &Fields, notice: Notice) -> Shown {
    let list = Listing::of("/queues", query);
    let (wanted, asker) = (list.clone(), visitor.asker.clone());
    let (vhosts, found) = api::sum_up(source, &visitor.asker, move |source| {
        let vhosts = seen::vhosts(&asker, source);
        let found = find(source, &wanted, &vhosts);
        (vhosts, found)
    })
    .await?;
    let columns = [
        Column::text("Name").sorted_by("name", &list),
        Column::text("Virtual host"),
        Column::text("Kind"),
        Column::text("State"),
        Column::number("Ready").sorted_by("ready", &list),
        Column::number("Unacknowledged").sorted_by("unacknowledged", &list),
        Column::number("In").sorted_by("in", &list),
        Column::number("Out").sorted_by("out", &list),
        Column::number("Consumers").sorted_by("consumers", &list),
    ];
    let rows: Vec<Vec<Markup>> = found.rows.iter().map(|(queue, rates)| row(queue, *rates)).collect();
    let body = html! {
        (list.filter(&vhosts))
        div #list data-live {
            (table("queues", &columns, &rows, nothing(&list)))
            (list.pager(found.total))
        }
        (declaration(&vhosts, sent))
    };
    Ok(View::new(Part::Queues, "Queues", body).with(notice).show(visitor, source))
}

fn nothing(list: &Listing) -> Markup {
    html! {
        @if list.filter.is_empty() {
            "There are no queues here yet. Declare one below, or let a client do it."
        } @else {
            "No queue's name contains '" (list.filter) "'."
        }
    }
}

fn find(source: &Source, list: &Listing, vhosts: &[String]) -> Found {
    let wanted = vhosts.iter().filter(|vhost| list.vhost.is_empty() || **vhost == list.vhost);
    let all: Vec<_> = wanted.map(|vhost| (vhost.as_str(), source.broker.queue_names(vhost))).collect();
    let finds = list.finds();
    let mut names: Vec<Named<'_>> = Vec::new();
    for (vhost, of_vhost) in &all {
        names.extend(of_vhost.iter().filter(|name| finds(name)).map(|name| (name, *vhost)));
    }
    let total = names.len();
    let names = match (list.sort.as_str(), all.len()) {
        ("name", 0 | 1) => list.cut(names),
        ("name", _) => list.pick(names, Ord::cmp),
        (sort, _) => {
            let keyed = keyed(source, sort, &names);
            let picked =
                list.pick(keyed, |(one, its), (other, others)| one.total_cmp(other).then_with(|| its.cmp(others)));
            picked.into_iter().map(|(_, name)| name).collect()
        }
    };
    let mut rows = Vec::with_capacity(names.len());
    report(source, &names, |queue, _| {
        let rates = Rates::of(source, &queue);
        rows.push((queue, rates));
    });
    Found { rows, total }
}

/// The name of a queue and its vhost.
type Named<'a> = (&'a Arc<str>, &'a str);

/// Gives a report of each of these queues that still exists, in their order.
fn report<'a>(source: &Source, names: &[Named<'a>], mut take: impl FnMut(QueueReport, Named<'a>)) {
    for some in in_chunks(names) {
        let mut left = some.iter();
        for queue in source.broker.some_queues(some[0].1, &owned(some)) {
            let name = left.find(|(name, _)| ***name == *queue.name);
            if let Some(name) = name {
                take(queue, *name);
            }
        }
    }
}

/// What the list is sorted by, of each of these queues that exists.
fn keyed<'a>(source: &Source, sort: &str, names: &[Named<'a>]) -> Vec<(f64, Named<'a>)> {
    let mut keyed = Vec::with_capacity(names.len());
    if let Some(movement) = moved(sort) {
        let look = source.histories.paces.look(&source.broker);
        for same in names.chunk_by(|one, other| one.1 == other.1) {
            let rates = look.rates(same[0].1, same.iter().map(|(name, _)| *name), movement);
            keyed.extend(rates.zip(same).map(|(rate, name)| (rate, *name)));
        }
        return keyed;
    }
    let key = |counts: QueueCounts| match sort {
        "ready" => counts.ready as f64,
        "unacknowledged" => counts.unacked as f64,
        "consumers" => counts.consumers as f64,
        _ => 0.0,
    };
    for some in in_chunks(names) {
        let counts = source.broker.some_counts(some[0].1, &owned(some));
        keyed.extend(counts.into_iter().zip(some).filter_map(|(counts, name)| Some((key(counts?), *name))));
    }
    keyed
}

/// The movement that a column is about.
fn moved(sort: &str) -> Option<Movement> {
    match sort {
        "in" => Some(Movement::Published),
        "out" => Some(Movement::Delivered),
        _ => None,
    }
}

/// Queues of one vhost, not too many at a time.
fn in_chunks<'n, 'a>(names: &'n [Named<'a>]) -> impl Iterator<Item = &'n [Named<'a>]> {
    names.chunk_by(|one, other| one.1 == other.1).flat_map(|same| same.chunks(CHUNK))
}

fn owned(names: &[Named<'_>]) -> Vec<Arc<str>> {
    names.iter().map(|(name, _)| Arc::clone(name)).collect()
}

fn row(queue: &QueueReport, rates: Rates) -> Vec<Markup> {
    let (mood, word) = state(queue);
    vec![
        html! { a href=(place("queues", &queue.vhost, &queue.name)) { (queue.name) } },
        html! { (queue.vhost) },
        html! { (kind(queue)) },
        badge(word, mood),
        figure::count(queue.ready),
        figure::count(queue.unacked),
        figure::rate(rates.published),
        figure::rate(rates.delivered),
        figure::count(queue.consumers),
    ]
}

/// The type of a queue, and what is special about it.
pub(super) fn kind(queue: &QueueReport) -> String {
    let marks = [
        (!queue.declared.durable, "transient"),
        (queue.declared.exclusive, "exclusive"),
        (queue.declared.auto_delete, "auto-delete"),
        (queue.policies.user.is_some(), "policy"),
    ];
    let marks = marks.iter().filter(|(is_so, _)| *is_so).map(|(_, mark)| format!(", {mark}"));
    format!("{}{}", queue.declared.kind, marks.collect::<String>())
}

/// Whether a queue moves, in a word.
pub(super) fn state(queue: &QueueReport) -> (Mood, &'static str) {
    let standing = queue.standing();
    let word = match (standing, queue.figures.causes.first()) {
        (Standing::Stuck | Standing::Waits, Some(cause)) => diagnosis::short(cause),
        (Standing::Moves, _) => "delivering",
        (Standing::Delivered, _) => "all delivered",
        _ => "empty",
    };
    (mood(standing, queue.figures.causes.first()), word)
}

/// How bad the state of a queue is.
pub(super) fn mood(standing: Standing, first: Option<Cause>) -> Mood {
    match (standing, first) {
        (Standing::Stuck, Some(Cause::Damaged)) => Mood::Bad,
        (Standing::Stuck, _) => Mood::Warning,
        (Standing::Moves | Standing::Delivered, _) => Mood::Good,
        (Standing::Waits | Standing::Empty, _) => Mood::Plain,
    }
}

fn declaration(vhosts: &[String], sent: &Fields) -> Markup {
    let kinds = [("classic", "classic"), ("quorum", "quorum")];
    let durable = [("true", "durable"), ("false", "transient")];
    let overflow = [
        ("", "drop the oldest"),
        ("reject-publish", "refuse new ones"),
        ("reject-publish-dlx", "dead-letter new ones"),
    ];
    let form = Form::of("declare", sent);
    let fields = html! {
        (form.vhosts(vhosts))
        (form.field("name", "Name", "text", "up to 255 bytes"))
        (form.choice("type", "Type", &kinds))
        (form.choice("durable", "Durability", &durable))
        (form.field("ttl", "TTL", "text", "milliseconds that a message may wait"))
        (form.field("max-length", "Max length", "text", "ready messages"))
        (form.choice("overflow", "When it is full", &overflow))
        (form.field("dead-letter-exchange", "Dead letter exchange", "text", "where rejected and expired messages go"))
        (form.field("dead-letter-routing-key", "Dead letter routing key", "text", "instead of their own"))
        (form.long("arguments", "Arguments", "others, as a JSON object: {\"x-max-priority\": 5}"))
    };
    form.folded("Declare a queue", "/queues", fields, "Declare queue")
}

async fn declare(visitor: Visitor, State(source): Shared, fields: Fields) -> Shown {
    match declared(&visitor, &source, &fields).await {
        Ok(done) => Ok(done),
        Err(trouble) => page(&visitor, &source, &Fields::default(), &fields, Notice::Refused(trouble.text)).await,
    }
}

async fn declared(visitor: &Visitor, source: &Arc<Source>, fields: &Fields) -> Result<Response, Trouble> {
    let vhost = fields.text("vhost").to_owned();
    let name = fields.needed("name", "Name")?.to_owned();
    visitor.asker.enters(source, &vhost)?;
    let change = QueueChange::Declare {
        vhost: vhost.clone(),
        name: name.clone(),
        durable: fields.text("durable") != "false",
        auto_delete: false,
        arguments: arguments(fields)?,
    };
    api::make(source, &visitor.asker, change).await?;
    Ok(visitor.done(source, format!("Queue '{name}' is declared."), &place("queues", &vhost, &name)))
}

/// The arguments that a form gives, each by its own field or among the others.
fn arguments(fields: &Fields) -> Result<Map<String, Json>, String> {
    let mut arguments = fields.object("arguments", "Arguments")?;
    let mut put = |name: &str, value: Json| match arguments.insert(name.to_owned(), value) {
        Some(_) => Err(format!("{name} is among the arguments and has a field of its own: fill in one.")),
        None => Ok(()),
    };
    if fields.text("type") != "classic" {
        put("x-queue-type", json!(fields.text("type")))?;
    }
    for (field, label, name) in [("ttl", "TTL", "x-message-ttl"), ("max-length", "Max length", "x-max-length")] {
        if let Some(number) = fields.number(field, label)? {
            put(name, json!(number))?;
        }
    }
    for (field, name) in [
        ("overflow", "x-overflow"),
        ("dead-letter-exchange", "x-dead-letter-exchange"),
        ("dead-letter-routing-key", "x-dead-letter-routing-key"),
    ] {
        let text = fields.name(field);
        if !text.is_empty() {
            put(name, json!(text))?;
        }
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_becomes_its_argument_once() {
        let fields = |text: &str| Fields::parse(text.as_bytes());
        let given =
            fields("type=quorum&ttl=60000&max-length=&overflow=&dead-letter-exchange=dlx&arguments=%7B%22a%22%3A1%7D");
        let expected =
            json!({ "x-queue-type": "quorum", "x-message-ttl": 60_000, "x-dead-letter-exchange": "dlx", "a": 1 });
        assert_eq!(Json::Object(arguments(&given).unwrap()), expected);
        assert_eq!(arguments(&fields("type=classic")).unwrap(), Map::new());
        let twice = fields("type=classic&ttl=1&arguments=%7B%22x-message-ttl%22%3A1%7D");
        assert!(arguments(&twice).unwrap_err().contains("fill in one"));
        assert!(arguments(&fields("type=classic&ttl=soon")).unwrap_err().contains("TTL"));
    }
}
