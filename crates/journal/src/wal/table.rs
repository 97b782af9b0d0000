//! The table of log files from the oldest to the one being written, with what keeps each of them
//! needed.
//!
//! Invariant: generations in the table are consecutive. A file's live count is the references and
//! holds on bodies in it; its owners are all those with a record in it.

use std::collections::VecDeque;

use hashbrown::HashSet;

use crate::Owner;

/// One file of the log.
pub(crate) struct LogFile {
    pub(crate) generation: u32,
    /// Its length in bytes.
    pub(crate) length: u32,
    /// References and holds on bodies in it.
    pub(crate) live: u64,
    /// The holds among them.
    pub(crate) holds: u64,
    /// Bodies in it, and their bytes.
    pub(crate) bodies: u64,
    pub(crate) body_bytes: u64,
    owners: HashSet<Owner>,
    last_owner: Option<Owner>,
}

impl LogFile {
    pub(crate) fn new(generation: u32, length: u32) -> Self {
        Self {
            generation,
            length,
            live: 0,
            holds: 0,
            bodies: 0,
            body_bytes: 0,
            owners: HashSet::new(),
            last_owner: None,
        }
    }

    /// Notes that a record of `owner` is in the file. Runs of one owner cost a comparison.
    pub(crate) fn touch(&mut self, owner: Owner) {
        if self.last_owner != Some(owner) {
            self.last_owner = Some(owner);
            self.owners.insert(owner);
        }
    }

    fn forget(&mut self, owner: Owner) {
        self.last_owner = self.last_owner.filter(|last| *last != owner);
        self.owners.remove(&owner);
    }

    pub(crate) fn note_body(&mut self, bytes: u64) {
        self.bodies += 1;
        self.body_bytes += bytes;
    }

    /// The owners with a record in the file, in ascending order.
    pub(crate) fn owners(&self) -> Vec<Owner> {
        let mut owners: Vec<_> = self.owners.iter().copied().collect();
        owners.sort_unstable();
        owners
    }

    /// The bytes alive, if less than half is: such a file is copied when it leaves the log.
    pub(crate) fn to_copy(&self) -> u64 {
        let alive = self.live_bytes();
        if alive * 2 < u64::from(self.length) { alive } else { 0 }
    }

    /// A guess at the bytes of bodies still referenced: as if all bodies were of one size and
    /// referenced once.
    pub(crate) fn live_bytes(&self) -> u64 {
        match self.bodies {
            0 => 0,
            bodies => self.body_bytes / bodies * self.live.min(bodies),
        }
    }
}

/// All files of the log. There is always one: the head.
pub(crate) struct Table {
    files: VecDeque<LogFile>,
    /// The head's generation, always in `files`.
    head: LogFile,
    closed_bytes: u64,
}

impl Table {
    /// A table of files in ascending order before `head`.
    pub(crate) fn new(older: Vec<LogFile>, head: LogFile) -> Self {
        let closed_bytes = older.iter().map(|file| u64::from(file.length)).sum();
        Self { files: older.into(), head, closed_bytes }
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len() + 1
    }

    pub(crate) fn head(&mut self) -> &mut LogFile {
        &mut self.head
    }

    pub(crate) fn head_generation(&self) -> u32 {
        self.head.generation
    }

    pub(crate) fn head_length(&self) -> u32 {
        self.head.length
    }

    pub(crate) fn oldest(&self) -> &LogFile {
        self.files.front().unwrap_or(&self.head)
    }

    /// The oldest file with a body that is held; the head if there is none.
    pub(crate) fn held_from(&self) -> u32 {
        self.files.iter().find(|file| file.holds > 0).map_or(self.head.generation, |file| file.generation)
    }

    /// The files before this one, oldest first.
    pub(crate) fn before(&self, file: u32) -> impl Iterator<Item = &LogFile> {
        self.files.iter().take_while(move |older| older.generation < file)
    }

    /// The owners with a record in any file, in ascending order. They are all that there are, and
    /// some that are gone.
    pub(crate) fn all_owners(&self) -> Vec<Owner> {
        let all: HashSet<Owner> =
            self.files.iter().chain([&self.head]).flat_map(|file| &file.owners).copied().collect();
        let mut all: Vec<Owner> = all.into_iter().collect();
        all.sort_unstable();
        all
    }

    /// The bytes of all files but the head.
    pub(crate) fn closed_bytes(&self) -> u64 {
        self.closed_bytes
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.files.iter().map(LogFile::live_bytes).sum::<u64>() + self.head.live_bytes()
    }

    /// The bytes that will be copied out of closed files.
    pub(crate) fn to_copy(&self) -> u64 {
        self.files.iter().map(LogFile::to_copy).sum()
    }

    /// Forgets that files say something of `owner`.
    pub(crate) fn forget(&mut self, owner: Owner) {
        self.files.iter_mut().for_each(|file| file.forget(owner));
        self.head.forget(owner);
    }

    /// Closes the head; the next generation, `length` bytes long, is the head now.
    pub(crate) fn advance(&mut self, length: u32) {
        let next = LogFile::new(self.head.generation + 1, length);
        self.closed_bytes += u64::from(self.head.length);
        self.files.push_back(std::mem::replace(&mut self.head, next));
    }

    /// Takes the oldest file out, if it is not the head.
    pub(crate) fn retire(&mut self) -> Option<LogFile> {
        let file = self.files.pop_front()?;
        self.closed_bytes -= u64::from(file.length);
        Some(file)
    }

    /// The file of `generation`, if it is still in the log.
    pub(crate) fn file(&mut self, generation: u32) -> Option<&mut LogFile> {
        if generation == self.head.generation {
            return Some(&mut self.head);
        }
        let oldest = self.files.front()?.generation;
        self.files.get_mut(generation.checked_sub(oldest)? as usize)
    }

    /// False if there is no such file in the log.
    pub(crate) fn hold(&mut self, generation: u32, count: u64) -> bool {
        self.file(generation).map(|file| file.live += count).is_some()
    }

    /// False if there is no such file in the log.
    pub(crate) fn free(&mut self, generation: u32, count: u64) -> bool {
        let Some(file) = self.file(generation) else { return false };
        debug_assert!(file.live >= count, "more freed in file {generation} than was live");
        file.live = file.live.saturating_sub(count);
        true
    }

    /// Takes one hold off a file.
    pub(crate) fn release(&mut self, generation: u32) {
        if let Some(file) = self.file(generation) {
            debug_assert!(file.holds > 0 && file.live > 0, "a hold released in file {generation} that was not taken");
            file.holds = file.holds.saturating_sub(1);
            file.live = file.live.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_generation_and_leave_oldest_first() {
        let mut table = Table::new(vec![LogFile::new(4, 10)], LogFile::new(5, 20));
        table.advance(30);
        assert_eq!((table.len(), table.closed_bytes(), table.head_generation()), (3, 30, 6));
        table.hold(4, 2);
        table.hold(6, 1);
        table.hold(3, 9);
        table.hold(7, 9);
        table.free(4, 1);
        assert_eq!((table.oldest().live, table.head().live), (1, 1));
        assert_eq!(table.retire().map(|file| file.generation), Some(4));
        assert_eq!(table.file(4).map(|file| file.generation), None);
        assert_eq!(table.file(5).map(|file| file.generation), Some(5));
        assert_eq!(table.retire().map(|file| file.generation), Some(5));
        assert!(table.retire().is_none());
        assert_eq!(table.oldest().generation, 6);
    }

    #[test]
    fn an_owner_that_is_forgotten_is_noted_again_with_its_next_record() {
        let mut table = Table::new(vec![LogFile::new(4, 10)], LogFile::new(5, 20));
        table.files[0].touch(7);
        table.head().touch(8);
        table.head().touch(7);
        table.forget(7);
        assert_eq!((table.oldest().owners(), table.head().owners()), (vec![], vec![8]));
        table.head().touch(7);
        assert_eq!(table.head().owners(), [7, 8]);
    }
}
