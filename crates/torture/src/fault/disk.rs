//! A disk in memory that knows what was flushed and what was not, without any I/O: files and
//! folders as they are seen, and as they would be found after a power cut.
//!
//! A flush of a file makes its bytes and its length stable; a flush of a folder makes the names in
//! it stable, and nothing else does. A power cut keeps what is stable and, sector by sector and
//! name by name, as much of the rest as it likes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::random::Random;
use crate::stamp::{Id, STAMP, Stamp};

/// What a power cut keeps or loses at a time.
const SECTOR: u64 = 512;
/// The root folder's number.
pub(super) const ROOT: u64 = 1;

/// A file or folder.
#[derive(Debug, Clone, Default)]
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
    /// The next flush of a file fails, and what it should have flushed is taken for clean all the
    /// same, as Linux does.
    FlushFails,
    /// Nothing works any more.
    Gone,
    /// Every other write takes only part of what it is given.
    Short,
    /// The flush of a folder is answered and does nothing.
    Deaf,
}

/// A change of the names in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    Made(OsString),
    Removed(OsString),
    /// The folder was flushed.
    Flushed,
}

/// What a power cut takes or leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    Sector,
    Name,
}

/// Everything on a disk at one moment, flushed or not. A copy shares what does not change later.
#[derive(Debug, Clone)]
pub(super) struct State {
    nodes: HashMap<u64, Arc<Node>>,
    next: u64,
}

/// Is told of each moment at which a power cut would take names in another way than before: before
/// a name changes, before a folder is flushed, and after a file was.
pub(super) type Watch = Box<dyn FnMut(&State) + Send>;

/// What was done to the disk.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) writes: u64,
    pub(super) flushes: u64,
    /// Sectors and names that a power cut took away.
    pub(super) lost: u64,
}

/// The disk.
pub(super) struct Disk {
    state: State,
    /// Who wants to know of the moments that matter to names, if anybody does.
    pub(super) watch: Option<Watch>,
    /// All changes of names, in order.
    pub(super) changes: Vec<Change>,
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
        Self::at(State { nodes: HashMap::from([(ROOT, Arc::new(root))]), next: ROOT + 1 })
    }

    /// A disk that goes on from this moment of another one.
    pub(super) fn at(state: State) -> Self {
        Self {
            state,
            watch: None,
            changes: Vec::new(),
            trouble: Trouble::None,
            counts: Counts::default(),
            flush_takes: Duration::ZERO,
            audit: None,
            found: HashSet::new(),
        }
    }

    /// What is on it now.
    pub(super) fn state(&self) -> &State {
        &self.state
    }

    pub(super) fn node(&self, number: u64) -> Option<&Node> {
        self.state.nodes.get(&number).map(Arc::as_ref)
    }

    pub(super) fn node_mut(&mut self, number: u64) -> Option<&mut Node> {
        self.state.nodes.get_mut(&number).map(Arc::make_mut)
    }

    /// Tells the watcher that this is such a moment.
    fn tell(&mut self) {
        if let Some(watch) = &mut self.watch
            && self.state.pending() > 0
        {
            watch(&self.state);
        }
    }

    /// The node of this name in a folder.
    pub(super) fn find(&self, folder: u64, name: &OsStr) -> Option<u64> {
        self.node(folder)?.names.get(name).copied()
    }

    /// Makes a node with a new name in a folder. `None` if there is no such folder.
    pub(super) fn make(&mut self, folder: u64, name: &OsStr, kind: Kind, mode: u16) -> Option<u64> {
        self.tell();
        let number = self.state.next;
        self.node_mut(folder)?.names.insert(name.to_owned(), number);
        self.state.nodes.insert(number, Arc::new(Node { kind, mode, ..Node::default() }));
        self.state.next += 1;
        self.changes.push(Change::Made(name.to_owned()));
        Some(number)
    }

    /// Takes a name out of a folder. A process that has the file open keeps it. False if there is
    /// no such name.
    pub(super) fn unlink(&mut self, folder: u64, name: &OsStr) -> bool {
        self.tell();
        self.changes.push(Change::Removed(name.to_owned()));
        self.node_mut(folder).is_some_and(|folder| folder.names.remove(name).is_some())
    }

    /// Writes to a file. Returns how much it took.
    pub(super) fn write(&mut self, number: u64, offset: u64, bytes: &[u8]) -> Option<usize> {
        self.counts.writes += 1;
        let short = self.trouble == Trouble::Short && self.counts.writes.is_multiple_of(2) && bytes.len() > 1;
        let bytes = if short { &bytes[..bytes.len() / 3 + 1] } else { bytes };
        let node = self.node_mut(number)?;
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
        if let Some(node) = self.node_mut(number) {
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
        match self.node(number).map(|node| node.kind) {
            None => false,
            Some(Kind::Folder) => {
                self.flush_folder(number);
                true
            }
            Some(_) => {
                let done = self.flush_file(number);
                self.tell();
                done
            }
        }
    }

    fn flush_folder(&mut self, number: u64) {
        self.tell();
        self.changes.push(Change::Flushed);
        if self.trouble != Trouble::Deaf
            && let Some(node) = self.node_mut(number)
        {
            node.stable_names.clone_from(&node.names);
        }
    }

    fn flush_file(&mut self, number: u64) -> bool {
        let fails = self.trouble == Trouble::FlushFails;
        let audit = self.audit;
        let Some(node) = self.node_mut(number) else { return false };
        let dirty = std::mem::take(&mut node.dirty);
        if fails {
            self.trouble = Trouble::None;
            return false;
        }
        node.stable.resize(node.bytes.len(), 0);
        let mut found = Vec::new();
        for (from, to) in dirty {
            let to = to.min(node.bytes.len() as u64);
            let range = from.min(to) as usize..to as usize;
            node.stable[range.clone()].copy_from_slice(&node.bytes[range.clone()]);
            if let Some(run) = audit {
                found.extend(messages(run, &node.stable[range]));
            }
        }
        self.found.extend(found);
        true
    }

    /// Whether a message was found in what was flushed.
    pub(super) fn is_stable(&self, id: Id) -> bool {
        self.found.contains(&id)
    }

    /// The power is cut: of what was not flushed, `kept` of 100 sectors and names survive.
    pub(super) fn cut(&mut self, random: &mut Random, kept: u64) {
        self.cut_by(&mut |_| random.chance(kept));
    }

    /// The power is cut: of what was not flushed that survives of which `keep` says so. It is asked
    /// about the names in the order in which [`State::pending`] counts them.
    pub(super) fn cut_by(&mut self, keep: &mut dyn FnMut(Piece) -> bool) {
        for number in self.state.numbers() {
            let Some(node) = self.node_mut(number) else { continue };
            let lost = cut_names(node, keep) + cut_bytes(node, keep);
            self.counts.lost += lost;
        }
        let mut alive = vec![ROOT];
        let mut at = 0;
        while let Some(number) = alive.get(at) {
            alive.extend(self.node(*number).into_iter().flat_map(|node| node.names.values()));
            at += 1;
        }
        let alive: HashSet<u64> = alive.into_iter().collect();
        self.state.nodes.retain(|number, _| alive.contains(number));
    }
}

impl State {
    /// How many names a power cut could take away or bring back.
    pub(super) fn pending(&self) -> usize {
        self.nodes.values().map(|node| node.pending().len()).sum()
    }

    /// Copies all files to a folder that is there, as they are seen.
    pub(super) fn save(&self, to: &Path) -> std::io::Result<()> {
        let mut folders = vec![(ROOT, to.to_path_buf())];
        while let Some((number, at)) = folders.pop() {
            for (name, number) in self.nodes.get(&number).into_iter().flat_map(|folder| &folder.names) {
                match self.nodes.get(number) {
                    Some(node) if node.kind == Kind::Folder => {
                        std::fs::create_dir_all(at.join(name))?;
                        folders.push((*number, at.join(name)));
                    }
                    Some(node) if node.kind == Kind::File => std::fs::write(at.join(name), &node.bytes)?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// The numbers of all nodes, in an order that is always the same.
    fn numbers(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.nodes.keys().copied().collect();
        numbers.sort_unstable();
        numbers
    }
}

impl Node {
    /// The names in a folder that are not as they would be found.
    fn pending(&self) -> BTreeSet<&OsStr> {
        let all = self.names.keys().chain(self.stable_names.keys());
        all.filter(|name| self.names.get(*name) != self.stable_names.get(*name)).map(OsString::as_os_str).collect()
    }
}

fn cut_names(node: &mut Node, keep: &mut dyn FnMut(Piece) -> bool) -> u64 {
    let pending: Vec<OsString> = node.pending().into_iter().map(OsStr::to_owned).collect();
    let mut lost = 0;
    for name in pending {
        if keep(Piece::Name) {
            continue;
        }
        lost += 1;
        match node.stable_names.get(&name) {
            Some(number) => node.names.insert(name, *number),
            None => node.names.remove(&name),
        };
    }
    node.stable_names.clone_from(&node.names);
    lost
}

fn cut_bytes(node: &mut Node, keep: &mut dyn FnMut(Piece) -> bool) -> u64 {
    let mut lost = 0;
    for (from, to) in std::mem::take(&mut node.dirty) {
        let to = to.min(node.bytes.len() as u64);
        let mut at = from;
        while at < to {
            let end = ((at / SECTOR + 1) * SECTOR).min(to);
            if keep(Piece::Sector) {
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
    if node.bytes != node.stable {
        node.bytes.clone_from(&node.stable);
    }
    lost
}

/// The messages of a run whose whole stamps are in these bytes. What comes behind a stamp is not
/// looked at.
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
        let body = Stamp { id, transaction: None, queues: 1, due: 0 }.body(5, 100);
        disk.write(file, 17, &body);
        assert!(!disk.is_stable(id));
        assert!(disk.flush(file) && disk.is_stable(id) && !disk.is_stable(Id { seq: 8, ..id }));
    }

    #[test]
    fn each_subset_of_the_names_can_survive_and_is_asked_for_in_order() {
        let names = ["a", "b", "c"];
        for subset in 0..8_u64 {
            let (mut disk, a) = disk_with_file();
            assert!(disk.flush(ROOT) && disk.unlink(ROOT, OsStr::new("a")));
            for name in &names[1..] {
                disk.make(ROOT, OsStr::new(name), Kind::File, 0o600);
            }
            assert_eq!(disk.state().pending(), 3);
            let mut at = 0;
            disk.cut_by(&mut |piece| {
                at += u64::from(piece == Piece::Name);
                piece == Piece::Sector || subset >> (at - 1) & 1 == 1
            });
            let found = names.map(|name| disk.find(ROOT, OsStr::new(name)).is_some());
            // The removal of the first is what can survive of it.
            assert_eq!(found, [subset & 1 == 0, subset & 2 != 0, subset & 4 != 0], "{subset}");
            assert_eq!((disk.state().pending(), disk.node(a).is_some()), (0, subset & 1 == 0));
        }
    }

    #[test]
    fn a_watcher_sees_names_that_wait_and_a_deaf_disk_lets_all_wait() {
        for (trouble, expected) in [(Trouble::None, vec![1, 1, 2]), (Trouble::Deaf, vec![1, 1, 2, 2])] {
            let (mut disk, file) = disk_with_file();
            disk.trouble = trouble;
            let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
            let notes = Arc::clone(&seen);
            disk.watch = Some(Box::new(move |state| notes.lock().unwrap().push(state.pending())));
            // The flush of a file, a new name and the flush of the folder are such moments; a write
            // is none.
            assert!(disk.write(file, 0, b"x").is_some() && disk.flush(file));
            assert!(disk.make(ROOT, OsStr::new("b"), Kind::File, 0o600).is_some() && disk.flush(ROOT));
            assert!(disk.flush(file));
            assert_eq!(*seen.lock().unwrap(), expected, "{trouble:?}");
            let names = ["a", "b"].map(|name| Change::Made(name.into()));
            assert_eq!(disk.changes, [names[0].clone(), names[1].clone(), Change::Flushed]);
        }
    }

    #[test]
    fn a_disk_goes_on_from_an_earlier_moment() {
        let (mut disk, file) = disk_with_file();
        disk.write(file, 0, b"then");
        let then = disk.state().clone();
        disk.write(file, 0, b"now!");
        disk.unlink(ROOT, OsStr::new("a"));
        let earlier = Disk::at(then);
        assert_eq!(earlier.find(ROOT, OsStr::new("a")), Some(file));
        assert_eq!(earlier.node(file).unwrap().bytes, b"then");
    }
}
