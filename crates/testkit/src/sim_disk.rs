//! A simulated disk for the journal: everything happens in memory, and every fault follows from a
//! seed.
//!
//! It keeps two pictures of each file: what a reader sees, and what survives a power cut. Only a
//! flush carries the one over to the other. At a power cut each write since then is kept, lost or
//! torn at 512-byte sectors, one by one. Each creation or removal not yet flushed is kept or lost.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use journal::{Disk, DiskFile, Lock};
use parking_lot::Mutex;

/// The unit a disk writes as a whole.
const SECTOR: usize = 512;

/// A small reproducible source of random numbers: SplitMix64 (Steele, Lea, Flood: Fast splittable
/// pseudorandom number generators, 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number of the sequence.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; zero if `limit` is.
    pub fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.number() % limit }
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What can go wrong with one operation.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The machine stops: this operation and all later ones fail, until [`SimDisk::power_cut`].
    Crash,
    /// The operation fails. A flush that fails leaves its writes visible and marks them clean. It
    /// is a matter of luck what of them reaches the disk, and a later flush does not carry them
    /// over.
    Error,
    /// A write takes only part of its bytes; other operations are not disturbed.
    Short,
}

/// A write that is not flushed.
struct Change {
    offset: usize,
    bytes: Vec<u8>,
}

/// One file: what a reader sees, what survives, and what lies between.
#[derive(Default)]
struct Content {
    seen: Vec<u8>,
    kept: Vec<u8>,
    unflushed: Vec<Change>,
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>) {
        let end = self.offset + self.bytes.len();
        if to.len() < end {
            to.resize(end, 0);
        }
        to[self.offset..end].copy_from_slice(&self.bytes);
    }

    /// Applies what a power cut leaves of the change: all, nothing, a prefix, or any of its
    /// sectors.
    fn apply_torn(&self, to: &mut Vec<u8>, random: &mut Random) {
        let Self { offset, bytes } = self;
        let fate = random.below(4);
        let sectors = (offset / SECTOR..(offset + bytes.len()).div_ceil(SECTOR)).enumerate();
        let count = ((offset + bytes.len()).div_ceil(SECTOR) - offset / SECTOR) as u64;
        let prefix = random.below(count + 1);
        for (at, sector) in sectors {
            let kept = match fate {
                0 => true,
                1 => false,
                2 => (at as u64) < prefix,
                _ => random.chance(50),
            };
            if kept {
                let from = (sector * SECTOR).max(*offset);
                let until = ((sector + 1) * SECTOR).min(offset + bytes.len());
                let piece = bytes[from - offset..until - offset].to_vec();
                Self { offset: from, bytes: piece }.apply(to);
            }
        }
    }
}

struct State {
    random: Random,
    contents: Vec<Content>,
    /// Names as a program sees them, and as they survive.
    seen: BTreeMap<String, usize>,
    kept: BTreeMap<String, usize>,
    capacity: u64,
    operations: u64,
    faults: Vec<(u64, Fault)>,
    /// Flushes say they worked and do nothing.
    lying: bool,
    crashed: bool,
    /// Counts restarts: handles and locks of an earlier life are dead.
    life: u64,
    locked: bool,
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone)]
pub struct SimDisk(Arc<Mutex<State>>);

impl SimDisk {
    /// An empty disk of `capacity` bytes whose luck follows from `seed`.
    pub fn new(seed: u64, capacity: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            random: Random::new(seed),
            contents: Vec::new(),
            seen: BTreeMap::new(),
            kept: BTreeMap::new(),
            capacity,
            operations: 0,
            faults: Vec::new(),
            lying: false,
            crashed: false,
            life: 0,
            locked: false,
        })))
    }

    /// Has `fault` happen `after` more operations that change something.
    pub fn fault(&self, after: u64, fault: Fault) {
        let mut state = self.0.lock();
        let at = state.operations + after;
        state.faults.push((at, fault));
    }

    /// Changes how many bytes fit.
    pub fn set_capacity(&self, capacity: u64) {
        self.0.lock().capacity = capacity;
    }

    /// Makes flushes lie: they say they worked and do nothing.
    pub fn lie_about_flushes(&self) {
        self.0.lock().lying = true;
    }

    /// Operations so far that changed something.
    pub fn operations(&self) -> u64 {
        self.0.lock().operations
    }

    /// Whether a fault has stopped the machine.
    pub fn has_crashed(&self) -> bool {
        self.0.lock().crashed
    }

    /// The power goes: what was not flushed is kept, lost or torn, as luck has it; locks and open
    /// files are gone.
    pub fn power_cut(&self) {
        let mut state = self.0.lock();
        let state = &mut *state;
        for content in &mut state.contents {
            for change in std::mem::take(&mut content.unflushed) {
                change.apply_torn(&mut content.kept, &mut state.random);
            }
            content.seen = content.kept.clone();
        }
        let changed: Vec<String> = state.seen.keys().chain(state.kept.keys()).cloned().collect();
        for name in changed {
            if state.seen.get(&name) != state.kept.get(&name) && state.random.chance(50) {
                match state.seen.get(&name).copied() {
                    Some(id) => state.kept.insert(name, id),
                    None => state.kept.remove(&name),
                };
            }
        }
        state.seen = state.kept.clone();
        state.restart();
    }

    /// The process ends and the machine goes on: nothing is lost, locks and open files are gone.
    pub fn restart(&self) {
        self.0.lock().restart();
    }

    /// The names of all files.
    pub fn names(&self) -> Vec<String> {
        self.0.lock().seen.keys().cloned().collect()
    }

    /// A copy of a file as a reader sees it; empty if there is none.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let state = self.0.lock();
        state.seen.get(name).map(|id| state.contents[*id].seen.clone()).unwrap_or_default()
    }

    /// Replaces a file, or makes one, behind the program's back, and durably so.
    pub fn replace(&self, name: &str, bytes: &[u8]) {
        let mut state = self.0.lock();
        let id = state.contents.len();
        state.contents.push(Content { seen: bytes.to_vec(), kept: bytes.to_vec(), unflushed: Vec::new() });
        state.seen.insert(name.to_owned(), id);
        state.kept.insert(name.to_owned(), id);
    }

    /// Deletes a file behind the program's back, and durably so. Who has it open keeps it until the
    /// end of the process.
    pub fn unlink(&self, name: &str) {
        let mut state = self.0.lock();
        state.seen.remove(name);
        state.kept.remove(name);
    }

    /// Cuts a file to half its length behind the program's back, and durably so.
    pub fn cut(&self, name: &str) {
        let mut state = self.0.lock();
        let Some(id) = state.seen.get(name).copied() else { return };
        let content = &mut state.contents[id];
        for picture in [&mut content.seen, &mut content.kept] {
            picture.truncate(picture.len() / 2);
        }
    }

    /// Flips one bit of a file, durably.
    pub fn flip_bit(&self, name: &str, bit: u64) {
        let mut state = self.0.lock();
        let Some(id) = state.seen.get(name).copied() else { return };
        let (byte, mask) = ((bit / 8) as usize, 1 << (bit % 8));
        let content = &mut state.contents[id];
        for picture in [&mut content.seen, &mut content.kept] {
            if let Some(byte) = picture.get_mut(byte) {
                *byte ^= mask;
            }
        }
    }
}

impl State {
    fn restart(&mut self) {
        self.crashed = false;
        self.life += 1;
        self.locked = false;
        self.faults.clear();
    }

    fn look(&self, life: u64) -> io::Result<()> {
        if self.crashed || self.life != life { Err(io::Error::other("the machine has stopped")) } else { Ok(()) }
    }

    /// Counts an operation and says what goes wrong with it.
    fn operate(&mut self, life: u64) -> io::Result<Option<Fault>> {
        self.look(life)?;
        self.operations += 1;
        let now = self.operations;
        let due = self.faults.iter().position(|(at, _)| *at <= now);
        let fault = due.map(|at| self.faults.remove(at).1);
        if fault == Some(Fault::Crash) {
            self.crashed = true;
        }
        Ok(fault)
    }

    fn used(&self) -> u64 {
        self.seen.values().map(|id| self.contents[*id].seen.len() as u64).sum()
    }
}

/// The error of an operation that a fault hits, unless the fault is one it shrugs off.
fn hit(fault: Option<Fault>) -> io::Result<()> {
    match fault {
        None | Some(Fault::Short) => Ok(()),
        Some(Fault::Crash) => Err(io::Error::other("the machine has stopped")),
        Some(Fault::Error) => Err(io::Error::other("simulated I/O error")),
    }
}

impl Disk for SimDisk {
    fn lock(&self) -> io::Result<Option<Lock>> {
        let mut state = self.0.lock();
        state.look(state.life)?;
        if std::mem::replace(&mut state.locked, true) {
            return Ok(None);
        }
        Ok(Some(Box::new(SimLock { disk: self.clone(), life: state.life })))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.0.lock();
        state.look(state.life)?;
        Ok(state.seen.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let state = self.0.lock();
        state.look(state.life)?;
        let id = *state.seen.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(SimFile { disk: self.clone(), id, life: state.life }))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.0.lock();
        let life = state.life;
        let fault = state.operate(life)?;
        hit(fault)?;
        let id = state.contents.len();
        state.contents.push(Content::default());
        state.seen.insert(name.to_owned(), id);
        Ok(Arc::new(SimFile { disk: self.clone(), id, life }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.0.lock();
        let life = state.life;
        let fault = state.operate(life)?;
        hit(fault)?;
        state.seen.remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        let life = state.life;
        let fault = state.operate(life)?;
        hit(fault)?;
        if !state.lying {
            state.kept = state.seen.clone();
        }
        Ok(())
    }

    fn free(&self) -> io::Result<u64> {
        let state = self.0.lock();
        state.look(state.life)?;
        Ok(state.capacity.saturating_sub(state.used()))
    }

    fn size(&self) -> io::Result<u64> {
        let state = self.0.lock();
        state.look(state.life)?;
        Ok(state.capacity)
    }
}

struct SimLock {
    disk: SimDisk,
    life: u64,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.0.lock();
        if state.life == self.life {
            state.locked = false;
        }
    }
}

struct SimFile {
    disk: SimDisk,
    id: usize,
    life: u64,
}

impl DiskFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.disk.0.lock();
        state.look(self.life)?;
        let rest = state.contents[self.id].seen.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.0.lock();
        let fault = state.operate(self.life)?;
        let offset = offset as usize;
        let grown = (offset + bytes.len()).saturating_sub(state.contents[self.id].seen.len()) as u64;
        if grown > 0 && state.used() + grown > state.capacity {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let count = match fault {
            Some(Fault::Error) => return hit(fault).map(|()| 0),
            Some(Fault::Short) => bytes.len().div_ceil(2),
            _ => bytes.len(),
        };
        let change = Change { offset, bytes: bytes[..count].to_vec() };
        let content = &mut state.contents[self.id];
        change.apply(&mut content.seen);
        content.unflushed.push(change);
        hit(fault).map(|()| count)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        let fault = state.operate(self.life)?;
        let state = &mut *state;
        let content = &mut state.contents[self.id];
        match fault {
            Some(Fault::Crash) => {}
            Some(Fault::Error) => {
                for change in std::mem::take(&mut content.unflushed) {
                    change.apply_torn(&mut content.kept, &mut state.random);
                }
            }
            _ if state.lying => {}
            _ => {
                for change in std::mem::take(&mut content.unflushed) {
                    change.apply(&mut content.kept);
                }
            }
        }
        hit(fault)
    }

    fn length(&self) -> io::Result<u64> {
        let state = self.disk.0.lock();
        state.look(self.life)?;
        Ok(state.contents[self.id].seen.len() as u64)
    }

    fn is_linked(&self) -> io::Result<bool> {
        let state = self.disk.0.lock();
        state.look(self.life)?;
        Ok(state.seen.values().any(|id| *id == self.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with one durable file of two sectors of ones.
    fn disk(seed: u64) -> (SimDisk, Arc<dyn DiskFile>) {
        let disk = SimDisk::new(seed, 1 << 20);
        let file = disk.create("file").unwrap();
        assert_eq!(file.write_at(&[1; 1024], 0).unwrap(), 1024);
        file.sync_data().unwrap();
        disk.sync_directory().unwrap();
        (disk, file)
    }

    #[test]
    fn what_is_flushed_survives_and_what_is_not_may_be_kept_lost_or_torn() {
        let mut fates = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let (disk, file) = disk(seed);
            file.write_at(&[2; 1024], 0).unwrap();
            disk.power_cut();
            let bytes = disk.bytes("file");
            assert_eq!(bytes.len(), 1024);
            fates.insert((bytes[0], bytes[1023]));
            assert!(bytes[..512].iter().all(|byte| *byte == bytes[0]), "a sector is never torn");
        }
        assert_eq!(fates.into_iter().collect::<Vec<_>>(), [(1, 1), (1, 2), (2, 1), (2, 2)]);
    }

    #[test]
    fn a_seed_gives_the_same_luck_every_time() {
        let run = |seed| {
            let (disk, file) = disk(seed);
            file.write_at(&[3; 1024], 100).unwrap();
            disk.create("other").unwrap();
            disk.power_cut();
            (disk.bytes("file"), disk.names())
        };
        for seed in 0..50 {
            assert_eq!(run(seed), run(seed));
        }
    }

    #[test]
    fn names_survive_for_sure_only_when_the_directory_is_flushed() {
        let lost = (0..50).filter(|seed| {
            let (disk, _) = disk(*seed);
            disk.create("new").unwrap();
            disk.power_cut();
            !disk.names().contains(&"new".to_owned())
        });
        assert!((1..50).contains(&lost.count()));
    }

    #[test]
    fn a_failed_flush_marks_its_writes_clean() {
        let lost = (0..50).filter(|seed| {
            let (disk, file) = disk(*seed);
            file.write_at(&[2; 1024], 0).unwrap();
            disk.fault(1, Fault::Error);
            assert!(file.sync_data().is_err());
            file.sync_data().unwrap();
            assert_eq!(disk.bytes("file"), [2; 1024], "readers still see it");
            disk.power_cut();
            disk.bytes("file") != [2; 1024]
        });
        assert!(lost.count() > 10);
    }

    #[test]
    fn faults_hit_the_operation_they_are_set_for() {
        let (disk, file) = disk(0);
        disk.fault(2, Fault::Short);
        disk.fault(3, Fault::Error);
        disk.fault(4, Fault::Crash);
        assert_eq!(file.write_at(&[1; 10], 0).unwrap(), 10);
        assert_eq!(file.write_at(&[1; 10], 0).unwrap(), 5);
        assert!(file.write_at(&[1; 10], 0).is_err());
        assert!(file.sync_data().is_err());
        assert!(file.read_at(&mut [0; 1], 0).is_err(), "the machine has stopped");
        disk.power_cut();
        assert!(file.read_at(&mut [0; 1], 0).is_err(), "the handle is of an earlier life");
        assert!(disk.open("file").is_ok());
    }

    #[test]
    fn space_and_locks_are_limited() {
        let (disk, file) = disk(0);
        disk.set_capacity(2048);
        assert_eq!(disk.free().unwrap(), 1024);
        assert_eq!(file.write_at(&[0; 4096], 0).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(file.write_at(&[0; 1024], 0).unwrap(), 1024, "an overwrite needs no room");
        let lock = disk.lock().unwrap();
        assert!(lock.is_some() && disk.lock().unwrap().is_none());
        drop(lock);
        assert!(disk.lock().unwrap().is_some());
    }

    #[test]
    fn files_can_be_damaged_behind_the_programs_back() {
        let (disk, _) = disk(0);
        disk.flip_bit("file", 8);
        assert_eq!(disk.bytes("file")[..3], [1, 0, 1]);
        disk.replace("file", b"xyz");
        disk.power_cut();
        assert_eq!(disk.bytes("file"), b"xyz");
    }
}
