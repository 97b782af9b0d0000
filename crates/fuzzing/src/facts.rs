//! What a log says about the broker. Whatever facts lie there, in records that check, reading the
//! directory returns a value: it names its queues, or says which fact can't be read.

use std::sync::Arc;

use broker::Verified;
use journal::{Durability, Journal, LogId, Options, Owner};

use crate::disk::Files;

/// How many owners an input may name. 1 is the vhost and 2 its queue; an input declares others.
const OWNERS: u8 = 8;
/// The kinds of the facts that are there before.
const VHOST: u8 = 1;
const QUEUE: u8 = 3;
/// Kinds from here on are known to no version.
const UNKNOWN: u8 = 100;

/// Each fact of the input is a byte for its owner, one for its kind, one for its length, and so
/// many bytes, or those that are left.
pub(super) fn facts(input: &[u8]) {
    let disk = Arc::new(Files::default());
    let knows_all = write(&disk, input);
    let read = Verified::read(disk).expect("no record is damaged");
    assert!(read.journal.is_whole(), "what was written checks");
    assert!(knows_all || read.facts.is_some(), "a kind that no version has is told");
    for queue in &read.queues {
        assert!(queue.lost <= queue.entries, "{} of {} entries are lost", queue.lost, queue.entries);
    }
    if input.is_empty() {
        assert!(read.is_whole() && read.queues.len() == 1, "the undamaged directory has its queue");
    }
}

/// Writes a vhost, a queue and the facts of the input. False if one is of no known kind.
fn write(disk: &Arc<Files>, input: &[u8]) -> bool {
    let options = Options {
        durability: Durability::Fsync,
        file_bytes: 64 << 10,
        first_file_bytes: 64 << 10,
        max_bytes: 1 << 20,
        max_batch_bytes: 16 << 10,
        incarnation: 7,
        progress: Arc::default(),
    };
    let opened = Journal::open(disk.clone(), options, &mut ()).expect("an empty disk opens");
    let (journal, stepper) = opened.start_stepped(&mut std::iter::empty(), Arc::new(()), Box::new(|_| {}));
    let mut appender = journal.appender(LogId::SYSTEM);
    appender.fact(None, 1, VHOST, &[b"\x01/\x01"]);
    appender.fact(None, 2, QUEUE, &[b"\x01\x01q\0\0"]);
    let (mut rest, mut knows_all) = (input, true);
    while let [owner, kind, length, behind @ ..] = rest {
        let (bytes, left) = behind.split_at(usize::from(*length).min(behind.len()));
        appender.fact(None, Owner::from(owner % OWNERS + 1), *kind, &[bytes]);
        knows_all &= *kind < UNKNOWN;
        rest = left;
    }
    drop(appender);
    stepper.flush().expect("memory takes everything");
    knows_all
}
