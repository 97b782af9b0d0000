//! What lies outside the log: bodies of backlogs, in segments, each with an index of who references
//! what in it.
//!
//! The index is in pages of [`PAGE`] consecutive sequence numbers of one owner; what one page has
//! in one segment is a [`Chunk`]. Invariant: a segment exists if and only if its index is whole and
//! durable.

use std::io;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::disk::{Disk, DiskFile, OpenFiles};
use crate::layout::{COPIED, index_name, segment_name, slot_name};
use crate::reference::{Chunk, Reference};
use index::{Directory, IndexHeader, SegmentFile};

pub(crate) mod count;
pub(crate) mod index;
pub(crate) mod merge;
pub(crate) mod plan;
pub(crate) mod segment;

/// The segments on disk: where they are, and reading from them.
pub(crate) struct Cold {
    pub(crate) disk: Arc<dyn Disk>,
    incarnation: u64,
    shelf: Mutex<Shelf>,
}

#[derive(Default)]
struct Shelf {
    segments: HashMap<u32, IndexHeader>,
    open: OpenFiles,
    /// The number of the next copied segment, less the bit.
    next: u32,
}

impl Cold {
    /// The segments with these headers; the next one gets the number `next`, less the bit.
    pub(crate) fn new(disk: Arc<dyn Disk>, incarnation: u64, headers: Vec<IndexHeader>, next: u32) -> Self {
        let segments = headers.into_iter().map(|header| (header.number, header)).collect();
        Self { disk, incarnation, shelf: Mutex::new(Shelf { segments, open: OpenFiles::default(), next }) }
    }

    /// A number that no copied segment has had since the start, nor one that was there then.
    pub(crate) fn next_number(&self) -> u32 {
        let mut shelf = self.shelf.lock();
        let number = shelf.next | COPIED;
        shelf.next += 1;
        number
    }

    pub(crate) fn insert(&self, header: IndexHeader) {
        self.shelf.lock().segments.insert(header.number, header);
    }

    pub(crate) fn header(&self, number: u32) -> Option<IndexHeader> {
        self.shelf.lock().segments.get(&number).copied()
    }

    /// Closes the file of a segment.
    pub(crate) fn close(&self, number: u32) {
        self.shelf.lock().open.close(number);
    }

    /// Forgets a segment, and closes its file.
    pub(crate) fn forget(&self, number: u32) {
        self.close(number);
        self.shelf.lock().segments.remove(&number);
    }

    /// The file with the bodies of segment `number`; `None` if there is no such segment or it can't
    /// be opened.
    pub(crate) fn open(&self, number: u32) -> Option<Arc<dyn DiskFile>> {
        let name = {
            let mut shelf = self.shelf.lock();
            if let Some(file) = shelf.open.get(number) {
                return Some(file);
            }
            match shelf.segments.get(&number)?.place {
                SegmentFile::Slot(slot) => slot_name(slot),
                SegmentFile::Own => segment_name(number),
            }
        };
        let file = self.disk.open_in_time(&name).ok()?;
        let mut shelf = self.shelf.lock();
        if shelf.segments.contains_key(&number) {
            shelf.open.put(number, Arc::clone(&file));
        }
        Some(file)
    }

    /// Opens the index of segment `number`.
    pub(crate) fn open_index(&self, number: u32) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open_in_time(&index_name(number))
    }

    /// Reads the directory of segment `number`.
    pub(crate) fn read_directory(&self, number: u32) -> io::Result<Directory> {
        let header = self.header(number).ok_or(io::ErrorKind::NotFound)?;
        header.read_directory(&*self.open_index(number)?, self.incarnation)
    }

    /// Reads what a chunk lists. See [`crate::Journal::read_chunk`].
    pub(crate) fn read_chunk(&self, chunk: Chunk, page: u64, into: &mut Vec<Reference>) -> io::Result<()> {
        let named = |error: io::Error| {
            let name = index_name(chunk.segment);
            io::Error::new(error.kind(), format!("{name}, the chunk at byte {}: {error}", chunk.block))
        };
        let mut read = || {
            self.header(chunk.segment).ok_or(io::ErrorKind::NotFound)?;
            index::read_block(&*self.open_index(chunk.segment)?, self.incarnation, chunk, page, into)
        };
        read().map_err(named)
    }

    /// Removes a file; it is well if it is gone already.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        match self.disk.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
