//! What clients leave with the broker besides queues: subscriptions, retained messages and wills,
//! each a list, and a form that removes one.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use broker::{Broker, Names, Sharing, WillKept};
use maud::{Markup, html};

use super::form::Fields;
use super::frame::{Part, View};
use super::parts::{Column, Listing, ask, place, table};
use super::trouble::Shown;
use super::visitor::Visitor;
use super::{figure, seen};
use crate::api;
use crate::resources::{RetainedChange, WillChange, percent_encoded};
use crate::source::Source;

type Shared = State<Arc<Source>>;

/// The rows of those of these names in a vhost that are there.
type RowsOf = fn(&Broker, &str, &[Arc<str>]) -> Vec<Vec<Markup>>;

/// A list: where it is, and how its rows are found and written.
struct Kind {
    path: &'static str,
    title: &'static str,
    about: &'static str,
    columns: &'static [(&'static str, bool)],
    names: fn(&Broker, &str) -> Names,
    rows: RowsOf,
}

const SUBSCRIPTIONS: Kind = Kind {
    path: "/subscriptions",
    title: "Subscriptions",
    about: "A subscription keeps its messages in a queue, and may outlive its client's connection: stored sessions of \
            MQTT, durable subscriptions of STOMP and Jakarta Messaging. It ends with its queue.",
    columns: &[
        ("Queue", false),
        ("Virtual host", false),
        ("Client", false),
        ("Name", false),
        ("Kind", false),
        ("Ready", true),
        ("Unacknowledged", true),
        ("Consumers", true),
        ("Action", false),
    ],
    names: Broker::subscribed_names,
    rows: subscription_rows,
};

const RETAINED: Kind = Kind {
    path: "/retained",
    title: "Retained messages",
    about: "A retained message is the last value of its topic. Those that subscribe later get it first.",
    columns: &[
        ("Topic", false),
        ("Virtual host", false),
        ("Exchange", false),
        ("Body", true),
        ("Kind", false),
        ("Action", false),
    ],
    names: Broker::retained_names,
    rows: retained_rows,
};

const WILLS: Kind = Kind {
    path: "/wills",
    title: "Wills",
    about: "A will is published when the connection of its client ends without a word, at once or after a delay.",
    columns: &[
        ("Client", false),
        ("Virtual host", false),
        ("User", false),
        ("Topic", false),
        ("Body", true),
        ("State", false),
        ("Action", false),
    ],
    names: Broker::will_names,
    rows: will_rows,
};

const ALL: [&Kind; 3] = [&SUBSCRIPTIONS, &RETAINED, &WILLS];

pub(super) fn router() -> Router<Arc<Source>> {
    Router::new()
        .route("/subscriptions", get(async |visitor, source, query| show(&SUBSCRIPTIONS, visitor, source, query).await))
        .route("/retained", get(async |visitor, source, query| show(&RETAINED, visitor, source, query).await))
        .route("/wills", get(async |visitor, source, query| show(&WILLS, visitor, source, query).await))
        .route("/retained/remove", get(ask_retained).post(remove_retained))
        .route("/wills/remove", get(ask_will).post(remove_will))
}

async fn show(kind: &'static Kind, visitor: Visitor, State(source): Shared, query: seen::Query) -> Shown {
    let list = Listing::of(kind.path, &query.0);
    let (wanted, asker) = (list.clone(), visitor.asker.clone());
    let (vhosts, rows, total) = api::sum_up(&source, &visitor.asker, move |source| {
        let vhosts = seen::vhosts(&asker, source);
        let (rows, total) = find(kind, source, &wanted, &vhosts);
        (vhosts, rows, total)
    })
    .await?;
    let column = |(name, is_number): &(&'static str, bool)| match is_number {
        true => Column::number(name),
        false => Column::text(name),
    };
    let columns: Vec<Column> = kind.columns.iter().map(column).collect();
    let body = html! {
        p .hint { (kind.about) }
        p { @for other in ALL { @if other.path != kind.path { a href=(other.path) { (other.title) } " " } } }
        (list.filter(&vhosts))
        div #list data-live {
            (table("left", &columns, &rows, html! { "There are none here." }))
            (list.pager(total))
        }
    };
    Ok(View::new(Part::Subscriptions, kind.title, body).show(&visitor, &source))
}

/// The rows of a page of the list, and how many there are in all.
fn find(kind: &Kind, source: &Source, list: &Listing, vhosts: &[String]) -> (Vec<Vec<Markup>>, usize) {
    let finds = list.finds();
    let wanted = vhosts.iter().filter(|vhost| list.vhost.is_empty() || **vhost == list.vhost);
    let named = wanted.flat_map(|vhost| (kind.names)(&source.broker, vhost).into_iter().map(move |name| (name, vhost)));
    let all: Vec<_> = named.filter(|(name, _)| finds(name)).collect();
    let total = all.len();
    let page = list.pick(all, Ord::cmp);
    (page.into_iter().flat_map(|(name, vhost)| (kind.rows)(&source.broker, vhost, &[name])).collect(), total)
}

fn subscription_rows(broker: &Broker, vhost: &str, names: &[Arc<str>]) -> Vec<Vec<Markup>> {
    let row = |queue: &broker::QueueReport| {
        let fact = queue.declared.subscription.as_deref()?;
        let path = place("queues", &queue.vhost, &queue.name);
        let kind = if fact.sharing == Sharing::Shared { "shared" } else { "one consumer at a time" };
        Some(vec![
            html! { a href=(path) { (queue.name) } },
            html! { (queue.vhost) },
            html! { (fact.name.client.as_deref().unwrap_or("–")) },
            html! { (fact.name.name) },
            html! { (kind) @if !queue.declared.durable { ", transient" } },
            figure::count(queue.ready),
            figure::count(queue.unacked),
            figure::count(queue.consumers),
            html! { a .button.small href={ (path) "/delete" } aria-label={ "Delete " (queue.name) } { "Delete…" } },
        ])
    };
    broker.some_subscribed(vhost, names).iter().filter_map(row).collect()
}

fn retained_rows(broker: &Broker, vhost: &str, names: &[Arc<str>]) -> Vec<Vec<Markup>> {
    let row = |retained: &broker::RetainedReport| {
        let fields = [("vhost", vhost), ("exchange", &retained.exchange), ("topic", &retained.topic)];
        vec![
            html! { code { (retained.topic) } },
            html! { (vhost) },
            html! { (retained.exchange) },
            html! { (figure::bytes(retained.body_bytes)) },
            html! { (if retained.persistent { "persistent" } else { "transient" }) },
            removal(RETAINED.path, &fields, &retained.topic),
        ]
    };
    broker.some_retained(vhost, names).iter().map(row).collect()
}

fn will_rows(broker: &Broker, vhost: &str, names: &[Arc<str>]) -> Vec<Vec<Markup>> {
    let row = |will: &broker::WillReport| {
        let fields = [("vhost", vhost), ("user", &will.user), ("client", &will.client)];
        vec![
            html! { (will.client) },
            html! { (vhost) },
            html! { (will.user) },
            html! { code { (will.topic) } },
            html! { (figure::bytes(will.body_bytes)) },
            html! { (state_of(will)) },
            removal(WILLS.path, &fields, &will.client),
        ]
    };
    broker.some_wills(vhost, names).iter().map(row).collect()
}

/// What a will waits for, and where, if a kill would lose it.
fn state_of(will: &broker::WillReport) -> Markup {
    let (is_due, held_up) = (will.due.is_some(), will.held_up);
    let waits = if is_due { "waits for its time" } else { "client is connected" };
    html! {
        @if held_up == 0 { (waits) }
        @else if is_due && held_up == 1 { "was due, and waits for the end of an alarm" }
        @else { (waits) "; " (figure::count(held_up)) " that were due wait for the end of an alarm" }
        @if will.kept == WillKept::Memory { "; in memory until the log has room" }
    }
}

/// The way to the form that removes one.
fn removal(path: &str, fields: &[(&str, &str)], what: &str) -> Markup {
    let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={}", percent_encoded(value))).collect();
    html! {
        a .button.small href={ (path) "/remove?" (fields.join("&")) } aria-label={ "Remove " (what) } { "Remove…" }
    }
}

/// The form that asks before one is removed.
fn asking(kind: &Kind, visitor: &Visitor, source: &Source, question: &str, hidden: &[(&str, &str)]) -> Shown {
    let action = format!("{}/remove", kind.path);
    let body = ask(&action, question, "Remove", kind.path, hidden);
    Ok(View::new(Part::Subscriptions, "Remove", body).below(kind.title, kind.path).show(visitor, source))
}

async fn ask_retained(visitor: Visitor, State(source): Shared, query: seen::Query) -> Shown {
    let [vhost, exchange, topic] = ["vhost", "exchange", "topic"].map(|name| query.0.text(name));
    visitor.asker.enters(&source, vhost)?;
    let question =
        format!("The topic '{topic}' of exchange '{exchange}' has no value then. Its subscribers are not told.");
    asking(&RETAINED, &visitor, &source, &question, &[("vhost", vhost), ("exchange", exchange), ("topic", topic)])
}

async fn remove_retained(visitor: Visitor, State(source): Shared, sent: Fields) -> Shown {
    let [vhost, exchange, topic] = ["vhost", "exchange", "topic"].map(|name| sent.text(name).to_owned());
    visitor.asker.enters(&source, &vhost)?;
    let line = format!("The retained message of topic '{topic}' is removed.");
    api::make(&source, &visitor.asker, RetainedChange::Remove { vhost, exchange, topic }).await?;
    Ok(visitor.done(&source, line, RETAINED.path))
}

async fn ask_will(visitor: Visitor, State(source): Shared, query: seen::Query) -> Shown {
    let [vhost, user, client] = ["vhost", "user", "client"].map(|name| query.0.text(name));
    visitor.asker.enters(&source, vhost)?;
    let question = format!("The will of client '{client}' of user '{user}' is not published then.");
    asking(&WILLS, &visitor, &source, &question, &[("vhost", vhost), ("user", user), ("client", client)])
}

async fn remove_will(visitor: Visitor, State(source): Shared, sent: Fields) -> Shown {
    let [vhost, user, client] = ["vhost", "user", "client"].map(|name| sent.text(name).to_owned());
    visitor.asker.enters(&source, &vhost)?;
    let line = format!("The will of client '{client}' is removed.");
    api::make(&source, &visitor.asker, WillChange::Remove { vhost, user, client }).await?;
    Ok(visitor.done(&source, line, WILLS.path))
}
