//! The files of the log: their header blocks, their slots on disk, and readying the next one.
//!
//! Invariant: a generation is written to only after its file is complete on disk: zeroed or
//! recycled, its header flushed, its name durable. A readying that fails is no failure of the log;
//! it is tried again.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::disk::{Disk, DiskFile};
use crate::file_header::write_header;
use crate::layout::slot_name;
use crate::options::Sizes;
use hashbrown::HashMap;
use parking_lot::Mutex;

/// How much is zeroed with one write.
const ZEROS: usize = 1 << 20;
/// How many free slots are kept: segments may give back many more than the log takes.
pub(crate) const FREE_SLOTS: usize = 8;
/// How much is zeroed between two flushes: a large one would hold up the writer's.
const ZEROED_AT_ONCE: u32 = 8 << 20;

/// A file on disk, whatever generation is in it.
pub(crate) struct Slot {
    pub(crate) number: u32,
    pub(crate) length: u32,
    pub(crate) handle: Arc<dyn DiskFile>,
}

/// Which slot has which generation.
#[derive(Default)]
pub(crate) struct Shelf {
    pub(crate) used: HashMap<u32, Slot>,
    /// Recycled slots, the longest unused first.
    pub(crate) free: VecDeque<Slot>,
    pub(crate) numbers: BTreeSet<u32>,
}

/// All files of the log on disk.
pub(crate) struct Ring {
    disk: Arc<dyn Disk>,
    incarnation: u64,
    file_bytes: u32,
    /// How many files the log grows to.
    slots: usize,
    shelf: Mutex<Shelf>,
    /// Held while a file is readied, which takes long; the shelf is only locked for a look.
    readying: Mutex<()>,
    /// The highest generation that has a file.
    ready: AtomicU32,
    failures: AtomicU64,
    failing: AtomicBool,
    /// How many slots are free.
    spare: AtomicU32,
}

impl Ring {
    pub(crate) fn new(disk: Arc<dyn Disk>, incarnation: u64, sizes: Sizes, shelf: Shelf, ready: u32) -> Self {
        Self {
            disk,
            incarnation,
            file_bytes: sizes.file,
            slots: usize::try_from(sizes.ring / u64::from(sizes.file)).unwrap_or(usize::MAX),
            spare: AtomicU32::new(shelf.free.len() as u32),
            shelf: Mutex::new(shelf),
            readying: Mutex::new(()),
            ready: AtomicU32::new(ready),
            failures: AtomicU64::new(0),
            failing: AtomicBool::new(false),
        }
    }

    pub(crate) fn ready(&self) -> u32 {
        self.ready.load(Ordering::Acquire)
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Whether the last attempt to ready a file failed.
    pub(crate) fn failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    pub(crate) fn free_on_disk(&self) -> io::Result<u64> {
        self.disk.free()
    }

    /// Looks whether every file of the log is still there, whole: what is confirmed from now on
    /// would be lost in one that is not.
    pub(crate) fn look(&self) -> io::Result<()> {
        let slots = {
            let shelf = self.shelf.lock();
            let slot = |slot: &Slot| (slot.number, slot.length, Arc::clone(&slot.handle));
            shelf.used.values().chain(&shelf.free).map(slot).collect::<Vec<_>>()
        };
        for (number, length, handle) in slots {
            let what = match () {
                () if handle.is_linked().is_ok_and(|linked| !linked) => "was deleted",
                () if handle.length().is_ok_and(|there| there < u64::from(length)) => "was cut short",
                () => continue,
            };
            let name = slot_name(number);
            return Err(io::Error::other(format!(
                "{name} {what} by another program while the log was using it; restore the directory from a backup"
            )));
        }
        Ok(())
    }

    pub(crate) fn handle(&self, generation: u32) -> Option<Arc<dyn DiskFile>> {
        self.shelf.lock().used.get(&generation).map(|slot| Arc::clone(&slot.handle))
    }

    /// Readies every file up to `generation`.
    pub(crate) fn ensure(&self, generation: u32) -> io::Result<()> {
        while self.ready() < generation {
            let _one_at_a_time = self.readying.lock();
            let next = self.ready() + 1;
            if next <= generation {
                let outcome = self.ready_one(next);
                self.failing.store(outcome.is_err(), Ordering::Relaxed);
                match outcome {
                    Ok(slot) => self.adopt(next, slot),
                    Err(error) => {
                        self.failures.fetch_add(1, Ordering::Relaxed);
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// A file for `generation`: the longest unused slot, else a new one. What can't be readied is
    /// removed, since it is not known what is in it.
    fn ready_one(&self, generation: u32) -> io::Result<Slot> {
        let recycled = self.take_free(0);
        let slot = match recycled {
            Some(slot) => slot,
            None => self.create(self.file_bytes)?,
        };
        match write_header(&*slot.handle, self.incarnation, generation, slot.length) {
            Ok(()) => Ok(slot),
            Err(error) => {
                self.discard(slot);
                Err(error)
            }
        }
    }

    /// Creates a file of zeros in the lowest free slot.
    pub(crate) fn create(&self, length: u32) -> io::Result<Slot> {
        let number = {
            let mut shelf = self.shelf.lock();
            let number = (0..).find(|number| !shelf.numbers.contains(number)).unwrap_or(u32::MAX);
            shelf.numbers.insert(number);
            number
        };
        match self.create_in(number, length) {
            Ok(handle) => Ok(Slot { number, length, handle }),
            Err(error) => {
                self.remove(number);
                Err(error)
            }
        }
    }

    fn create_in(&self, number: u32, length: u32) -> io::Result<Arc<dyn DiskFile>> {
        let handle = self.disk.create(&slot_name(number))?;
        let zeros = vec![0; ZEROS.min(length as usize)];
        let mut at = 0;
        // Written out, not just set to a length: an overwrite later then needs no change of
        // metadata to be durable.
        while at < length {
            let count = zeros.len().min((length - at) as usize);
            handle.write_all_at(&zeros[..count], u64::from(at))?;
            at += count as u32;
            if at % ZEROED_AT_ONCE == 0 {
                handle.sync_data()?;
            }
        }
        handle.sync_data()?;
        self.disk.sync_directory()?;
        Ok(handle)
    }

    /// Takes a slot that is ready for `generation`, the next.
    pub(crate) fn adopt(&self, generation: u32, slot: Slot) {
        self.shelf.lock().used.insert(generation, slot);
        self.ready.store(generation, Ordering::Release);
    }

    /// The file of `generation` is needed no more: its slot may be used again.
    pub(crate) fn recycle(&self, generation: u32) {
        let Some(slot) = self.shelf.lock().used.remove(&generation) else { return };
        self.take_back(slot);
    }

    /// A slot is free again. What the ring can't use, or has enough of, is removed.
    pub(crate) fn take_back(&self, slot: Slot) {
        {
            let mut shelf = self.shelf.lock();
            let enough = shelf.free.len() >= FREE_SLOTS || shelf.free.len() + shelf.used.len() >= self.slots;
            if slot.length == self.file_bytes && !enough {
                shelf.free.push_back(slot);
                self.spare.store(shelf.free.len() as u32, Ordering::Relaxed);
                return;
            }
        }
        self.discard(slot);
    }

    /// Which slot has which generation, and which are free, while no file is being readied; `look`
    /// sees the same state.
    pub(crate) fn standing<T>(&self, look: impl FnOnce(&Shelf) -> T) -> T {
        let _none_is_readied = self.readying.lock();
        look(&self.shelf.lock())
    }

    /// The slot of `generation`.
    pub(crate) fn slot(&self, generation: u32) -> Option<u32> {
        self.shelf.lock().used.get(&generation).map(|slot| slot.number)
    }

    /// The file of `generation` is a segment now: its slot stays taken, but not by the log.
    pub(crate) fn part_with(&self, generation: u32) {
        drop(self.shelf.lock().used.remove(&generation));
    }

    /// The longest unused slot, if more than `keep` are free.
    fn take_free(&self, keep: usize) -> Option<Slot> {
        let mut shelf = self.shelf.lock();
        if shelf.free.len() <= keep {
            return None;
        }
        let slot = shelf.free.pop_front();
        self.spare.store(shelf.free.len() as u32, Ordering::Relaxed);
        slot
    }

    /// Removes unused slots but `keep`.
    pub(crate) fn trim(&self, keep: usize) {
        while let Some(slot) = self.take_free(keep) {
            self.discard(slot);
        }
    }

    /// The bytes of free slots: room on the disk that the file system does not count as free.
    pub(crate) fn spare_bytes(&self) -> u64 {
        u64::from(self.spare.load(Ordering::Relaxed)) * u64::from(self.file_bytes)
    }

    fn discard(&self, slot: Slot) {
        let number = slot.number;
        // Closed first: Windows removes no open file.
        drop(slot);
        self.remove(number);
    }

    /// Removes the file in slot `number`. If that fails the slot is never used again by this
    /// process; recovery removes a file that is not part of the log.
    fn remove(&self, number: u32) {
        let removed = match self.disk.remove(&slot_name(number)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => self.disk.sync_directory(),
        };
        if removed.is_ok() {
            self.shelf.lock().numbers.remove(&number);
        }
    }
}
