//! Connections that have authenticated: their rows, and closing them.

use std::collections::{HashMap, VecDeque};
use std::time::{Instant, UNIX_EPOCH};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::routing::get;
use broker::{AttachedClient, Broker, ClientReport, Error, Ticket};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::channels;
use crate::api::{self, Answer, Asker, Failure, Routes, Shared, done, look, make, shown};
use crate::audit::{Said, Told};
use crate::change::{Caller, Changes};
use crate::facts::{Encryption, Facts, Socket, endpoint};
use crate::json::object;
use crate::listing::{self, Collection, Entry, Part, Place, Rights, SortKey};
use crate::source::Source;

/// See the module.
pub(crate) struct Connections;

impl Collection for Connections {
    fn rights(&self) -> Rights {
        Rights::Owner
    }

    fn parts(&self, source: &Source, vhost: Option<&str>) -> VecDeque<Part> {
        let sockets = source.sockets().into_iter().map(|socket| (socket.peer.clone(), socket)).collect();
        listing::clients(source, vhost, sockets)
    }

    fn entries(&self, source: &Source, part: &Part, sort: Option<&str>) -> Option<Vec<Entry>> {
        let Part::Clients(numbers, sockets) = part else { return None };
        let entry = |client: &ClientReport| {
            let row = || row(client, &source.facts, sockets.get(&client.peer));
            let key = sort.map(|path| SortKey::of(listing::at(&row(), path))).unwrap_or_default();
            Entry { place: Place::Client(client.number, client.peer.as_str().into()), key }
        };
        Some(source.broker.some_clients(numbers).iter().map(entry).collect())
    }

    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        let Part::Clients(numbers, sockets) = part else { return Vec::new() };
        let clients = source.broker.some_clients(&numbers);
        clients.iter().map(|client| with_rates(source, client, sockets.get(&client.peer))).collect()
    }
}

/// Sockets without a log-in yet, the oldest first. RabbitMQ's API does not list them.
pub(crate) struct Strangers;

impl Collection for Strangers {
    fn rights(&self) -> Rights {
        Rights::Administrators
    }

    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        let mut sockets: HashMap<String, Socket> =
            source.sockets().into_iter().map(|socket| (socket.peer.clone(), socket)).collect();
        for client in source.broker.attached() {
            sockets.remove(client.peer());
        }
        let mut strangers: Vec<_> = sockets.into_values().collect();
        strangers.sort_by_key(|socket| socket.since);
        part.of_whole(strangers.iter().map(|socket| stranger(socket, &source.facts)))
    }
}

fn stranger(socket: &Socket, facts: &Facts) -> Json {
    let since = socket.since.duration_since(UNIX_EPOCH).unwrap_or_default();
    json!({
        "name": socket.peer,
        "protocol": protocol(socket.protocol, facts),
        "ssl": socket.encryption.is_some(),
        "connected_at": u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
        "recv_oct": socket.bytes_in,
        "send_oct": socket.bytes_out,
    })
}

pub(super) fn routes() -> Routes {
    Router::new()
        .merge(api::all("connections", &Connections))
        .merge(api::in_vhost("vhosts/{vhost}/connections", &Connections))
        .merge(api::of_user("connections/username/{user}", &Connections))
        .route("/api/connections/{name}", get(one).delete(close))
        .route("/api/connections/{name}/channels", get(channels::of_connection))
        .route("/api/connections/{name}/sessions", get(sessions))
        .route("/api/connections/username/{user}", axum::routing::delete(close_of_user))
}

fn find(source: &Source, name: &str) -> Option<Json> {
    let client = source.broker.attached_at(source.broker.client_at(name)?)?;
    let sockets = source.some_sockets(&[client.peer()]);
    Some(with_rates(source, &client.report(), sockets.first()))
}

/// A connection, with how fast its bytes move.
fn with_rates(source: &Source, client: &ClientReport, socket: Option<&Socket>) -> Json {
    let mut row = row(client, &source.facts, socket);
    let octets =
        ["recv_oct", "send_oct"].into_iter().filter_map(|name| Some((name.to_owned(), row.get(name)?.clone())));
    let mut octets: Map<String, Json> = octets.collect();
    source.rates.add(&format!("connection {}", client.number), &mut octets, Instant::now());
    if let Json::Object(row) = &mut row {
        row.extend(octets);
    }
    row
}

async fn one(asker: Asker, State(source): Shared, Path(name): Path<String>) -> Answer {
    api::one(asker, source, Rights::Owner, move |source| find(source, &name)).await
}

/// Sessions of AMQP 1.0 are meant, which is not spoken here. Those of other protocols are channels.
async fn sessions(asker: Asker, State(source): Shared, Path(name): Path<String>) -> Answer {
    let find = move |source: &Source| find(source, &name);
    let seen =
        look(&source, &asker.clone(), move |source| api::seen(&asker, source, Rights::Owner, None, find)).await?;
    seen?;
    shown(json!([]))
}

async fn close(asker: Asker, State(source): Shared, headers: HeaderMap, Path(name): Path<String>) -> Answer {
    let named = name.clone();
    let row = look(&source, &asker, move |source| find(source, &named)).await?;
    let row = row.ok_or_else(Failure::not_found)?;
    if !asker.is_administrator() && row["user"] != asker.user() {
        return Err(Failure::forbidden());
    }
    let reason = reason(&headers);
    make(&source, &asker, ConnectionChange::Close { id: None, name: Some(name), vhost: None, user: None, reason })
        .await?;
    done()
}

async fn close_of_user(asker: Asker, State(source): Shared, headers: HeaderMap, Path(user): Path<String>) -> Answer {
    if !asker.is_administrator() && user != asker.user() {
        return Err(Failure::forbidden());
    }
    let reason = reason(&headers);
    make(&source, &asker, ConnectionChange::Close { id: None, name: None, vhost: None, user: Some(user), reason })
        .await?;
    done()
}

fn reason(headers: &HeaderMap) -> String {
    let given = headers.get("x-reason").and_then(|reason| reason.to_str().ok());
    given.unwrap_or("Closed via management plugin").to_owned()
}

/// RabbitMQ's name of a protocol.
fn protocol<'n>(name: &'n str, facts: &Facts) -> &'n str {
    facts.protocols.iter().find(|known| known.name == name).map_or(name, |known| known.listed)
}

fn row(client: &ClientReport, facts: &Facts, socket: Option<&Socket>) -> Json {
    let mut row = Map::new();
    let mut put = |name: &str, value: Json| row.insert(name.to_owned(), value);
    put("name", json!(client.peer));
    put("pid", json!(client.number));
    put("node", json!(facts.node));
    put("type", json!("network"));
    put("user", json!(client.user));
    put("vhost", json!(client.vhost));
    put("protocol", json!(protocol(client.protocol, facts)));
    put("state", json!(client.state));
    put("channels", json!(client.sessions));
    put("consumers", json!(client.consumers));
    put("connected_at", json!(client.connected_at));
    put("client_properties", Json::Object(object(&client.properties)));
    if let Some(name) = &client.name {
        put("user_provided_name", json!(name));
    }
    if let Some((peer, local)) = client.peer.split_once(" -> ") {
        for (host, port, address) in [("peer_host", "peer_port", peer), ("host", "port", local)] {
            let (at, number) = endpoint(address);
            put(host, json!(at));
            put(port, json!(number));
        }
    }
    put("auth_mechanism", json!(client.terms.mechanism));
    put("timeout", json!(client.terms.keep_alive.as_secs()));
    put("frame_max", json!(client.terms.piece_bytes));
    put("channel_max", json!(client.terms.sessions));
    put("held_bytes", json!(client.held_bytes));
    if let Some(socket) = socket {
        put("recv_oct", json!(socket.bytes_in));
        put("send_oct", json!(socket.bytes_out));
    }
    let encryption = socket.and_then(|socket| socket.encryption.as_ref());
    encryption_fields(encryption).into_iter().for_each(|(name, value)| drop(put(name, value)));
    Json::Object(row)
}

/// RabbitMQ's fields about TLS, which are also there without TLS.
fn encryption_fields(encryption: Option<&Encryption>) -> [(&'static str, Json); 8] {
    let certificate = encryption.and_then(|encryption| encryption.certificate.as_ref());
    let suite = encryption.map(|encryption| suite_parts(&encryption.suite));
    let [key_exchange, cipher, hash] =
        suite.map_or([Json::Null, Json::Null, Json::Null], |parts| parts.map(Json::from));
    let [subject, issuer, validity] =
        certificate.map_or([Json::Null, Json::Null, Json::Null], |texts| texts.clone().map(Json::from));
    [
        ("ssl", json!(encryption.is_some())),
        ("ssl_protocol", json!(encryption.map(|encryption| encryption.version.to_lowercase().replace('_', ".")))),
        ("ssl_key_exchange", key_exchange),
        ("ssl_cipher", cipher),
        ("ssl_hash", hash),
        ("peer_cert_subject", subject),
        ("peer_cert_issuer", issuer),
        ("peer_cert_validity", validity),
    ]
}

/// Key exchange, cipher and hash of `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`; since TLS 1.3 suites
/// name no key exchange.
fn suite_parts(suite: &str) -> [String; 3] {
    let suite = suite.to_lowercase();
    let (exchange, rest) = match suite.split_once("_with_") {
        Some((exchange, rest)) => (exchange.trim_start_matches("tls_"), rest),
        None => ("any", suite.trim_start_matches("tls13_")),
    };
    let (cipher, hash) = rest.rsplit_once('_').unwrap_or((rest, ""));
    [exchange.to_owned(), cipher.to_owned(), hash.to_owned()]
}

/// A change of connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ConnectionChange {
    /// Closes all connections that match every given field.
    Close {
        /// The number of the connection.
        id: Option<u64>,
        /// The name of the connection, which is both its addresses.
        name: Option<String>,
        /// The vhost of the connection.
        vhost: Option<String>,
        /// The user of the connection.
        user: Option<String>,
        /// The reason that the clients are given.
        reason: String,
    },
}

impl Changes for ConnectionChange {
    fn told(&self) -> Told {
        match self {
            Self::Close { id, name, vhost, user, reason } => {
                let about = format_args!("id={} user={} reason={}", Said(id), Said(user), Said(reason));
                let place = [vhost.as_deref().unwrap_or_default(), name.as_deref().unwrap_or_default()];
                Told::of("close_connections", place, about)
            }
        }
    }

    fn apply(self, broker: &Broker, _: Caller) -> Result<(u64, Ticket), Error> {
        let Self::Close { id, name, vhost, user, reason } = self;

        let fits = |client: &&AttachedClient| {
            id.is_none_or(|id| id == client.number())
                && name.as_ref().is_none_or(|name| *name == client.peer())
                && vhost.as_ref().is_none_or(|vhost| *vhost == client.vhost())
                && user.as_ref().is_none_or(|user| *user == client.user())
        };
        let clients = broker.attached();
        let closed = clients.iter().filter(fits).filter(|client| broker.kick(client.number(), &reason));
        Ok((closed.count() as u64, Ticket::NONE))
    }
}
