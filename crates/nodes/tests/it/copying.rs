//! A copy on its way: cut anywhere it is no data directory, whole it is the same one.

use std::sync::Arc;

use bytes::Bytes;
use journal::Disk;
use nodes::{CopyError, CopySource, CopyTarget, Message};
use testkit::broker::{Setup, TestBroker};
use testkit::sim_disk::SimDisk;

use crate::leader;

fn target(disk: &SimDisk, total: u64) -> CopyTarget {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    CopyTarget::begin(disk, total).unwrap()
}

fn take(target: &mut CopyTarget, message: &Message) -> Result<(), CopyError> {
    match message {
        Message::File(name) => target.file(name),
        Message::Piece { offset, bytes } => target.piece(*offset, bytes),
        Message::Zeros { offset, length } => target.zeros(*offset, *length),
        _ => Ok(()),
    }
}

#[test]
fn a_copy_that_is_cut_short_is_no_data_directory() {
    let leader = leader(&SimDisk::new(1, 64 << 20));
    let mut copy = CopySource::begin(u64::MAX, |to| leader.broker().backup(to)).unwrap();
    let mut messages = Vec::new();
    while let Some(message) = copy.pull().unwrap() {
        messages.push(message);
    }
    let Some(Message::CopyBegins { bytes }) = messages.first().cloned() else { panic!("{messages:?}") };
    assert_eq!(messages.last(), Some(&Message::CopyEnds));
    for cut in 0..=messages.len() {
        let disk = SimDisk::new(2, 64 << 20);
        // What lay there before is no part of it.
        disk.replace("wal/0009.wal", b"old");
        disk.replace("FORMAT", b"old");
        let mut target = target(&disk, bytes);
        messages[..cut].iter().for_each(|message| take(&mut target, message).unwrap());
        let whole = cut + 1 >= messages.len();
        if whole {
            target.finish().unwrap();
        } else {
            assert!(target.finish().is_err(), "{cut} of {} messages", messages.len());
        }
        disk.power_cut();
        let marked = disk.names().contains(&"FORMAT".to_owned()) && !disk.bytes("FORMAT").is_empty();
        assert!(whole || !marked || disk.bytes("FORMAT") != leader_marker(&messages), "{cut}");
        if whole {
            let opened = TestBroker::open(Setup::stepped(&disk, 1 << 20));
            assert_eq!(opened.broker.queues().len(), leader.broker().broker.queues().len());
        }
    }
}

/// The bytes of the marker, which are the last piece.
fn leader_marker(messages: &[Message]) -> Vec<u8> {
    match messages.iter().rev().find(|message| matches!(message, Message::Piece { .. })) {
        Some(Message::Piece { bytes, .. }) => bytes.to_vec(),
        _ => panic!("the marker has bytes"),
    }
}

#[test]
fn a_copy_that_would_not_fit_is_refused_before_its_first_byte() {
    let leader = leader(&SimDisk::new(1, 64 << 20));
    let refused = CopySource::begin(4096, |to| leader.broker().backup(to)).map(drop).unwrap_err();
    assert!(refused.to_string().contains("and 4096 are free there"), "{refused}");
}

#[test]
fn a_copy_goes_nowhere_but_into_its_directory() {
    let piece = |offset, bytes: &'static [u8]| Message::Piece { offset, bytes: Bytes::from_static(bytes) };
    let file = |name: &str| Message::File(name.to_owned());
    for (messages, words) in [
        (vec![file("../etc/passwd")], "a name that no file"),
        (vec![file("wal/../x")], "a name that no file"),
        (vec![file("spill/1.tmp")], "a name that no file"),
        (vec![file("cluster/node.key")], "a name that no file"),
        (vec![file("wal/.hidden")], "a name that no file"),
        (vec![file("/FORMAT")], "a name that no file"),
        (vec![file("wal/a/b")], "a name that no file"),
        (vec![piece(0, b"x")], "a piece comes before its file"),
        (vec![file("wal/0000.wal"), piece(0, b"0123456789ab")], "longer than it was said to be"),
        (vec![file("wal/0000.wal"), piece(u64::MAX, b"x")], "longer than it was said to be"),
        (vec![file("wal/0000.wal"), Message::Zeros { offset: 0, length: 11 }], "longer than it was said to be"),
    ] {
        let disk = SimDisk::new(1, 64 << 20);
        let mut target = target(&disk, 10);
        let refused = messages.iter().find_map(|message| take(&mut target, message).err());
        assert!(refused.as_ref().is_some_and(|it| it.to_string().contains(words)), "{messages:?}: {refused:?}");
    }
}
