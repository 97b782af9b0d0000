//! `/management`: requests and responses on a pair of links.

use broker::Rest;

use super::scene::{Peer, Scene, detach, from, to_peer, to_server, transfer};
use crate::codec::message::{MessageId, Properties};
use crate::codec::performative::{Attach, SenderSettleMode, Transfer};
use crate::codec::value::Budget;
use crate::codec::{AttachTarget, Encode, Map, Section, Target, Value, ValueRef, read_value};

const REQUESTS: u32 = 0;
const RESPONSES: u32 = 1;

fn paired() -> Map<'static> {
    let bytes = Value::Map(vec![(Value::Symbol("paired".to_owned()), Value::Bool(true))]).to_bytes().leak();
    match read_value(&mut wire::Reader::new(bytes), &mut Budget::default()) {
        Ok(ValueRef::Map(map)) => map,
        other => panic!("{other:?}"),
    }
}

fn requests(name: &str) -> Attach<'_> {
    let target = Target { address: Some("/management"), ..Target::default() };
    Attach {
        handle: REQUESTS,
        snd_settle_mode: SenderSettleMode::Settled,
        target: Some(AttachTarget::Target(target)),
        properties: Some(paired()),
        ..to_server(name)
    }
}

fn responses(name: &str) -> Attach<'_> {
    Attach {
        handle: RESPONSES,
        snd_settle_mode: SenderSettleMode::Settled,
        source: Some(from("/management")),
        properties: Some(paired()),
        ..to_peer(name)
    }
}

/// A session with a pair of links.
fn pair(scene: &Scene, user: &str) -> Peer {
    let mut peer = scene.connect_as(user);
    peer.begin(0, 1000);
    peer.attach(requests("pair"));
    peer.attach(responses("pair"));
    peer.expect(&[
        "begin 0 remote=0 window=16384",
        "attach 0 Receiver - > /management settled",
        "flow 0 count=0 credit=8",
        "attach 1 Sender /management > - settled",
    ]);
    peer
}

fn map(fields: &[(&str, Value)]) -> Value {
    Value::Map(fields.iter().map(|(name, value)| (Value::Str((*name).to_owned()), value.clone())).collect())
}

fn text(text: &str) -> Value {
    Value::Str(text.to_owned())
}

fn request(peer: &mut Peer, id: u32, line: &str, body: &Value) {
    let (method, path) = line.split_once(' ').unwrap();
    let mut bytes = Vec::new();
    let properties = Properties {
        message_id: Some(MessageId::Number(id.into())),
        to: Some(path),
        subject: Some(method),
        reply_to: Some("$me"),
        ..Properties::default()
    };
    properties.encode(&mut bytes);
    Section::Value.encode(body, &mut bytes);
    peer.transfer(Transfer { handle: REQUESTS, settled: Some(true), ..transfer(id) }, &bytes);
}

/// Status and body of the response.
fn ask(peer: &mut Peer, id: u32, line: &str, body: &Value) -> String {
    request(peer, id, line, body);
    peer.credit(RESPONSES, id, 1, Rest::Kept);
    let heard = peer.heard();
    let found = heard.iter().find_map(|line| line.strip_prefix(&format!("transfer 1 id={id} settled ")));
    found.unwrap_or_else(|| panic!("{line}: {heard:?}")).to_owned()
}

/// A queue as it is shown.
fn queue(status: &str, arguments: &str) -> String {
    format!(
        r#"{status} {{"message_count": ulong(0), "consumer_count": uint(0), "name": "q 1", "vhost": "/", "durable": true, "#
    ) + &format!(
        r#""auto_delete": false, "exclusive": false, "type": "classic", "arguments": {{{arguments}}}, "leader": "hermod", "replicas": array["hermod"]}}"#
    )
}

#[test]
fn queues_exchanges_and_bindings_are_declared_shown_and_deleted() {
    let scene = Scene::new();
    let mut peer = pair(&scene, "guest");
    let none = Value::Null;
    let limited = map(&[("arguments", map(&[("x-max-length", Value::I64(5))]))]);
    let bound = |arguments: &[(&str, Value)]| {
        map(&[
            ("source", text("x/1")),
            ("destination_queue", text("q 1")),
            ("binding_key", text("k;")),
            ("arguments", map(arguments)),
        ])
    };
    let (plain, argued) = (bound(&[]), bound(&[("of", text("ours"))]));
    let exchange = map(&[("type", text("fanout"))]);
    let to_exchange =
        map(&[("source", text("amq.topic")), ("destination_exchange", text("x/1")), ("binding_key", text("#"))]);
    let length = r#""x-max-length": long(5)"#;
    let query = "GET /bindings?src=x%2F1&dstq=q+1&key=k%3B";
    let shown = r#"200 [{"source": "x/1", "destination_queue": "q 1", "binding_key": "k;", "arguments": {}, "location": "/bindings/src=x%2F1;dstq=q%201;key=k%3B;args="}]"#;
    for (id, (line, body, expected)) in (0..).zip([
        ("GET /queues/q%201", &none, "404 no queue 'q 1' in vhost '/'"),
        ("PUT /queues/q%201", &limited, &queue("201", length)),
        ("PUT /queues/q%201", &limited, &queue("200", length)),
        ("GET /queues/q%201", &none, &queue("200", length)),
        ("PUT /exchanges/x%2F1", &exchange, "204 null"),
        ("PUT /exchanges/x%2F1", &exchange, "204 null"),
        ("POST /bindings", &plain, "204 null"),
        (query, &none, shown),
        ("POST /bindings", &argued, "204 null"),
        ("POST /bindings", &to_exchange, "204 null"),
        ("DELETE /bindings/src=x%2F1;dstq=q%201;key=k%3B;args=", &none, "204 null"),
        ("DELETE /bindings/src=x%2F1;dstq=q%201;key=k%3B;args=", &none, "204 null"),
        ("DELETE /queues/q%201/messages", &none, r#"200 {"message_count": ulong(0)}"#),
    ]) {
        assert_eq!(ask(&mut peer, id, line, body), expected, "{line}");
    }
    let mut id = 13;
    let mut next = |line: &str| {
        id += 1;
        ask(&mut peer, id - 1, line, &none)
    };
    let shown = next(query);
    assert!(shown.contains(r#""arguments": {"of": "ours"}"#), "the one without arguments has gone: {shown}");
    let place = shown.split_once(r#""location": ""#).unwrap().1.split_once('"').unwrap().0;
    assert!(!place.ends_with("args="), "{place}");
    assert_eq!(next(&format!("DELETE {place}")), "204 null");
    assert_eq!(next(query), "200 []");
    assert_eq!(next("DELETE /exchanges/x%2F1"), "204 null");
    assert_eq!(next("DELETE /exchanges/x%2F1"), "204 null");
    assert_eq!(next("DELETE /queues/q%201"), r#"200 {"message_count": ulong(0)}"#);
    assert_eq!(next("GET /queues/q%201"), "404 no queue 'q 1' in vhost '/'");
}

#[test]
fn what_cannot_be_done_is_refused_with_a_code_and_a_reason() {
    let scene = Scene::new();
    let mut peer = pair(&scene, "guest");
    let none = Value::Null;
    let empty = map(&[]);
    let transient = map(&[("durable", Value::Bool(false))]);
    let wrong = map(&[("durable", Value::I32(1))]);
    let unknown = map(&[("lasting", Value::Bool(true))]);
    let nowhere = map(&[("source", text("amq.topic")), ("binding_key", text("k"))]);
    let to_none = map(&[("source", text("amq.topic")), ("binding_key", text("k")), ("destination_queue", text("no"))]);
    for (id, (line, body, expected)) in (0..).zip([
        ("PUT /queues/q", &empty, "201 "),
        ("PUT /queues/q", &transient, "409 inequivalent arg 'durable'"),
        ("PUT /queues/q", &wrong, "400 bad queue property durable: it must be a boolean"),
        ("PUT /queues/q", &unknown, "400 bad queue property lasting: unknown"),
        ("PUT /queues/q", &none, "400 the body of a queue must be a map"),
        ("PUT /queues/", &empty, "400 a queue must have a name"),
        ("PUT /queues/%zz", &empty, "400 '%zz' is not percent-encoded"),
        ("PUT /queues/a%0Ab", &empty, r"400 name 'a\nb' has a line break"),
        ("PUT /queues/amq.q", &empty, "403 "),
        ("PUT /exchanges/", &empty, "403 "),
        ("DELETE /exchanges/amq.topic", &none, "403 "),
        ("DELETE /queues/none/messages", &none, "404 no queue 'none'"),
        ("POST /bindings", &nowhere, "400 a binding has either destination_queue or destination_exchange"),
        ("POST /bindings", &to_none, "404 no queue 'no'"),
        ("GET /bindings?src=amq.topic&key=k", &none, "400 missing dstq or dste"),
        ("GET /bindings?src=none&key=k&dstq=q", &none, "404 no exchange 'none'"),
        ("DELETE /bindings/src=a", &none, "400 'src=a' is not src=X;dstq=Q;key=K;args=A"),
        ("PUT /auth/tokens", &none, "400 PUT /auth/tokens is not supported"),
        ("PATCH /queues/q", &none, "400 PATCH /queues/q is not supported"),
        ("GET queues", &none, "400 GET queues is not supported"),
    ]) {
        let found = ask(&mut peer, id, line, body);
        assert!(found.starts_with(expected), "{line}: {found}");
    }
    let mut reader = pair(&scene, "reader");
    for (id, line) in (0..).zip(["PUT /queues/mine", "DELETE /queues/q", "PUT /exchanges/mine"]) {
        let found = ask(&mut reader, id, line, if line.starts_with("PUT") { &empty } else { &none });
        assert!(found.starts_with("403 "), "{line}: {found}");
    }
}

#[test]
fn responses_wait_for_credit_and_requests_for_responses() {
    let scene = Scene::new();
    let mut peer = pair(&scene, "guest");
    for id in 0..8 {
        request(&mut peer, id, "DELETE /queues/none", &Value::Null);
    }
    peer.expect(&[]);
    peer.credit(RESPONSES, 0, 7, Rest::Kept);
    let heard = peer.heard();
    assert_eq!((heard.len(), &*heard[7]), (8, "flow 0 count=8 credit=7"), "{heard:?}");
    // What is left of a drain is told.
    peer.credit(RESPONSES, 7, 3, Rest::Drained);
    peer.expect(&[r#"transfer 1 id=7 settled 200 {"message_count": ulong(0)}"#, "flow 1 count=10 credit=0 drain"]);
    for id in 8..17 {
        request(&mut peer, id, "DELETE /queues/none", &Value::Null);
    }
    assert_eq!(peer.heard().last().unwrap(), "detach 0 closed amqp:link:transfer-limit-exceeded");
}

#[test]
fn deliveries_and_responses_of_a_session_are_numbered_together() {
    let scene = Scene::new();
    let mut peer = pair(&scene, "guest");
    peer.attach(Attach { handle: 2, source: Some(from("q")), ..to_peer("in") });
    peer.attach_to(3, Some("q"));
    peer.credit(2, 0, 10, Rest::Kept);
    peer.heard();
    let mut ids = Vec::new();
    for (at, id) in [(0, 0), (1, 2)] {
        peer.message(3, id, "one");
        ids.extend(peer.heard().into_iter().filter(|line| line.starts_with("transfer")));
        request(&mut peer, id + 1, "DELETE /queues/none", &Value::Null);
        peer.credit(RESPONSES, at, 1, Rest::Kept);
        ids.extend(peer.heard().into_iter().filter(|line| line.starts_with("transfer")));
    }
    let starts = ["transfer 2 id=0 one", "transfer 1 id=1 ", "transfer 2 id=2 one", "transfer 1 id=3 "];
    assert_eq!(ids.len(), 4, "{ids:?}");
    assert!(ids.iter().zip(starts).all(|(line, start)| line.starts_with(start)), "{ids:?}");
    peer.settle(0, 3, super::scene::ACCEPTED);
    peer.send(0, &detach(2));
    peer.expect(&["detach 2 closed"]);
    let ready = scene.client().check_queue("q", scene.test.now()).map(|queue| queue.ready);
    assert_eq!(ready, Ok(0), "both were settled");
}

#[test]
fn links_that_are_no_pair_are_refused() {
    let scene = Scene::new();
    let mut peer = scene.session();
    peer.attach(Attach { properties: None, ..requests("pair") });
    peer.expect(&["attach 0 Receiver - > null settled", "detach 0 closed amqp:invalid-field"]);
    let mut peer = scene.session();
    peer.attach(Attach { snd_settle_mode: SenderSettleMode::Mixed, ..responses("pair") });
    peer.expect(&["attach 1 Sender null > -", "detach 1 closed amqp:invalid-field"]);
    let mut peer = scene.session();
    peer.attach(requests("one"));
    peer.attach(responses("other"));
    peer.attach(Attach { handle: 2, ..responses("third") });
    assert_eq!(peer.heard().last().unwrap(), "detach 2 closed amqp:not-allowed");
    request(&mut peer, 0, "GET /queues/q", &Value::Null);
    peer.expect(&["detach 0 closed amqp:precondition-failed"]);
    let mut peer = pair(&scene, "guest");
    let mut bytes = Vec::new();
    Section::Data.encode(&&b"no request"[..], &mut bytes);
    peer.transfer(Transfer { handle: REQUESTS, settled: Some(true), ..transfer(0) }, &bytes);
    peer.expect(&["detach 0 closed amqp:decode-error"]);
}

/// Proton's binding for Python writes a body of null before the properties.
#[test]
fn a_request_may_have_its_body_first() {
    let scene = Scene::new();
    let mut peer = pair(&scene, "guest");
    let mut bytes = Vec::new();
    Section::Value.encode(&Value::Null, &mut bytes);
    let (to, subject, reply_to) = (Some("/queues/none"), Some("DELETE"), Some("$me"));
    Properties { to, subject, reply_to, ..Properties::default() }.encode(&mut bytes);
    peer.transfer(Transfer { handle: REQUESTS, settled: Some(true), ..transfer(0) }, &bytes);
    peer.credit(RESPONSES, 0, 1, Rest::Kept);
    peer.expect(&[r#"transfer 1 id=0 settled 200 {"message_count": ulong(0)}"#]);
}

#[test]
fn a_link_of_rabbitmqs_clients_is_told_where_messages_were_published() {
    let scene = Scene::new();
    let mut peer = scene.session();
    for (handle, properties) in [(0, None), (1, Some(paired()))] {
        peer.attach(Attach { handle, properties, source: Some(from("q")), ..to_peer(&format!("in {handle}")) });
    }
    peer.attach_to(2, Some("q"));
    for (id, handle) in [(0, 0), (1, 1)] {
        peer.credit(handle, 0, 1, Rest::Kept);
        peer.heard();
        peer.message(2, id, "body");
        peer.driver.run();
        let bytes = peer.take();
        let has = |text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
        let told = (has(b"body"), has(b"x-exchange\xa1\x00"), has(b"x-routing-key\xa1\x01q"));
        assert_eq!(told, (true, handle == 1, handle == 1), "{handle}");
    }
}
