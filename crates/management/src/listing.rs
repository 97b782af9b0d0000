//! Everything that can be listed, as JSON in the shape of RabbitMQ's HTTP API: for HTTP, for
//! `--json`, and for `rabbitmqctl`.
//!
//! A field whose figure is unknown is left out, never made up.

mod parts;

use auth::{PasswordHash, User};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use broker::{
    BindingReport, Broker, ClientReport, ConsumerReport, ExchangeReport, Loss, PolicyKind, QueueReport, QueueTotals,
    SessionReport, VhostReport,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use sha2::{Digest, Sha256};

use crate::change::{MAX_CHANNELS, MAX_CONNECTIONS, MAX_QUEUES};
use crate::json::object;
use crate::policies;
use crate::source::{Encryption, Facts, Socket};

pub(crate) use parts::{Parts, bindings_to_exchange, bindings_to_queue, channels_of, one};

/// Bytes of the digest that identifies a binding's arguments.
const KEY_BYTES: usize = 16;
/// The longest routing key that a path shows whole, in bytes. AMQP 0-9-1 has no longer ones.
const LONGEST_KEY: usize = 255;

/// The kinds of objects that can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Listed {
    /// Users, with their password hashes.
    Users,
    /// Vhosts.
    Vhosts,
    /// Permissions of users in vhosts.
    Permissions,
    /// Permissions of users on routing keys.
    TopicPermissions,
    /// Limits of vhosts.
    VhostLimits,
    /// Limits of users.
    UserLimits,
    /// Queues.
    Queues,
    /// Exchanges.
    Exchanges,
    /// Bindings, including those of every queue to the default exchange.
    Bindings,
    /// Connections that have authenticated.
    Connections,
    /// Sessions of connections, which AMQP 0-9-1 calls channels.
    Channels,
    /// Consumers.
    Consumers,
    /// Policies.
    Policies,
    /// Operator policies.
    OperatorPolicies,
    /// The last messages that were dropped.
    Losses,
}

/// All rows of a kind, or those in a vhost.
pub(crate) fn list(broker: &Broker, facts: &Facts, sockets: &[Socket], what: Listed, vhost: Option<&str>) -> Vec<Json> {
    let rows: Vec<Json> = match what {
        Listed::Users => broker.authority().users().iter().map(|of| user(broker, of)).collect(),
        Listed::Vhosts => broker.vhosts().iter().map(|report| self::vhost(report, facts)).collect(),
        Listed::Permissions => broker.authority().users().iter().flat_map(permissions).collect(),
        Listed::TopicPermissions => broker.authority().users().iter().flat_map(topic_permissions).collect(),
        Listed::VhostLimits => broker.vhosts().iter().filter_map(vhost_limits).collect(),
        Listed::UserLimits => broker.authority().users().iter().filter_map(user_limits).collect(),
        Listed::Queues => broker.queues().iter().map(|report| queue(report, facts)).collect(),
        Listed::Exchanges => broker.exchanges().iter().map(exchange).collect(),
        Listed::Bindings => broker.bindings().iter().map(binding).collect(),
        Listed::Connections => broker.clients().iter().map(|client| connection(client, facts, sockets)).collect(),
        Listed::Channels => broker.sessions().iter().map(|session| channel(session, facts)).collect(),
        Listed::Consumers => broker.consumers().iter().map(consumer).collect(),
        Listed::Policies => broker.policies(PolicyKind::User).iter().map(policies::row).collect(),
        Listed::OperatorPolicies => broker.policies(PolicyKind::Operator).iter().map(policies::row).collect(),
        Listed::Losses => broker.losses().iter().map(loss).collect(),
    };
    let is_there = |row: &Json| vhost.is_none_or(|vhost| row.get("vhost").is_none_or(|of| of == vhost));
    rows.into_iter().filter(is_there).collect()
}

fn loss(loss: &Loss) -> Json {
    json!({
        "at": loss.at,
        "vhost": loss.vhost,
        "reason": loss.reason,
        "queue": loss.queue,
        "exchange": loss.exchange,
        "routing_key": loss.routing_key,
        "body_bytes": loss.body_bytes,
    })
}

fn user(broker: &Broker, user: &User) -> Json {
    let (algorithm, hash) = user.password.as_ref().map_or(("", ""), PasswordHash::parts);
    json!({
        "name": &*user.name,
        "password_hash": hash,
        "hashing_algorithm": algorithm,
        "tags": user.tags.iter().collect::<Vec<_>>(),
        "limits": limits(&[(MAX_CONNECTIONS, user.limits.connections), (MAX_CHANNELS, user.limits.sessions)]),
        "held_bytes": broker.user_held_bytes(&user.name),
    })
}

fn limits<N: Copy + Into<u64>>(limits: &[(&str, Option<N>)]) -> Json {
    let set = limits.iter().filter_map(|(name, limit)| Some(((*name).to_owned(), json!((*limit)?.into()))));
    Json::Object(set.collect())
}

fn user_limits(user: &User) -> Option<Json> {
    let value = limits(&[(MAX_CONNECTIONS, user.limits.connections), (MAX_CHANNELS, user.limits.sessions)]);
    (value != json!({})).then(|| json!({ "user": &*user.name, "value": value }))
}

fn vhost(vhost: &VhostReport, facts: &Facts) -> Json {
    let kind = vhost.spec.default_queue_type.as_deref().unwrap_or("classic");
    json!({
        "name": vhost.name,
        "description": vhost.spec.description,
        "tags": vhost.spec.tags,
        "default_queue_type": kind,
        "metadata": {
            "description": vhost.spec.description, "tags": vhost.spec.tags, "default_queue_type": kind,
        },
        "protected_from_deletion": false,
        "tracing": vhost.traced,
        "cluster_state": { (facts.node.as_str()): "running" },
    })
}

fn vhost_limits(vhost: &VhostReport) -> Option<Json> {
    let value = limits(&[(MAX_CONNECTIONS, vhost.limits.connections), (MAX_QUEUES, vhost.limits.queues)]);
    (value != json!({})).then(|| json!({ "vhost": vhost.name, "value": value }))
}

fn permissions(user: &User) -> Vec<Json> {
    let rows = user.permissions.iter().map(|(vhost, permission)| {
        json!({
            "user": &*user.name,
            "vhost": &**vhost,
            "configure": permission.configure.as_str(),
            "write": permission.write.as_str(),
            "read": permission.read.as_str(),
        })
    });
    rows.collect()
}

fn topic_permissions(user: &User) -> Vec<Json> {
    let rows = user.topic_permissions.iter().map(|((vhost, exchange), permission)| {
        json!({
            "user": &*user.name,
            "vhost": &**vhost,
            "exchange": &**exchange,
            "write": permission.write.as_str(),
            "read": permission.read.as_str(),
        })
    });
    rows.collect()
}

fn queue(queue: &QueueReport, facts: &Facts) -> Json {
    let figures = &queue.figures;
    let mut row = json!({
        "name": queue.name,
        "vhost": queue.vhost,
        "type": queue.kind,
        "durable": queue.durable,
        "exclusive": queue.exclusive,
        "auto_delete": queue.auto_delete,
        "internal": false,
        "arguments": object(&queue.arguments),
        "arguments_without_effect": queue.idle_arguments,
        "policy": queue.policy,
        "operator_policy": queue.operator_policy,
        "effective_policy_definition": object(&queue.policy_definition),
        "messages": queue.ready + queue.unacked,
        "messages_ready": queue.ready,
        "messages_unacknowledged": queue.unacked,
        "messages_persistent": figures.persistent,
        "messages_ram": figures.ready_in_memory + queue.unacked,
        "messages_ready_ram": figures.ready_in_memory,
        // Messages with consumers stay in memory.
        "messages_unacknowledged_ram": queue.unacked,
        "consumers": queue.consumers,
        "consumer_capacity": u8::from(figures.can_deliver),
        "consumer_utilisation": u8::from(figures.can_deliver),
        "exclusive_consumer_tag": figures.exclusive_consumer,
        "single_active_consumer_tag": figures.single_active_consumer,
        "head_message_timestamp": figures.head_timestamp,
        "memory": queue.bytes,
        "state": if queue.damaged.is_some() { "crashed" } else { "running" },
        "node": facts.node,
        "message_stats": queue_traffic(&figures.totals),
    });
    if let Some(since) = figures.idle_since {
        row["idle_since"] = json!(date(since));
    }
    put_weights(&mut row, queue);
    if queue.kind == "quorum" {
        // The only copy is here.
        (row["leader"], row["members"], row["online"]) = (json!(facts.node), json!([facts.node]), json!([facts.node]));
        row["delivery_limit"] = json!("unlimited");
    }
    if let Some(limit) = figures.delivery_limit {
        row["delivery_limit"] = json!(limit);
    }
    row
}

/// A time in milliseconds since 1970, as RabbitMQ writes it.
fn date(milliseconds: u64) -> Option<String> {
    let time = Timestamp::from_millisecond(i64::try_from(milliseconds).ok()?).ok()?;
    Some(time.strftime("%Y-%m-%dT%H:%M:%S%.3f+00:00").to_string())
}

/// Adds the bytes of bodies. They are exact where a length limit counts them, else estimated by the
/// mean size. Without a mean size they are left out.
fn put_weights(row: &mut Json, queue: &QueueReport) {
    let figures = &queue.figures;
    let mean = |messages: u64| figures.bytes_of(messages);
    let ready = figures.ready_bytes.or_else(|| mean(queue.ready));
    let sum = ready.zip(mean(queue.unacked)).map(|(ready, unacked)| ready + unacked);
    for (name, bytes) in [
        ("message_bytes", sum),
        ("message_bytes_ready", ready),
        ("message_bytes_unacknowledged", mean(queue.unacked)),
        ("message_bytes_persistent", mean(figures.persistent)),
        ("message_bytes_ram", mean(figures.ready_in_memory + queue.unacked)),
    ] {
        if let Some(bytes) = bytes {
            row[name] = json!(bytes);
        }
    }
}

/// How messages moved through queues.
pub(crate) fn queue_traffic(totals: &QueueTotals) -> Json {
    json!({
        "publish": totals.published,
        "deliver_get": totals.delivered,
        "deliver": totals.delivered_manual(),
        "deliver_no_ack": totals.delivered_auto,
        "get": totals.fetched_manual(),
        "get_no_ack": totals.fetched_auto,
        "get_empty": totals.fetched_empty,
        "redeliver": totals.redelivered,
        "ack": totals.acknowledged,
    })
}

fn exchange(exchange: &ExchangeReport) -> Json {
    json!({
        "name": exchange.name,
        "vhost": exchange.vhost,
        "type": exchange.kind,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": object(&exchange.arguments),
        "arguments_without_effect": exchange.idle_arguments,
    })
}

fn binding(binding: &BindingReport) -> Json {
    let arguments = object(&binding.arguments);
    json!({
        "source": binding.source,
        "vhost": binding.vhost,
        "destination": binding.destination,
        "destination_type": if binding.to_queue { "queue" } else { "exchange" },
        "routing_key": binding.key,
        "properties_key": properties_key(&binding.key, &arguments),
        "arguments": arguments,
    })
}

/// Identifies a binding among those between the same two objects, as a segment of a path: its
/// routing key, percent-encoded, and after a tilde a digest of its arguments. Of a key that is too
/// long for a path it has the beginning, and the digest is over the key, too. Tools store it, so it
/// must stay the same in every version.
pub(crate) fn properties_key(routing_key: &str, arguments: &Map<String, Json>) -> String {
    if routing_key.len() > LONGEST_KEY {
        let beginning = &routing_key[..routing_key.floor_char_boundary(LONGEST_KEY)];
        let digest = Sha256::digest(json!([routing_key, arguments]).to_string());
        return format!("{}~{}", percent_encoded(beginning), URL_SAFE_NO_PAD.encode(&digest[..KEY_BYTES]));
    }
    if arguments.is_empty() {
        return if routing_key.is_empty() { "~".to_owned() } else { percent_encoded(routing_key) };
    }
    // A map writes its names in order, so the digest does not depend on their order.
    let digest = Sha256::digest(Json::from(arguments.clone()).to_string());
    format!("{}~{}", percent_encoded(routing_key), URL_SAFE_NO_PAD.encode(&digest[..KEY_BYTES]))
}

/// The `properties_key` of a segment of a path. Clients encode a routing key once, for the path, or
/// twice, as part of `properties_key`; both give the same result.
pub(crate) fn canonical_key(segment: &str) -> String {
    match segment.rsplit_once('~') {
        Some((routing_key, digest)) => format!("{}~{digest}", percent_encoded(&percent_decoded(routing_key))),
        None => percent_encoded(&percent_decoded(segment)),
    }
}

/// Undoes [`percent_encoded`]. A percent sign without two digits after it stays as it is.
fn percent_decoded(text: &str) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let digits = behind.first_chunk::<2>().filter(|two| byte == b'%' && two.iter().all(u8::is_ascii_hexdigit));
        let escaped = digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
        decoded.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Percent-encodes everything but letters, digits, and `-._`.
pub(crate) fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'-' | b'.' | b'_' => encoded.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// RabbitMQ's name of a protocol.
fn protocol<'n>(name: &'n str, facts: &Facts) -> &'n str {
    facts.protocols.iter().find(|known| known.name == name).map_or(name, |known| known.listed)
}

fn connection(client: &ClientReport, facts: &Facts, sockets: &[Socket]) -> Json {
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
    let socket = sockets.iter().find(|socket| socket.peer == client.peer);
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

/// Host and port of an address.
pub(crate) fn endpoint(address: &str) -> (&str, u16) {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, "0"));
    (host.trim_start_matches('[').trim_end_matches(']'), port.parse().unwrap_or_default())
}

fn channel(session: &SessionReport, facts: &Facts) -> Json {
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

/// Includes the fields without which rabbitmqadmin can't read a list of consumers.
fn consumer(consumer: &ConsumerReport) -> Json {
    let timeout = consumer.timeout.map_or(0, |timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
    let peer = &consumer.holder.peer;
    let (host, port) = endpoint(peer.split(" -> ").next().unwrap_or_default());
    let status = match (consumer.single, consumer.active) {
        (true, true) => "single_active",
        (true, false) => "waiting",
        _ => "up",
    };
    json!({
        "queue": { "name": consumer.queue, "vhost": consumer.vhost },
        "vhost": consumer.vhost,
        "queue_name": consumer.queue,
        "connection": consumer.client,
        "consumer_tag": consumer.tag,
        "ack_required": !consumer.no_ack,
        "exclusive": consumer.exclusive,
        "prefetch_count": consumer.prefetch,
        "messages_unacknowledged": consumer.unsettled,
        "active": consumer.active,
        "arguments": object(&consumer.arguments),
        "consumer_timeout": timeout,
        "activity_status": status,
        "channel_details": {
            "name": format!("{peer} ({})", consumer.session),
            "number": consumer.session,
            "connection_name": peer,
            "user": consumer.holder.user,
            "peer_host": host,
            "peer_port": port,
        },
    })
}
