//! A data directory of version 1: it opens, all of it is replayed wherever a power cut interrupts
//! its first start in the present format, and older programs refuse it from then on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use journal::{
    Address, Bits, Chunk, Journal, LogId, Options, Owner, Owners, Reference, Replay, Restatement, Stepper, verify,
};
use testkit::sim_disk::{Fault, SimDisk};

use crate::queues::small;

/// An owner that the directory does not have.
const OURS: Owner = 1 << 20;

/// All that is replayed, in order.
#[derive(Default, PartialEq, Eq, Debug, Clone)]
struct Told(Vec<String>);

impl Replay for Told {
    fn cold(&mut self, owner: Owner, page: u64, bytes: u64, chunk: Chunk) {
        self.0.push(format!("chunk {owner} {page} {bytes} {chunk:?}"));
    }
    fn fact(&mut self, owner: Owner, kind: u8, bytes: &[u8]) {
        self.0.push(format!("fact {owner} {kind} {bytes:?}"));
    }
    fn reference(&mut self, owner: Owner, first_seq: u64, mark: u64, bodies: &[Address]) {
        self.0.push(format!("reference {owner} {first_seq} {mark} {bodies:?}"));
    }
    fn settled(&mut self, owner: Owner, reason: u8, runs: &[(u64, u64)]) {
        self.0.push(format!("settled {owner} {reason} {runs:?}"));
    }
    fn dropped(&mut self, owner: Owner) {
        self.0.push(format!("dropped {owner}"));
    }
    fn lost(&mut self, segment: u32, file: &str, what: &str) {
        panic!("{segment} {file} {what}");
    }
    fn burnt(&mut self, owner: Owner, first_seq: u64, count: u64) {
        self.0.push(format!("burnt {owner} {first_seq} {count}"));
    }
}

struct NoOwners;

impl Owners for NoOwners {
    fn restate(&self, _: &[Owner], _: &Restatement<'_>) -> Vec<Owner> {
        Vec::new()
    }
    fn referenced(&self, _: Owner, _: u32, _: &mut Vec<Reference>) {}
    fn unsettled(&self, _: Owner, _: u64, _: &mut Bits) {}
    fn moved(&self, _: Owner, _: u64, _: &[u32], _: Chunk, _: &[Reference]) -> u64 {
        0
    }
}

fn load(disk: &SimDisk, root: &Path, folder: &str) {
    for entry in std::fs::read_dir(root.join(folder)).unwrap() {
        let name: PathBuf = Path::new(folder).join(entry.unwrap().file_name());
        let (path, name) = (root.join(&name), name.to_str().unwrap().to_owned());
        if path.is_dir() {
            load(disk, root, &name);
        } else {
            disk.replace(&name, &std::fs::read(path).unwrap());
        }
    }
}

/// The directory that version 1 wrote, on a disk of its own.
fn written(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed, 8 << 20);
    load(&disk, &Path::new(env!("CARGO_MANIFEST_DIR")).join("../broker/tests/data/v1"), "");
    disk
}

fn options() -> Options {
    Options { file_bytes: 128 << 10, first_file_bytes: 128 << 10, max_bytes: 1 << 20, ..small() }
}

/// Opens the journal and lives on a little, until the disk fails; gives what was replayed.
fn live(disk: &SimDisk) -> Option<Told> {
    let mut told = Told::default();
    let opened = Journal::open(Arc::new(disk.clone()), options(), &mut told).ok()?;
    let (journal, stepper): (Journal, Stepper) =
        opened.start_stepped(&mut std::iter::empty(), Arc::new(NoOwners), Box::new(|_| {}));
    journal.appender(LogId::SYSTEM).fact(None, OURS, 1, &[b"of this version"]);
    // Without background: nothing here could restate what the old files say.
    let _ = stepper.flush();
    Some(told)
}

#[test]
fn a_power_cut_while_version_1_is_opened_loses_nothing() {
    let whole = written(1);
    let before = live(&whole).unwrap();
    assert!(before.0.len() > 100, "{}", before.0.len());
    let ours = format!("fact {OURS} 1 {:?}", b"of this version");
    let mut raised = 0;
    for after in 0..whole.operations() {
        let disk = written(after);
        disk.fault(after, Fault::Crash);
        let _ = live(&disk);
        disk.power_cut();
        let marker = String::from_utf8(disk.bytes("FORMAT")).unwrap();
        assert!(marker.contains("\nformat 1\n") || marker.contains("\nformat 2\n"), "after {after}: {marker}");
        raised += u64::from(marker.contains("\nformat 2\n"));
        let mut found = Told::default();
        let verified = verify(Arc::new(disk.clone()), &mut found).unwrap();
        assert!(verified.is_whole(), "after {after}: {:?}", verified.damages);
        drop(verified);
        found.0.retain(|one| *one != ours);
        assert!(found == before, "after {after}: {} records", found.0.len());
        let mut again = live(&disk).unwrap();
        again.0.retain(|one| *one != ours);
        assert!(again == before, "after {after}: {} records", again.0.len());
    }
    assert!(raised > 0);
}
