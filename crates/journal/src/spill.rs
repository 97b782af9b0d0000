//! Bodies that no durability was promised for, and that memory has no room for. They lie in files
//! beside the log, which end with the process.
//!
//! Nothing of it is flushed, and no record speaks of it. No file of an earlier run is ever read:
//! what is left of one goes, a file at a time, once the journal runs. Invariant: a file is there
//! while one of its bodies is held. Only writing and tidying make and remove files; letting go of a
//! body never does.

use std::io;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::checksum::Checksums;
use crate::disk::OpenFiles;
use crate::disk::{Disk, DiskFile};
use crate::layout::{LOST, SPILLED, spilled_name};
use crate::record::{BODY_HEAD, body_head};
use crate::stats::SpillStats;
use crate::ticket::Address;

/// Of so many files' worth of bytes it does not matter how many are still wanted.
const SLACK: u64 = 4;

/// See the module.
pub(crate) struct Spill {
    disk: Arc<dyn Disk>,
    incarnation: u64,
    /// How large a file grows; a longer body has one of its own.
    file_bytes: u32,
    /// Locked before the shelf, and only to write or to tidy.
    head: Mutex<Option<Head>>,
    shelf: Mutex<Shelf>,
}

/// The file that is being written. It is held as if by one body more.
struct Head {
    number: u32,
    file: Arc<dyn DiskFile>,
    /// Where the next body goes.
    at: u32,
}

#[derive(Default)]
struct Shelf {
    files: HashMap<u32, Spilled>,
    open: OpenFiles,
    /// The number of the head: freeing its last body must be noticed.
    head: u32,
    /// Names of files that are not needed any more.
    dead: Vec<String>,
    /// The number given last.
    last: u32,
    written: u64,
    failures: u64,
    closed: bool,
}

#[derive(Default)]
struct Spilled {
    /// Bodies that were written.
    count: u64,
    /// Bodies that are held.
    live: u64,
    bytes: u64,
    /// It was named by [`Spill::sparse`].
    offered: bool,
}

impl Spilled {
    fn live_bytes(&self) -> u64 {
        // An estimate, as good as bodies are of one length; a hold of the head counts for nothing.
        self.bytes.checked_div(self.count).map_or(0, |each| each * self.live.min(self.count))
    }
}

impl Spill {
    /// Nothing yet; `leftover` are files of an earlier run.
    pub(crate) fn new(disk: Arc<dyn Disk>, incarnation: u64, file_bytes: u32, leftover: Vec<String>) -> Self {
        let shelf = Shelf { dead: leftover, last: SPILLED, ..Shelf::default() };
        Self { disk, incarnation, file_bytes, head: Mutex::new(None), shelf: Mutex::new(shelf) }
    }

    /// Writes bodies, each of which is held once from now on. `room` is asked whether a file of so
    /// many bytes may be made. After an error none of them is held.
    pub(crate) fn write(&self, bodies: &[&[u8]], room: &dyn Fn(u64) -> io::Result<()>) -> io::Result<Vec<Address>> {
        let mut head = self.head.lock();
        let mut addresses: Vec<Address> = Vec::with_capacity(bodies.len());
        while let Some(rest) = bodies.get(addresses.len()..).filter(|rest| !rest.is_empty()) {
            if let Err(error) = self.write_some(&mut head, rest, room, &mut addresses) {
                let mut shelf = self.shelf.lock();
                shelf.failures += 1;
                for address in addresses {
                    shelf.free(address.file, 1);
                }
                return Err(error);
            }
        }
        Ok(addresses)
    }

    /// Writes the first of `bodies`, and those that fit into the same file.
    fn write_some(
        &self,
        head: &mut Option<Head>,
        bodies: &[&[u8]],
        room: &dyn Fn(u64) -> io::Result<()>,
        addresses: &mut Vec<Address>,
    ) -> io::Result<()> {
        let first = bodies.first().map_or(0, |body| record_len(body));
        if first > u64::from(u32::MAX) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a body of 4 GiB or more can't be spilled"));
        }
        if head.as_ref().is_some_and(|head| head.at > 0 && u64::from(head.at) + first > u64::from(self.file_bytes)) {
            self.retire(head);
        }
        let head = match head {
            Some(head) => head,
            None => head.insert(self.begin(first, room)?),
        };
        let sums = Checksums::new(self.incarnation, head.number);
        let (mut out, before) = (Vec::new(), addresses.len());
        for body in bodies {
            let offset = u64::from(head.at) + out.len() as u64;
            let fits = offset + record_len(body) <= u64::from(self.file_bytes);
            if addresses.len() > before && !fits {
                break;
            }
            // The first body lies within the file's length or at its beginning, and was found short
            // enough.
            let (offset, length) = (offset as u32, body.len() as u32);
            out.extend_from_slice(&body_head(length, sums.body(offset, body)));
            out.extend_from_slice(body);
            addresses.push(Address { file: head.number, offset });
        }
        let count = (addresses.len() - before) as u64;
        if let Err(error) = head.file.write_all_at(&out, u64::from(head.at)) {
            addresses.truncate(before);
            return Err(error);
        }
        // A body that fills the file to the last byte an offset can name leaves no room behind it.
        head.at = u32::try_from(u64::from(head.at) + out.len() as u64).unwrap_or(u32::MAX);
        let mut shelf = self.shelf.lock();
        shelf.written += out.len() as u64;
        if let Some(spilled) = shelf.files.get_mut(&head.number) {
            spilled.live += count;
            spilled.count += count;
            spilled.bytes += out.len() as u64;
        }
        Ok(())
    }

    /// Makes the file that is written from now on.
    fn begin(&self, first: u64, room: &dyn Fn(u64) -> io::Result<()>) -> io::Result<Head> {
        let number = {
            let mut shelf = self.shelf.lock();
            if shelf.closed {
                return Err(io::Error::other("the journal is closed"));
            }
            shelf.next_number()
        };
        room(first.max(self.file_bytes.into()))?;
        let file = self.disk.create(&spilled_name(number))?;
        let mut shelf = self.shelf.lock();
        shelf.head = number;
        shelf.files.insert(number, Spilled { live: 1, ..Spilled::default() });
        shelf.open.put(number, Arc::clone(&file));
        Ok(Head { number, file, at: 0 })
    }

    /// Nothing more goes to the head.
    fn retire(&self, head: &mut Option<Head>) {
        if let Some(head) = head.take() {
            let mut shelf = self.shelf.lock();
            shelf.head = 0;
            shelf.free(head.number, 1);
        }
    }

    /// Lets go of `count` bodies of a file. True when there is something to tidy.
    pub(crate) fn free(&self, file: u32, count: u64) -> bool {
        self.shelf.lock().free(file, count)
    }

    /// Removes one file that is not needed any more. True when there are more.
    pub(crate) fn tidy(&self) -> bool {
        let mut head = self.head.lock();
        let unused = |number| self.shelf.lock().files.get(&number).is_some_and(|file| file.live == 1 && file.count > 0);
        if head.as_ref().is_some_and(|head| unused(head.number)) {
            self.retire(&mut head);
        }
        let name = self.shelf.lock().dead.pop();
        if let Some(name) = name {
            // What can't be removed now goes at the next start.
            drop(self.disk.remove(&name));
        }
        !self.shelf.lock().dead.is_empty()
    }

    /// A file that takes too much room for what is still held of it: that should be written again,
    /// to another file. Each file is named once.
    pub(crate) fn sparse(&self) -> Option<u32> {
        let mut shelf = self.shelf.lock();
        let (bytes, live) =
            shelf.files.values().fold((0, 0), |(bytes, live), file| (bytes + file.bytes, live + file.live_bytes()));
        if bytes <= 2 * live + SLACK * u64::from(self.file_bytes) {
            return None;
        }
        let head = shelf.head;
        let candidates = shelf.files.iter_mut().filter(|(number, file)| **number != head && !file.offered);
        let (number, file) = candidates.min_by_key(|(_, file)| file.live * 1024 / file.count.max(1))?;
        file.offered = true;
        Some(*number)
    }

    /// The file of this number, if it is there.
    pub(crate) fn open(&self, number: u32) -> Option<Arc<dyn DiskFile>> {
        {
            let mut shelf = self.shelf.lock();
            if !shelf.files.contains_key(&number) {
                return None;
            }
            if let Some(file) = shelf.open.get(number) {
                return Some(file);
            }
        }
        let file = self.disk.open_in_time(&spilled_name(number)).ok()?;
        let mut shelf = self.shelf.lock();
        if shelf.files.contains_key(&number) {
            shelf.open.put(number, Arc::clone(&file));
        }
        Some(file)
    }

    pub(crate) fn stats(&self) -> SpillStats {
        let shelf = self.shelf.lock();
        let bytes = shelf.files.values().map(|file| file.bytes).sum();
        let (written_bytes, failures) = (shelf.written, shelf.failures);
        SpillStats { files: shelf.files.len() as u32, bytes, written_bytes, failures }
    }

    /// Removes every file, and makes no more.
    pub(crate) fn close(&self) {
        let mut head = self.head.lock();
        *head = None;
        let names: Vec<String> = {
            let mut shelf = self.shelf.lock();
            let shelf = &mut *shelf;
            shelf.closed = true;
            shelf.open = OpenFiles::default();
            let files = std::mem::take(&mut shelf.files);
            files.into_keys().map(spilled_name).chain(std::mem::take(&mut shelf.dead)).collect()
        };
        // What can't be removed now goes at the next start.
        names.iter().for_each(|name| drop(self.disk.remove(name)));
    }
}

impl Shelf {
    /// A number that no file has. It comes again after a thousand million others.
    fn next_number(&mut self) -> u32 {
        loop {
            self.last = if self.last + 1 == LOST { SPILLED } else { self.last + 1 };
            if !self.files.contains_key(&self.last) && !self.dead.contains(&spilled_name(self.last)) {
                return self.last;
            }
        }
    }

    fn free(&mut self, number: u32, count: u64) -> bool {
        let Some(file) = self.files.get_mut(&number) else { return false };
        debug_assert!(file.live >= count, "more freed in spilled file {number:08x} than was held");
        file.live = file.live.saturating_sub(count);
        if file.live == 0 {
            self.files.remove(&number);
            self.open.close(number);
            self.dead.push(spilled_name(number));
        }
        !self.dead.is_empty() || (number == self.head && self.files.get(&number).is_some_and(|file| file.live == 1))
    }
}

fn record_len(body: &[u8]) -> u64 {
    (BODY_HEAD + body.len()) as u64
}
