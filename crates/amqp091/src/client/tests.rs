//! The client against scripted servers: handshake, messages in every fragmentation, closes.

use super::*;
use crate::codec::methods::*;
use crate::codec::{Table, frame};

fn frames(methods: &[(u16, Method<'_>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (channel, method) in methods {
        method.encode(*channel, &mut out);
    }
    out
}

fn decoded(mut bytes: &[u8]) -> Vec<(u16, Method<'_>)> {
    let mut methods = Vec::new();
    while !bytes.is_empty() {
        let frame = decode_frame(bytes, 0).expect("a frame").expect("a whole frame");
        methods.push((frame.channel, decode_method(frame.payload).expect("a method")));
        bytes = &bytes[frame.wire_len()..];
    }
    methods
}

#[test]
fn the_handshake_settles_the_lower_limits() {
    let mut client = Client::new(Options { heartbeat: 5, frame_max: 8192, ..Default::default() });
    let mut out = Vec::new();
    client.start(&mut out);
    assert_eq!(out, b"AMQP\0\0\x09\x01");
    out.clear();
    let server = frames(&[
        (0, ConnectionStart { version_minor: 9, mechanisms: b"PLAIN", locales: b"en_US", ..Default::default() }.into()),
        (0, ConnectionTune { channel_max: 100, frame_max: 131_072, heartbeat: 60 }.into()),
        (0, ConnectionOpenOk::default().into()),
    ]);
    let mut input = server.as_slice();
    let event = client.poll(&mut input, &mut out).expect("no error");
    let expected = Connected { frame_max: 8192, channel_max: 100, heartbeat: 5, server_properties: vec![] };
    assert_eq!(event, Some(Event::Connected(expected)));
    assert!(input.is_empty());
    assert_eq!(client.frame_max(), 8192);
    let answers = decoded(&out);
    let Method::ConnectionStartOk(start_ok) = answers[0].1 else { panic!("{:?}", answers[0]) };
    assert_eq!((start_ok.mechanism, start_ok.response), ("PLAIN", b"\0guest\0guest".as_slice()));
    assert_eq!(answers[1].1, ConnectionTuneOk { channel_max: 100, frame_max: 8192, heartbeat: 5 }.into());
    assert_eq!(answers[2].1, ConnectionOpen { virtual_host: "/", ..Default::default() }.into());
}

#[test]
fn a_client_that_its_connection_vouches_for_names_no_password() {
    let mut client = Client::new(Options { mechanism: Mechanism::External, ..Options::default() });
    let start = ConnectionStart { version_minor: 9, mechanisms: b"EXTERNAL", locales: b"en_US", ..Default::default() };
    let (server, mut out) = (frames(&[(0, start.into())]), Vec::new());
    assert_eq!(client.poll(&mut server.as_slice(), &mut out), Ok(None));
    let answers = decoded(&out);
    let Method::ConnectionStartOk(start_ok) = answers[0].1 else { panic!("{:?}", answers[0]) };
    assert_eq!((start_ok.mechanism, start_ok.response), ("EXTERNAL", b"".as_slice()));
}

#[test]
fn another_protocol_is_recognised() {
    let mut client = Client::new(Options::default());
    let mut input: &[u8] = b"AMQP\x03\x01\0\0";
    let error = client.poll(&mut input, &mut Vec::new()).expect_err("no frame");
    assert_eq!(error, ClientError::Version(*b"AMQP\x03\x01\0\0"));
}

/// The frames of a delivery, a get-ok and a return with bodies of `length` bytes, and that body.
fn conversation(length: usize) -> (Vec<u8>, Vec<u8>) {
    let body: Vec<u8> = (0..length).map(|i| (i * 7) as u8).collect();
    let mut wire = Vec::new();
    let methods: [Method<'_>; 3] = [
        BasicDeliver { consumer_tag: "c", delivery_tag: 5, redelivered: true, exchange: "e", routing_key: "k" }.into(),
        BasicGetOk { delivery_tag: 6, redelivered: false, exchange: "e", routing_key: "k", message_count: 3 }.into(),
        BasicReturn { reply_code: 312, reply_text: "NO_ROUTE", exchange: "e", routing_key: "k" }.into(),
    ];
    for method in methods {
        method.encode(2, &mut wire);
        frame::encode_header(&mut wire, 2, body.len() as u64, &[0x10, 0, 2]);
        wire.extend_from_slice(&frame::HEARTBEAT);
        frame::encode_body(&mut wire, 2, 4096, &body);
    }
    Method::from(BasicAck { delivery_tag: 9, multiple: true }).encode(2, &mut wire);
    (wire, body)
}

fn check(index: usize, event: &Event<'_>, body: &[u8]) {
    let message = Received { exchange: "e", routing_key: "k", properties: &[0x10, 0, 2], body };
    let expected = match index {
        0 => Event::Deliver { channel: 2, consumer_tag: "c", delivery_tag: 5, redelivered: true, message },
        1 => Event::Got { channel: 2, delivery_tag: 6, redelivered: false, message_count: 3, message },
        2 => Event::Returned { channel: 2, reply_code: 312, reply_text: "NO_ROUTE", message },
        3 => Event::Ack { channel: 2, delivery_tag: 9, multiple: true },
        _ => panic!("unexpected {event:?}"),
    };
    assert_eq!(*event, expected);
}

#[test]
fn messages_arrive_whole_in_every_fragmentation() {
    for (length, steps) in
        [(0, vec![1, 3, 100_000]), (64, vec![1, 7, 50, 100_000]), (10_000, vec![1, 4095, 4096, 100_000])]
    {
        let (wire, body) = conversation(length);
        for step in steps {
            let mut client = Client::new(Options::default());
            let mut seen = 0;
            let mut kept: Vec<u8> = Vec::new();
            for part in wire.chunks(step) {
                kept.extend_from_slice(part);
                let mut input = kept.as_slice();
                while let Some(event) = client.poll(&mut input, &mut Vec::new()).expect("no error") {
                    check(seen, &event, &body);
                    seen += 1;
                }
                kept = input.to_vec();
            }
            assert_eq!((seen, kept.len()), (4, 0), "{length} bytes by {step}");
        }
    }
}

#[test]
fn a_delivery_in_one_piece_is_not_copied() {
    let mut wire = Vec::new();
    Method::from(BasicDeliver::default()).encode(1, &mut wire);
    frame::encode_header(&mut wire, 1, 3, &[0, 0]);
    frame::encode_body(&mut wire, 1, 4096, b"abc");
    let range = wire.as_ptr_range();
    let mut client = Client::new(Options::default());
    let mut input = wire.as_slice();
    match client.poll(&mut input, &mut Vec::new()) {
        Ok(Some(Event::Deliver { message, .. })) => {
            assert_eq!(message.body, b"abc");
            assert!(range.contains(&message.body.as_ptr()));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn closes_are_answered() {
    let close = ChannelClose { reply_code: 404, reply_text: "NOT_FOUND - no queue", class_id: 50, method_id: 10 };
    let forced = ConnectionClose { reply_code: 320, reply_text: "CONNECTION_FORCED - bye", ..Default::default() };
    let wire = frames(&[(3, close.into()), (0, forced.into())]);
    let mut client = Client::new(Options::default());
    let mut out = Vec::new();
    let mut input = wire.as_slice();
    let event = client.poll(&mut input, &mut out).expect("no error");
    let text = "NOT_FOUND - no queue";
    assert_eq!(event, Some(Event::ChannelClosed { channel: 3, reply_code: 404, reply_text: text }));
    let event = client.poll(&mut input, &mut out).expect("no error");
    assert_eq!(event, Some(Event::Closed { reply_code: 320, reply_text: "CONNECTION_FORCED - bye" }));
    assert_eq!(decoded(&out), vec![(3, ChannelCloseOk {}.into()), (0, ConnectionCloseOk {}.into())]);
}

#[test]
fn broken_conversations_are_errors() {
    let mut header = Vec::new();
    frame::encode_header(&mut header, 1, 3, &[0, 0]);
    let mut body = Vec::new();
    frame::encode_body(&mut body, 1, 4096, b"abc");
    let deliver = frames(&[(1, BasicDeliver::default().into())]);
    let mut huge = Vec::new();
    frame::encode_header(&mut huge, 1, u64::MAX, &[0, 0]);
    let table: Vec<(Vec<u8>, ClientError)> = vec![
        (header.clone(), ClientError::Unexpected("expected no such content header")),
        (body.clone(), ClientError::Unexpected("expected no body frame")),
        (
            [deliver.clone(), deliver.clone()].concat(),
            ClientError::Unexpected("expected content, got a method with content instead"),
        ),
        ([deliver.clone(), header, body.clone(), body].concat(), ClientError::Unexpected("expected no body frame")),
        ([deliver, huge].concat(), ClientError::TooLarge(u64::MAX)),
    ];
    for (wire, error) in table {
        let mut client = Client::new(Options::default());
        let mut input = wire.as_slice();
        let found = loop {
            match client.poll(&mut input, &mut Vec::new()) {
                Ok(Some(_)) => {}
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        assert_eq!(found, Some(error));
    }
}

#[test]
fn a_template_publishes_what_the_encoders_would() {
    for length in [0, 1, 64, 4088, 4089, 20_000] {
        let body = vec![b'x'; length];
        let publish = BasicPublish { exchange: "e", routing_key: "k", mandatory: true, ..Default::default() };
        let template = PublishTemplate::new(4, publish, &[0x10, 0, 2], 4096);
        let mut out = b"before".to_vec();
        template.append(&body, &mut out);
        let mut expected = b"before".to_vec();
        Method::from(publish).encode(4, &mut expected);
        frame::encode_header(&mut expected, 4, length as u64, &[0x10, 0, 2]);
        frame::encode_body(&mut expected, 4, 4096, &body);
        assert_eq!(out, expected);
    }
}

#[test]
fn a_close_is_described_with_its_method() {
    let close = ConnectionClose { reply_code: 530, reply_text: "NOT_ALLOWED - no", class_id: 60, method_id: 20 };
    assert_eq!(describe_close(&close), "basic.consume: 530 NOT_ALLOWED - no");
    let close = ConnectionClose { reply_code: 320, reply_text: "CONNECTION_FORCED - bye", ..Default::default() };
    assert_eq!(describe_close(&close), "320 CONNECTION_FORCED - bye");
    assert!(Table::default().is_empty());
}
