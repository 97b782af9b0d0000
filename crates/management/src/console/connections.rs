//! Connections: the list, one connection with its sessions, and closing it.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use broker::{AttachedClient, SessionReport};
use maud::{Markup, html};

use super::form::Fields;
use super::frame::{Notice, Part, View};
use super::parts::{Column, Form, Listing, Mood, badge, facts, table, top_place};
use super::trouble::{Shown, Trouble};
use super::visitor::Visitor;
use super::{bindings, figure, seen};
use crate::api;
use crate::facts::Socket;
use crate::json::object;
use crate::quantity;
use crate::recent::Ending;
use crate::resources::{ConnectionChange, percent_encoded};
use crate::source::Source;

type Shared = State<Arc<Source>>;

/// What a client is told if the user gives no reason.
const REASON: &str = "Closed via management plugin";

pub(super) fn router() -> Router<Arc<Source>> {
    Router::new()
        .route("/connections", get(list))
        .route("/endings", get(endings))
        .route("/connections/{name}", get(show))
        .route("/connections/{name}/close", post(close))
}

async fn list(visitor: Visitor, State(source): Shared, query: seen::Query) -> Shown {
    let list = Listing::of("/connections", &query.0);
    let (wanted, asker) = (list.clone(), visitor.asker.clone());
    let (rows, total) = api::sum_up(&source, &visitor.asker, move |source| {
        let finds = wanted.finds();
        let mut clients = source.broker.attached();
        clients.retain(|client| asker.monitors() || client.user() == asker.user());
        clients.retain(|client| names(client).into_iter().any(&finds));
        let total = clients.len();
        // Their numbers are read once, since they move while the list is sorted.
        let numbered: Vec<_> = clients.into_iter().map(|client| (client.consumers(), client)).collect();
        let here = wanted.pick(numbered, |(of_one, one), (of_other, other)| {
            let ordered = match wanted.sort.as_str() {
                "user" => one.user().cmp(other.user()),
                "consumers" => of_one.cmp(of_other),
                _ => Ordering::Equal,
            };
            ordered.then_with(|| one.peer().cmp(other.peer()))
        });
        let here: Vec<AttachedClient> = here.into_iter().map(|(_, client)| client).collect();
        (rows(source, &here), total)
    })
    .await?;
    let columns = [
        Column::text("Name").sorted_by("name", &list),
        Column::text("User").sorted_by("user", &list),
        Column::text("Virtual host"),
        Column::text("Protocol"),
        Column::text("State"),
        Column::number("Sessions"),
        Column::number("Consumers").sorted_by("consumers", &list),
        Column::number("Received"),
        Column::number("Sent"),
    ];
    let body = html! {
        p .buttons { a .button href="/endings" { "Recent endings" } }
        (list.filter(&[]))
        div #list data-live {
            (table("connections", &columns, &rows, nothing(&source, &list)))
            (list.pager(total))
        }
    };
    Ok(View::new(Part::Connections, "Connections", body).show(&visitor, &source))
}

/// The last connections that ended, the newest first.
async fn endings(visitor: Visitor, State(source): Shared, query: seen::Query) -> Shown {
    let list = Listing::of("/endings", &query.0);
    let finds = list.finds();
    let mut endings = source.facts.recent.endings();
    endings.retain(|ending| visitor.asker.monitors() || ending.user == visitor.asker.user());
    endings.retain(|ending| {
        let Ending { peer, user, vhost, protocol, by, reason, told, last, .. } = ending;
        [peer, user, vhost, protocol, by, reason, told, last].into_iter().any(|text| finds(text))
    });
    let total = endings.len();
    endings.reverse();
    let rows: Vec<Vec<Markup>> = list.cut(endings).iter().map(ending_row).collect();
    let columns = [
        Column::text("Time"),
        Column::text("Client"),
        Column::text("User"),
        Column::text("Ended by"),
        Column::text("Why"),
        Column::text("Last request"),
        Column::number("Open for"),
        Column::number("Received"),
        Column::number("Sent"),
    ];
    let nothing = html! {
        @if list.filter.is_empty() { "No connection that had logged in has ended since the start." }
        @else { "No connection that ended lately has '" (list.filter) "' in its row." }
    };
    let body = html! {
        p .hint {
            "The last connections that ended, since the start and as far as " code { "log.level" } " lets through: "
            a href="/docs/manual/how-disconnected.html" { "Why was my client disconnected?" }
        }
        (list.filter(&[]))
        div #list data-live {
            (table("endings", &columns, &rows, nothing))
            (list.pager(total))
        }
    };
    let page = View::new(Part::Connections, "Recent endings", body).below("Connections", "/connections");
    Ok(page.show(&visitor, &source))
}

fn ending_row(ending: &Ending) -> Vec<Markup> {
    let mood = match (ending.by.as_str(), ending.told.is_empty()) {
        ("protocol", true) => Mood::Good,
        _ => Mood::Warning,
    };
    vec![
        figure::time(ending.at),
        html! { (ending.peer) br; small { (ending.protocol) } },
        html! { (ending.user) @if !ending.vhost.is_empty() { " in " (ending.vhost) } },
        badge(&ending.by, mood),
        html! { @if ending.told.is_empty() { (ending.reason) } @else { (ending.told) } },
        html! { code { (ending.last) } },
        html! { (quantity::span(Duration::from_secs(ending.seconds))) },
        figure::bytes(ending.received),
        figure::bytes(ending.sent),
    ]
}

/// What a client is called by.
fn names(client: &AttachedClient) -> [&str; 3] {
    [client.peer(), client.user(), client.name().unwrap_or_default()]
}

/// The rows of these clients; of all others nothing but the names was read.
fn rows(source: &Source, clients: &[AttachedClient]) -> Vec<Vec<Markup>> {
    let peers: Vec<&str> = clients.iter().map(AttachedClient::peer).collect();
    let sockets = source.some_sockets(&peers).into_iter().map(|socket| (socket.peer.clone(), socket));
    let sockets: HashMap<String, Socket> = sockets.collect();
    clients.iter().map(|client| row(source, client, sockets.get(client.peer()))).collect()
}

fn nothing(source: &Source, list: &Listing) -> Markup {
    let listeners = source.facts.listeners.iter().map(|row| format!("{} at {}", row.protocol, row.address));
    html! {
        @if list.filter.is_empty() {
            "No clients are connected. They are awaited here: " (listeners.collect::<Vec<_>>().join(", ")) "."
        } @else {
            "No connection's name, user or address contains '" (list.filter) "'."
        }
    }
}

fn row(source: &Source, client: &AttachedClient, socket: Option<&Socket>) -> Vec<Markup> {
    vec![
        html! {
            a href=(top_place("connections", client.peer())) { (client.peer()) }
            @if let Some(name) = client.name() { br; small { (name) } }
        },
        html! { (client.user()) },
        html! { (client.vhost()) },
        html! { (protocol(source, client)) @if is_encrypted(socket) { " · TLS" } },
        state(client),
        figure::count(client.sessions()),
        figure::count(client.consumers()),
        html! { @if let Some(socket) = socket { (figure::bytes(socket.bytes_in)) } @else { "—" } },
        html! { @if let Some(socket) = socket { (figure::bytes(socket.bytes_out)) } @else { "—" } },
    ]
}

fn is_encrypted(socket: Option<&Socket>) -> bool {
    socket.is_some_and(|socket| socket.encryption.is_some())
}

fn protocol<'a>(source: &'a Source, client: &AttachedClient) -> &'a str {
    let known = source.facts.protocols.iter().find(|known| known.name == client.protocol());
    known.map_or(client.protocol(), |known| known.listed)
}

fn state(client: &AttachedClient) -> Markup {
    let mood = if client.state() == "running" { Mood::Good } else { Mood::Warning };
    badge(client.state(), mood)
}

async fn show(visitor: Visitor, State(source): Shared, Path(name): Path<String>) -> Shown {
    let (client, sessions, socket) = find(&visitor, &source, &name).await?;
    let age = SystemTime::now().duration_since(UNIX_EPOCH + Duration::from_millis(client.connected_at()));
    let may_close = visitor.asker.is_administrator() || visitor.asker.user() == client.user();
    let body = html! {
        (facts(&[
            ("User", html! { (client.user()) }),
            ("Virtual host", html! { (client.vhost()) }),
            ("Name that the client gives", html! { (client.name().unwrap_or("none")) }),
            ("Protocol", html! { (protocol(&source, &client)) @if is_encrypted(socket.as_ref()) { " over TLS" } }),
            ("State", state(&client)),
            ("Connected for", html! { (quantity::span(age.unwrap_or_default())) }),
            ("Log-in", html! { (client.terms().mechanism) }),
            ("Heartbeat", html! { (quantity::span(client.terms().keep_alive)) }),
            ("Held for it", figure::bytes(client.held_bytes())),
            ("To be sent", figure::bytes(client.waiting_bytes())),
            ("Dropped unread", figure::count(client.dropped())),
            ("Properties of the client", bindings::arguments(&object(&client.properties()))),
        ]))
        h2 { "Sessions" }
        (sessions_table(&sessions))
        p { a href={ "/consumers?name=" (percent_encoded(client.peer())) } { "Its consumers" } }
        h2 { "Close it" }
        @if may_close {
            form .card.danger method="post" action={ (top_place("connections", &name)) "/close" } {
                (Form::of("close", &Fields::default()).field("reason", "Reason", "text", "the client is told"))
                p .buttons { button .danger { "Close connection" } }
            }
        } @else {
            p .hint { "Its user or an administrator may close it." }
        }
    };
    let page = View::new(Part::Connections, name, body).below("Connections", "/connections");
    Ok(page.with(Notice::None).show(&visitor, &source))
}

async fn find(
    visitor: &Visitor,
    source: &Arc<Source>,
    name: &str,
) -> Result<(AttachedClient, Vec<SessionReport>, Option<Socket>), Trouble> {
    let (asker, name) = (visitor.asker.clone(), name.to_owned());
    let found = api::look(source, &visitor.asker, move |source| {
        let missing = || Trouble::missing("connection", &name);
        let client = source.broker.client_at(&name).and_then(|number| source.broker.attached_at(number));
        let client = client.filter(|client| asker.monitors() || client.user() == asker.user()).ok_or_else(missing)?;
        let socket = source.some_sockets(&[&name]).pop();
        let sessions = client.session_reports();
        Ok::<_, Trouble>((client, sessions, socket))
    });
    found.await?
}

fn sessions_table(sessions: &[SessionReport]) -> Markup {
    let columns = [
        Column::number("Number"),
        Column::text("Mode"),
        Column::number("Consumers"),
        Column::number("Prefetch"),
        Column::number("Unacknowledged"),
        Column::number("Unconfirmed"),
    ];
    let rows: Vec<Vec<Markup>> = sessions.iter().map(session).collect();
    table("sessions", &columns, &rows, html! { "no sessions" })
}

fn session(session: &SessionReport) -> Vec<Markup> {
    let mode = match (session.confirming, session.transactional) {
        (true, _) => "confirms",
        (_, true) => "transactions",
        _ => "plain",
    };
    vec![
        html! { (session.number) },
        html! { (mode) },
        html! { (session.consumers) },
        html! { @if session.prefetch == 0 { "none" } @else { (session.prefetch) } },
        html! { (session.unsettled) },
        html! { (session.unconfirmed) },
    ]
}

async fn close(visitor: Visitor, State(source): Shared, Path(name): Path<String>, fields: Fields) -> Shown {
    let (client, _, _) = find(&visitor, &source, &name).await?;
    if !visitor.asker.is_administrator() && visitor.asker.user() != client.user() {
        let text = "Only its user or an administrator may close a connection.";
        return Err(Trouble::new(axum::http::StatusCode::FORBIDDEN, text));
    }
    let given = fields.name("reason");
    let reason = if given.is_empty() { REASON } else { given }.to_owned();
    let change = ConnectionChange::Close { id: Some(client.number()), name: None, vhost: None, user: None, reason };
    api::make(&source, &visitor.asker, change).await?;
    Ok(visitor.done(&source, format!("Connection {name} is closed."), "/connections"))
}
