//! Exchanges over the wire: alternate and internal ones, the kinds with arguments, and copies by
//! `CC` and `BCC`.

use super::*;
use crate::codec::BasicProperties;

fn declare_exchange(peer: &mut Peer, exchange: &str, kind: &str, arguments: &[(&str, Value)]) {
    let fields = fields(arguments);
    let arguments = Table::new(&fields).expect("a valid table");
    peer.send(1, ExchangeDeclare { exchange, kind, arguments, ..Default::default() });
}

fn bind(peer: &mut Peer, exchange: &str, routing_key: &str, queue: &str, arguments: &[(&str, Value)]) {
    let fields = fields(arguments);
    let arguments = Table::new(&fields).expect("a valid table");
    peer.send(1, QueueBind { queue, exchange, routing_key, arguments, ..Default::default() });
}

fn fields(arguments: &[(&str, Value)]) -> Vec<u8> {
    let owned: Vec<_> = arguments.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    encode_fields(&owned)
}

fn with_headers(headers: &[(&str, Value)]) -> Vec<u8> {
    let fields = fields(headers);
    BasicProperties { headers: Some(Table::new(&fields).expect("a valid table")), ..Default::default() }.to_bytes()
}

fn list(keys: &[&str]) -> Value {
    Value::Array(keys.iter().map(|key| Value::from(*key)).collect())
}

/// How many messages are ready in a queue.
fn assert_ready(peer: &mut Peer, queue: &str, messages: u32) {
    peer.send(1, QueueDeclare { queue, passive: true, ..Default::default() });
    peer.expect(&[&declared(1, queue, messages, 0)]);
}

fn closed_and_open_again(peer: &mut Peer, code: u16, text: &str, method: (u16, u16)) {
    peer.expect(&[&channel_closed(1, code, text, method)]);
    peer.send(1, ChannelCloseOk {});
    peer.open(1);
}

fn returned(exchange: &str, routing_key: &str) -> String {
    format!(
        "1 BasicReturn {{ reply_code: 312, reply_text: \"NO_ROUTE\", exchange: \"{exchange}\", routing_key: \
         \"{routing_key}\" }}"
    )
}

#[test]
fn an_alternate_exchange_takes_what_is_unroutable() {
    let mut peer = server().channel();
    peer.declare(1, "q");
    declare_exchange(&mut peer, "x", "direct", &[("alternate-exchange", Value::from("ae"))]);
    peer.expect(&["1 ExchangeDeclareOk"]);
    let publish = BasicPublish { exchange: "x", routing_key: "k", mandatory: true, ..Default::default() };
    peer.publish(1, publish, &[0, 0], b"m");
    peer.expect(&[&returned("x", "k"), "1 header \\x00\\x00", "1 body m"]);
    declare_exchange(&mut peer, "ae", "fanout", &[]);
    peer.expect(&["1 ExchangeDeclareOk"]);
    bind(&mut peer, "ae", "", "q", &[]);
    peer.expect(&["1 QueueBindOk"]);
    peer.publish(1, publish, &[0, 0], b"m");
    assert_ready(&mut peer, "q", 1);
    declare_exchange(&mut peer, "x", "direct", &[]);
    let text = "PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'x' in vhost '/': received none \
                but current is the value 'ae' of type 'longstr'";
    closed_and_open_again(&mut peer, 406, text, (40, 10));
    declare_exchange(&mut peer, "y", "direct", &[("alternate-exchange", Value::I32(1))]);
    let text =
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' in exchange 'y' in vhost '/'";
    closed_and_open_again(&mut peer, 406, text, (40, 10));
}

#[test]
fn an_internal_exchange_takes_nothing_from_clients() {
    let mut peer = server().channel();
    peer.send(1, ExchangeDeclare { exchange: "in", kind: "fanout", internal: true, ..Default::default() });
    peer.expect(&["1 ExchangeDeclareOk"]);
    let text = "ACCESS_REFUSED - cannot publish to internal exchange 'in' in vhost '/'";
    // The exchange is checked before the properties.
    for properties in [vec![0, 0], with_headers(&[("CC", Value::from("k"))]), with_headers(&[("CC", list(&["k"]))])] {
        peer.publish(1, BasicPublish { exchange: "in", ..Default::default() }, &properties, b"m");
        closed_and_open_again(&mut peer, 403, text, (60, 40));
    }
}

#[test]
fn an_auto_delete_exchange_goes_with_its_last_binding() {
    let mut peer = server().channel();
    peer.declare(1, "q");
    peer.send(1, ExchangeDeclare { exchange: "x", kind: "fanout", auto_delete: true, ..Default::default() });
    peer.expect(&["1 ExchangeDeclareOk"]);
    bind(&mut peer, "x", "", "q", &[]);
    peer.expect(&["1 QueueBindOk"]);
    peer.send(1, QueueUnbind { queue: "q", exchange: "x", ..Default::default() });
    peer.expect(&["1 QueueUnbindOk"]);
    peer.send(1, ExchangeDeclare { exchange: "x", passive: true, ..Default::default() });
    closed_and_open_again(&mut peer, 404, "NOT_FOUND - no exchange 'x' in vhost '/'", (40, 10));
}

#[test]
fn consumers_see_cc_and_never_bcc() {
    let mut peer = server().channel();
    for queue in ["q", "r", "s"] {
        peer.declare(1, queue);
    }
    let other = ("h", Value::from("v"));
    let sent = with_headers(&[("CC", list(&["r"])), ("BCC", list(&["s", "q"])), other.clone()]);
    let seen = with_headers(&[("CC", list(&["r"])), other]);
    peer.publish(1, BasicPublish { routing_key: "q", ..Default::default() }, &sent, b"m");
    for (tag, queue) in [(1, "q"), (2, "r"), (3, "s")] {
        peer.send(1, BasicGet { queue, no_ack: true, ..Default::default() });
        let got = format!(
            "1 BasicGetOk {{ delivery_tag: {tag}, redelivered: false, exchange: \"\", routing_key: \"q\", \
             message_count: 0 }}"
        );
        peer.expect(&[&got, &format!("1 header {}", seen.escape_ascii()), "1 body m"]);
    }
    // A returned message has lost it too, like every message that leaves the broker.
    let publish = BasicPublish { routing_key: "none", mandatory: true, ..Default::default() };
    peer.publish(1, publish, &with_headers(&[("BCC", list(&["none"]))]), b"m");
    let seen = format!("1 header {}", with_headers(&[]).escape_ascii());
    peer.expect(&[&returned("", "none"), &seen, "1 body m"]);
}

#[test]
fn after_a_death_with_a_new_key_neither_is_seen() {
    let mut peer = server().channel();
    for queue in ["dead", "r"] {
        peer.declare(1, queue);
    }
    let arguments =
        fields(&[("x-dead-letter-exchange", Value::from("")), ("x-dead-letter-routing-key", Value::from("dead"))]);
    let arguments = Table::new(&arguments).expect("a valid table");
    peer.send(1, QueueDeclare { queue: "q", arguments, ..Default::default() });
    peer.expect(&[&declared(1, "q", 0, 0)]);
    let sent = with_headers(&[("CC", list(&["r"])), ("BCC", list(&["hidden"]))]);
    peer.publish(1, BasicPublish { routing_key: "q", ..Default::default() }, &sent, b"m");
    peer.send(1, BasicGet { queue: "q", ..Default::default() });
    peer.wait_for(3);
    peer.lines.clear();
    peer.send(1, BasicReject { delivery_tag: 1, requeue: false });
    peer.send(1, BasicGet { queue: "dead", ..Default::default() });
    peer.wait_for(3);
    let header = &peer.lines[1];
    // The death header has the keys of CC, and none of BCC.
    assert!(
        header.contains("routing-keysA\\x00\\x00\\x00\\x0cS\\x00\\x00\\x00\\x01qS\\x00\\x00\\x00\\x01r"),
        "{header}"
    );
    assert!(!header.contains("CC") && !header.contains("hidden"), "{header}");
    peer.lines.clear();
    assert_ready(&mut peer, "r", 1);
}

#[test]
fn copies_that_are_no_lists_close_the_channel() {
    let mut peer = server().channel();
    let cases = [
        ("CC", Value::from("k"), "longstr"),
        ("BCC", Value::from("k"), "longstr"),
        ("CC", Value::I32(1), "signedint"),
        ("BCC", Value::Void, "void"),
        ("CC", Value::Table(Vec::new()), "table"),
        ("CC", Value::U16(1), "unsignedshort"),
    ];
    for (name, value, kind) in cases {
        let properties = with_headers(&[("h", Value::Bool(true)), (name, value)]);
        peer.publish(1, BasicPublish { exchange: "amq.direct", ..Default::default() }, &properties, b"m");
        let text = format!("PRECONDITION_FAILED - invalid message: {{unacceptable_type_in_header,\"{name}\",{kind}}}");
        closed_and_open_again(&mut peer, 406, &text, (60, 40));
    }
    // Elements that are not texts are ignored.
    peer.declare(1, "q");
    let properties = with_headers(&[("CC", Value::Array(vec![Value::I8(1), Value::from("q")]))]);
    peer.publish(1, BasicPublish { routing_key: "none", ..Default::default() }, &properties, b"m");
    assert_ready(&mut peer, "q", 1);
}

#[test]
fn headers_that_begin_with_x_count_where_the_binding_says_so() {
    let mut peer = server().channel();
    for (queue, mode) in [("all", "all"), ("allx", "all-with-x"), ("any", "any"), ("anyx", "any-with-x")] {
        peer.declare(1, queue);
        let arguments = [("x-match", Value::from(mode)), ("x-a", Value::I32(1)), ("b", Value::I32(2))];
        bind(&mut peer, "amq.headers", "", queue, &arguments);
        peer.expect(&["1 QueueBindOk"]);
    }
    for headers in [&[("x-a", Value::I8(1))][..], &[("b", Value::I8(2))]] {
        peer.publish(1, BasicPublish { exchange: "amq.headers", ..Default::default() }, &with_headers(headers), b"m");
    }
    for (queue, ready) in [("all", 1), ("allx", 0), ("any", 1), ("anyx", 2)] {
        assert_ready(&mut peer, queue, ready);
    }
    bind(&mut peer, "amq.headers", "", "all", &[("x-match", Value::from("some"))]);
    let text =
        "PRECONDITION_FAILED - Invalid x-match field value <<\"some\">>; expected all, any, all-with-x, or any-with-x";
    closed_and_open_again(&mut peer, 406, text, (50, 20));
}

#[test]
fn a_consistent_hash_exchange_keeps_what_belongs_together() {
    let mut peer = server().channel();
    let hashed = [("hash-property", Value::from("correlation_id"))];
    declare_exchange(&mut peer, "x", "x-consistent-hash", &hashed);
    peer.expect(&["1 ExchangeDeclareOk"]);
    for queue in ["q", "r"] {
        peer.declare(1, queue);
        bind(&mut peer, "x", "10", queue, &[]);
        peer.expect(&["1 QueueBindOk"]);
    }
    let publish = |peer: &mut Peer, id: &str, key: &str| {
        let properties = BasicProperties { correlation_id: Some(id.as_bytes()), ..Default::default() }.to_bytes();
        peer.publish(1, BasicPublish { exchange: "x", routing_key: key, ..Default::default() }, &properties, b"m");
    };
    for key in ["a", "b", "c", "a"] {
        publish(&mut peer, "one", key);
    }
    peer.send(1, QueueDeclare { queue: "q", passive: true, ..Default::default() });
    peer.wait_for(1);
    let in_q = if peer.lines.remove(0) == declared(1, "q", 4, 0) { 4 } else { 0 };
    assert_ready(&mut peer, "r", 4 - in_q);
    bind(&mut peer, "x", "ten", "q", &[]);
    let text = "PRECONDITION_FAILED - The binding key must be an integer: <<\"ten\">>";
    closed_and_open_again(&mut peer, 406, text, (50, 20));
    declare_exchange(&mut peer, "y", "x-consistent-hash", &[("hash-property", Value::from("user_id"))]);
    closed_and_open_again(&mut peer, 406, "PRECONDITION_FAILED - Unsupported property: user_id", (40, 10));
    for kind in ["x-random", "x-recent-history"] {
        declare_exchange(&mut peer, "y", kind, &[]);
        let text = format!("PRECONDITION_FAILED - unknown exchange type '{kind}'");
        closed_and_open_again(&mut peer, 406, &text, (40, 10));
    }
}
