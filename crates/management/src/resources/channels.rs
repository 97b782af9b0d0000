//! Channels: what RabbitMQ calls the sessions of connections.

use std::collections::VecDeque;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use broker::SessionReport;
use serde_json::{Value as Json, json};

use crate::api::{self, Answer, Asker, Routes, Shared, look, shown};
use crate::facts::{Facts, endpoint};
use crate::listing::{self, Collection, Part, Rights, Sockets};
use crate::source::Source;

/// See the module.
pub(crate) struct Channels;

impl Collection for Channels {
    fn rights(&self) -> Rights {
        Rights::Owner
    }

    fn parts(&self, source: &Source, vhost: Option<&str>) -> VecDeque<Part> {
        listing::clients(source, vhost, Sockets::new())
    }

    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        let Part::Clients(numbers, _) = part else { return Vec::new() };
        source.broker.some_sessions(&numbers).iter().map(|session| row(session, &source.facts)).collect()
    }
}

pub(super) fn routes() -> Routes {
    Router::new()
        .merge(api::all("channels", &Channels))
        .merge(api::in_vhost("vhosts/{vhost}/channels", &Channels))
        .route("/api/channels/{name}", get(one))
}

fn find(source: &Source, name: &str) -> Option<Json> {
    let (peer, number) = name.strip_suffix(')')?.rsplit_once(" (")?;
    let number: u32 = number.parse().ok()?;
    let sessions = source.broker.some_sessions(&[source.broker.client_at(peer)?]);
    sessions.iter().find(|session| session.number == number).map(|session| row(session, &source.facts))
}

async fn one(asker: Asker, State(source): Shared, Path(name): Path<String>) -> Answer {
    api::one(asker, source, Rights::Owner, move |source| find(source, &name)).await
}

/// The channels of the connection of this name.
pub(super) async fn of_connection(asker: Asker, State(source): Shared, Path(name): Path<String>) -> Answer {
    let rows = look(&source, &asker.clone(), move |source| {
        let number = source.broker.client_at(&name);
        let sessions = number.map(|number| source.broker.some_sessions(&[number])).unwrap_or_default();
        let mut rows: Vec<Json> = sessions.iter().map(|session| row(session, &source.facts)).collect();
        rows.retain(|row| asker.sees(source, Rights::Owner, row));
        rows
    })
    .await?;
    shown(rows)
}

fn row(session: &SessionReport, facts: &Facts) -> Json {
    let (host, port) = endpoint(session.peer.split(" -> ").next().unwrap_or_default());
    json!({
        "name": format!("{} ({})", session.peer, session.number),
        "pid": format!("<0.{}.{}>", session.client, session.number),
        "number": session.number,
        "node": facts.node,
        "user": session.user,
        "vhost": session.vhost,
        "state": "running",
        "connection_details": { "name": session.peer, "peer_host": host, "peer_port": port },
        "confirm": session.confirming,
        "transactional": session.transactional,
        "prefetch_count": session.prefetch,
        "global_prefetch_count": session.shared_prefetch,
        "consumer_count": session.consumers,
        "messages_unacknowledged": session.unsettled,
        "messages_unconfirmed": session.unconfirmed,
    })
}
