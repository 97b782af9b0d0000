//! A standby whose disk has other bytes than were written: it says so, and has all of its leader in
//! the end.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::{Follower, Node, expected, get, publish};
use crate::server::{run, until};

/// A batch in a log: its sequence, where it lies, and how long its records are.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Batch {
    sequence: u64,
    file: PathBuf,
    at: u64,
    length: u32,
}

impl Batch {
    /// All of a directory, oldest first.
    fn all(data: &Path) -> Vec<Self> {
        let mut found = Vec::new();
        for file in std::fs::read_dir(data.join("wal")).unwrap().map(|file| file.unwrap().path()) {
            let bytes = std::fs::read(&file).unwrap();
            for (at, block) in bytes.chunks(4096).enumerate().filter(|(_, block)| block.starts_with(b"HJba")) {
                let sequence = u64::from_le_bytes(block[24..32].try_into().unwrap());
                let length = u32::from_le_bytes(block[44..48].try_into().unwrap());
                found.push(Self { sequence, file: file.clone(), at: at as u64 * 4096, length });
            }
        }
        found.sort();
        found
    }

    /// Changes its first block, and nothing else in the file, which may be in use.
    fn change(&self, change: impl FnOnce(&mut [u8])) {
        let mut file = File::options().read(true).write(true).open(&self.file).unwrap();
        let mut block = [0; 4096];
        file.seek(SeekFrom::Start(self.at)).unwrap();
        file.read_exact(&mut block).unwrap();
        change(&mut block);
        file.seek(SeekFrom::Start(self.at)).unwrap();
        file.write_all(&block).unwrap();
    }
}

/// The first bytes of the records of a batch, behind its header.
const RECORDS: usize = 128;

/// Has `two` follow `one`, take so many messages, and stop.
fn have_a_copy(one: &Node, two: &Node, messages: usize) {
    let standby = two.follow(&["--token", &one.invite()]);
    standby.until_logged("connected: following");
    publish(one.ports.stomp, 0..messages);
    two.catch_up();
    standby.stop();
}

/// Promotes the standby without a loss: it has so many messages, all that there are.
fn has_all_once_promoted(two: &Node, standby: &Follower, messages: usize) {
    let (code, text, error) = two.promote(&["--planned"]);
    assert_eq!(code, 0, "{text}{error}");
    standby.until_logged("Server startup complete");
    assert_eq!(two.bodies("q", messages), expected(messages));
}

#[test]
fn a_flipped_byte_in_the_log_of_a_standby_is_told_and_what_it_misses_is_asked_for_again() {
    let (one, two) = (Node::new(), Node::new());
    let _leader = one.serve();
    have_a_copy(&one, &two, 30);
    // Where something behind it says that it had been flushed, the node does not start.
    let all = Batch::all(two.data());
    let last = all.iter().rposition(|batch| batch.length > 0).unwrap();
    all[last].change(|block| block[RECORDS] ^= 1);
    let (code, _, error) = run(&mut two.standby(&[]));
    assert!(code == 65 && error.contains(" is damaged at byte ") && error.contains("--replace"), "{code} {error}");
    // At the end of the log it is what a crash has left half written.
    all[last + 1..].iter().for_each(|seal| seal.change(|block| block.fill(0)));
    let standby = two.follow(&[]);
    standby.until_logged("does not read back and is cut off");
    standby.until_logged("connected: following");
    two.catch_up();
    standby.stop();
    // A copy takes the place of what can't be read.
    Batch::all(two.data()).last().unwrap().change(|block| block[30] ^= 1);
    let standby = two.follow(&["--replace"]);
    standby.until_logged("connected: following");
    has_all_once_promoted(&two, &standby, 30);
}

#[test]
fn a_copy_that_does_not_read_back_takes_the_place_of_nothing() {
    let (one, two) = (Node::new(), Node::new());
    let _leader = one.serve();
    have_a_copy(&one, &two, 30);
    // The leader does not read it before a node asks for it.
    let all = Batch::all(one.data());
    let early = all.iter().find(|batch| batch.length > 0).unwrap();
    early.change(|block| block[RECORDS] ^= 1);
    let standby = two.follow(&["--replace"]);
    standby.until_logged("the copy is not taken, since wal/0000.wal in it is damaged at byte ");
    until("the standby to stop following", || two.status()["state"] == "stopped");
    assert!(two.status()["trouble"].as_str().is_some_and(|why| why.contains("What was here before is kept")));
    standby.stop();
    // What it had goes on.
    let standby = two.follow(&[]);
    standby.until_logged("connected: following");
    two.catch_up();
    has_all_once_promoted(&two, &standby, 30);
}

#[test]
fn a_damaged_backlog_of_a_standby_is_noticed_before_it_is_promoted() {
    let (one, two) = (Node::new(), Node::new());
    let _leader = one.serve();
    publish(one.ports.stomp, 0..900);
    let standby = two.follow(&["--token", &one.invite()]);
    standby.until_logged("connected: following");
    two.catch_up();
    standby.stop();
    let files = std::fs::read_dir(two.data().join("cold")).unwrap().map(|file| file.unwrap().path());
    let segment = files.filter(|file| file.extension().is_some_and(|found| found == "seg")).min().unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[5000] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let standby = two.follow(&[]);
    standby.until_logged("what lies there could not be delivered once this node is promoted");
    until("its status to say so", || two.status()["damaged_segments"] == 1);
    let (_, metrics) = get(two.ports.http, "/metrics");
    assert!(metrics.contains("\nhermod_scrub_damaged 1\n"), "{metrics}");
}
