//! Conversations with errors: which error, in which scope, with which text.

use super::*;

/// The bytes; then code, text and method of the close.
type Case = (Vec<u8>, u16, &'static str, (u16, u16));

/// Frames of a peer with channel 1 open, and the close of the connection that they cause.
fn cases() -> Vec<Case> {
    let method = |channel: u16, method: Method<'_>| {
        let mut bytes = Vec::new();
        method.encode(channel, &mut bytes);
        bytes
    };
    let publish = method(1, BasicPublish::default().into());
    let mut header = Vec::new();
    frame::encode_header(&mut header, 1, 3, &[0, 0]);
    let mut other_class = header.clone();
    other_class[8] = 61;
    let mut body = Vec::new();
    frame::encode_body(&mut body, 1, 4096, b"abcd");
    let mut short = Vec::new();
    frame::encode_body(&mut short, 1, 4096, b"ab");
    let consume = || Method::from(BasicConsume { queue: "q", consumer_tag: "c", nowait: true, ..Default::default() });
    vec![
        (method(2, BasicQos::default().into()), 504, "CHANNEL_ERROR - expected 'channel.open'", (60, 10)),
        (method(1, ChannelOpen::default().into()), 504, "CHANNEL_ERROR - second 'channel.open' seen", (20, 10)),
        (header.clone(), 505, "UNEXPECTED_FRAME - expected method frame, got non method frame instead", (0, 0)),
        (
            [publish.clone(), publish.clone()].concat(),
            505,
            "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead",
            (60, 40),
        ),
        (
            [publish.clone(), other_class].concat(),
            505,
            "UNEXPECTED_FRAME - expected content header for class 60, got one for class 61 instead",
            (60, 40),
        ),
        (
            [publish.clone(), header.clone(), publish.clone()].concat(),
            505,
            "UNEXPECTED_FRAME - expected content body, got non content body frame instead",
            (60, 40),
        ),
        (
            [publish.clone(), header.clone(), body].concat(),
            501,
            "FRAME_ERROR - content body frame exceeds remaining content size",
            (60, 40),
        ),
        (
            [publish, header, short.clone(), short].concat(),
            501,
            "FRAME_ERROR - content body frame exceeds remaining content size",
            (60, 40),
        ),
        (
            method(1, BasicPublish { immediate: true, ..Default::default() }.into()),
            540,
            "NOT_IMPLEMENTED - immediate=true",
            (60, 40),
        ),
        (
            method(1, BasicQos { prefetch_size: 5, ..Default::default() }.into()),
            540,
            "NOT_IMPLEMENTED - prefetch_size!=0 (5)",
            (60, 10),
        ),
        (method(1, BasicRecover { requeue: false }.into()), 540, "NOT_IMPLEMENTED - requeue=false", (60, 110)),
        (method(1, ChannelFlow { active: false }.into()), 540, "NOT_IMPLEMENTED - active=false", (20, 20)),
        (method(1, QueueBindOk {}.into()), 503, "COMMAND_INVALID - unimplemented method", (50, 21)),
        (
            [method(1, consume()), method(1, consume())].concat(),
            530,
            "NOT_ALLOWED - attempt to reuse consumer tag 'c'",
            (60, 20),
        ),
        (vec![1, 0, 1, 0, 0, 0, 4, 0, 60, 0, 99, 0xCE], 503, "COMMAND_INVALID - unimplemented method 60.99", (60, 99)),
        (vec![1, 0, 1, 0, 0, 0, 4, 0, 60, 0, 80, 0xCE], 502, "SYNTAX_ERROR - the value ends too early", (60, 80)),
        (vec![8, 0, 1, 0, 0, 0, 0, 0xCE], 505, "UNEXPECTED_FRAME - type 8, all octets = <<>>", (0, 0)),
        (vec![3, 0, 0, 0, 0, 0, 0, 0xCE], 505, "UNEXPECTED_FRAME - type 3, all octets = <<>>", (0, 0)),
        (
            vec![1, 0, 1, 0, 0, 0, 0, 0xCD],
            501,
            "FRAME_ERROR - type 1, all octets = <<>>: {invalid_frame_end_marker,205}",
            (0, 0),
        ),
        (
            method(3000, ChannelOpen::default().into()),
            504,
            "CHANNEL_ERROR - channel number 3000 is higher than the negotiated channel_max (2047)",
            (20, 10),
        ),
    ]
}

#[test]
fn hard_errors_close_the_connection() {
    let server = server();
    for (bytes, code, text, blamed) in cases() {
        let mut peer = server.channel();
        peer.declare(1, "q");
        peer.raw(&bytes);
        peer.expect(&[&connection_closed(code, text, blamed)]);
        // Later input is ignored.
        peer.send(1, BasicGet { queue: "q", ..Default::default() });
        peer.expect(&[]);
        if code != 501 || text.contains("content body") {
            peer.send(0, ConnectionCloseOk {});
            assert!(peer.is_closed(), "{text}");
        }
    }
}

#[test]
fn too_many_channels_are_refused() {
    let server = server_with(Settings::default(), Setup::memory());
    server.test.broker.set_sessions_per_connection(2);
    let mut peer = server.socket();
    peer.raw(&PROTOCOL_HEADER);
    peer.start_ok("PLAIN", b"\0guest\0guest", &[]);
    peer.wait_for(2);
    assert!(peer.lines.last().is_some_and(|tune| tune.contains("channel_max: 2,")), "{:?}", peer.lines);
    // The change applies to later connections.
    server.test.broker.set_sessions_per_connection(1);
    peer.send(0, ConnectionTuneOk { channel_max: 2, frame_max: 8192, heartbeat: 0 });
    peer.send(0, ConnectionOpen { virtual_host: "/", ..Default::default() });
    peer.wait_for(3);
    peer.lines.clear();
    peer.open(1);
    peer.open(2);
    peer.send(1, ChannelClose::default());
    peer.expect(&["1 ChannelCloseOk"]);
    peer.open(1);
    peer.send(3, ChannelOpen::default());
    let text = "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)";
    peer.expect(&[&connection_closed(530, text, (20, 10))]);
}

#[test]
fn a_malformed_table_is_a_syntax_error() {
    let mut peer = server().channel();
    // queue.declare of "" whose arguments hold a field of type Z.
    peer.raw(b"\x01\0\x01\0\0\0\x0f\0\x32\0\x0a\0\0\0\0\0\0\0\x03\x01kZ\xce");
    let text = "SYNTAX_ERROR - unknown type octet of a field value";
    peer.expect(&[&connection_closed(502, text, (50, 10))]);
}

/// A conversation that uses every class, as bytes.
fn conversation() -> Vec<u8> {
    let mut bytes = Vec::new();
    let methods: [Method<'_>; 12] = [
        ChannelOpen::default().into(),
        QueueDeclare { queue: "q", ..Default::default() }.into(),
        ExchangeDeclare { exchange: "e", kind: "topic", ..Default::default() }.into(),
        QueueBind { queue: "q", exchange: "e", routing_key: "#", ..Default::default() }.into(),
        BasicQos { prefetch_count: 10, ..Default::default() }.into(),
        ConfirmSelect::default().into(),
        BasicConsume { queue: "q", consumer_tag: "c", ..Default::default() }.into(),
        BasicPublish { exchange: "e", routing_key: "k", mandatory: true, ..Default::default() }.into(),
        BasicAck { delivery_tag: 1, multiple: true }.into(),
        BasicGet { queue: "q", ..Default::default() }.into(),
        BasicCancel { consumer_tag: "c", nowait: false }.into(),
        ChannelClose::default().into(),
    ];
    for method in methods {
        method.encode(1, &mut bytes);
        if let Method::BasicPublish(_) = method {
            frame::encode_header(&mut bytes, 1, 5, &[0x10, 0, 2]);
            frame::encode_body(&mut bytes, 1, 4096, b"hello");
        }
    }
    bytes
}

proptest::proptest! {
    #[test]
    fn damaged_conversations_end_in_order(
        damage in proptest::collection::vec((0usize..400, proptest::prelude::any::<u8>()), 0..6), step in 1usize..60,
    ) {
        let mut bytes = conversation();
        for (at, byte) in damage {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let server = server();
        let mut peer = server.connect_as("guest", &capabilities());
        for part in bytes.chunks(step) {
            peer.raw(part);
        }
        // The server did not panic, whatever it made of the input, and nothing is left behind.
        peer.close(CloseReason::Gone);
        proptest::prop_assert!(server.test.broker.clients().is_empty());
    }
}
