//! `/api`: the part of RabbitMQ's HTTP API that Hermod has, for a user with a password and a tag that lets it in.
//!
//! What a user sees and may do depends on its tags as in RabbitMQ: `management` shows what is its own, `monitoring` shows
//! everything, `administrator` may change everything. Every request is authenticated before anything else is looked at.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use auth::{Identity, Refusal};
use axum::Router;
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::IncomingStream;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use tokio::net::TcpListener;

use crate::change::{self, Caller, Change, Refused, Why};
use crate::https::Shaken;
use crate::listing::Listed;
use crate::source::{Source, delivered};

/// The address that a request comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct From(SocketAddr);

impl Connected<IncomingStream<'_, TcpListener>> for From {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        Self(*stream.remote_addr())
    }
}

impl Connected<IncomingStream<'_, Shaken>> for From {
    fn connect_info(stream: IncomingStream<'_, Shaken>) -> Self {
        Self(*stream.remote_addr())
    }
}

/// Everything under `/api`.
pub(crate) fn router() -> Router<Arc<Source>> {
    let mut router = Router::new()
        .route("/api/whoami", get(whoami))
        .route("/api/overview", get(overview))
        .route("/api/definitions", get(export))
        .route("/api/connections/{name}", get(connection).delete(close_connection))
        .route("/api/vhosts/{vhost}", get(|asker, source, path| named(asker, source, path, Listed::Vhosts)))
        .route("/api/users/{user}", get(|asker, source, path| named(asker, source, path, Listed::Users)));
    for (path, what) in [
        ("connections", Listed::Connections),
        ("users", Listed::Users),
        ("vhosts", Listed::Vhosts),
        ("permissions", Listed::Permissions),
        ("topic-permissions", Listed::TopicPermissions),
        ("vhost-limits", Listed::VhostLimits),
        ("user-limits", Listed::UserLimits),
        ("queues", Listed::Queues),
        ("exchanges", Listed::Exchanges),
        ("bindings", Listed::Bindings),
        ("consumers", Listed::Consumers),
        ("policies", Listed::Policies),
        ("operator-policies", Listed::OperatorPolicies),
    ] {
        // Clients write both.
        for path in [format!("/api/{path}"), format!("/api/{path}/")] {
            router = router.route(&path, get(move |asker, source| all(asker, source, what)));
        }
    }
    for (path, what) in [
        ("queues", Listed::Queues),
        ("exchanges", Listed::Exchanges),
        ("bindings", Listed::Bindings),
        ("consumers", Listed::Consumers),
        ("policies", Listed::Policies),
        ("operator-policies", Listed::OperatorPolicies),
    ] {
        let in_vhost = move |asker, source, path| self::in_vhost(asker, source, path, what);
        router = router.route(&format!("/api/{path}/{{vhost}}"), get(in_vhost));
    }
    for (path, what) in [("queues", Listed::Queues), ("exchanges", Listed::Exchanges)] {
        let one = move |asker, source, path| object(asker, source, path, what);
        router = router.route(&format!("/api/{path}/{{vhost}}/{{name}}"), get(one));
    }
    router
}

/// Who asks, authenticated.
struct Asker {
    identity: Identity,
    peer: SocketAddr,
}

impl Asker {
    fn is_administrator(&self) -> bool {
        self.identity.tags().has("administrator")
    }

    /// It sees what is not its own.
    fn monitors(&self) -> bool {
        self.is_administrator() || self.identity.tags().has("monitoring")
    }

    /// Whether it sees a row of such a list.
    fn sees(&self, source: &Source, what: Listed, row: &Json) -> bool {
        if self.monitors() {
            return true;
        }
        let text = |name: &str| row.get(name).and_then(Json::as_str).unwrap_or_default();
        match what {
            Listed::Connections => text("user") == self.identity.user(),
            Listed::Vhosts => source.broker.authority().enter(&self.identity, text("name")).is_ok(),
            _ => source.broker.authority().enter(&self.identity, text("vhost")).is_ok(),
        }
    }

    /// Whether it may look at such a list at all.
    fn may_list(&self, what: Listed) -> bool {
        let about_users = matches!(
            what,
            Listed::Users | Listed::Permissions | Listed::TopicPermissions | Listed::UserLimits | Listed::VhostLimits
        );
        !about_users || self.is_administrator()
    }
}

impl FromRequestParts<Arc<Source>> for Asker {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, source: &Arc<Source>) -> Result<Self, Response> {
        let ConnectInfo(From(peer)) =
            ConnectInfo::from_request_parts(parts, source).await.map_err(IntoResponse::into_response)?;
        let (user, password) = credentials(&parts.headers).ok_or_else(unauthorized)?;
        let mut login = None;
        let outcome = poll_fn(|context| {
            let login = login.get_or_insert_with(|| {
                let waker = context.waker().clone();
                source.broker.authority().login(&user, &password, peer.ip().to_canonical(), Instant::now(), waker)
            });
            login.take().map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        let identity = match outcome {
            Ok(identity) => identity,
            // What led to it has been told, and this can be repeated as fast as requests can be made.
            Err(refusal @ Refusal::TooManyFailures) => {
                tracing::debug!(target: change::AUDIT, user, %peer, reason = %refusal, "HTTP login refused");
                return Err(unauthorized());
            }
            Err(refusal) => {
                tracing::warn!(target: change::AUDIT, user, %peer, reason = %refusal, "HTTP login refused");
                return Err(unauthorized());
            }
        };
        let tags = ["management", "policymaker", "monitoring", "administrator"];
        if !tags.iter().any(|tag| identity.tags().has(tag)) {
            return Err(error(StatusCode::UNAUTHORIZED, "not_authorized", "Not management user"));
        }
        Ok(Self { identity, peer })
    }
}

/// User and password of `Authorization: Basic`.
fn credentials(headers: &HeaderMap) -> Option<(String, Vec<u8>)> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = STANDARD.decode(encoded.trim()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let user = String::from_utf8(decoded[..colon].to_vec()).ok()?;
    Some((user, decoded[colon + 1..].to_vec()))
}

fn unauthorized() -> Response {
    let challenge = [(header::WWW_AUTHENTICATE, "Basic realm=\"Hermod\"")];
    (challenge, error(StatusCode::UNAUTHORIZED, "not_authorized", "Login failed")).into_response()
}

fn error(status: StatusCode, error: &str, reason: &str) -> Response {
    (status, axum::Json(json!({ "error": error, "reason": reason }))).into_response()
}

fn not_found() -> Response {
    error(StatusCode::NOT_FOUND, "Object Not Found", "Not Found")
}

fn forbidden() -> Response {
    error(StatusCode::UNAUTHORIZED, "not_authorized", "User not authorised to access object")
}

async fn export(asker: Asker, State(source): State<Arc<Source>>) -> Response {
    if asker.is_administrator() { axum::Json(source.export()).into_response() } else { forbidden() }
}

async fn whoami(asker: Asker) -> Response {
    let tags: Vec<&str> = asker.identity.tags().iter().collect();
    axum::Json(json!({ "name": asker.identity.user(), "tags": tags, "is_internal_user": true })).into_response()
}

async fn all(asker: Asker, State(source): State<Arc<Source>>, what: Listed) -> Response {
    rows(&asker, &source, what, None)
}

async fn in_vhost(
    asker: Asker,
    State(source): State<Arc<Source>>,
    Path(vhost): Path<String>,
    what: Listed,
) -> Response {
    if !source.broker.has_vhost(&vhost) {
        return not_found();
    }
    rows(&asker, &source, what, Some(&vhost))
}

fn rows(asker: &Asker, source: &Source, what: Listed, vhost: Option<&str>) -> Response {
    if !asker.may_list(what) {
        return forbidden();
    }
    let mut rows = source.list(what, vhost);
    rows.retain(|row| asker.sees(source, what, row));
    axum::Json(rows).into_response()
}

/// The row of this name.
async fn named(asker: Asker, State(source): State<Arc<Source>>, Path(name): Path<String>, what: Listed) -> Response {
    one(&asker, &source, what, None, &name)
}

async fn object(
    asker: Asker,
    State(source): State<Arc<Source>>,
    Path((vhost, name)): Path<(String, String)>,
    what: Listed,
) -> Response {
    let name = if what == Listed::Exchanges && name == "amq.default" { "" } else { &name };
    one(&asker, &source, what, Some(&vhost), name)
}

async fn connection(asker: Asker, State(source): State<Arc<Source>>, Path(name): Path<String>) -> Response {
    one(&asker, &source, Listed::Connections, None, &name)
}

fn one(asker: &Asker, source: &Source, what: Listed, vhost: Option<&str>, name: &str) -> Response {
    if !asker.may_list(what) {
        return forbidden();
    }
    match source.list(what, vhost).into_iter().find(|row| row["name"] == name) {
        None => not_found(),
        Some(row) if asker.sees(source, what, &row) => axum::Json(row).into_response(),
        Some(_) => forbidden(),
    }
}

async fn close_connection(
    asker: Asker,
    State(source): State<Arc<Source>>,
    headers: HeaderMap,
    Path(name): Path<String>,
) -> Response {
    let rows = source.list(Listed::Connections, None);
    let Some(row) = rows.into_iter().find(|row| row["name"] == name) else { return not_found() };
    if !asker.is_administrator() && row["user"] != asker.identity.user() {
        return forbidden();
    }
    let given = headers.get("x-reason").and_then(|reason| reason.to_str().ok());
    let reason = given.unwrap_or("Closed via management plugin").to_owned();
    let change = Change::CloseConnections { id: None, name: Some(name), vhost: None, user: None, reason };
    answer(make(source, asker, change).await)
}

/// Makes a change where it may block.
async fn make(source: Arc<Source>, asker: Asker, change: Change) -> Result<u64, Refused> {
    let caller = Caller { from: asker.peer.to_string(), identity: asker.identity };
    let made = tokio::task::spawn_blocking(move || change::make(&source.broker, change, caller)).await;
    made.unwrap_or_else(|error| Err(Refused::new(Why::Failed, error.to_string())))
}

fn answer(made: Result<u64, Refused>) -> Response {
    match made {
        Ok(_) => StatusCode::NO_CONTENT.into_response(),
        Err(refused) => match refused.why {
            Why::NotFound => not_found(),
            Why::Denied => error(StatusCode::UNAUTHORIZED, "not_authorized", &refused.text),
            Why::Invalid => error(StatusCode::BAD_REQUEST, "bad_request", &refused.text),
            Why::Failed => error(StatusCode::INTERNAL_SERVER_ERROR, "internal_server_error", &refused.text),
        },
    }
}

async fn overview(_: Asker, State(source): State<Arc<Source>>) -> Response {
    let (facts, overview) = (&source.facts, source.broker.overview());
    let listeners = facts.listeners.iter().map(|listener| {
        let (address, port) = listener.address.rsplit_once(':').unwrap_or((&listener.address, "0"));
        json!({
            "node": facts.node,
            "protocol": listener.protocol,
            "ip_address": address.trim_start_matches('[').trim_end_matches(']'),
            "port": port.parse::<u16>().unwrap_or_default(),
        })
    });
    let types = ["direct", "fanout", "topic", "headers", "x-consistent-hash", "x-modulus-hash"];
    axum::Json(json!({
        "product_name": "Hermod",
        "product_version": facts.version,
        "management_version": facts.version,
        "rabbitmq_version": facts.compat_version,
        "cluster_name": facts.node,
        "node": facts.node,
        "rates_mode": "none",
        "disable_stats": false,
        "enable_queue_totals": true,
        "default_queue_type": "classic",
        "exchange_types": types.map(|name| json!({ "name": name, "enabled": true })),
        "object_totals": {
            "connections": overview.connections,
            "channels": overview.sessions,
            "consumers": overview.consumers,
            "queues": overview.queues,
            "exchanges": overview.exchanges,
        },
        "queue_totals": {
            "messages": overview.ready + overview.unacked,
            "messages_ready": overview.ready,
            "messages_unacknowledged": overview.unacked,
        },
        "message_stats": {
            "publish": overview.received,
            "confirm": overview.confirmed,
            "deliver_get": delivered(&overview),
            "redeliver": overview.redelivered,
            "ack": overview.acknowledged,
            "return_unroutable": overview.unroutable_returned,
            "drop_unroutable": overview.unroutable_dropped,
        },
        "churn_rates": {
            "connection_created": overview.connections_opened,
            "connection_closed": overview.connections_closed,
            "channel_created": overview.sessions_opened,
            "channel_closed": overview.sessions_closed,
            "queue_declared": overview.queues_declared,
            "queue_created": overview.queues_created,
            "queue_deleted": overview.queues_deleted,
        },
        "listeners": listeners.collect::<Vec<_>>(),
        "contexts": [],
    }))
    .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_as_the_header_has_them() {
        for (value, expected) in [
            ("Basic Z3Vlc3Q6Z3Vlc3Q=", Some(("guest", "guest"))),
            ("basic  Z3Vlc3Q6Z3Vlc3Q= ", Some(("guest", "guest"))),
            ("Basic YTpiOmM=", Some(("a", "b:c"))),
            ("Basic Ojo=", Some(("", ":"))),
            ("Basic Z3Vlc3Q=", None),
            ("Basic ?", None),
            ("Bearer Z3Vlc3Q6Z3Vlc3Q=", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            let expected = expected.map(|(user, password)| (user.to_owned(), password.as_bytes().to_vec()));
            assert_eq!(credentials(&headers), expected, "{value}");
        }
        assert_eq!(credentials(&HeaderMap::new()), None);
    }
}
