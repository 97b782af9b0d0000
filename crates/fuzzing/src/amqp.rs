//! AMQP 0-9-1: frames, methods, tables, properties, and a whole conversation as a client reads it.
//!
//! The property of every decoder: if it accepts an input, its encoder writes bytes that it reads as
//! the same value.

use amqp091::client::{Client, Options};
use amqp091::codec::frame::ContentHeader;
use amqp091::codec::table::encode_fields;
use amqp091::codec::{Table, decode_frame, decode_method, decode_properties, decode_table, scan_properties};

/// Frames one after the other; the payload of each is also decoded by its kind.
pub(super) fn frame(input: &[u8]) {
    for frame_max in [4096, 131_072] {
        let mut rest = input;
        while let Ok(Some(frame)) = decode_frame(rest, frame_max) {
            let length = frame.wire_len();
            assert!(length <= frame_max as usize + 8, "a frame larger than agreed was accepted");
            assert!(matches!(decode_frame(&rest[..length - 1], frame_max), Ok(None)), "a cut frame is incomplete");
            if let Some(header) = ContentHeader::decode(frame.payload) {
                properties(header.properties);
            }
            rest = &rest[length..];
        }
    }
}

/// One method, as the payload of a method frame.
pub(super) fn method(input: &[u8]) {
    let Ok(method) = decode_method(input) else { return };
    let mut bytes = Vec::new();
    method.encode(1, &mut bytes);
    let frame = decode_frame(&bytes, 0).ok().flatten();
    let again = frame.map(|frame| decode_method(frame.payload));
    assert_eq!(format!("{:?}", Some(Ok::<_, ()>(method))), format!("{:?}", again.map(|again| again.map_err(drop))));
}

/// A table with its length before it.
pub(super) fn table(input: &[u8]) {
    let Ok(table) = decode_table(input) else { return };
    let fields = table.to_fields();
    let bytes = encode_fields(&fields);
    let again = Table::new(&bytes).map(|table| table.to_fields());
    // Compared as text, because a NaN does not equal itself.
    assert_eq!(format!("{:?}", Ok::<_, wire::DecodeError>(fields)), format!("{again:?}"));
}

/// The flags and values of a content header.
pub(super) fn properties(input: &[u8]) {
    let scan = scan_properties(input);
    let all = decode_properties(input);
    assert_eq!(scan.is_ok(), all.is_ok(), "the quick pass and the full one disagree");
    let (Ok(scan), Ok(all)) = (scan, all) else { return };
    assert_eq!((scan.delivery_mode, scan.priority, scan.expiration), (all.delivery_mode, all.priority, all.expiration));
    let bytes = all.to_bytes();
    assert_eq!(decode_properties(&bytes), Ok(all));
}

/// Everything that a server could send to a client.
pub(super) fn client(input: &[u8]) {
    let mut client = Client::new(Options::default());
    let mut out = Vec::new();
    client.start(&mut out);
    let mut rest = input;
    loop {
        let before = rest.len();
        match client.poll(&mut rest, &mut out) {
            Ok(Some(_)) => assert!(rest.len() < before, "an event that took no bytes"),
            Ok(None) | Err(_) => return,
        }
    }
}
