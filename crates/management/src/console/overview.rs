//! The first page: what needs attention, how much moves, and what the server is.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use broker::{Overview, QueueReport};
use maud::{Markup, html};
use serde_json::{Value as Json, json};

use super::chart::{Line, Unit, chart, spans};
use super::figure;
use super::frame::{Part, View};
use super::parts::{Mood, facts, figures, place, verdict};
use super::queues::state;
use super::seen;
use super::trouble::Shown;
use super::visitor::Visitor;
use crate::api::{self, Asker};
use crate::counters::{ALL_LENGTHS, CHURN, TRAFFIC, delivered};
use crate::glance;
use crate::history::Span;
use crate::process::Process;
use crate::quantity::{self, several};
use crate::source::{Source, alarms};

type Shared = State<Arc<Source>>;

pub(super) fn router() -> Router<Arc<Source>> {
    Router::new().route("/", get(show)).route("/history", get(history))
}

/// Sums over what a user sees.
struct Sums {
    connections: u64,
    queues: u64,
    consumers: u64,
    ready: u64,
    unacked: u64,
    published: u64,
    delivered: u64,
    acknowledged: u64,
}

/// Messages in, out and acknowledged per second.
struct Rates([f64; 3]);

async fn show(visitor: Visitor, State(source): Shared) -> Shown {
    let asker = visitor.asker.clone();
    let (sums, rates, stuck, node) = api::sum_up(&source, &visitor.asker, move |source| {
        let glance = asker.monitors().then(|| source.histories.glances.look(&source.broker));
        let sums = glance.as_ref().map_or_else(|| share(&asker, source), |glance| whole(&glance.overview));
        let at = glance.as_ref().map_or_else(Instant::now, |glance| glance.at);
        let rates = rates(&asker, source, &sums, at);
        let stuck = glance.as_ref().map_or_else(|| stuck(&asker, source), |glance| glance.stuck.clone());
        (sums, rates, stuck, glance.map(|glance| (Process::look(), glance)))
    })
    .await?;
    let body = html! {
        (attention(&source, &stuck, node.as_ref().map(|(_, glance)| &glance.overview)))
        (now(&sums, &rates))
        @if node.is_some() {
            (movement(&source, Span::Hour))
            p .buttons { a .button href="/history" { "History of 24 hours" } }
        }
        div data-live { @if sums.queues == 0 { (first_steps(&source)) } }
        @if let Some((process, glance)) = &node {
            h2 { "Node" }
            div data-live { (this_node(&source, process, &glance.overview)) }
        }
        h2 { "Listeners" }
        (listeners(&source))
    };
    Ok(View::new(Part::Overview, "Overview", body).show(&visitor, &source))
}

fn whole(overview: &Overview) -> Sums {
    Sums {
        connections: overview.objects.connections,
        queues: overview.objects.queues,
        consumers: overview.objects.consumers,
        ready: overview.messages.ready,
        unacked: overview.messages.unacked,
        published: overview.totals.publishes.received.get(),
        delivered: delivered(overview),
        acknowledged: overview.totals.deliveries.acknowledged.get(),
    }
}

/// What is in the vhosts that the user may enter, and its own connections.
fn share(asker: &Asker, source: &Source) -> Sums {
    let authority = source.broker.authority();
    let share = source.broker.share(asker.user(), |vhost| authority.enter(asker.identity(), vhost).is_ok());
    Sums {
        connections: share.connections,
        queues: share.queues,
        consumers: share.consumers,
        ready: share.ready,
        unacked: share.unacked,
        published: share.totals.published,
        delivered: share.totals.delivered,
        acknowledged: share.totals.acknowledged,
    }
}

fn rates(asker: &Asker, source: &Source, sums: &Sums, at: Instant) -> Rates {
    let counts = json!({ "publish": sums.published, "deliver_get": sums.delivered, "ack": sums.acknowledged });
    let Json::Object(mut counts) = counts else { return Rates([0.0; 3]) };
    let of = if asker.monitors() { String::new() } else { format!(" of {}", asker.user()) };
    source.rates.add(&format!("console overview{of}"), &mut counts, at);
    let rate = |name: &str| counts[&format!("{name}_details")]["rate"].as_f64().unwrap_or_default();
    Rates(["publish", "deliver_get", "ack"].map(rate))
}

/// The queues that this user sees and that are stuck.
fn stuck(asker: &Asker, source: &Source) -> Vec<QueueReport> {
    let vhosts: Vec<Arc<str>> = seen::vhosts(asker, source).into_iter().map(Arc::from).collect();
    glance::stuck(&source.broker, &vhosts)
}

fn attention(source: &Source, stuck: &[QueueReport], overview: Option<&Overview>) -> Markup {
    let (alarms, cluster) = (alarms(source.broker.alarms()), source.cluster());
    let damaged = overview.map_or(0, |overview| overview.objects.damaged_queues);
    html! {
        div data-live {
            @if alarms.is_empty() && cluster.alarm().is_none() && stuck.is_empty() && damaged == 0 {
                (verdict(Mood::Good, "All is well", "No alarm, and each queue with messages has a consumer that can take more."))
            }
            @for alarm in &alarms {
                (verdict(Mood::Bad, &format!("Low on {alarm}"), "Publishers wait. Consumers are served, which makes room."))
            }
            @if let Some(alarm) = cluster.alarm() {
                (verdict(Mood::Bad, alarm, html! { code { "hermod cluster status" } " says how far the others are." }))
            }
            @if damaged > 0 {
                (verdict(Mood::Bad, &several(damaged, "damaged queue", "damaged queues"),
                    html! { "Some of their messages can't be read: " code { "hermod repair" } " says which." }))
            }
            @if !stuck.is_empty() {
                div .verdict.warning {
                    strong { (several(stuck.len() as u64, "queue does not move", "queues do not move")) }
                    ul { @for queue in stuck { (stuck_line(queue)) } }
                }
            }
        }
    }
}

fn stuck_line(queue: &QueueReport) -> Markup {
    html! {
        li {
            a href=(place("queues", &queue.vhost, &queue.name)) { (queue.name) }
            " in " (queue.vhost) ": " (state(queue).1) ", " (quantity::grouped(queue.ready)) " ready, "
            (quantity::grouped(queue.unacked)) " unacknowledged"
        }
    }
}

fn now(sums: &Sums, Rates([published, delivered, acknowledged]): &Rates) -> Markup {
    let none = || html! {};
    figures(&[
        ("In", figure::rate(*published), none()),
        ("Out", figure::rate(*delivered), none()),
        ("Acknowledged", figure::rate(*acknowledged), none()),
        ("Ready", figure::count(sums.ready), none()),
        ("Unacknowledged", figure::count(sums.unacked), none()),
        ("Queues", figure::count(sums.queues), none()),
        ("Consumers", figure::count(sums.consumers), none()),
        ("Connections", figure::count(sums.connections), none()),
    ])
}

/// How the sums over the broker moved.
fn movement(source: &Source, span: Span) -> Markup {
    let history = source.histories.of_broker();
    let rate = |name, field| Line { name, points: history.traffic.rates(&TRAFFIC, field, span) };
    let length = |name, field| Line { name, points: history.lengths.lengths(&ALL_LENGTHS, field, span) };
    let rates = [rate("in", "publish"), rate("out", "deliver_get"), rate("acknowledged", "ack")];
    let lengths = [length("ready", "messages_ready"), length("unacknowledged", "messages_unacknowledged")];
    html! {
        div .charts data-live {
            (chart("Messages per second", Unit::Rate, &rates))
            (chart("Messages in queues", Unit::Count, &lengths))
        }
    }
}

/// How the broker moved within the last hour and the last day.
async fn history(visitor: Visitor, State(source): Shared) -> Shown {
    let body = html! {
        @if visitor.asker.monitors() {
            (spans(|span| movement(&source, span)))
            h2 { "Comings and goings" }
            (churn(&source))
        } @else {
            p .hint { "The history of the broker is shown to users with the tag monitoring or administrator." }
        }
    };
    Ok(View::new(Part::Overview, "History", body).below("Overview", "/").show(&visitor, &source))
}

fn churn(source: &Source) -> Markup {
    let history = source.histories.of_broker();
    let rate = |name, field| Line { name, points: history.churn.rates(&CHURN, field, Span::Day) };
    let connections = [rate("opened", "connection_created"), rate("closed", "connection_closed")];
    let queues = [rate("created", "queue_created"), rate("deleted", "queue_deleted")];
    html! {
        div .charts data-live {
            (chart("Connections per second", Unit::Rate, &connections))
            (chart("Queues per second", Unit::Rate, &queues))
        }
    }
}

/// What a new broker shows instead of queues.
fn first_steps(source: &Source) -> Markup {
    let of = |name: &str| source.facts.listeners.iter().find(|row| row.protocol.split('/').any(|its| its == name));
    html! {
        div .card {
            h2 { "First steps" }
            p { "There are no queues yet. " a href="/queues" { "Declare one" } ", or let a client do it:" }
            @if let Some(amqp) = of("amqp") { p { "AMQP 0-9-1, as RabbitMQ's clients speak it: " code { "amqp://" (amqp.address) } } }
            @if let Some(stomp) = of("stomp") { p { "STOMP: " code { "stomp://" (stomp.address) } } }
        }
    }
}

fn this_node(source: &Source, process: &Process, overview: &Overview) -> Markup {
    let limit = source.broker.limits().connections;
    let unknown = || html! { "—" };
    let journal = &overview.journal;
    facts(&[
        ("Running for", html! { (quantity::span(source.facts.started.elapsed())) }),
        ("Durability", html! { (source.facts.durability) }),
        (
            "Memory of messages",
            html! { (figure::bytes(overview.memory.used)) " of " (figure::bytes(overview.memory.limit)) },
        ),
        ("Memory of the process", process.resident_bytes.map_or_else(unknown, figure::bytes)),
        ("Free on the disk", figure::bytes(journal.free_bytes)),
        ("Open files", process.open_files.map_or_else(unknown, |files| html! { (files) })),
        ("Connections", html! { (figure::count(overview.objects.connections)) " of " (figure::count(limit)) }),
        ("Data directory", html! { code { (source.facts.data_dir) } }),
    ])
}

fn listeners(source: &Source) -> Markup {
    html! {
        ul .listeners {
            @for listener in &source.facts.listeners { li { code { (listener.address) } " " (listener.protocol) } }
        }
    }
}
