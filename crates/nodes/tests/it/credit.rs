//! Neither side takes more of the other than it said, or anything at a place where it does not
//! belong.

use bytes::Bytes;
use nodes::{Event, Filled, Frames, LONGEST_ASKED, Malformed, Message, Receiver, Sender};
use testkit::sim_disk::SimDisk;

use crate::{hello, leader};

fn bytes_of(messages: &[Message]) -> Vec<u8> {
    let mut bytes = Vec::new();
    messages.iter().for_each(|message| message.write(&mut bytes));
    bytes
}

#[test]
fn a_sender_stops_where_the_other_takes_no_more() {
    let leader = leader(&SimDisk::new(1, 64 << 20));
    let mut feed = leader.broker().broker.feed([]);
    let mut sender = Sender::default();
    let mut sent = Vec::new();
    sender.receive(&bytes_of(&[Message::Hello(hello()), Message::Follow(Vec::new())]));
    while sender.next_asked().unwrap().is_some() {}
    assert_eq!(sender.follow(&mut feed, 0).unwrap(), Filled::NoCredit);
    assert!(sender.take_out().is_empty(), "nothing was asked for");
    loop {
        sender.receive(&bytes_of(&[Message::Want(1)]));
        assert_eq!(sender.next_asked(), Ok(None));
        let filled = sender.follow(&mut feed, 0).unwrap();
        let out = sender.take_out();
        sent.push(out.len());
        if filled == Filled::UpToDate {
            break;
        }
        assert!(sent.len() < 100_000, "a debt is worked off");
    }
    assert!(sender.progress().0 > 1, "{:?}", sender.progress());
    assert!(sent.iter().filter(|bytes| **bytes == 0).count() > 100, "a byte is asked for at a time: {sent:?}");
}

/// A link that was cut brought a beat a second late, and the standby took itself to be up to date
/// as of then, without what had been confirmed meanwhile.
#[test]
fn a_beat_says_what_it_was_said_after() {
    let leader = leader(&SimDisk::new(1, 64 << 20));
    let mut feed = leader.broker().broker.feed([]);
    let mut sender = Sender::default();
    let asked = [Message::Hello(hello()), Message::Follow(Vec::new()), Message::Want(1 << 20)];
    sender.receive(&bytes_of(&asked));
    for (now, stamp) in [(1_000, 0), (2_000, 17), (3_000, 29)] {
        if stamp > 0 {
            sender.receive(&bytes_of(&[Message::Reached { count: 0, stamp }]));
        }
        while sender.next_asked().unwrap().is_some() {}
        sender.follow(&mut feed, now).unwrap();
        let mut frames = Frames::new(1 << 20);
        frames.push(&sender.take_out());
        let mut stamps = Vec::new();
        while let Some(message) = frames.next_message().unwrap() {
            if let Message::Beat(beat) = message {
                stamps.push(beat.stamp);
            }
        }
        assert_eq!(stamps, [stamp], "at {now}");
    }
}

#[test]
fn a_receiver_refuses_what_it_did_not_ask_for() {
    let piece = |bytes| Message::Piece { offset: 0, bytes: Bytes::from(vec![1; bytes]) };
    let pieces: Vec<_> = (0..20).map(|_| piece(900)).collect();
    let unasked = "a message that does not belong there";
    for (wish, sent, taken, refused) in [
        ("none", vec![Message::CopyBegins { bytes: 1 }], 0, Some(unasked)),
        ("none", vec![piece(1)], 0, Some("more bytes than were asked for")),
        ("none", vec![Message::Hello(hello())], 0, Some(unasked)),
        ("copy", vec![Message::Horizon(1)], 0, Some(unasked)),
        ("copy", vec![Message::HandedOver], 0, Some(unasked)),
        ("copy", vec![piece(900), piece(900)], 2, None),
        ("copy", pieces, 20, None),
        ("copy", vec![piece(5000), piece(1)], 2, None),
        ("copy", vec![Message::CopyEnds, piece(1)], 1, Some(unasked)),
        ("follow", vec![Message::CopyEnds], 0, Some(unasked)),
        ("follow", vec![Message::Want(1)], 0, Some(unasked)),
        ("follow", vec![Message::HandedOver, Message::Horizon(1)], 1, Some(unasked)),
    ] {
        let mut receiver = Receiver::new(&hello(), 2000, LONGEST_ASKED);
        receiver.receive(&bytes_of(&[Message::Hello(hello())]));
        assert!(matches!(receiver.next_event(), Ok(Some(Event::Greeted(_)))));
        match wish {
            "copy" => receiver.copy(0),
            "follow" => receiver.follow(Vec::new()),
            _ => {}
        }
        receiver.receive(&bytes_of(&sent));
        let mut count = 0;
        let end = loop {
            match receiver.next_event() {
                Ok(Some(_)) => count += 1,
                Ok(None) => break None,
                Err(Malformed(what)) => break Some(what),
            }
        };
        assert_eq!((count, end), (taken, refused), "{wish}, {sent:?}");
    }
}

#[test]
fn a_sender_takes_wishes_in_their_order_only() {
    for (sent, taken, refused) in [
        (vec![Message::Follow(Vec::new())], 0, true),
        (vec![Message::Hello(hello()), Message::Hello(hello())], 1, true),
        (vec![Message::Hello(hello()), Message::Want(1)], 1, true),
        (vec![Message::Hello(hello()), Message::HandOver], 1, true),
        (vec![Message::Hello(hello()), Message::Follow(Vec::new()), Message::Copy { free: 1 }], 2, true),
        (vec![Message::Hello(hello()), Message::Follow(Vec::new()), Message::Reached { count: 1, stamp: 0 }], 2, true),
        (vec![Message::Hello(hello()), Message::Follow(Vec::new()), Message::HandOver], 3, false),
        (vec![Message::Hello(hello()), Message::Copy { free: 1 }, Message::Want(u64::MAX), Message::Want(1)], 2, false),
    ] {
        let mut sender = Sender::default();
        sender.receive(&bytes_of(&sent));
        let mut count = 0;
        let end = loop {
            match sender.next_asked() {
                Ok(Some(_)) => count += 1,
                Ok(None) => break false,
                Err(_) => break true,
            }
        };
        assert_eq!((count, end), (taken, refused), "{sent:?}");
    }
}
