//! Messages stored and delivered, and properties that cross protocols in both directions.

use broker::{Content, Counts, Dialects, Id, IdForm, Message as Block, Table, Value as Neutral};

use super::*;
use crate::codec::message::{self, Header};
use crate::codec::{Encode, Message, MessageId, Section, Symbol, Timestamp, Value};

fn bytes(hex: &str) -> Vec<u8> {
    hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

fn map(pairs: &[(&str, Value)]) -> Value {
    Value::Map(pairs.iter().map(|(name, value)| (Value::Symbol((*name).to_owned()), value.clone())).collect())
}

/// A message with every section; `body` are the sections of its body.
fn message(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Header { durable: true, priority: Some(7), ttl: Some(60_000), delivery_count: 3, ..Header::default() }
        .encode(&mut out);
    Section::DeliveryAnnotations.encode(&map(&[("x-here", Value::Bool(true))]), &mut out);
    let said = Value::Str("t".to_owned());
    let annotations = [("x-basic-type", said), ("x-opt-name", Value::U8(1)), ("other", Value::Null)];
    Section::MessageAnnotations.encode(&map(&annotations), &mut out);
    message::Properties {
        message_id: Some(MessageId::Number(9)),
        user_id: Some(b"guest"),
        to: Some("/queues/q"),
        subject: Some("s"),
        reply_to: Some("/queues/r%20r"),
        correlation_id: Some(MessageId::Text("c")),
        content_type: Some(Symbol("text/plain")),
        content_encoding: Some(Symbol("gzip")),
        creation_time: Some(Timestamp(1234)),
        group_id: Some("g"),
        group_sequence: Some(2),
        ..message::Properties::default()
    }
    .encode(&mut out);
    let application = Value::Map(vec![(Value::Str("k".to_owned()), Value::I32(5))]);
    Section::ApplicationProperties.encode(&application, &mut out);
    out.extend_from_slice(body);
    Section::Footer.encode(&map(&[("f", Value::Null)]), &mut out);
    out
}

fn delivered(sent: &[u8], overlay: Option<&broker::Overlay>) -> Vec<u8> {
    let published = publish(sent, 0).unwrap();
    let mut out = Vec::new();
    let acquired = Acquired { failed: 1, first: false, ttl: None, origin: None };
    write_stored(&published.properties, &published.body, overlay, acquired, &mut out).unwrap();
    out
}

#[test]
fn the_bare_message_stays_as_it_is_and_others_see_its_body() {
    for (body, seen) in [
        ("", ""),
        ("00 53 75 a0 02 68 69", "68 69"),
        // As wide as its sender liked.
        ("00 53 75 b0 00 00 00 02 68 69", "68 69"),
        ("00 80 00 00 00 00 00 00 00 75 a0 01 68", "68"),
        ("00 a3 10 61 6d 71 70 3a 64 61 74 61 3a 62 69 6e 61 72 79 a0 01 68", "68"),
        ("00 53 75 a0 00", ""),
        ("00 53 75 a0 01 68 00 53 75 b0 00 00 00 01 69 00 53 75 a0 00", "68 69"),
        ("00 53 77 a1 02 68 69", "68 69"),
        ("00 53 77 b1 00 00 00 02 68 69", "68 69"),
        ("00 53 77 a0 01 ff", "ff"),
        // What only this protocol can read stays encoded.
        ("00 53 77 40", "00 53 77 40"),
        ("00 53 77 c0 02 01 41", "00 53 77 c0 02 01 41"),
        ("00 53 77 00 53 01 a1 01 61", "00 53 77 00 53 01 a1 01 61"),
        ("00 53 76 45 00 53 76 c0 02 01 41", "00 53 76 45 00 53 76 c0 02 01 41"),
    ] {
        let sent = message(&bytes(body));
        assert_eq!(publish(&sent, 0).unwrap().body, bytes(seen), "{body}");
        let got = delivered(&sent, None);
        let (sent, got) = (Message::decode(&sent).unwrap(), Message::decode(&got).unwrap());
        assert_eq!(got.bare, sent.bare, "{body}");
        let header = Header { delivery_count: 1, ..sent.header.unwrap() };
        let own = Message { header: Some(header), header_section: got.header_section, ..sent };
        assert_eq!(got, Message { delivery_annotations: None, ..own }, "{body}");
    }
    assert!(publish(&bytes("00 53 75 a1 00"), 0).unwrap_err().text.contains("a data section is no binary"));
}

fn neutral() -> Properties {
    let headers = [
        ("k", Neutral::I32(5)),
        ("JMSXGroupID", Neutral::Text("g".to_owned())),
        ("JMSXGroupSeq", Neutral::U32(2)),
        ("x-opt-name", Neutral::U8(1)),
    ];
    Properties {
        content_type: Some("text/plain".to_owned()),
        content_encoding: Some("gzip".to_owned()),
        headers: Table(headers.map(|(name, value)| (name.to_owned(), value)).to_vec()),
        persistent: true,
        priority: Some(7),
        correlation_id: Some("c".into()),
        reply_to: Some("r r".to_owned()),
        expiration: Some(60_000),
        message_id: Some(Id::Number(9)),
        timestamp: Some(1234),
        kind: Some("t".to_owned()),
        user_id: Some("guest".to_owned()),
        // Their names do not exist in this protocol.
        app_id: None,
        cluster_id: None,
    }
}

fn read(sent: &[u8]) -> Properties {
    let published = publish(sent, 0).unwrap();
    Amqp10Dialect.read(Content { properties: &published.properties, body: &published.body }).unwrap()
}

#[test]
fn every_property_crosses_in_both_directions() {
    assert_eq!(read(&message(b"")), neutral());
    let all = Properties { app_id: Some("a".to_owned()), ..neutral() };
    for properties in [all, neutral(), Properties::default()] {
        let mut out = Vec::new();
        write_neutral(&properties, b"body", Acquired::default(), &mut out);
        assert_eq!(read(&out), properties);
        assert_eq!(publish(&out, 0).unwrap().body.as_ref(), b"body");
    }
}

#[test]
fn each_type_of_value_and_id_crosses() {
    let list = |values: Vec<Neutral>| Neutral::Array(values);
    for (value, expected) in [
        (Neutral::Null, None),
        (Neutral::U64(u64::MAX), None),
        (Neutral::F64(0.5), None),
        (Neutral::Bytes(vec![0xff]), None),
        (Neutral::Timestamp(-5), None),
        (Neutral::Uuid([7; 16]), None),
        (Neutral::Symbol("s".to_owned()), None),
        (Neutral::Char('é'), None),
        (Neutral::Decimal32([1; 4]), None),
        // 12.50 as a decimal64: the coefficient 1250 with the exponent -2.
        (Neutral::Decimal { scale: 2, value: 1250 }, Some(Neutral::Decimal64([0x31, 0x80, 0, 0, 0, 0, 4, 0xe2]))),
        (list(vec![]), None),
        (list(vec![Neutral::U8(1), Neutral::U8(2)]), None),
        (list(vec![Neutral::U8(1), Neutral::Null]), None),
        (Neutral::Table(Table(vec![("k".to_owned(), list(vec![Neutral::Bool(true)]))])), None),
    ] {
        for name in ["x-a", "a"] {
            let headers = Table(vec![(name.to_owned(), value.clone())]);
            let mut out = Vec::new();
            write_neutral(&Properties { headers, ..Properties::default() }, b"", Acquired::default(), &mut out);
            // Lists and tables may not be properties of the application. As annotations they come
            // back under the names of annotations only.
            let lost = name == "a" && matches!(value, Neutral::Array(_) | Neutral::Table(_));
            let expected = expected.clone().unwrap_or_else(|| value.clone());
            let back = if lost { vec![] } else { vec![(name.to_owned(), expected)] };
            assert_eq!(read(&out).headers.0, back);
        }
    }
    for id in [Id::from("t"), Id::Number(0), Id::Uuid([1; 16]), Id::Bytes(vec![0xff])] {
        let mut out = Vec::new();
        let properties = Properties { message_id: Some(id.clone()), ..Properties::default() };
        write_neutral(&properties, b"", Acquired::default(), &mut out);
        assert_eq!(read(&out).message_id, Some(id));
    }
}

#[test]
fn selectors_see_what_other_protocols_see() {
    let sent = message(&bytes("00 53 75 a0 00"));
    let published = publish(&sent, 0).unwrap();
    let content = Content { properties: &published.properties, body: &published.body };
    for (field, expected) in [
        (Field::Header("k"), Selected::Int(5)),
        (Field::Header("JMSXGroupID"), Selected::text("g")),
        (Field::Header("JMSXGroupSeq"), Selected::Int(2)),
        (Field::Header("x-opt-name"), Selected::Int(1)),
        (Field::Header("x-basic-type"), Selected::Null),
        (Field::Header("other"), Selected::Null),
        (Field::Header("x-here"), Selected::Null),
        (Field::ContentType, Selected::text("text/plain")),
        (Field::ContentEncoding, Selected::text("gzip")),
        (Field::CorrelationId(IdForm::Jms), Selected::text("c")),
        (Field::ReplyTo, Selected::text("r r")),
        (Field::MessageId(IdForm::Plain), Selected::text("9")),
        (Field::MessageId(IdForm::Jms), Selected::text("ID:AMQP_ULONG:9")),
        (Field::Timestamp, Selected::Int(1234)),
        (Field::Kind, Selected::text("t")),
        (Field::UserId, Selected::text("guest")),
        (Field::AppId, Selected::Null),
    ] {
        assert_eq!(Amqp10Dialect.look_up(content, field), expected, "{field:?}");
    }
    let mut bare = Vec::new();
    message::Properties { subject: Some("jms type"), ..message::Properties::default() }.encode(&mut bare);
    for (body, expected) in [("00 53 75 a0 00", "jms type"), ("00 53 77 45", "amqp-1.0")] {
        let sent = [bare.clone(), bytes(body)].concat();
        let published = publish(&sent, 0).unwrap();
        let content = Content { properties: &published.properties, body: &published.body };
        assert_eq!(Amqp10Dialect.look_up(content, Field::Kind), Selected::text(expected));
        assert_eq!(Amqp10Dialect.read(content).unwrap().kind.as_deref(), Some(expected));
    }
}

#[test]
fn of_a_lifetime_and_a_time_of_death_the_earlier_end_counts() {
    for (ttl, dies, expected) in [
        (None, None, Some(None)),
        (Some(5), None, Some(Some(5))),
        (None, Some(1500), Some(Some(500))),
        (None, Some(900), Some(Some(0))),
        (None, Some(-1), Some(Some(0))),
        (Some(100), Some(1500), Some(Some(100))),
        (Some(900), Some(1500), Some(Some(500))),
        (None, Some(315_360_001_000), Some(Some(315_360_000_000))),
        (Some(1), Some(315_360_001_001), None),
    ] {
        let mut sent = Vec::new();
        Header { ttl, ..Header::default() }.encode(&mut sent);
        let absolute_expiry_time = dies.map(Timestamp);
        message::Properties { absolute_expiry_time, ..message::Properties::default() }.encode(&mut sent);
        let published = publish(&sent, 1000);
        assert_eq!(published.map(|published| published.expiration).ok(), expected, "{ttl:?} {dies:?}");
    }
}

#[test]
fn a_publish_says_what_the_broker_must_know() {
    let published = publish(b"", 0).unwrap();
    assert_eq!((published.persistent, published.priority, published.instructed), (false, 4, false));
    let sent = message(b"");
    let published = publish(&sent, 0).unwrap();
    assert_eq!((published.persistent, published.priority, published.instructed), (true, 7, false));
    for section in [Section::MessageAnnotations, Section::ApplicationProperties] {
        let mut sent = Vec::new();
        section.encode(&map(&[("x-opt-delivery-time", Value::I64(1))]), &mut sent);
        assert!(publish(&sent, 0).unwrap().instructed);
    }
}

/// A number below 2^14 as a varint.
fn varint(number: usize) -> Vec<u8> {
    if number < 128 { vec![number as u8] } else { vec![number as u8 | 0x80, (number >> 7) as u8] }
}

/// A stored block of version 3 with these properties.
fn block(properties: &[u8]) -> Block {
    let sections = [&[1][..], &varint(properties.len()), properties].concat();
    let bytes = [&[3, ENCODING.0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &varint(sections.len()), &sections].concat();
    Block::from_stored(bytes.into()).unwrap()
}

#[test]
fn what_the_broker_adds_replaces_annotations_of_its_name() {
    let mut sent = Vec::new();
    let annotations = [("x-delivery-count", Value::Str("mine".to_owned())), ("x-opt-name", Value::U8(1))];
    Section::MessageAnnotations.encode(&map(&annotations), &mut sent);
    sent.extend(bytes("00 53 75 a0 01 68"));
    let published = publish(&sent, 0).unwrap();
    let block = block(&published.properties);
    let dialects = Dialects::new(vec![std::sync::Arc::new(Amqp10Dialect)]);
    let counts = Counts { delivery: Some(2), acquired: None };
    let overlay = block.overlay(counts, &dialects).unwrap();
    let got = delivered(&sent, Some(&overlay));
    let got = Message::decode(&got).unwrap();
    let expected = map(&[("x-opt-name", Value::U8(1)), ("x-delivery-count", Value::I64(2))]);
    assert_eq!(Value::from(crate::codec::ValueRef::Map(got.message_annotations.unwrap())), expected);
    assert_eq!(got.bare, bytes("00 53 75 a0 01 68"));
    // Other protocols see the same.
    let shown = dialects.read_shown(&block, counts).unwrap();
    let names: Vec<&str> = shown.headers.0.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["x-opt-name", "x-delivery-count"]);
}

#[test]
fn a_damaged_stored_form_is_an_error() {
    let sent = message(&bytes("00 53 75 a0 01 68 00 53 75 a0 01 69"));
    let published = publish(&sent, 0).unwrap();
    let stored = &published.properties;
    for end in 0..stored.len() {
        let content = Content { properties: &stored[..end], body: &published.body };
        let _ = (Amqp10Dialect.read(content).is_ok(), Amqp10Dialect.look_up(content, Field::Kind));
        let mut out = Vec::new();
        let _ = write_stored(&stored[..end], &published.body, None, Acquired::default(), &mut out).is_ok();
    }
    assert!(Amqp10Dialect.read(Content { properties: b"", body: b"" }).is_err());
    assert!(Amqp10Dialect.read(Content { properties: &[2, 0, 0], body: b"" }).is_err());
    let short = write_stored(stored, b"h", None, Acquired::default(), &mut Vec::new());
    assert!(short.unwrap_err().text.contains("a stored AMQP 1.0 message cannot be read"));
}
