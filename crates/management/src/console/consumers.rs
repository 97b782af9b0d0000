//! Consumers: what each gets messages from, whose it is, and whether it takes any. Those without a
//! queue are among them.

use std::cmp::Ordering;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use broker::{ConsumerReport, ConsumerSource, Readiness};
use maud::{Markup, html};

use super::frame::{Part, View};
use super::parts::{Column, Listing, Mood, badge, place, table, top_place};
use super::trouble::Shown;
use super::visitor::Visitor;
use super::{figure, seen};
use crate::api;
use crate::diagnosis::readiness;
use crate::resources::each_consumer;
use crate::source::Source;

type Shared = State<Arc<Source>>;

pub(super) fn router() -> Router<Arc<Source>> {
    Router::new().route("/consumers", get(list))
}

async fn list(visitor: Visitor, State(source): Shared, query: seen::Query) -> Shown {
    let list = Listing::of("/consumers", &query.0);
    let (wanted, asker) = (list.clone(), visitor.asker.clone());
    let (vhosts, rows, total) = api::sum_up(&source, &visitor.asker, move |source| {
        let vhosts = seen::vhosts(&asker, source);
        let finds = wanted.finds();
        let mut picking = wanted.picking(|one: &ConsumerReport, other: &ConsumerReport| {
            let ordered = match wanted.sort.as_str() {
                "user" => one.holder.user.cmp(&other.holder.user),
                "connection" => one.holder.peer.cmp(&other.holder.peer),
                "unacknowledged" => one.unsettled.cmp(&other.unsettled),
                _ => Ordering::Equal,
            };
            let key = |one: &ConsumerReport| (one.client, one.session);
            ordered.then_with(|| (&one.tag, key(one)).cmp(&(&other.tag, key(other))))
        });
        for vhost in vhosts.iter().filter(|vhost| wanted.vhost.is_empty() || **vhost == wanted.vhost) {
            each_consumer(source, vhost, &mut |part| {
                part.into_iter().filter(|one| names(one).any(&finds)).for_each(|one| picking.add(one));
            });
        }
        let (here, total) = picking.done();
        let rows: Vec<Vec<Markup>> = here.iter().map(row).collect();
        (vhosts, rows, total)
    })
    .await?;
    let columns = [
        Column::text("Tag").sorted_by("name", &list),
        Column::text("Gets messages from"),
        Column::text("Virtual host"),
        Column::text("Connection").sorted_by("connection", &list),
        Column::text("User").sorted_by("user", &list),
        Column::text("State"),
        Column::number("Prefetch"),
        Column::number("Unacknowledged").sorted_by("unacknowledged", &list),
    ];
    let nothing = html! {
        @if list.filter.is_empty() { "No consumers." }
        @else { "No consumer's tag, queue, filter, user or connection contains '" (list.filter) "'." }
    };
    let body = html! {
        (list.filter(&vhosts))
        div #list data-live {
            (table("consumers", &columns, &rows, nothing))
            (list.pager(total))
        }
    };
    Ok(View::new(Part::Consumers, "Consumers", body).show(&visitor, &source))
}

/// What the filter of the list looks at.
fn names(consumer: &ConsumerReport) -> impl Iterator<Item = &str> {
    let holder = &consumer.holder;
    [consumer.tag.as_str(), &holder.user, &holder.peer]
        .into_iter()
        .chain(consumer.queue())
        .chain(holder.name.as_deref())
        .chain(consumer.filters().iter().flat_map(|filter| [filter.exchange.as_str(), &filter.key]))
}

fn row(consumer: &ConsumerReport) -> Vec<Markup> {
    let tag = html! { code { (consumer.tag) } };
    [tag, from(consumer), html! { (consumer.vhost) }].into_iter().chain(taking(consumer)).collect()
}

fn from(consumer: &ConsumerReport) -> Markup {
    html! {
        @match &consumer.source {
            ConsumerSource::Queue(name) => { a href=(place("queues", &consumer.vhost, name)) { (name) } }
            ConsumerSource::Replies => "replies, without a queue",
            ConsumerSource::Filters(filters) => {
                @for filter in filters {
                    a href=(place("exchanges", &consumer.vhost, &filter.exchange)) { (filter.exchange) } " "
                    code { (filter.key) } br;
                }
                small { "without a queue" }
            }
        }
    }
}

/// The consumers of a queue.
pub(super) fn of_queue(consumers: &[ConsumerReport]) -> Markup {
    let columns = [
        Column::text("Tag"),
        Column::text("Connection"),
        Column::text("User"),
        Column::text("State"),
        Column::number("Prefetch"),
        Column::number("Unacknowledged"),
    ];
    let row = |consumer: &ConsumerReport| {
        let tag = html! { code { (consumer.tag) } };
        std::iter::once(tag).chain(taking(consumer)).collect::<Vec<_>>()
    };
    table("consumers", &columns, &consumers.iter().map(row).collect::<Vec<_>>(), html! { "no consumers" })
}

/// Whose a consumer is, and what it takes.
fn taking(consumer: &ConsumerReport) -> [Markup; 5] {
    let mood = match consumer.readiness {
        Readiness::Ready => Mood::Good,
        Readiness::NotActive => Mood::Plain,
        Readiness::OutOfCredit | Readiness::NotReading { .. } => Mood::Warning,
    };
    let (peer, name) = (&consumer.holder.peer, &consumer.holder.name);
    let prefetch = match (consumer.no_ack, consumer.prefetch) {
        (true, _) => "no acknowledgement".to_owned(),
        (false, 0) => "none".to_owned(),
        (false, most) => most.to_string(),
    };
    [
        html! {
            a href=(top_place("connections", peer)) { (peer) } " (" (consumer.session) ")"
            @if let Some(name) = name { br; small { (name) } }
        },
        html! { (consumer.holder.user) },
        badge(readiness(consumer), mood),
        html! { (prefetch) },
        figure::count(u64::from(consumer.unsettled)),
    ]
}
