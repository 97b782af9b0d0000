//! Writing a copied segment: bodies out of log files and older segments, one after the other, owner
//! by owner.
//!
//! Invariant: a body is written only after it was read back whole. Its record has the layout and
//! the checksum rule of the log, seeded with the segment's own number. Nothing of a segment counts
//! before its index does.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;

use super::plan::{Item, Plan};
use crate::checksum::Checksums;
use crate::disk::DiskFile;
use crate::file_header::write_header;
use crate::options::BLOCK;
use crate::read;
use crate::record::{BODY_HEAD, body_head};

/// How many bytes of bodies are copied in one step, about.
const COPIED_AT_ONCE: u64 = 1 << 20;

/// Why a step failed.
pub(crate) enum CopyError {
    /// A body could not be read; its file.
    Read(u32),
    /// The segment could not be written, or takes no more.
    Write,
}

/// A segment being written.
pub(crate) struct Copier {
    file: Arc<dyn DiskFile>,
    incarnation: u64,
    number: u32,
    /// The next item of the plan: page and place in it.
    next: (usize, usize),
    /// Where the next byte goes.
    at: u32,
    /// Where the bodies went that are referenced more than once.
    shared: HashMap<(u16, u32), u32>,
}

impl Copier {
    /// Begins with an empty file.
    pub(crate) fn new(file: Arc<dyn DiskFile>, incarnation: u64, number: u32) -> Self {
        Self { file, incarnation, number, next: (0, 0), at: BLOCK, shared: HashMap::new() }
    }

    /// Copies some more bodies and notes in the plan where they lie now; true if those were the
    /// last.
    pub(crate) fn step(
        &mut self,
        plan: &mut Plan,
        open: &dyn Fn(u32) -> Option<Arc<dyn DiskFile>>,
    ) -> Result<bool, CopyError> {
        let chosen = self.choose(plan);
        let items: Vec<Item> = chosen.iter().map(|(page, at)| plan.pages[*page].items[*at]).collect();
        let wanted: Vec<_> =
            chosen.iter().zip(&items).map(|((page, _), item)| plan.at(&plan.pages[*page], item)).collect();
        let mut bodies = vec![Bytes::new(); wanted.len()];
        // Source by source, so that what can't be read is known by its file.
        for (source, file) in plan.sources.iter().enumerate() {
            let new =
                |at: &usize| usize::from(items[*at].source) == source && !self.shared.contains_key(&key(&items[*at]));
            let order: Vec<usize> = (0..items.len()).filter(new).collect();
            read::many(&wanted, order, open, self.incarnation, &mut |at, body| bodies[at] = body)
                .map_err(|_| CopyError::Read(*file))?;
        }
        let mut out = Vec::new();
        let start = self.at;
        for (((page, at), item), body) in chosen.iter().zip(&items).zip(&bodies) {
            let offset = self.place(item, body, &mut out)?;
            if plan.is_shared(item) {
                self.shared.insert(key(item), offset);
            }
            plan.pages[*page].items[*at].offset = offset;
        }
        self.file.write_all_at(&out, u64::from(start)).map_err(|_| CopyError::Write)?;
        self.next = chosen.last().map_or(self.next, |(page, at)| (*page, at + 1));
        Ok(self.choose(plan).is_empty())
    }

    /// The next items of the plan, as (page, place in it).
    fn choose(&self, plan: &Plan) -> Vec<(usize, usize)> {
        let (first, mut at) = self.next;
        let (mut chosen, mut bytes) = (Vec::new(), 0);
        for (page, items) in plan.pages.iter().map(|page| &page.items).enumerate().skip(first) {
            while let Some(item) = items.get(at) {
                if bytes >= COPIED_AT_ONCE {
                    return chosen;
                }
                bytes += u64::from(item.length) + BODY_HEAD as u64;
                chosen.push((page, at));
                at += 1;
            }
            at = 0;
        }
        chosen
    }

    /// The offset of the body of `item` in the segment; a new one goes to `out`.
    fn place(&mut self, item: &Item, body: &[u8], out: &mut Vec<u8>) -> Result<u32, CopyError> {
        if let Some(offset) = self.shared.get(&key(item)) {
            return Ok(*offset);
        }
        let offset = self.at;
        // What is chosen fits. If it ever did not, nothing that was written may be written over.
        self.at = offset.checked_add(BODY_HEAD as u32 + item.length).ok_or(CopyError::Write)?;
        let sum = Checksums::new(self.incarnation, self.number).body(offset, body);
        out.extend_from_slice(&body_head(item.length, sum));
        out.extend_from_slice(body);
        Ok(offset)
    }

    /// Writes the header block and flushes the file. Gives its length.
    pub(crate) fn finish(&self) -> io::Result<u32> {
        write_header(&*self.file, self.incarnation, self.number, self.at)?;
        Ok(self.at)
    }
}

/// What tells the body of an item from others. All references to one body share it.
fn key(item: &Item) -> (u16, u32) {
    (item.source, item.offset)
}
