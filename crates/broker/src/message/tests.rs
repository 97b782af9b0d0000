//! Blocks: what is written is read, in every version, and what is cut or damaged is refused.

use super::*;
use crate::message::body::{Gathered, Place};
use crate::message::publisher::PublisherId;

fn head() -> Head<'static> {
    Head {
        dialect: DialectId(1),
        persistent: true,
        priority: Some(7),
        published_at: 1_700_000_000_123,
        expiration: Some(60_000),
        copies: Copies::None,
        instructed: false,
        delayed: false,
        exchange: "orders",
        routing_key: "eu.de",
        properties: b"\x10\x00\x02",
        annotations: b"",
        publisher: b"",
    }
}

#[test]
fn what_is_written_is_read() {
    let message = Arena::default().add(&head(), b"body");
    assert_eq!(message.dialect(), DialectId(1));
    assert!(message.persistent());
    assert_eq!((message.priority(), message.given_priority()), (7, Some(7)));
    assert_eq!(message.published_at(), 1_700_000_000_123);
    assert_eq!(message.expiration(), Some(60_000));
    assert_eq!(message.exchange(), "orders");
    assert_eq!(message.routing_key(), "eu.de");
    assert_eq!(message.properties(), b"\x10\x00\x02");
    assert!(!message.is_marked());
    assert_eq!(message.body(), b"body");
    assert_eq!(message.sent().short_address, Some(b"\x06orders\x05eu.de".as_slice()));
}

#[test]
fn a_priority_of_0_is_told_from_none() {
    for given in [None, Some(0), Some(255)] {
        let message = Arena::default().add(&Head { priority: given, ..head() }, b"body");
        assert_eq!((message.priority(), message.given_priority()), (given.unwrap_or(0), given));
    }
    // An older version had no such bit.
    let message = Message::from_stored(short([0, 0, 0, 0])).unwrap();
    assert_eq!(message.given_priority(), Some(7));
}

/// The block that version 1 wrote for the message of [`head`] with this expiration.
fn short(expiration: [u8; 4]) -> Bytes {
    let mut block = Vec::new();
    block.extend([1, 1, 1, 7, 13, 0, 0, 0]);
    block.extend([0x7b, 0x68, 0xe5, 0xcf, 0x8b, 0x01, 0, 0]);
    block.extend(expiration);
    block.extend([3, 0, 0, 0, 0, 0, 0, 0]);
    block.extend(b"\x06orders\x05eu.de\x10\x00\x02body");
    block.into()
}

#[test]
fn a_block_of_version_1_is_read_by_its_own_rule() {
    let cases = [
        ([0xff, 0xff, 0xff, 0xff], None),
        ([0xfe, 0xff, 0xff, 0xff], Some(4_294_967_294)),
        ([0x60, 0xea, 0, 0], Some(60_000)),
        ([0, 0, 0, 0], Some(0)),
    ];
    for (stored, expected) in cases {
        let message = Message::from_stored(short(stored)).unwrap();
        assert_eq!(message.expiration(), expected);
        assert_eq!((message.published_at(), message.body()), (1_700_000_000_123, b"body".as_slice()));
        // It is stored again as it came.
        assert_eq!(message.block(), short(stored));
    }
    let newer = [&[4], &short([0; 4])[1..]].concat();
    let refused = Message::from_stored(newer.into()).unwrap_err();
    assert!(refused.text.ends_with("its format is 4, this build reads up to 3"), "{refused}");
}

#[test]
fn an_expiration_has_48_bits_and_takes_none_where_there_is_none() {
    let cases: [(Option<u64>, &[u8]); 7] = [
        (None, &[]),
        (Some(0), &[0; 6]),
        (Some(60_000), &[0x60, 0xea, 0, 0, 0, 0]),
        (Some(4_294_967_295), &[0xff, 0xff, 0xff, 0xff, 0, 0]),
        (Some(4_294_967_296), &[0, 0, 0, 0, 1, 0]),
        (Some(315_360_000_000), &[0x00, 0xb8, 0xeb, 0x6c, 0x49, 0]),
        (Some((1 << 48) - 1), &[0xff; 6]),
    ];
    for (expiration, bytes) in cases {
        let message = Arena::default().add(&Head { expiration, ..head() }, b"body");
        let block = message.block();
        assert_eq!((&block[11..11 + bytes.len()], &block[11 + bytes.len()..][..7]), (bytes, b"\x06orders".as_slice()));
        let stored = Message::from_stored(Bytes::copy_from_slice(block)).unwrap();
        assert_eq!(
            (stored.expiration(), stored.routing_key(), stored.body()),
            (expiration, "eu.de", b"body".as_slice())
        );
    }
    let endless = Arena::default().add(&Head { expiration: Some(u64::MAX), ..head() }, b"");
    assert_eq!(endless.expiration(), Some((1 << 48) - 1), "what can't be stored is no message without end");
}

/// Blocks that were written once and for all, by each version.
const FROZEN: [&[u8]; 4] = [
    include_bytes!("../../tests/data/message-1.bin"),
    include_bytes!("../../tests/data/message-2.bin"),
    include_bytes!("../../tests/data/message-3.bin"),
    // The same with all kinds of sections.
    include_bytes!("../../tests/data/message-3-publisher.bin"),
];

#[test]
fn blocks_of_every_version_are_read() {
    for (block, version) in FROZEN.into_iter().zip(1..) {
        let message = Message::from_stored(Bytes::from_static(block)).unwrap();
        assert_eq!((message.exchange(), message.routing_key()), ("orders", "eu.de"), "version {version}");
        assert_eq!(message.sent().short_address, Some(b"\x06orders\x05eu.de".as_slice()));
        assert_eq!((message.properties(), message.body()), (b"\x10\x00\x02".as_slice(), b"body".as_slice()));
        assert_eq!((message.dialect(), message.persistent()), (DialectId(1), true));
        assert_eq!((message.priority(), message.given_priority()), (7, Some(7)));
        assert_eq!(message.published_at(), 1_700_000_000_123);
        assert_eq!(message.expiration(), if version == 2 { None } else { Some(60_000) });
        // Those of the later versions died, and were delayed.
        let died = version > 1;
        assert_eq!((message.is_marked(), message.was_delayed()), (died, died));
        let copies = if died { Copies::Spent } else { Copies::None };
        assert_eq!(message.copies(), copies);
        let deaths = message.annotations().map(|annotations| annotations.deaths);
        assert_eq!(deaths.as_ref().map(|deaths| deaths[0].original_expiration), died.then_some(Some(60_000)));
        assert_eq!(message.block(), block, "it is stored again as it came");
    }
}

#[test]
fn the_present_version_is_written_as_it_was_frozen() {
    let died = Message::from_stored(Bytes::from_static(FROZEN[2])).unwrap();
    let annotations = died.marks_bytes();
    let head = Head { copies: Copies::Spent, delayed: true, annotations, ..head() };
    assert_eq!(Arena::default().add(&head, b"body").block(), FROZEN[2]);
    let publisher = PublisherId::new(7, 1_700_000_000_123);
    assert_eq!(Arena::default().add(&Head { publisher: publisher.bytes(), ..head }, b"body").block(), FROZEN[3]);
}

#[test]
fn a_block_cut_or_changed_anywhere_is_read_or_refused() {
    for block in FROZEN {
        for length in 0..block.len() - 4 {
            assert!(Message::from_stored(Bytes::copy_from_slice(&block[..length])).is_err(), "cut at {length}");
        }
        for place in 0..block.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = block.to_vec();
                changed[place] = value;
                let Ok(message) = Message::from_stored(changed.into()) else { continue };
                let parts = [message.properties(), message.marks_bytes(), message.body()];
                let _ = (parts, message.annotations(), message.exchange(), message.routing_key(), message.expiration());
            }
        }
    }
}

/// Versions 1 and 2 once refused their own messages whose routing keys had more than 127 bytes: the
/// byte with the length was read as text, and is none.
#[test]
fn a_long_name_in_an_older_block_is_no_damage() {
    let key = "k".repeat(200);
    let mut block = vec![2, 1, 0, 0];
    block.extend([202, 0, 0xff, 0xff]);
    block.extend([0; 8]);
    block.extend([0xff; 4]);
    block.extend([0; 8]);
    block.extend([0, 200]);
    block.extend(key.bytes());
    block.extend(b"body");
    let message = Message::from_stored(block.into()).unwrap();
    assert_eq!((message.routing_key(), message.body()), (key.as_str(), b"body".as_slice()));
    assert!(message.sent().short_address.is_some_and(|address| address.len() == 202));
}

#[test]
fn names_of_any_length_are_kept() {
    for length in [0, 1, 127, 128, 255, 256, 16_383, 16_384, KEY_MAX] {
        let key = "k".repeat(length);
        let exchange = "e".repeat(length.min(NAME_MAX));
        for annotations in [b"".as_slice(), &[0; 300]] {
            let head = Head { exchange: &exchange, routing_key: &key, annotations, ..head() };
            let message = Arena::default().add(&head, b"body");
            assert_eq!(message.block().len(), head.length() + 4);
            let stored = Message::from_stored(Bytes::copy_from_slice(message.block())).unwrap();
            assert_eq!((stored.exchange(), stored.routing_key()), (exchange.as_str(), key.as_str()));
            assert_eq!((stored.marks_bytes(), stored.body()), (annotations, b"body".as_slice()));
            assert_eq!(stored.sent().short_address.is_some(), length < 128);
            let mut gathered = Gathered::new(&exchange, &key, head.properties.len());
            gathered.push(b"body", 4, Place::Sure);
            assert_eq!(Arena::default().add_body(&head, Body::Gathered(gathered)).block(), message.block());
        }
    }
}

/// Later versions may add what a reader need not know, such as who published a message.
#[test]
fn sections_that_need_not_be_known_are_passed_over() {
    let plain = Arena::default().add(&Head { expiration: None, ..head() }, b"body");
    let with = |section: &[u8]| {
        let mut block = plain.block().to_vec();
        let sections = block.len() - 4 - 5 - 1;
        block[sections] += section.len() as u8;
        block.splice(sections + 6..sections + 6, section.iter().copied());
        Message::from_stored(block.into())
    };
    let message = with(&[128, 2, b'm', b'e']).unwrap();
    assert_eq!((message.properties(), message.body()), (b"\x10\x00\x02".as_slice(), b"body".as_slice()));
    for (section, why) in [
        ([3u8, 1, 0].as_slice(), "it has a part that this build does not know"),
        (&[1, 1, 0], "its parts are out of order"),
        (&[128, 0], "its parts are out of order"),
        (&[128, 9, 0], "its parts are longer than itself"),
        (&[2, 1, 0], "its flags and its parts disagree"),
    ] {
        let refused = with(section).unwrap_err();
        assert!(refused.text.ends_with(why), "{refused}");
    }
}

/// What lies in a log or a segment is read by the same functions, with and without the section.
#[test]
fn the_publisher_is_kept_where_it_is_known_and_costs_nothing_elsewhere() {
    let own = PublisherId::new(7, 1_700_000_000_123);
    let died = Message::from_stored(Bytes::from_static(FROZEN[2])).unwrap();
    for annotations in [b"".as_slice(), died.marks_bytes()] {
        let unknown = Arena::default().add(&Head { annotations, ..head() }, b"body");
        let known = Head { annotations, publisher: own.bytes(), ..head() };
        let message = Arena::default().add(&known, b"body");
        assert_eq!(unknown.publisher(), b"");
        assert_eq!(message.block().len(), unknown.block().len() + 14);
        let stored = Message::from_stored(Bytes::copy_from_slice(message.block())).unwrap();
        assert_eq!((stored.publisher(), stored.properties()), (own.bytes(), head().properties));
        assert_eq!((stored.marks_bytes(), stored.body()), (annotations, b"body".as_slice()));
        for length in 0..message.block().len() - 4 {
            assert!(
                Message::from_stored(Bytes::copy_from_slice(&message.block()[..length])).is_err(),
                "cut at {length}"
            );
        }
        if annotations.is_empty() {
            let mut gathered = Gathered::new("orders", "eu.de", head().properties.len());
            gathered.push(b"body", 4, Place::Sure);
            assert_eq!(Arena::default().add_body(&known, Body::Gathered(gathered)).block(), message.block());
        }
    }
    for (client, now) in [(8, 1_700_000_000_123), (7, 1_700_000_000_124), (7 << 40, 1_700_000_000_123)] {
        assert_ne!(PublisherId::new(client, now), own);
    }
    let older = [FROZEN[0], FROZEN[1], FROZEN[2]].map(|block| Message::from_stored(Bytes::from_static(block)).unwrap());
    assert!(older.iter().all(|message| message.publisher().is_empty()));
}

/// A small message is common, and its bytes are memory and log.
#[test]
fn a_small_message_has_few_bytes_besides_its_own() {
    let small = Head { persistent: false, priority: None, expiration: None, exchange: "", routing_key: "q", ..head() };
    let message = Arena::default().add(&Head { properties: &[0, 0], ..small }, &[0; 64]);
    assert_eq!(message.block().len(), 11 + 2 + 1 + 1 + 4 + 64);
}

/// A reply address makes properties longer than they came.
#[test]
fn a_body_that_came_in_pieces_makes_the_same_message_with_and_without_room() {
    let (head, body) = (head(), b"in three pieces".as_slice());
    let expected = Arena::default().add(&head, body);
    for properties in [0, 2, 3, 4, 100] {
        for place in [Place::Unsure, Place::Sure] {
            let mut gathered = Gathered::new(head.exchange, head.routing_key, properties);
            assert!(gathered.is_empty());
            for piece in [&body[..2], &body[2..9], &body[9..]] {
                gathered.push(piece, body.len() as u64, place);
            }
            assert_eq!((gathered.len(), gathered.as_slice()), (body.len(), body));
            let message = Arena::default().add_body(&head, Body::Gathered(gathered));
            assert_eq!(message.block(), expected.block(), "room for {properties} bytes of properties");
        }
    }
}

/// A client that announces a body and sends none of it takes no memory.
#[test]
fn memory_for_a_body_is_taken_as_it_comes() {
    let whole = 16 << 20;
    let taken = |pieces: usize, place| {
        let mut gathered = Gathered::new("", "", 0);
        (0..pieces).for_each(|_| gathered.push(&[0; 1000], whole, place));
        gathered.capacity()
    };
    assert_eq!(taken(0, Place::Sure), 0);
    assert_eq!([taken(1, Place::Unsure), taken(3, Place::Unsure)], [2000, 6000]);
    assert_eq!([taken(1, Place::Sure), taken(2000, Place::Sure)], [1 << 20, 2 * 1_049_000]);
    let mut gathered = Gathered::new("", "", 0);
    (0..2000).for_each(|_| gathered.push(&[0; 1000], 2_000_000, Place::Sure));
    assert_eq!(gathered.capacity(), 2_000_000);
}

#[test]
fn copies_are_flags_beside_the_others() {
    let cases = [
        (Copies::None, false, 0),
        (Copies::Named, false, 2),
        (Copies::Spent, false, 4),
        (Copies::None, true, 1),
        (Copies::Named, true, 3),
        (Copies::Spent, true, 5),
    ];
    for (copies, persistent, flags) in cases {
        let message = Arena::default().add(&Head { copies, persistent, priority: None, ..head() }, b"");
        assert_eq!((message.copies(), message.persistent()), (copies, persistent));
        assert_eq!(message.block()[2] & !64, flags, "all except that it expires");
    }
}

#[test]
fn instructions_are_a_flag_beside_the_others() {
    let message = Arena::default().add(&Head { instructed: true, ..head() }, b"");
    assert!(message.instructed() && message.persistent() && message.copies() == Copies::None);
    assert!(!Arena::default().add(&head(), b"").instructed());
    let message = Arena::default().add(&Head { delayed: true, ..head() }, b"");
    assert!(message.was_delayed() && !message.instructed());
}

#[test]
fn a_stored_block_cut_anywhere_before_its_body_is_refused() {
    let message = Arena::default().add(&head(), b"body");
    let whole = Bytes::copy_from_slice(message.block());
    assert!(Message::from_stored(whole.clone()).is_ok());
    for length in 0..whole.len() - 4 {
        assert!(Message::from_stored(whole.slice(..length)).is_err(), "cut at {length}");
    }
}

#[test]
fn a_large_message_is_gone_when_nobody_has_it() {
    let mut arena = Arena::default();
    let large = arena.add(&head(), &[0; BLOCK]);
    assert!(large.0.is_unique(), "the arena keeps a part");
    let small = arena.add(&head(), b"small");
    assert!(!small.0.is_unique(), "small messages share");
}

#[test]
fn messages_of_any_size_share_an_arena() {
    let mut arena = Arena::default();
    let sizes = [0, 1, 100, 20_000, 40_000, 3, 15_000, 15_000, 15_000];
    let messages: Vec<_> = sizes.iter().map(|size| arena.add(&head(), &vec![*size as u8; *size])).collect();
    for (message, size) in messages.iter().zip(sizes) {
        assert_eq!(message.body(), vec![size as u8; size]);
    }
}

/// Dead letters took eight times what was counted: a few in a block that had room for many.
#[test]
fn a_few_messages_keep_no_more_memory_than_they_take() {
    let length = Arena::default().add(&head(), b"few").block().len();
    let mut arena = Arena::of_few(3 * length);
    for left in [2, 1, 0] {
        arena.add(&head(), b"few");
        assert_eq!(arena.block.capacity(), left * length);
    }
    let mut arena = Arena::of_few(length);
    assert!(arena.add(&head(), b"few").0.is_unique(), "it has its own memory");
    let mut arena = Arena::of_few(usize::MAX);
    arena.add(&head(), b"few");
    assert_eq!(arena.block.capacity(), SMALL_BLOCK - length);
}
