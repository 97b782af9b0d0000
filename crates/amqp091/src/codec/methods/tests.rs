//! Byte vectors of methods, every method's round trip, and cuts at every offset.

use proptest::prelude::*;

use super::*;
use crate::codec::decode_frame;

fn encoded(method: Method<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    method.encode(7, &mut out);
    let frame = decode_frame(&out, 0).expect("a frame").expect("a whole frame");
    assert_eq!((frame.kind, frame.channel, frame.wire_len()), (FrameKind::Method, 7, out.len()));
    frame.payload.to_vec()
}

#[test]
fn known_bytes_in_both_directions() {
    let arguments = Table::new(b"\x01kt\x01").expect("a valid table");
    let vectors: Vec<(&[u8], Method<'_>)> = vec![
        (b"\x00\x3c\x00\x50\0\0\0\0\0\0\0\x09\x01", BasicAck { delivery_tag: 9, multiple: true }.into()),
        (
            b"\x00\x3c\x00\x78\0\0\0\0\0\0\0\x09\x02",
            BasicNack { delivery_tag: 9, multiple: false, requeue: true }.into(),
        ),
        (
            b"\x00\x3c\x00\x28\0\0\x01e\x02rk\x01",
            BasicPublish { exchange: "e", routing_key: "rk", mandatory: true, ..Default::default() }.into(),
        ),
        (
            b"\x00\x32\x00\x0a\0\0\x01q\x16\0\0\0\x04\x01kt\x01",
            QueueDeclare { queue: "q", durable: true, exclusive: true, nowait: true, arguments, ..Default::default() }
                .into(),
        ),
        (
            b"\x00\x3c\x00\x3c\x01c\0\0\0\0\0\0\x01\0\x01\x00\x01q",
            BasicDeliver { consumer_tag: "c", delivery_tag: 256, redelivered: true, exchange: "", routing_key: "q" }
                .into(),
        ),
        (b"\x00\x28\x00\x33", ExchangeUnbindOk {}.into()),
        (b"\x00\x0a\x00\x46\0\0\0\x03abc\x01r", ConnectionUpdateSecret { new_secret: b"abc", reason: "r" }.into()),
        (
            b"\x00\x0a\x00\x1f\x07\xff\x00\x02\x00\x00\x00\x3c",
            ConnectionTuneOk { channel_max: 2047, frame_max: 131_072, heartbeat: 60 }.into(),
        ),
    ];
    for (bytes, method) in vectors {
        assert_eq!(decode_method(bytes), Ok(method));
        assert_eq!(encoded(method), bytes, "{}", method.name());
    }
}

#[test]
fn every_method_round_trips_has_a_name_and_fails_at_every_cut() {
    let all = one_of_each();
    assert_eq!(all.len(), 66);
    for method in all {
        let bytes = encoded(method);
        assert_eq!(decode_method(&bytes), Ok(method));
        let (class, id) = method.id();
        assert_eq!(method_name(class, id), Some(method.name()));
        for cut in 0..bytes.len() {
            let answer = decode_method(&bytes[..cut]);
            assert!(matches!(answer, Err(MethodError::Malformed { .. })), "{} cut at {cut}", method.name());
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        let error = DecodeError::Malformed("bytes follow the last argument");
        assert_eq!(decode_method(&longer), Err(MethodError::Malformed { class, method: id, error }));
    }
    assert_eq!(method_name(60, 99), None);
}

#[test]
fn what_is_unknown_or_malformed_is_named() {
    let table: &[(&[u8], &str)] = &[
        (b"\x00\x3c\x00\x63", "unknown method 60.99"),
        (b"\x00\x00\x00\x00", "unknown method 0.0"),
        (b"\x00", "malformed method 0.0: the value ends too early"),
        (b"\x00\x3c\x00\x28\0\0\x01\xff\x00\x00", "malformed method 60.40: a short string is not UTF-8"),
        (b"\x00\x32\x00\x0a\0\0\0\0\0\0\0\x03\x01kZ", "malformed method 50.10: unknown type octet of a field value"),
    ];
    for (bytes, text) in table {
        assert_eq!(decode_method(bytes).map_err(|error| error.to_string()), Err((*text).to_owned()));
    }
}

#[test]
fn short_strings_longer_than_their_length_octet_are_cut_at_a_character() {
    let text = "é".repeat(200);
    let bytes = encoded(ConnectionBlocked { reason: &text }.into());
    let Ok(Method::ConnectionBlocked(blocked)) = decode_method(&bytes) else {
        panic!("not what was encoded");
    };
    assert_eq!(blocked.reason, &text[..254]);
}

proptest! {
    #[test]
    fn publishes_round_trip(
        (exchange, routing_key) in ("\\PC{0,60}", "\\PC{0,60}"), (mandatory, immediate) in any::<(bool, bool)>(),
        ticket: u16,
    ) {
        let method = BasicPublish { ticket, exchange: &exchange, routing_key: &routing_key, mandatory, immediate };
        let bytes = encoded(method.into());
        prop_assert_eq!(decode_method(&bytes), Ok(method.into()));
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(
        class in prop_oneof![Just(10u16), Just(40), Just(50), Just(60)], id in 0u16..130,
        arguments in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let bytes = [&class.to_be_bytes()[..], &id.to_be_bytes(), &arguments].concat();
        if let Ok(method) = decode_method(&bytes) {
            let again = encoded(method);
            prop_assert_eq!(decode_method(&again), Ok(method));
        }
    }
}
