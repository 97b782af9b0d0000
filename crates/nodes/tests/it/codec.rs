//! Every message is read as it was written, from any pieces, and not before its end.

use bytes::Bytes;
use journal::{LogEnd, LogId};
use nodes::{Beat, Frames, LONGEST_ASKED, Malformed, Membership, Message, NodeId, PIECE, Refusal};
use testkit::sim_disk::SimDisk;

use crate::{first_entry, hello, leader};

fn end(log: LogId, index: u64) -> LogEnd {
    LogEnd { log, term: 3, index, link: 99 }
}

fn all() -> Vec<Message> {
    let log = |number| LogId::new(number).unwrap();
    vec![
        Message::Hello(hello()),
        Message::Copy { free: u64::MAX },
        Message::Follow(Vec::new()),
        Message::Follow(vec![end(LogId::SYSTEM, 7), end(log(9), u64::MAX)]),
        Message::Want(1),
        Message::Reached { count: 77, stamp: 5 },
        Message::HandOver,
        Message::Join { secret: [5; 16], key: [6; 32] },
        Message::Joined(Membership { node: NodeId([7; 16]), certificate: vec![1, 2], authority: vec![3] }),
        Message::CopyBegins { bytes: 5 },
        Message::File("cold/0000000a.seg".to_owned()),
        Message::Piece { offset: 4096, bytes: Bytes::from_static(b"bytes") },
        Message::Zeros { offset: 1, length: PIECE as u32 },
        Message::CopyEnds,
        Message::Entry(first_entry(&leader(&SimDisk::new(1, 64 << 20)))),
        Message::Horizon(3),
        Message::Beat(Beat { unix_ms: 1, age_ms: 2, entries: 3, bytes: 4, stamp: 5 }),
        Message::HandedOver,
        Message::Refused { why: Refusal::Gone, words: "begin again".to_owned() },
    ]
}

#[test]
fn a_message_is_read_as_it_was_written_and_not_before_its_end() {
    for message in all() {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        for cut in 0..bytes.len() {
            let mut frames = Frames::new(LONGEST_ASKED);
            frames.push(&bytes[..cut]);
            assert_eq!(frames.next_message(), Ok(None), "{message:?} at byte {cut}");
            frames.push(&bytes[cut..]);
            assert_eq!(frames.next_message().as_ref(), Ok(&Some(message.clone())), "{message:?} cut at byte {cut}");
            assert_eq!((frames.next_message(), frames.kept()), (Ok(None), 0));
        }
    }
}

#[test]
fn a_message_whose_length_lies_is_refused_or_is_another_message() {
    for message in all() {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        for length in 0..bytes.len() - 4 {
            if let Ok(shorter) = Message::read(Bytes::copy_from_slice(&bytes[4..4 + length])) {
                assert_ne!(shorter, message, "{length} bytes");
            }
        }
        bytes.push(0);
        if let Ok(longer) = Message::read(Bytes::from(bytes).slice(4..)) {
            assert_ne!(longer, message);
        }
    }
}

#[test]
fn what_is_too_long_or_of_no_kind_is_refused_by_name() {
    let mut frames = Frames::new(100);
    frames.push(&101_u32.to_le_bytes());
    assert_eq!(frames.next_message(), Err(Malformed("a message that is longer than it may be")));
    for (bytes, what) in [
        (&b""[..], "a message that ends too early"),
        (b"\x08", "a message of no known kind"),
        (b"\x06more", "bytes behind a message"),
        (b"\x03\0\0\0\x01\0\0\0\0\0\0\0\0", "a log whose number has more than 24 bits"),
        (b"\x20\xff", "a refusal for no known reason"),
        (b"\x11\xff", "a text that is not UTF-8"),
        (&[&[17][..], &[b'a'; 256]].concat(), "a text that is too long"),
        (&[&[19][..], &[0; 8], &[1, 0, 16, 0]].concat(), "a piece of more than a mebibyte"),
        (&[&[21][..], &[0; 28]].concat(), "an entry without records"),
    ] {
        assert_eq!(Message::read(Bytes::copy_from_slice(bytes)), Err(Malformed(what)), "{bytes:?}");
    }
}

#[test]
fn a_greeting_of_another_version_is_told_from_rubbish() {
    let Ok(Message::Hello(other)) = Message::read(Bytes::from_static(b"\x01\x09\0whatever")) else {
        panic!("it is a greeting")
    };
    assert_eq!(other.format, 9);
}
