//! Sessions of connections, which AMQP 0-9-1 calls channels: what each holds and may hold.

use std::cmp::Ordering;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use broker::SessionReport;
use maud::{Markup, html};

use super::frame::{Part, View};
use super::parts::{Column, Listing, table, top_place};
use super::trouble::Shown;
use super::visitor::Visitor;
use super::{figure, seen};
use crate::api;
use crate::source::Source;

type Shared = State<Arc<Source>>;

pub(super) fn router() -> Router<Arc<Source>> {
    Router::new().route("/sessions", get(list))
}

async fn list(visitor: Visitor, State(source): Shared, query: seen::Query) -> Shown {
    let list = Listing::of("/sessions", &query.0);
    let (wanted, asker) = (list.clone(), visitor.asker.clone());
    let (rows, total) = api::sum_up(&source, &visitor.asker, move |source| {
        let finds = wanted.finds();
        let mut picking = wanted.picking(|one: &SessionReport, other: &SessionReport| {
            let ordered = match wanted.sort.as_str() {
                "user" => one.user.cmp(&other.user),
                "unacknowledged" => one.unsettled.cmp(&other.unsettled),
                "unconfirmed" => one.unconfirmed.cmp(&other.unconfirmed),
                "consumers" => one.consumers.cmp(&other.consumers),
                _ => Ordering::Equal,
            };
            ordered.then_with(|| (&one.peer, one.number).cmp(&(&other.peer, other.number)))
        });
        // A session is called as its client is.
        for client in source.broker.attached() {
            let is_seen = asker.monitors() || client.user() == asker.user();
            if is_seen && [client.peer(), client.user()].into_iter().any(&finds) {
                client.session_reports().into_iter().for_each(|session| picking.add(session));
            }
        }
        let (here, total) = picking.done();
        let rows: Vec<Vec<Markup>> = here.iter().map(row).collect();
        (rows, total)
    })
    .await?;
    let columns = [
        Column::text("Connection").sorted_by("name", &list),
        Column::text("User").sorted_by("user", &list),
        Column::text("Virtual host"),
        Column::text("Mode"),
        Column::number("Prefetch"),
        Column::number("Consumers").sorted_by("consumers", &list),
        Column::number("Unacknowledged").sorted_by("unacknowledged", &list),
        Column::number("Unconfirmed").sorted_by("unconfirmed", &list),
    ];
    let nothing = html! {
        @if list.filter.is_empty() { "No sessions. A client opens one on its connection; AMQP calls it a channel." }
        @else { "No session's connection or user contains '" (list.filter) "'." }
    };
    let body = html! {
        (list.filter(&[]))
        div #list data-live {
            (table("sessions", &columns, &rows, nothing))
            (list.pager(total))
        }
    };
    Ok(View::new(Part::Sessions, "Sessions", body).show(&visitor, &source))
}

fn row(session: &SessionReport) -> Vec<Markup> {
    let mode = match (session.confirming, session.transactional) {
        (_, true) => "transactions",
        (true, false) => "confirms",
        (false, false) => "plain",
    };
    let limit = |most: u32| if most == 0 { "none".to_owned() } else { most.to_string() };
    vec![
        html! { a href=(top_place("connections", &session.peer)) { (session.peer) } " (" (session.number) ")" },
        html! { (session.user) },
        html! { (session.vhost) },
        html! { (mode) },
        html! {
            (limit(session.prefetch))
            @if session.shared_prefetch > 0 { ", " (session.shared_prefetch) " in all" }
        },
        figure::count(session.consumers.into()),
        figure::count(session.unsettled.into()),
        figure::count(session.unconfirmed),
    ]
}
