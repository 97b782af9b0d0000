//! A disk in memory that knows what was flushed and what was not, without any I/O: files and folders as they are seen, and
//! as they would be found after a power cut.
//!
//! A flush of a file makes its bytes and its length stable; a flush of a folder makes the names in it stable, and nothing
//! else does. A power cut keeps what is stable and, sector by sector and name by name, as much of the rest as it likes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::time::Duration;

use crate::crash::random::Random;
use crate::crash::stamp::{Id, STAMP, Stamp};

/// What a power cut keeps or loses at a time.
const SECTOR: u64 = 512;
/// The root folder's number.
pub(super) const ROOT: u64 = 1;

/// A file or folder.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) mode: u16,
    pub(super) bytes: Vec<u8>,
    stable: Vec<u8>,
    /// Written and not flushed: offset and end.
    dirty: Vec<(u64, u64)>,
    pub(super) names: BTreeMap<OsString, u64>,
    stable_names: BTreeMap<OsString, u64>,
}

/// What a node is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    File,
    Folder,
    /// The name of a listening socket.
    Socket,
}

/// What goes wrong with the disk besides power.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Trouble {
    #[default]
    None,
    /// The next flush of a file fails, and what it should have flushed is taken for clean all the same, as Linux does.
    FlushFails,
    /// Nothing works any more.
    Gone,
    /// Every other write takes only part of what it is given.
    Short,
}

/// What was done to the disk.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) writes: u64,
    pub(super) flushes: u64,
    /// Sectors and names that a power cut took away.
    pub(super) lost: u64,
}

/// The disk.
#[derive(Debug)]
pub(super) struct Disk {
    nodes: HashMap<u64, Node>,
    next: u64,
    pub(super) trouble: Trouble,
    pub(super) counts: Counts,
    /// How long a flush takes, for those who wait for it.
    pub(super) flush_takes: Duration,
    /// The run whose messages are looked for in what is flushed, if any.
    pub(super) audit: Option<u32>,
    found: HashSet<Id>,
}

impl Disk {
    /// An empty disk.
    pub(super) fn new() -> Self {
        let root = Node { kind: Kind::Folder, mode: 0o700, ..Node::default() };
        let nodes = HashMap::from([(ROOT, root)]);
        let (trouble, counts) = (Trouble::None, Counts::default());
        Self { nodes, next: ROOT + 1, trouble, counts, flush_takes: Duration::ZERO, audit: None, found: HashSet::new() }
    }

    pub(super) fn node(&self, number: u64) -> Option<&Node> {
        self.nodes.get(&number)
    }

    pub(super) fn node_mut(&mut self, number: u64) -> Option<&mut Node> {
        self.nodes.get_mut(&number)
    }

    /// The node of this name in a folder.
    pub(super) fn find(&self, folder: u64, name: &OsStr) -> Option<u64> {
        self.nodes.get(&folder)?.names.get(name).copied()
    }

    /// Makes a node with a new name in a folder. `None` if there is no such folder.
    pub(super) fn make(&mut self, folder: u64, name: &OsStr, kind: Kind, mode: u16) -> Option<u64> {
        let number = self.next;
        self.nodes.get_mut(&folder)?.names.insert(name.to_owned(), number);
        self.nodes.insert(number, Node { kind, mode, ..Node::default() });
        self.next += 1;
        Some(number)
    }

    /// Takes a name out of a folder; whoever has the file open keeps it. False if there is no such name.
    pub(super) fn unlink(&mut self, folder: u64, name: &OsStr) -> bool {
        self.nodes.get_mut(&folder).is_some_and(|folder| folder.names.remove(name).is_some())
    }

    /// Writes to a file. Returns how much it took.
    pub(super) fn write(&mut self, number: u64, offset: u64, bytes: &[u8]) -> Option<usize> {
        self.counts.writes += 1;
        let short = self.trouble == Trouble::Short && self.counts.writes.is_multiple_of(2) && bytes.len() > 1;
        let bytes = if short { &bytes[..bytes.len() / 3 + 1] } else { bytes };
        let node = self.nodes.get_mut(&number)?;
        let end = offset + bytes.len() as u64;
        if node.bytes.len() < end as usize {
            node.bytes.resize(end as usize, 0);
        }
        node.bytes[offset as usize..end as usize].copy_from_slice(bytes);
        match node.dirty.last_mut() {
            Some(last) if last.1 == offset => last.1 = end,
            _ => node.dirty.push((offset, end)),
        }
        Some(bytes.len())
    }

    /// Sets a file's length; that counts as written.
    pub(super) fn resize(&mut self, number: u64, length: u64) {
        if let Some(node) = self.nodes.get_mut(&number) {
            let before = node.bytes.len() as u64;
            node.bytes.resize(length as usize, 0);
            if length > before {
                node.dirty.push((before, length));
            }
        }
    }

    /// Flushes a file or a folder. False if that fails.
    pub(super) fn flush(&mut self, number: u64) -> bool {
        self.counts.flushes += 1;
        let Some(node) = self.nodes.get_mut(&number) else { return false };
        if node.kind == Kind::Folder {
            node.stable_names.clone_from(&node.names);
            return true;
        }
        let dirty = std::mem::take(&mut node.dirty);
        if self.trouble == Trouble::FlushFails {
            self.trouble = Trouble::None;
            return false;
        }
        node.stable.resize(node.bytes.len(), 0);
        for (from, to) in dirty {
            let to = to.min(node.bytes.len() as u64);
            let range = from.min(to) as usize..to as usize;
            node.stable[range.clone()].copy_from_slice(&node.bytes[range.clone()]);
            if let Some(run) = self.audit {
                self.found.extend(messages(run, &node.stable[range]));
            }
        }
        true
    }

    /// Whether a message was found in what was flushed.
    pub(super) fn is_stable(&self, id: Id) -> bool {
        self.found.contains(&id)
    }

    /// The power is cut: of what was not flushed, `kept` of 100 sectors and names survive.
    pub(super) fn cut(&mut self, random: &mut Random, kept: u64) {
        let mut numbers: Vec<u64> = self.nodes.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let Some(node) = self.nodes.get_mut(&number) else { continue };
            self.counts.lost += cut_names(node, random, kept) + cut_bytes(node, random, kept);
        }
        let mut alive = vec![ROOT];
        let mut at = 0;
        while let Some(number) = alive.get(at) {
            alive.extend(self.nodes.get(number).into_iter().flat_map(|node| node.names.values()));
            at += 1;
        }
        let alive: HashSet<u64> = alive.into_iter().collect();
        self.nodes.retain(|number, _| alive.contains(number));
    }
}

fn cut_names(node: &mut Node, random: &mut Random, kept: u64) -> u64 {
    let (seen, stable) = (node.names.clone(), node.stable_names.clone());
    let mut lost = 0;
    for name in seen.keys().chain(stable.keys()) {
        if seen.get(name) == stable.get(name) || random.chance(kept) {
            continue;
        }
        lost += 1;
        match stable.get(name) {
            Some(number) => node.names.insert(name.clone(), *number),
            None => node.names.remove(name),
        };
    }
    node.stable_names.clone_from(&node.names);
    lost
}

fn cut_bytes(node: &mut Node, random: &mut Random, kept: u64) -> u64 {
    let mut lost = 0;
    for (from, to) in std::mem::take(&mut node.dirty) {
        let to = to.min(node.bytes.len() as u64);
        let mut at = from;
        while at < to {
            let end = ((at / SECTOR + 1) * SECTOR).min(to);
            if random.chance(kept) {
                if node.stable.len() < end as usize {
                    node.stable.resize(end as usize, 0);
                }
                node.stable[at as usize..end as usize].copy_from_slice(&node.bytes[at as usize..end as usize]);
            } else {
                lost += 1;
            }
            at = end;
        }
    }
    node.bytes.clone_from(&node.stable);
    lost
}

/// The messages of a run whose whole stamps are in these bytes. What comes behind a stamp is not looked at.
fn messages(run: u32, bytes: &[u8]) -> Vec<Id> {
    let mark: Vec<u8> = Stamp::mark(run);
    let starts = bytes.windows(mark.len()).enumerate().filter(|(_, window)| *window == mark).map(|(at, _)| at);
    starts.filter_map(|at| Stamp::id_of(bytes.get(at..at + STAMP)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk_with_file() -> (Disk, u64) {
        let mut disk = Disk::new();
        let file = disk.make(ROOT, OsStr::new("a"), Kind::File, 0o600).unwrap();
        (disk, file)
    }

    #[test]
    fn a_cut_loses_what_was_not_flushed_and_nothing_else() {
        for (file_flushed, folder_flushed) in [(true, true), (true, false), (false, true), (false, false)] {
            let (mut disk, file) = disk_with_file();
            assert_eq!(disk.write(file, 0, b"old"), Some(3));
            if file_flushed {
                assert!(disk.flush(file));
            }
            if folder_flushed {
                assert!(disk.flush(ROOT));
            }
            disk.write(file, 1, b"new");
            disk.cut(&mut Random::new(1), 0);
            let found = disk.find(ROOT, OsStr::new("a")).map(|number| disk.node(number).unwrap().bytes.as_slice());
            let expected: &[u8] = if file_flushed { b"old" } else { b"" };
            assert_eq!(found, folder_flushed.then_some(expected), "{file_flushed} {folder_flushed}");
        }
    }

    #[test]
    fn an_unflushed_removal_comes_back_and_a_lucky_write_stays() {
        let (mut disk, file) = disk_with_file();
        assert!(disk.flush(ROOT) && disk.unlink(ROOT, OsStr::new("a")));
        disk.cut(&mut Random::new(1), 0);
        assert_eq!(disk.find(ROOT, OsStr::new("a")), Some(file));
        disk.write(file, 0, &[7; 2000]);
        disk.cut(&mut Random::new(1), 100);
        assert_eq!(disk.node(file).unwrap().bytes, [7; 2000]);
    }

    #[test]
    fn after_a_failed_flush_the_next_one_does_not_bring_the_bytes_back() {
        let (mut disk, file) = disk_with_file();
        disk.flush(ROOT);
        disk.trouble = Trouble::FlushFails;
        disk.write(file, 0, b"gone");
        assert!(!disk.flush(file) && disk.flush(file));
        disk.cut(&mut Random::new(1), 0);
        assert_eq!(disk.node(file).unwrap().bytes, [0; 4]);
    }

    #[test]
    fn flushed_messages_are_found() {
        let (mut disk, file) = disk_with_file();
        disk.audit = Some(5);
        let id = Id { producer: 3, seq: 9 };
        let body = Stamp { id, transaction: None, queues: 1 }.body(5, 100);
        disk.write(file, 17, &body);
        assert!(!disk.is_stable(id));
        assert!(disk.flush(file) && disk.is_stable(id) && !disk.is_stable(Id { seq: 8, ..id }));
    }
}
