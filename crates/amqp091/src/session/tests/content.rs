//! Messages in and out: whole and in pieces, small and large, returned, confirmed and refused.

use super::*;
use crate::codec::BasicProperties;

fn topic(body: usize) -> (Vec<u8>, String) {
    let body: Vec<u8> = (0..body).map(|i| i as u8).collect();
    let line = format!("1 body of {}", body.len());
    (body, line)
}

#[test]
fn messages_come_out_as_they_went_in() {
    let mut peer = server().channel();
    peer.declare(1, "q");
    peer.send(1, BasicConsume { queue: "q", consumer_tag: "c", no_ack: true, ..Default::default() });
    peer.expect(&["1 BasicConsumeOk { consumer_tag: \"c\" }"]);
    let properties = BasicProperties { message_id: Some(b"m"), app_id: Some(b"\xff"), ..Default::default() }.to_bytes();
    let header = format!("1 header {}", properties.escape_ascii());
    for (tag, body) in [(1, "hello"), (2, "")] {
        let publish = BasicPublish { routing_key: "q", ..Default::default() };
        peer.publish(1, publish, &properties, body.as_bytes());
        let mut expected = vec![delivered(1, "c", tag, "q"), header.clone()];
        if !body.is_empty() {
            expected.push(format!("1 body {body}"));
        }
        peer.expect(&expected.iter().map(String::as_str).collect::<Vec<_>>());
    }
    // A large body arrives in frames of 4096 bytes and leaves in frames of the negotiated size.
    let (body, _) = topic(200_000);
    peer.publish(1, BasicPublish { routing_key: "q", ..Default::default() }, &properties, &body);
    peer.expect(&[&delivered(1, "c", 3, "q"), &header, "1 body of 131064", "1 body of 68936"]);
}

#[test]
fn publishes_in_the_smallest_pieces_are_put_together() {
    let mut peer = server().channel();
    peer.open(2);
    peer.declare(1, "q");
    let mut bytes = Vec::new();
    for channel in [1, 2] {
        Method::from(BasicPublish { routing_key: "q", ..Default::default() }).encode(channel, &mut bytes);
    }
    // The content of two channels may be interleaved.
    for channel in [1, 2] {
        frame::encode_header(&mut bytes, channel, 6, &[0x10, 0, 1]);
        frame::encode_body(&mut bytes, channel, 4096, b"abc");
    }
    for channel in [2, 1] {
        frame::encode_body(&mut bytes, channel, 4096, b"def");
    }
    for byte in bytes {
        peer.raw(&[byte]);
    }
    for (tag, left) in [(1, 1), (2, 0)] {
        peer.send(1, BasicGet { queue: "q", no_ack: true, ..Default::default() });
        let got = format!(
            "1 BasicGetOk {{ delivery_tag: {tag}, redelivered: false, exchange: \"\", routing_key: \"q\", \
             message_count: {left} }}"
        );
        peer.expect(&[&got, "1 header \\x10\\x00\\x01", "1 body abcdef"]);
    }
}

#[test]
fn confirms_follow_returns() {
    let mut peer = server().channel();
    peer.declare(1, "q");
    peer.send(1, ConfirmSelect::default());
    peer.expect(&["1 ConfirmSelectOk"]);
    let publish = BasicPublish { routing_key: "none", mandatory: true, ..Default::default() };
    peer.publish(1, publish, &[0, 0], b"x");
    peer.expect(&[
        "1 BasicReturn { reply_code: 312, reply_text: \"NO_ROUTE\", exchange: \"\", routing_key: \"none\" }",
        "1 header \\x00\\x00",
        "1 body x",
        "1 BasicAck { delivery_tag: 1, multiple: false }",
    ]);
    peer.put(1, "none", "unroutable, and nobody asked");
    peer.expect(&["1 BasicAck { delivery_tag: 2, multiple: false }"]);
    peer.put(1, "q", "routed");
    peer.expect(&["1 BasicAck { delivery_tag: 3, multiple: false }"]);
}

#[test]
fn a_full_queue_that_rejects_is_a_nack() {
    let mut peer = server().channel();
    let arguments = encode_fields(&[
        ("x-max-length".to_owned(), Value::I32(1)),
        ("x-overflow".to_owned(), Value::from("reject-publish")),
    ]);
    let arguments = Table::new(&arguments).expect("a valid table");
    peer.send(1, QueueDeclare { queue: "q", arguments, ..Default::default() });
    peer.expect(&[&declared(1, "q", 0, 0)]);
    peer.send(1, ConfirmSelect::default());
    peer.expect(&["1 ConfirmSelectOk"]);
    peer.put(1, "q", "a");
    peer.expect(&["1 BasicAck { delivery_tag: 1, multiple: false }"]);
    peer.put(1, "q", "b");
    peer.expect(&["1 BasicNack { delivery_tag: 2, multiple: false, requeue: false }"]);
}

#[test]
fn dead_letters_carry_their_story() {
    let mut peer = server().channel();
    let arguments = encode_fields(&[
        ("x-dead-letter-exchange".to_owned(), Value::from("")),
        ("x-dead-letter-routing-key".to_owned(), Value::from("dead")),
    ]);
    let arguments = Table::new(&arguments).expect("a valid table");
    peer.declare(1, "dead");
    peer.send(1, QueueDeclare { queue: "q", arguments, ..Default::default() });
    peer.expect(&[&declared(1, "q", 0, 0)]);
    let properties = BasicProperties { expiration: Some(b"315360000000"), ..Default::default() }.to_bytes();
    peer.publish(1, BasicPublish { routing_key: "q", ..Default::default() }, &properties, b"x");
    peer.send(1, BasicGet { queue: "q", ..Default::default() });
    peer.wait_for(3);
    peer.lines.clear();
    peer.send(1, BasicReject { delivery_tag: 1, requeue: false });
    peer.send(1, BasicGet { queue: "dead", ..Default::default() });
    peer.wait_for(3);
    let header = &peer.lines[1];
    for part in ["x-death", "rejected", "original-expiration", "x-first-death-queue", "315360000000"] {
        assert!(header.contains(part), "{part} in {header}");
    }
    // The flags name headers and nothing else: the expiration has been removed.
    assert!(header.starts_with("1 header  \\x00"), "{header}");
}

#[test]
fn a_message_may_live_for_ten_years() {
    let server = server();
    let mut peer = server.channel();
    peer.declare(1, "q");
    for text in ["5184000000", "315360000000"] {
        let properties = BasicProperties { expiration: Some(text.as_bytes()), ..Default::default() }.to_bytes();
        let publish = || BasicPublish { routing_key: "q", ..Default::default() };
        peer.publish(1, publish(), &properties, b"first");
        peer.publish(1, publish(), &properties, b"second");
        let ms: u64 = text.parse().expect("milliseconds");
        server.test.setup.clock.advance(ms - 1);
        peer.send(1, BasicGet { queue: "q", no_ack: true, ..Default::default() });
        peer.wait_for(3);
        assert!(peer.lines[0].contains("BasicGetOk") && peer.lines[1].contains(text), "{:?}", peer.lines);
        peer.lines.clear();
        server.test.setup.clock.advance(1);
        peer.send(1, BasicGet { queue: "q", no_ack: true, ..Default::default() });
        peer.wait_for(1);
        assert!(peer.lines[0].contains("BasicGetEmpty"), "{:?}", peer.lines);
        peer.lines.clear();
    }
}

#[test]
fn no_time_is_longer_than_ten_years() {
    let number = |name: &str, ms| encode_fields(&[(name.to_owned(), Value::I64(ms))]);
    let mut peer = server().channel();
    let closed = |text: &str, method| channel_closed(1, 406, &format!("PRECONDITION_FAILED - {text}"), method);
    for (name, again) in [("x-message-ttl", "a"), ("x-expires", "b"), ("x-consumer-timeout", "c")] {
        let fields = number(name, 315_360_000_001);
        let arguments = Table::new(&fields).expect("a valid table");
        peer.send(1, QueueDeclare { queue: "q", arguments, ..Default::default() });
        let text = format!("invalid arg '{name}' for queue 'q' in vhost '/': {{value_too_large,315360000001}}");
        peer.expect(&[&closed(&text, (50, 10))]);
        peer.send(1, ChannelCloseOk {});
        peer.open(1);
        let fields = number(name, 315_360_000_000);
        let arguments = Table::new(&fields).expect("a valid table");
        peer.send(1, QueueDeclare { queue: again, arguments, ..Default::default() });
        peer.expect(&[&declared(1, again, 0, 0)]);
    }
    let fields = number("x-consumer-timeout", 315_360_000_001);
    let arguments = Table::new(&fields).expect("a valid table");
    peer.send(1, BasicConsume { queue: "a", arguments, ..Default::default() });
    let text = "invalid arg 'x-consumer-timeout' for queue 'a' in vhost '/': expected a number of milliseconds, ten years at most";
    peer.expect(&[&closed(text, (60, 20))]);
    peer.send(1, ChannelCloseOk {});
    peer.open(1);
    for (name, ms, wanted) in [
        ("x-opt-delivery-delay", 315_360_000_001, "a number of milliseconds, ten years at most"),
        ("_AMQ_SCHED_DELIVERY", i64::MAX, "a time in milliseconds since 1970, ten years ahead at most"),
    ] {
        let headers = number(name, ms);
        let headers = Some(Table::new(&headers).expect("a valid table"));
        let properties = BasicProperties { headers, ..Default::default() }.to_bytes();
        peer.publish(1, BasicPublish { routing_key: "a", ..Default::default() }, &properties, b"x");
        let text = format!("invalid message: header '{name}' must be {wanted}, not long");
        peer.expect(&[&closed(&text, (60, 40))]);
        peer.send(1, ChannelCloseOk {});
        peer.open(1);
    }
}

#[test]
fn bad_messages_close_their_channel() {
    let user = |name: &'static str| BasicProperties { user_id: Some(name.as_bytes()), ..Default::default() }.to_bytes();
    let expires =
        |text: &'static str| BasicProperties { expiration: Some(text.as_bytes()), ..Default::default() }.to_bytes();
    let reply = BasicProperties { reply_to: Some(b"amq.rabbitmq.reply-to"), ..Default::default() }.to_bytes();
    let cc = encode_fields(&[("CC".to_owned(), Value::from("x"))]);
    let cc = BasicProperties { headers: Some(Table::new(&cc).expect("valid")), ..Default::default() }.to_bytes();
    let table: Vec<(&str, Vec<u8>, u16, &str)> = vec![
        ("none", vec![0, 0], 404, "NOT_FOUND - no exchange 'none' in vhost '/'"),
        ("none", expires("x"), 404, "NOT_FOUND - no exchange 'none' in vhost '/'"),
        ("", expires("x"), 406, "PRECONDITION_FAILED - invalid expiration 'x': no_integer"),
        ("amq.topic", expires("-1"), 406, "PRECONDITION_FAILED - invalid expiration '-1': {value_negative,-1}"),
        (
            "",
            expires("315360000001"),
            406,
            "PRECONDITION_FAILED - invalid expiration '315360000001': {value_too_large,315360000001}",
        ),
        ("", reply, 406, "PRECONDITION_FAILED - fast reply consumer does not exist"),
        ("", cc, 406, "PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,\"CC\",longstr}"),
        (
            "",
            user("other"),
            406,
            "PRECONDITION_FAILED - user_id property set to 'other' but authenticated user was 'guest'",
        ),
    ];
    let server = server();
    let mut peer = server.channel();
    for (exchange, properties, code, text) in table {
        peer.publish(1, BasicPublish { exchange, ..Default::default() }, &properties, b"body");
        peer.expect(&[&channel_closed(1, code, text, (60, 40))]);
        peer.send(1, ChannelCloseOk {});
        peer.open(1);
    }
    peer.publish(1, BasicPublish::default(), &user("guest"), b"");
    let mut boss = server.connect_as("boss", &[]);
    boss.open(1);
    boss.publish(1, BasicPublish::default(), &user("guest"), b"");
    for peer in [&mut peer, &mut boss] {
        peer.send(1, AccessRequest::default());
        peer.expect(&["1 AccessRequestOk { ticket: 1 }"]);
    }
}

/// No message larger than 1000 bytes.
fn small_messages() -> Setup {
    let limits = broker::Limits { max_message_bytes: 1000, ..Default::default() };
    Setup { settings: broker::Settings { limits, ..Default::default() }, ..Setup::memory() }
}

#[test]
fn sizes_are_judged_before_the_body_arrives() {
    let server = server_with(Settings::default(), small_messages());
    for (size, whole) in [(1001, true), (1001, false), (600_000_000, false)] {
        let mut peer = server.channel();
        peer.declare(1, "q");
        let mut bytes = Vec::new();
        Method::from(BasicPublish { routing_key: "q", ..Default::default() }).encode(1, &mut bytes);
        frame::encode_header(&mut bytes, 1, size, &[0, 0]);
        if whole {
            frame::encode_body(&mut bytes, 1, 4096, &vec![0; size as usize]);
        }
        peer.raw(&bytes);
        if size > 512 << 20 {
            let text = "FRAME_ERROR - content body size 600000000 exceeds maximum allowed size 536870912";
            peer.expect(&[&connection_closed(501, text, (60, 40))]);
        } else {
            let text = "PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000";
            peer.expect(&[&channel_closed(1, 406, text, (60, 40))]);
        }
    }
}

#[test]
fn what_is_held_unacknowledged_is_bounded_whatever_the_prefetch() {
    let limits = broker::Limits { unsettled: 2, ..Default::default() };
    let setup = Setup { settings: broker::Settings { limits, ..Default::default() }, ..Setup::memory() };
    let mut peer = server_with(Settings::default(), setup).channel();
    peer.declare(1, "q");
    for body in ["1", "2", "3", "4"] {
        peer.publish(1, BasicPublish { routing_key: "q", ..Default::default() }, &[0, 0], body.as_bytes());
    }
    peer.send(1, BasicConsume { queue: "q", consumer_tag: "c", ..Default::default() });
    let message = |tag, body| [delivered(1, "c", tag, "q"), "1 header \\x00\\x00".to_owned(), format!("1 body {body}")];
    let [first, second] = [message(1, "1"), message(2, "2")];
    let consumes = ["1 BasicConsumeOk { consumer_tag: \"c\" }".to_owned()];
    let expected = [&consumes[..], &first, &second].concat();
    peer.expect(&expected.iter().map(String::as_str).collect::<Vec<_>>());
    // Settling one message makes room for one.
    peer.send(1, BasicAck { delivery_tag: 1, ..Default::default() });
    peer.expect(&message(3, "3").iter().map(String::as_str).collect::<Vec<_>>());
    peer.send(1, BasicGet { queue: "q", ..Default::default() });
    let text = "PRECONDITION_FAILED - channel holds 2 unacknowledged deliveries; acknowledge some first";
    peer.expect(&[&channel_closed(1, 406, text, (60, 70))]);
}

#[test]
fn a_fetch_past_a_single_active_consumer_is_refused_in_the_words_of_rabbitmq() {
    let mut peer = server().channel();
    let arguments = encode_fields(&[
        ("x-queue-type".to_owned(), Value::from("quorum")),
        ("x-single-active-consumer".to_owned(), Value::Bool(true)),
    ]);
    let arguments = Table::new(&arguments).expect("a valid table");
    peer.send(1, QueueDeclare { queue: "q", durable: true, arguments, ..Default::default() });
    peer.expect(&[&declared(1, "q", 0, 0)]);
    peer.send(1, BasicGet { queue: "q", ..Default::default() });
    let text = "RESOURCE_LOCKED - cannot obtain access to locked queue 'q' in vhost '/'. basic.get operations are not \
                supported by quorum queues with single active consumer";
    peer.expect(&[&channel_closed(1, 405, text, (60, 70))]);
}

#[test]
fn unfinished_bodies_are_bounded_over_all_channels() {
    let server = server_with(Settings::default(), small_messages());
    let mut peer = server.connect_as("guest", &[]);
    for channel in 1..=5 {
        peer.open(channel);
        let mut bytes = Vec::new();
        Method::from(BasicPublish::default()).encode(channel, &mut bytes);
        frame::encode_header(&mut bytes, channel, 1000, &[0, 0]);
        frame::encode_body(&mut bytes, channel, 4096, &[0; 997]);
        peer.raw(&bytes);
    }
    let text = "RESOURCE_ERROR - unfinished messages on all channels together exceed 4000 bytes";
    peer.expect(&[&connection_closed(506, text, (60, 40))]);
}

/// A body in one frame is never counted. One in several frames is counted until it is complete,
/// abandoned, or gone with its connection.
#[test]
fn small_bodies_that_are_not_whole_are_counted() {
    let server = server();
    let held = || server.test.broker.overview().memory.held[broker::Held::Bodies as usize];
    let mut peer = server.channel();
    peer.declare(1, "q");
    let begin = |peer: &mut Peer, channel: u16, part: usize| {
        let mut bytes = Vec::new();
        Method::from(BasicPublish { routing_key: "q", ..Default::default() }).encode(channel, &mut bytes);
        frame::encode_header(&mut bytes, channel, 60_000, &[0, 0]);
        peer.raw(&bytes);
        let mut bytes = Vec::new();
        frame::encode_body(&mut bytes, channel, 131_072, &vec![0; part]);
        peer.raw(&bytes);
    };
    begin(&mut peer, 1, 59_000);
    assert_eq!(held(), 59_000);
    let mut rest = Vec::new();
    frame::encode_body(&mut rest, 1, 131_072, &[0; 1000]);
    peer.raw(&rest);
    assert_eq!(held(), 0, "it is whole");
    begin(&mut peer, 1, 60_000);
    assert_eq!(held(), 0, "it was whole at once");
    begin(&mut peer, 1, 100);
    assert_eq!(held(), 100);
    peer.send(1, BasicAck::default());
    assert_eq!(held(), 0, "it is abandoned");
    let mut other = server.channel();
    begin(&mut other, 1, 500);
    assert_eq!(held(), 500);
    drop(other);
    assert_eq!(held(), 0, "it is gone with its connection");
}

/// Only the channel closes, and only when neither its header nor a part of its body has come for
/// the whole time. A body is small or large.
#[test]
fn a_body_that_stops_coming_closes_its_channel() {
    for size in [60_000, 100_000] {
        let mut peer = server().channel();
        peer.open(2);
        let mut bytes = Vec::new();
        for channel in [1, 2] {
            Method::from(BasicPublish { routing_key: "q", ..Default::default() }).encode(channel, &mut bytes);
            frame::encode_header(&mut bytes, channel, size, &[0, 0]);
        }
        peer.raw(&bytes);
        for _ in 0..2 {
            peer.advance(30);
            let mut bytes = Vec::new();
            frame::encode_body(&mut bytes, 2, 131_072, b"x");
            peer.raw(&bytes);
        }
        let text =
            "PRECONDITION_FAILED - nothing of a message that was begun has arrived for 60 s (limits.body_timeout)";
        peer.expect(&[&channel_closed(1, 406, text, (0, 0))]);
        peer.send(1, ChannelCloseOk {});
        peer.open(1);
    }
}

#[test]
fn what_is_urgent_comes_before_nine_of_no_hurry_in_a_quorum_queue() {
    let mut peer = server().channel();
    let arguments = encode_fields(&[("x-queue-type".to_owned(), Value::from("quorum"))]);
    let arguments = Table::new(&arguments).expect("a valid table");
    peer.send(1, QueueDeclare { queue: "q", durable: true, arguments, ..Default::default() });
    peer.expect(&[&declared(1, "q", 0, 0)]);
    let publish = || BasicPublish { routing_key: "q", ..Default::default() };
    for (priority, body) in [(Some(0), "low"); 9].into_iter().chain([(None, "usual"), (Some(9), "urgent")]) {
        let properties = BasicProperties { priority, ..Default::default() }.to_bytes();
        peer.publish(1, publish(), &properties, body.as_bytes());
    }
    for body in ["urgent", "usual", "low", "low"] {
        peer.send(1, BasicGet { queue: "q", no_ack: true, ..Default::default() });
        peer.wait_for(3);
        let lines = std::mem::take(&mut peer.lines);
        assert_eq!(lines.last().map(String::as_str), Some(format!("1 body {body}").as_str()), "{lines:?}");
    }
}

/// How much one connection may make the broker hold, by transactions and by incomplete bodies.
#[test]
fn what_is_beyond_the_part_of_a_connection_is_refused_by_name() {
    let mut setup = Setup::memory();
    setup.settings.connection_memory = Some(50_000);
    let server = server_with(Settings::default(), setup);
    let mut peer = server.channel();
    peer.declare(1, "q");
    let mut bytes = Vec::new();
    Method::from(BasicPublish { routing_key: "q", ..Default::default() }).encode(1, &mut bytes);
    frame::encode_header(&mut bytes, 1, 60_000, &[0, 0]);
    frame::encode_body(&mut bytes, 1, 131_072, &[0; 30_000]);
    peer.raw(&bytes);
    peer.expect(&[]);
    let mut bytes = Vec::new();
    frame::encode_body(&mut bytes, 1, 131_072, &[0; 20_001]);
    peer.raw(&bytes);
    let told = |holds: u64, what: &str| {
        format!(
            "PRECONDITION_FAILED - {what} refused: the connection holds {holds} bytes already, and limits.connection_memory allows \
             50000"
        )
    };
    peer.expect(&[&channel_closed(1, 406, &told(30_000, "message"), (60, 40))]);
    peer.send(1, ChannelCloseOk {});

    peer.open(2);
    peer.send(2, TxSelect {});
    peer.expect(&["2 TxSelectOk"]);
    peer.put(2, "q", &"x".repeat(40_000));
    peer.expect(&[]);
    let holds = server.test.broker.overview().memory.held[broker::Held::Transactions as usize];
    // Each part of it has room, and all of it together has not.
    peer.put(2, "q", &"x".repeat(9_900));
    peer.expect(&[&channel_closed(2, 406, &told(holds, "publish in a transaction"), (60, 40))]);
    let held = server.test.broker.overview().memory.held;
    assert_eq!(held.iter().sum::<u64>(), 0, "its channel has given all of it up");
}
