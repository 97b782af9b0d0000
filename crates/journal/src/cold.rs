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

use crate::disk::{Disk, DiskFile};
use crate::layout::{COPIED, index_name, segment_name, slot_name};
use crate::ticket::Address;
use index::{Directory, Header, Place};

pub(crate) mod count;
pub(crate) mod index;
pub(crate) mod merge;
pub(crate) mod plan;
pub(crate) mod segment;

/// How many consecutive sequence numbers of an owner make a page: those with the same quotient by
/// this.
pub const PAGE: u64 = 4096;

/// One bit for each sequence number of a page; the lowest bit of the first word is the page's first
/// number.
pub type Bits = [u64; (PAGE / 64) as usize];

/// A reference, and where its body lies.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Reference {
    /// The sequence number.
    pub seq: u64,
    /// Where the body lies.
    pub address: Address,
    /// The length of the body in bytes; zero also where it is not known, as after a start.
    pub length: u32,
}

/// The references of one owner's page whose bodies lie in one segment.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// The number of the segment.
    pub segment: u32,
    /// Where in the segment's index the references are listed: a byte offset.
    pub block: u32,
    /// How many references there are, those settled since included.
    pub count: u32,
}

/// How many files are kept open for reading.
const KEPT_OPEN: usize = 32;

/// The files read last, the most recent one at the end; the oldest is closed when there are too
/// many.
#[derive(Default)]
pub(crate) struct OpenFiles(Vec<(u32, Arc<dyn DiskFile>)>);

impl OpenFiles {
    /// The file of this number, if it is open.
    pub(crate) fn get(&mut self, number: u32) -> Option<Arc<dyn DiskFile>> {
        let at = self.0.iter().position(|(open, _)| *open == number)?;
        let recent = self.0.remove(at);
        let file = Arc::clone(&recent.1);
        self.0.push(recent);
        Some(file)
    }

    /// Keeps a file open.
    pub(crate) fn put(&mut self, number: u32, file: Arc<dyn DiskFile>) {
        if self.0.iter().any(|(open, _)| *open == number) {
            return;
        }
        if self.0.len() >= KEPT_OPEN {
            self.0.remove(0);
        }
        self.0.push((number, file));
    }

    pub(crate) fn close(&mut self, number: u32) {
        self.0.retain(|(open, _)| *open != number);
    }
}

/// The segments on disk: where they are, and reading from them.
pub(crate) struct Cold {
    pub(crate) disk: Arc<dyn Disk>,
    incarnation: u64,
    shelf: Mutex<Shelf>,
}

#[derive(Default)]
struct Shelf {
    segments: HashMap<u32, Header>,
    open: OpenFiles,
    /// The number of the next copied segment, less the bit.
    next: u32,
}

impl Cold {
    /// The segments with these headers; the next one gets the number `next`, less the bit.
    pub(crate) fn new(disk: Arc<dyn Disk>, incarnation: u64, headers: Vec<Header>, next: u32) -> Self {
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

    pub(crate) fn insert(&self, header: Header) {
        self.shelf.lock().segments.insert(header.number, header);
    }

    pub(crate) fn header(&self, number: u32) -> Option<Header> {
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
                Place::Slot(slot) => slot_name(slot),
                Place::Own => segment_name(number),
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
