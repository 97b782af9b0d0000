//! Messages against vectors, and transfers of messages: cut for frames, put together, refused.

use std::borrow::Cow;
use std::collections::BTreeMap;

use amqp10::codec::message::Properties;
use amqp10::codec::performative::Transfer;
use amqp10::codec::{
    Body, Budget, DeliveryState, Encode, Message, Performative, Section, ValueRef, decode_frame, decode_performative,
    read_value, state,
};
use amqp10::delivery::{Assembly, AssemblyError, Delivery, ShortBytes, Step, encode_transfers};
use amqp10::dialect::{Acquired, publish, write_stored};
use amqp10::limits::TRANSFERS;
use proptest::prelude::*;
use wire::Reader;

const VECTORS: &str = include_str!("vectors/messages.txt");
const CAPTURED: [&str; 3] = [
    include_str!("vectors/captured/go-amqp-1.7.0.txt"),
    include_str!("vectors/captured/python-qpid-proton-0.40.0.txt"),
    include_str!("vectors/captured/qpid-jms-2.10.0.txt"),
];
/// When the recordings were made at the earliest, in milliseconds since 1970.
const RECORDED: u64 = 1_700_000_000_000;
const CAPTURED_MESSAGES: &str = include_str!("vectors/captured/messages.txt");

fn bytes_of(hex: &str) -> Vec<u8> {
    hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect(byte)).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn show_value(bytes: &[u8]) -> String {
    read_value(&mut Reader::new(bytes), &mut Budget::default()).map_or("unreadable".into(), |value| value.to_string())
}

fn show(message: &Message<'_>) -> String {
    let mut parts = Vec::new();
    parts.extend(message.header.map(|header| format!("{header:?}")));
    parts.extend(message.delivery_annotations.map(|map| format!("delivery {map:?}")));
    parts.extend(message.message_annotations.map(|map| format!("message {map:?}")));
    parts.extend(message.properties.map(|properties| format!("{properties:?}")));
    parts.extend(message.application_properties.map(|map| format!("application {map:?}")));
    let body = match message.body {
        Body::Missing => "missing".to_owned(),
        Body::Data(data) => {
            let pieces: Vec<String> = data.iter().map(hex).collect();
            assert_eq!(data.single().is_some(), pieces.len() == 1);
            format!("data [{}]", if pieces == [""] { String::new() } else { pieces.join(", ") })
        }
        Body::Sequences(sections) => format!("sequences {}", hex(sections)),
        Body::Value(value) => format!("value {}", show_value(value)),
    };
    parts.push(format!("bare {}, {body}", message.bare.len()));
    parts.extend(message.footer.map(|map| format!("footer {map:?}")));
    parts.join("; ")
}

/// The message as one who passes it on writes it.
fn write(message: &Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(header) = message.header {
        header.encode(&mut out);
    }
    for (section, map) in [
        (Section::DeliveryAnnotations, message.delivery_annotations),
        (Section::MessageAnnotations, message.message_annotations),
    ] {
        if let Some(map) = map {
            section.encode(&ValueRef::Map(map), &mut out);
        }
    }
    out.extend_from_slice(message.bare);
    if let Some(map) = message.footer {
        Section::Footer.encode(&ValueRef::Map(map), &mut out);
    }
    out
}

/// Bytes, sign and text of each vector.
fn vectors() -> impl Iterator<Item = (Vec<u8>, char, &'static str)> {
    VECTORS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
        let at = line.find(['=', '~', '!']).expect(line);
        (bytes_of(&line[..at]), line[at..].chars().next().expect(line), line[at + 1..].trim())
    })
}

#[test]
fn vectors_are_read_and_written() {
    let mut wrong = Vec::new();
    for (bytes, sign, text) in vectors() {
        let (found, line) = match Message::decode(&bytes) {
            Ok(message) => (if write(&message) == bytes { '=' } else { '~' }, show(&message)),
            Err(error) => ('!', error.to_string()),
        };
        if (found, line.as_str()) != (sign, text) {
            wrong.push(format!("{} {found} {line}\n    expected {sign} {text}", hex(&bytes)));
        }
    }
    assert!(wrong.is_empty(), "{} vectors:\n{}", wrong.len(), wrong.join("\n"));
}

/// A message may end behind any section, so not each cut is an error; but none invents a section.
#[test]
fn a_cut_message_and_a_changed_one_break_nothing() {
    for (bytes, ..) in vectors() {
        for end in 0..bytes.len() {
            if let Ok(message) = Message::decode(&bytes[..end]) {
                let whole = Message::decode(&bytes).ok().unwrap_or(message);
                assert!(message.header.is_none() || message.header == whole.header);
                assert!(whole.bare.starts_with(message.bare));
            }
        }
        for at in 0..bytes.len() {
            for flip in [1, 2, 4, 8, 16, 32, 64, 128, 255] {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                if let Ok(message) = Message::decode(&changed) {
                    let written = write(&message);
                    assert_eq!(show(&Message::decode(&written).expect("written")), show(&message));
                }
            }
        }
    }
}

/// All whole messages that a client of the recordings sends, and the server of one.
fn captured() -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    for recording in CAPTURED {
        let mut links: BTreeMap<(u16, u32), Assembly> = BTreeMap::new();
        for line in recording.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let bytes = bytes_of(&line[..line.find(['=', '~']).expect(line)]);
            let frame = decode_frame(&bytes, u32::MAX).expect(line).expect(line);
            if let Ok((Performative::Transfer(transfer), payload)) = decode_performative(frame.body) {
                let link = links.entry((frame.channel, transfer.handle)).or_insert_with(|| Assembly::new(1 << 20));
                match link.transfer(&transfer, payload).expect(line) {
                    Step::Complete(delivery) => messages.push(delivery.message.into_owned()),
                    step => assert_eq!(step, Step::Incomplete),
                }
            }
        }
    }
    messages
}

#[test]
fn what_clients_send_is_put_together_and_read() {
    let shown: Vec<String> = captured()
        .iter()
        .map(|bytes| {
            let message = Message::decode(bytes).expect("a message of a client");
            assert_eq!(show(&Message::decode(&write(&message)).expect("written")), show(&message));
            let published = publish(bytes, RECORDED).expect("a message of a client");
            let mut delivered = Vec::new();
            write_stored(&published.properties, &published.body, None, Acquired::default(), &mut delivered)
                .expect("stored");
            assert_eq!(Message::decode(&delivered).expect("delivered").bare, message.bare);
            if let Some(properties) = message.properties {
                let mut out = Vec::new();
                properties.encode(&mut out);
                assert_eq!(Message::decode(&out).expect("written").properties, Some(properties));
            }
            show(&message)
        })
        .collect();
    let expected: Vec<&str> = CAPTURED_MESSAGES.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(shown, expected, "\n{}", shown.join("\n"));
}

fn first<'t>(id: u32, tag: &'t [u8]) -> Transfer<'t> {
    Transfer { delivery_id: Some(id), delivery_tag: Some(tag), message_format: Some(0), ..Transfer::default() }
}

#[test]
fn a_single_transfer_is_not_copied() {
    let mut assembly = Assembly::new(10);
    let step = assembly.transfer(&first(7, b"t"), b"hi").unwrap();
    let Step::Complete(Delivery { id: 7, message: Cow::Borrowed(b"hi"), settled: false, .. }) = step else {
        panic!("{step:?}")
    };
    assert_eq!(assembly.held(), 0);
}

#[test]
fn later_transfers_add_what_the_first_left_open() {
    let mut assembly = Assembly::new(10);
    let transaction = state::TransactionalState { txn_id: b"x", outcome: None };
    let state = Some(DeliveryState::Transactional(transaction));
    assert_eq!(assembly.transfer(&Transfer { more: true, ..first(1, b"t") }, b"ab"), Ok(Step::Incomplete));
    let later = Transfer { more: true, settled: Some(true), state, delivery_id: Some(1), ..Transfer::default() };
    assert_eq!(assembly.transfer(&later, b"cd"), Ok(Step::Incomplete));
    assert!(assembly.held() >= 4);
    let tag = ShortBytes::new(b"t").unwrap();
    let whole = Delivery {
        id: 1,
        tag,
        format: 0,
        settled: true,
        resumed: false,
        transaction: ShortBytes::new(b"x"),
        message: Cow::Borrowed(b"abcd"),
    };
    // The last transfer of a stream may be empty.
    assert_eq!(
        assembly.transfer(&Transfer { settled: Some(false), ..Transfer::default() }, b""),
        Ok(Step::Complete(whole))
    );
    assert_eq!(assembly.held(), 0);
}

#[test]
fn an_aborted_delivery_is_dropped_and_the_next_one_is_whole() {
    let mut assembly = Assembly::new(10);
    let aborted = Transfer { aborted: true, ..Transfer::default() };
    assert_eq!(assembly.transfer(&Transfer { more: true, ..first(1, b"t") }, b"ab"), Ok(Step::Incomplete));
    assert_eq!(assembly.transfer(&aborted, b"more than the link allows"), Ok(Step::Aborted(1)));
    assert_eq!(assembly.held(), 0);
    assert_eq!(assembly.transfer(&Transfer { aborted: true, more: true, ..first(2, b"u") }, b""), Ok(Step::Aborted(2)));
    assert!(matches!(assembly.transfer(&first(3, b"v"), b"ok"), Ok(Step::Complete(Delivery { id: 3, .. }))));
}

#[test]
fn transfers_that_do_not_fit_are_refused() {
    let long = [0; 33];
    let more = Transfer { more: true, ..first(1, b"t") };
    let transaction = state::TransactionalState { txn_id: &long, outcome: None };
    let in_transaction = Transfer { state: Some(DeliveryState::Transactional(transaction)), ..first(1, b"t") };
    for (before, transfer, payload, error) in [
        (None, Transfer::default(), 0, AssemblyError::Missing("delivery-tag")),
        (None, Transfer { delivery_id: None, ..first(1, b"t") }, 0, AssemblyError::Missing("delivery-id")),
        (None, first(1, &long), 0, AssemblyError::TooLong("delivery-tag")),
        (None, in_transaction, 0, AssemblyError::TooLong("txn-id")),
        (None, first(1, b"t"), 11, AssemblyError::TooLarge(10)),
        (Some(more), first(2, b"t"), 0, AssemblyError::Changed("delivery-id")),
        (Some(more), first(1, b"u"), 0, AssemblyError::Changed("delivery-tag")),
        (
            Some(more),
            Transfer { message_format: Some(1), ..first(1, b"t") },
            0,
            AssemblyError::Changed("message-format"),
        ),
        (Some(more), Transfer::default(), 6, AssemblyError::TooLarge(10)),
    ] {
        let mut assembly = Assembly::new(10);
        if let Some(before) = before {
            assert_eq!(assembly.transfer(&before, b"12345"), Ok(Step::Incomplete));
        }
        assert_eq!(assembly.transfer(&transfer, &b"12345678901"[..payload]), Err(error), "{transfer:?}");
        assert_eq!(assembly.held(), 0);
    }
}

#[test]
fn transfers_without_bytes_end_some_time() {
    let mut assembly = Assembly::new(10);
    let more = Transfer { more: true, ..first(1, b"t") };
    for _ in 0..TRANSFERS {
        assert_eq!(assembly.transfer(&more, b""), Ok(Step::Incomplete));
    }
    assert_eq!(assembly.transfer(&more, b""), Err(AssemblyError::TooMany));
}

proptest! {
    #[test]
    fn what_is_cut_is_put_together(
        message in prop::collection::vec(any::<u8>(), 0..5000),
        max in 512u32..2000,
        tag in prop::collection::vec(any::<u8>(), 0..32),
        settled in any::<bool>(),
        id in any::<u32>(),
    ) {
        let transfer = Transfer { settled: Some(settled), handle: id, ..first(id, &tag) };
        let mut bytes = Vec::new();
        encode_transfers(transfer, 3, &message, max, &mut bytes);
        let mut assembly = Assembly::new(message.len());
        let mut rest = bytes.as_slice();
        loop {
            let frame = decode_frame(rest, max).unwrap().expect("whole frames");
            rest = &rest[frame.size as usize..];
            let (Performative::Transfer(transfer), payload) = decode_performative(frame.body).unwrap() else {
                panic!("no transfer")
            };
            prop_assert_eq!((frame.channel, transfer.handle, transfer.more), (3, id, !rest.is_empty()));
            // Frames are filled, so there are as few as there can be.
            prop_assert!(!transfer.more || frame.size == max);
            if let Step::Complete(delivery) = assembly.transfer(&transfer, payload).unwrap() {
                prop_assert_eq!(delivery.message.as_ref(), message.as_slice());
                prop_assert_eq!((delivery.id, delivery.tag.as_bytes(), delivery.settled), (id, tag.as_slice(), settled));
                break;
            }
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn properties_are_read_as_written(
        texts in prop::collection::vec(prop::option::of(".{0,20}"), 5),
        user in prop::option::of(prop::collection::vec(any::<u8>(), 0..20)),
        number in any::<u64>(),
        sequence in prop::option::of(any::<u32>()),
    ) {
        let properties = Properties {
            message_id: Some(amqp10::codec::MessageId::Number(number)),
            user_id: user.as_deref(),
            to: texts[0].as_deref(),
            subject: texts[1].as_deref(),
            reply_to: texts[2].as_deref(),
            group_id: texts[3].as_deref(),
            group_sequence: sequence,
            reply_to_group_id: texts[4].as_deref(),
            ..Properties::default()
        };
        let mut out = Vec::new();
        properties.encode(&mut out);
        prop_assert_eq!(Message::decode(&out).unwrap().properties, Some(properties));
    }
}
