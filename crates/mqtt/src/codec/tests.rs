//! The codec's tables: packets of real clients, and one that breaks each rule. Each packet is cut
//! at every byte, and each of its bits is flipped.

use proptest::prelude::*;

use super::*;

const LARGEST: u32 = 1 << 20;
const VERSIONS: [Version; 3] = [Version::V3_1, Version::V3_1_1, Version::V5];

/// Packets as clients sent them: see the file.
fn recorded() -> Vec<(Version, Vec<u8>)> {
    let mut version = Version::default();
    let lines = include_str!("tests/recorded.txt").lines().filter(|line| !line.starts_with('#'));
    let packets = lines.map(|line| {
        let (_, hex) = line.split_once(' ').unwrap();
        let digits: Vec<_> = hex.bytes().map(|digit| (digit as char).to_digit(16).unwrap() as u8).collect();
        let bytes: Vec<u8> = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        if let Ok(Some((Packet::Connect(connect), _))) = decode(&bytes, version, LARGEST) {
            version = connect.version;
        }
        (version, bytes)
    });
    packets.collect()
}

fn encoded(packet: &Packet<'_>, version: Version) -> Vec<u8> {
    let mut out = Vec::new();
    encode(packet, version, &mut out);
    out
}

/// What is taken is the same packet when it is written and read again, and so are its bytes.
fn check_stable(bytes: &[u8], version: Version) {
    if let Ok(Some((packet, length))) = decode(bytes, version, LARGEST) {
        let again = encoded(&packet, version);
        assert_eq!(decode(&again, version, LARGEST), Ok(Some((packet, again.len()))), "{:02x?}", &bytes[..length]);
    }
}

#[test]
fn packets_of_real_clients() {
    let recorded = recorded();
    assert!(recorded.len() > 40 && VERSIONS.iter().all(|version| recorded.iter().any(|(of, _)| of == version)));
    for (version, bytes) in &recorded {
        let (packet, length) = decode(bytes, *version, LARGEST).unwrap().unwrap();
        assert_eq!(length, bytes.len());
        // mqtt.js writes a success in full, where it may be left out.
        let short =
            |bytes: &[u8]| bytes.strip_suffix(b"\0\0").filter(|_| matches!(bytes[0], 0x62 | 0xe0)).map(<[u8]>::to_vec);
        let mut written = encoded(&packet, *version);
        if let Some(mut shorter) = short(bytes).filter(|shorter| shorter.len() == written.len()) {
            shorter[1] = written[1];
            assert_eq!(written, shorter);
            written.clone_from(bytes);
        }
        assert_eq!(written, *bytes, "{packet:?}");
    }
    let connects = recorded.iter().filter_map(|(version, bytes)| match decode(bytes, *version, LARGEST) {
        Ok(Some((Packet::Connect(connect), _))) => Some((connect.version, connect.client_id, connect.user)),
        _ => None,
    });
    let expected = [
        (Version::V3_1, "paho"),
        (Version::V3_1_1, "paho"),
        (Version::V5, "paho"),
        (Version::V3_1_1, "js"),
        (Version::V5, "js"),
        (Version::V5, "gopher"),
    ];
    assert_eq!(connects.collect::<Vec<_>>(), expected.map(|(version, id)| (version, id, Some("guest"))));
}

#[test]
fn a_packet_is_taken_only_when_it_is_there_to_its_end() {
    for (version, bytes) in recorded() {
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end], version, LARGEST), Ok(None), "{:02x?} cut at {end}", bytes);
        }
    }
}

/// The same, with a length that says the packet ends there.
#[test]
fn a_packet_that_is_short_by_its_own_length_is_another_one_or_none() {
    for (version, bytes) in recorded().into_iter().filter(|(_, bytes)| bytes.len() < 128) {
        for end in 2..bytes.len() {
            let mut cut = bytes[..end].to_vec();
            cut[1] = (end - 2) as u8;
            check_stable(&cut, version);
            let is_connect = cut[0] >> 4 == PacketKind::Connect as u8;
            assert!(!is_connect || decode(&cut, version, LARGEST).is_err(), "{cut:02x?}");
        }
    }
}

#[test]
fn flipped_bits_never_panic_and_never_make_what_cannot_be_written() {
    for (version, mut bytes) in recorded() {
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            VERSIONS.iter().for_each(|other| check_stable(&bytes, *other));
            check_stable(&bytes, version);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// Packets that break a rule.
#[rustfmt::skip] // A line is a packet.
const BROKEN: &[(Version, &[u8], Violation)] = &[
    (Version::V5, b"\x00\0", Violation::UnknownKind),
    (Version::V3_1_1, b"\xf0\0", Violation::UnknownKind),
    (Version::V5, b"\x11\x0d\0\x04MQTT\x05\x02\0\0\0\0\0", Violation::Flags),
    (Version::V5, b"\x60\x02\0\x01", Violation::Flags),
    (Version::V5, b"\x80\x05\0\x01\0\0\0", Violation::Flags),
    (Version::V5, b"\xa0\x05\0\x01\0\0\0", Violation::Flags),
    (Version::V5, b"\xe1\0", Violation::Flags),
    (Version::V5, b"\x36", Violation::PublishQos),
    (Version::V5, b"\x30\xff\xff\xff\xff", Violation::VariableNumber),
    (Version::V5, b"\x30\x80\0", Violation::VariableNumber),
    (Version::V5, b"\x30\xff\xff\xff\x7f", Violation::TooLarge(LARGEST)),
    (Version::V5, b"\xc0\x01\0", Violation::Trailing),
    (Version::V3_1_1, b"\x40\x03\0\x01\0", Violation::Trailing),
    (Version::V5, b"\x40\x01\0", Violation::Truncated),
    (Version::V5, b"\x40\x02\0\0", Violation::PacketIdZero),
    (Version::V5, b"\x40\x03\0\x01\x92", Violation::ReasonCode(0x92)),
    (Version::V5, b"\x62\x03\0\x01\x10", Violation::ReasonCode(0x10)),
    (Version::V5, b"\x40\x05\0\x01\0\x02\x01", Violation::Truncated),
    (Version::V5, b"\x40\x06\0\x01\0\x02\x01\0", Violation::Property(1)),
    // CONNECT
    (Version::V5, b"\x10\x0d\0\x04MQTX\x05\x02\0\0\0\0\0", Violation::Protocol),
    (Version::V5, b"\x10\x0d\0\x04MQTT\x06\x02\0\0\0\0\0", Violation::Protocol),
    (Version::V5, b"\x10\x0d\0\x04MQTT\x03\x02\0\0\0\0\0", Violation::Protocol),
    (Version::V5, b"\x10\x0d\0\x04MQTT\x05\x03\0\0\0\0\0", Violation::ConnectReserved),
    (Version::V5, b"\x10\x0d\0\x04MQTT\x05\x0a\0\0\0\0\0", Violation::NoWill),
    (Version::V5, b"\x10\x0d\0\x04MQTT\x05\x22\0\0\0\0\0", Violation::NoWill),
    (Version::V5, b"\x10\x12\0\x04MQTT\x05\x1e\0\0\0\0\0\0\0\x01a\0\0", Violation::WillQos),
    (Version::V5, b"\x10\x12\0\x04MQTT\x05\x06\0\0\0\0\0\0\0\x01#\0\0", Violation::TopicWildcard),
    (Version::V5, b"\x10\x11\0\x04MQTT\x05\x06\0\0\0\0\0\0\0\0\0\0", Violation::NoTopic),
    (Version::V3_1_1, b"\x10\x0e\0\x04MQTT\x04\x42\0\0\0\0\0\0", Violation::PasswordAlone),
    (Version::V5, b"\x10\x0d\0\x04MQTT\x05\x82\0\0\0\0\0", Violation::Truncated),
    (Version::V5, b"\x10\x0e\0\x04MQTT\x05\x02\0\0\0\0\x01\xff", Violation::NotUtf8),
    (Version::V5, b"\x10\x0e\0\x04MQTT\x05\x02\0\0\0\0\x01\0", Violation::NulInText),
    (Version::V5, b"\x10\x10\0\x04MQTT\x05\x02\0\0\x03\x21\0\0\0\0", Violation::PropertyValue(0x21)),
    (Version::V5, b"\x10\x13\0\x04MQTT\x05\x02\0\0\x06\x21\0\x01\x21\0\x01\0\0", Violation::PropertyTwice(0x21)),
    (Version::V5, b"\x10\x11\0\x04MQTT\x05\x02\0\0\x04\x16\0\x01a\0\0", Violation::DataWithoutMethod),
    (Version::V5, b"\x20\x03\x02\0\0", Violation::ConnAckFlags),
    (Version::V3_1_1, b"\x20\x02\0\x06", Violation::ReasonCode(6)),
    // PUBLISH
    (Version::V5, b"\x38\x05\0\x01a\0b", Violation::PublishDup),
    (Version::V5, b"\x30\x04\0\x01+\0", Violation::TopicWildcard),
    (Version::V5, b"\x30\x03\0\0\0", Violation::NoTopic),
    (Version::V3_1_1, b"\x30\x02\0\0", Violation::NoTopic),
    (Version::V5, b"\x30\x07\0\x01a\x03\x23\0\0", Violation::AliasZero),
    (Version::V5, b"\x30\x08\0\x01a\x04\x08\0\x01+", Violation::ResponseWildcard),
    (Version::V5, b"\x32\x06\0\x01a\0\0\0", Violation::PacketIdZero),
    // SUBSCRIBE and UNSUBSCRIBE
    (Version::V5, b"\x82\x03\0\x01\0", Violation::NoFilter),
    (Version::V5, b"\xa2\x03\0\x01\0", Violation::NoFilter),
    (Version::V5, b"\x82\x06\0\x01\0\0\0\0", Violation::FilterEmpty),
    (Version::V5, b"\x82\x08\0\x01\0\0\x02a#\0", Violation::FilterHash),
    (Version::V5, b"\x82\x08\0\x01\0\0\x02a+\0", Violation::FilterPlus),
    (Version::V5, b"\xa2\x07\0\x01\0\0\x02a+", Violation::FilterPlus),
    (Version::V5, b"\x82\x0e\0\x01\0\0\x08$share/g\0", Violation::ShareName),
    (Version::V5, b"\x82\x10\0\x01\0\0\x0a$share/g/a\x04", Violation::SharedNoLocal),
    (Version::V5, b"\x82\x07\0\x01\0\0\x01a\x03", Violation::SubscribeQos),
    (Version::V5, b"\x82\x07\0\x01\0\0\x01a\x30", Violation::RetainHandling),
    (Version::V5, b"\x82\x07\0\x01\0\0\x01a\x40", Violation::OptionsReserved),
    (Version::V3_1_1, b"\x82\x06\0\x01\0\x01a\x04", Violation::OptionsReserved),
    (Version::V5, b"\x82\x09\0\x01\x02\x0b\0\0\x01a\0", Violation::PropertyValue(0x0b)),
    (Version::V5, b"\x90\x03\0\x01\0", Violation::Truncated),
    (Version::V5, b"\x90\x04\0\x01\0\x03", Violation::ReasonCode(3)),
    (Version::V5, b"\xe0\x01\x01", Violation::ReasonCode(1)),
    (Version::V5, b"\xe0\x02\0\x05", Violation::Truncated),
];

#[test]
fn each_rule_has_a_packet_that_breaks_it() {
    for (version, bytes, violation) in BROKEN {
        let error = decode(bytes, *version, LARGEST).expect_err(&format!("{violation:?}: {bytes:02x?}"));
        assert_eq!(error.violation, *violation, "{bytes:02x?}");
        let text = error.to_string();
        assert!(text.ends_with(&format!("[{}]", violation.statement())), "{text}");
        assert!(violation.reason().is_error());
    }
}

#[test]
fn what_is_too_large_is_refused_by_its_header_alone() {
    for largest in [2, 128, 70_000] {
        let mut bytes = vec![0x30];
        fields_of(&mut bytes, largest);
        let expected = Violation::TooLarge(largest - 1).of(PacketKind::Publish);
        assert_eq!(decode(&bytes, Version::V5, largest - 1), Err(expected));
        assert_eq!(decode(&bytes, Version::V5, largest + 4), Ok(None));
    }
}

fn fields_of(out: &mut Vec<u8>, length: u32) {
    super::fields::put_variable(out, length);
}

#[test]
fn acknowledgements_are_as_short_as_they_can_be() {
    let id = PacketId::new(258).unwrap();
    let mut words = PropertyBlock::default();
    words.text(PropertyId::ReasonString, "no");
    let ack = |reason, properties| Packet::PubAck(Ack { id, reason, properties });
    for (packet, version, bytes) in [
        (ack(Reason::Success, Properties::NONE), Version::V5, &b"\x40\x02\x01\x02"[..]),
        (ack(Reason::QuotaExceeded, Properties::NONE), Version::V5, b"\x40\x03\x01\x02\x97"),
        (ack(Reason::Success, words.as_properties()), Version::V5, b"\x40\x09\x01\x02\0\x05\x1f\0\x02no"),
        (ack(Reason::QuotaExceeded, words.as_properties()), Version::V3_1_1, b"\x40\x02\x01\x02"),
        (Packet::Disconnect(Notice::plain(Reason::Success)), Version::V5, b"\xe0\0"),
        (Packet::Disconnect(Notice::plain(Reason::ServerBusy)), Version::V5, b"\xe0\x01\x89"),
    ] {
        assert_eq!(encoded(&packet, version), bytes, "{packet:?}");
    }
}

#[test]
fn a_will_and_the_options_of_subscriptions_come_back() {
    let mut properties = PropertyBlock::default();
    properties.number(PropertyId::WillDelay, 5).pair("a", "b");
    let will =
        Will { qos: QoS::ExactlyOnce, retain: true, properties: properties.as_properties(), topic: "w", payload: b"x" };
    let connect = Connect {
        version: Version::V5,
        peer: Peer::Bridge,
        clean_start: true,
        keep_alive: 30,
        client_id: "c",
        will: Some(will),
        password: Some(b"\0"),
        ..Connect::default()
    };
    let bytes = encoded(&Packet::Connect(connect), Version::V3_1_1);
    assert_eq!(decode(&bytes, Version::V3_1, LARGEST), Ok(Some((Packet::Connect(connect), bytes.len()))));
    let options = Options {
        qos: QoS::AtLeastOnce,
        no_local: true,
        retain_as_published: true,
        retain_handling: RetainHandling::Never,
    };
    let mut filters = FilterList::default();
    filters.subscribe("a/+", options, Version::V5).subscribe("$share/g/b", Options::default(), Version::V5);
    let subscribe =
        Subscribe { id: PacketId::MIN, properties: Properties::NONE, filters: filters.as_subscribe(Version::V5) };
    let bytes = encoded(&Packet::Subscribe(subscribe), Version::V5);
    let Ok(Some((Packet::Subscribe(read), _))) = decode(&bytes, Version::V5, LARGEST) else { panic!("no SUBSCRIBE") };
    let asked: Vec<_> =
        read.filters.iter().map(|asked| (asked.filter.share, asked.filter.filter, asked.options)).collect();
    assert_eq!(asked, [(None, "a/+", options), (Some("g"), "b", Options::default())]);
}

proptest! {
    #[test]
    fn a_message_comes_back(
        topic in "[a-z/\u{e9}]{1,40}",
        payload in prop::collection::vec(any::<u8>(), 0..300),
        (dup, retain, qos, id, expiry) in (any::<bool>(), any::<bool>(), 0u8..3, 1u16.., any::<u32>()),
        pairs in prop::collection::vec(("[a-z]{0,5}", ".{0,5}"), 0..4),
    ) {
        let qos = QoS::of(qos).unwrap();
        let mut block = PropertyBlock::default();
        block.number(PropertyId::MessageExpiry, expiry);
        pairs.iter().for_each(|(name, value)| _ = block.pair(&name.replace('\0', ""), &value.replace('\0', "")));
        for version in VERSIONS {
            let publish = Publish {
                dup: dup && qos != QoS::AtMostOnce,
                qos,
                retain,
                topic: &topic,
                id: PacketId::new(id).filter(|_| qos != QoS::AtMostOnce),
                properties: if version.has_properties() { block.as_properties() } else { Properties::NONE },
                payload: &payload,
            };
            let bytes = encoded(&Packet::Publish(publish), version);
            prop_assert_eq!(bytes.len(), publish.total_length(version, payload.len()));
            prop_assert_eq!(decode(&bytes, version, LARGEST), Ok(Some((Packet::Publish(publish), bytes.len()))));
        }
    }

    #[test]
    fn random_bytes_behind_a_valid_header_never_panic(kind in 1u8..16, body in prop::collection::vec(any::<u8>(), 0..120)) {
        let flags = if [6, 8, 10].contains(&kind) { 2 } else { 0 };
        let mut bytes = vec![kind << 4 | flags, body.len() as u8];
        bytes.extend(body);
        VERSIONS.iter().for_each(|version| check_stable(&bytes, *version));
    }
}

/// MQTT 3.1 leaves open what is in flags of CONNECT that are not used; later versions do not.
#[test]
fn only_the_oldest_version_takes_any_unused_flag_of_connect() {
    let connect = |name: &str, first: u8, level: u8, flags: u8| {
        let mut bytes = vec![first, 0, 0, name.len() as u8];
        bytes.extend(name.as_bytes());
        bytes.extend([level, flags, 0, 10, 0, 1, b'p']);
        bytes[1] = bytes.len() as u8 - 2;
        bytes
    };
    for (first, flags, violation) in [
        (0x14, 0x02, Violation::Flags),
        (0x18, 0x02, Violation::Flags),
        (0x10, 0x03, Violation::ConnectReserved),
        (0x10, 0x3a, Violation::NoWill),
    ] {
        let oldest = connect("MQIsdp", first, 3, flags);
        let Ok(Some((Packet::Connect(read), _))) = decode(&oldest, Version::V5, 100) else {
            panic!("{first:#x} {flags:#x}")
        };
        assert_eq!((read.version, read.client_id, read.clean_start, read.will), (Version::V3_1, "p", true, None));
        let newer = connect("MQTT", first, 4, flags);
        assert_eq!(decode(&newer, Version::V5, 100).unwrap_err().violation, violation, "{first:#x} {flags:#x}");
    }
    let mut bytes = [&connect("MQIsdp", 0x10, 3, 0x1e)[..], b"\0\x01t\0\0"].concat();
    bytes[1] += 5;
    assert_eq!(decode(&bytes, Version::V5, 100).unwrap_err().violation, Violation::WillQos);
}

/// A client of MQTT 3.1 marks what it sends again.
#[test]
fn only_the_oldest_version_marks_answers_that_come_again() {
    for bytes in [&b"\x6a\x02\0\x01"[..], b"\x8a\x06\0\x01\0\x01a\x01", b"\xaa\x05\0\x01\0\x01a"] {
        assert!(decode(bytes, Version::V3_1, 100).unwrap().is_some(), "{bytes:?}");
        for version in [Version::V3_1_1, Version::V5] {
            assert_eq!(decode(bytes, version, 100).unwrap_err().violation, Violation::Flags, "{bytes:?}");
        }
    }
    for bytes in [b"\x4a\x02\0\x01", b"\x6b\x02\0\x01"] {
        assert!(decode(bytes, Version::V3_1, 100).is_err(), "{bytes:?}");
    }
}
