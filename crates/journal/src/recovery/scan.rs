//! Reading the log back. Which batches are whole? Where does the log begin and end? Had what is
//! missing after the end ever been acknowledged?
//!
//! Invariant: batches are accepted only in their chain (sequence and previous checksum). Where the
//! chain breaks, a later batch may say that more was flushed than the chain holds: that proves
//! damage. Without such proof it is a torn tail, which no ticket ever covered.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use crate::checksum::Checksums;
use crate::disk::DiskFile;
use crate::error::OpenError;
use crate::layout::slot_name;
use crate::log::{LogEnd, LogId};
use crate::options::BLOCK;
use crate::record::Kind;
use crate::recovery::each_record;
use crate::wal::batch::{BatchHeader, BatchKind, HEADER, Link};
use crate::wal::identity::Advance;

/// A file with a good header.
pub(crate) struct ScanFile {
    pub(crate) number: u32,
    pub(crate) format: u16,
    pub(crate) generation: u32,
    pub(crate) length: u32,
    pub(crate) handle: Arc<dyn DiskFile>,
}

impl ScanFile {
    pub(crate) fn name(&self) -> String {
        slot_name(self.number)
    }

    pub(crate) fn spare(&self) -> Spare {
        Spare { number: self.number, generation: self.generation, length: self.length }
    }
}

/// A file whose header is not whole: one whose making or recycling was cut short, or a damaged one.
pub(crate) struct BrokenFile {
    pub(crate) number: u32,
    pub(crate) length: u64,
    pub(crate) handle: Arc<dyn DiskFile>,
}

/// A file that is older than the log.
#[derive(Copy, Clone)]
pub(crate) struct Spare {
    pub(crate) number: u32,
    pub(crate) generation: u32,
    pub(crate) length: u32,
}

/// All files, the good ones in order of generation.
pub(crate) struct Scan {
    pub(crate) incarnation: u64,
    pub(crate) files: Vec<ScanFile>,
    pub(crate) broken: Vec<BrokenFile>,
    /// Files of one generation that both have batches: one of them was copied over another file.
    twins: Option<(String, String)>,
}

/// Where a walk has got to: the place of the next batch, and what it must say.
#[derive(Clone, Debug)]
pub(crate) struct End {
    /// The index of the file.
    pub(crate) index: usize,
    pub(crate) offset: u32,
    /// The next sequence; none before the first batch, which may have any.
    pub(crate) sequence: Option<u64>,
    pub(crate) previous: Link,
    /// The oldest generation still needed, by the last batch that said so.
    pub(crate) oldest: u32,
    /// The latest term of any batch.
    pub(crate) term: u64,
    /// How far each log has come, from the first batch on that says so.
    pub(crate) logs: BTreeMap<LogId, LogEnd>,
}

/// The log among the files.
pub(crate) struct FoundLog {
    /// The index of its oldest file.
    pub(crate) start: usize,
    pub(crate) end: End,
    /// What follows its end and is no part of it.
    pub(crate) cut: Option<Cut>,
}

/// What lies behind the end of the log, where something was being written when the last run ended.
/// Nothing says that it was ever flushed, so no ticket covered it unless the disk has lost or
/// changed what it had flushed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    /// The file in which the log ends.
    pub file: String,
    /// The offset in it.
    pub offset: u64,
    /// The sequence of the batch that is missing there.
    pub sequence: u64,
    /// How many batches follow whose headers are whole.
    pub batches: u64,
}

/// What a look behind the end of the log has found.
#[derive(Default)]
struct Behind {
    /// The missing batch had been flushed.
    proven: bool,
    /// Headers of batches that follow, or that of the missing one.
    batches: u64,
}

impl End {
    /// Before the first batch of file `index`.
    pub(crate) fn before(index: usize) -> Self {
        Self { index, offset: BLOCK, sequence: None, previous: 0, oldest: 0, term: 0, logs: BTreeMap::new() }
    }
}

/// Takes each batch of a walk: the index of its file, its header, its records.
pub(crate) type Visit<'a> = dyn FnMut(usize, &BatchHeader, &[u8]) -> Result<(), OpenError> + 'a;

impl Scan {
    /// Sorts the good files by generation. Of two files of one generation, which a readying that
    /// failed may leave behind, the one with a batch is kept.
    pub(crate) fn new(incarnation: u64, files: Vec<ScanFile>, broken: Vec<BrokenFile>) -> Result<Self, OpenError> {
        let mut scan = Self { incarnation, files, broken, twins: None };
        scan.files.sort_by_key(|file| file.generation);
        let mut at = 1;
        while at < scan.files.len() {
            if scan.files[at - 1].generation == scan.files[at].generation {
                let used = scan.batch(at, BLOCK, &mut Vec::new())?.is_some();
                if used && scan.batch(at - 1, BLOCK, &mut Vec::new())?.is_some() {
                    scan.twins = Some((scan.files[at - 1].name(), scan.files[at].name()));
                }
                let file = scan.files.remove(if used { at - 1 } else { at });
                let length = u64::from(file.length);
                scan.broken.push(BrokenFile { number: file.number, length, handle: file.handle });
            } else {
                at += 1;
            }
        }
        Ok(scan)
    }

    /// Finds the log among the files. `visit` takes each batch on the way, and may be given some
    /// that are older than the log, or some twice.
    pub(crate) fn find_log(&self, visit: &mut Visit<'_>) -> Result<FoundLog, OpenError> {
        let (first, needed) = self.last_used()?.unwrap_or((0, 0));
        // From the first file that connects, which may be older than the log. Then the end is found
        // for sure, even if the batch that says where the log begins is itself cut off.
        let (from, (end, cut)) = match self.walk_checked(first, visit) {
            Ok(found) => (first, found),
            // What is wrong may lie in a file the log no longer needs.
            Err(error) if needed > first => (needed, self.walk_checked(needed, visit).map_err(|_| error)?),
            Err(error) => return Err(error),
        };
        if self.files.is_empty() {
            return Ok(FoundLog { start: 0, end, cut });
        }
        // A log without a batch is a new one.
        let oldest = if end.sequence.is_some() { end.oldest } else { 1 };
        let start = (from..=end.index).find(|at| self.files[*at].generation == oldest);
        start.map(|start| FoundLog { start, end, cut }).ok_or_else(|| {
            let what = format!("the log file of generation {oldest} is missing or its header is damaged");
            OpenError::damaged("wal", 0, what)
        })
    }

    /// Walks from file `start`, and refuses the log if what is missing at the end had been flushed.
    fn walk_checked(&self, start: usize, visit: &mut Visit<'_>) -> Result<(End, Option<Cut>), OpenError> {
        let end = self.walk(End::before(start), visit)?;
        let batches = self.refuse_if_proven(&end)?;
        self.refuse_gap(&end)?;
        let cut = batches > 0 || self.begins_behind(&end)?;
        let file = self.files.get(end.index).filter(|_| cut);
        let (offset, sequence) = (u64::from(end.offset), end.sequence.unwrap_or(1));
        Ok((end, file.map(|file| Cut { file: file.name(), offset, sequence, batches })))
    }

    /// Whether something that was the next batch, and is damaged, lies where that would be.
    fn begins_behind(&self, end: &End) -> Result<bool, OpenError> {
        let missing = end.sequence.unwrap_or(1);
        for (at, offset) in [(end.index, end.offset), (end.index + 1, BLOCK)] {
            let Some(file) = self.files.get(at).filter(|file| offset < file.length) else { continue };
            let (mut header, place) = ([0; HEADER], (file.generation, offset));
            if self.read(file, &mut header, offset)?
                && BatchHeader::resembles(&header, self.incarnation, place, missing)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The index of the first file that connects without a gap to the last one with a batch, and
    /// that of the oldest file this last one says is needed. `None` if no file has a batch.
    pub(crate) fn last_used(&self) -> Result<Option<(usize, usize)>, OpenError> {
        for at in (0..self.files.len()).rev() {
            let Some(header) = self.batch(at, BLOCK, &mut Vec::new())?.map(|(header, _)| header) else { continue };
            let mut first = at;
            while first > 0 && self.files[first - 1].generation + 1 == self.files[first].generation {
                first -= 1;
            }
            let needed = self.files[..=at].iter().rposition(|file| file.generation <= header.oldest).unwrap_or(first);
            return Ok(Some((first, needed.max(first))));
        }
        Ok(None)
    }

    /// Walks the chain of whole batches from `start` on.
    pub(crate) fn walk(&self, start: End, visit: &mut Visit<'_>) -> Result<End, OpenError> {
        let mut end = start;
        let mut records = Vec::new();
        if self.files.is_empty() {
            return Ok(end);
        }
        loop {
            let mut place = (end.index, end.offset);
            let mut found = self.linked(place, &end, &mut records)?;
            let next = end.index + 1;
            let follows =
                self.files.get(next).is_some_and(|file| file.generation == self.files[end.index].generation + 1);
            if found.is_none() && end.sequence.is_some() && follows {
                place = (next, BLOCK);
                found = self.linked(place, &end, &mut records)?;
            }
            let Some((header, link)) = found else { return Ok(end) };
            self.follow(place, &mut end.logs, &header, &records)?;
            visit(place.0, &header, &records)?;
            end = End {
                index: place.0,
                offset: place.1 + header.footprint(),
                sequence: Some(header.sequence + 1),
                previous: link,
                oldest: header.oldest,
                term: end.term.max(header.term()),
                logs: end.logs,
            };
        }
    }

    /// Moves the log of a batch forward. The first batch that is read of a log is believed, and the
    /// first record of its end: what they follow may have left the log.
    fn follow(
        &self,
        (at, offset): (usize, u32),
        logs: &mut BTreeMap<LogId, LogEnd>,
        header: &BatchHeader,
        records: &[u8],
    ) -> Result<(), OpenError> {
        let damaged = |what| OpenError::damaged(&self.files[at].name(), offset.into(), what);
        let Some(identity) = &header.identity else {
            let newer = logs.is_empty();
            return if newer { Ok(()) } else { Err(damaged("a batch of an older format follows one of a newer")) };
        };
        let end = match logs.get(&identity.end.log) {
            Some(end) => end.follow(identity, header.advance(), records).map_err(damaged)?,
            None if header.advance() == Advance::Yes => identity.end,
            // The term is that of the journal which wrote the batch.
            None => LogEnd { term: 0, ..identity.end },
        };
        logs.insert(end.log, end);
        if header.kind == BatchKind::Housekeeping {
            each_record(&self.files[at], header, records, &mut |_, record| {
                if let Kind::LogEnd { end } = record.kind {
                    let known = logs.entry(end.log).or_insert(end);
                    if known.index == end.index {
                        known.term = known.term.max(end.term);
                    }
                }
            })?;
        }
        Ok(())
    }

    /// The batch at a place, if it is the next of the chain.
    fn linked(
        &self,
        place: (usize, u32),
        end: &End,
        records: &mut Vec<u8>,
    ) -> Result<Option<(BatchHeader, Link)>, OpenError> {
        let found = self.batch(place.0, place.1, records)?;
        let links = |header: &BatchHeader| {
            end.sequence.is_none_or(|next| header.sequence == next && header.previous == end.previous)
        };
        Ok(found.filter(|(header, _)| links(header)))
    }

    /// The batch at `offset` of file `at`, its records in `records`; `None` if there is no whole
    /// one.
    pub(crate) fn batch(
        &self,
        at: usize,
        offset: u32,
        records: &mut Vec<u8>,
    ) -> Result<Option<(BatchHeader, Link)>, OpenError> {
        let file = &self.files[at];
        let mut header = [0; HEADER];
        if offset >= file.length || !self.read(file, &mut header, offset)? {
            return Ok(None);
        }
        let Some((header, link)) = BatchHeader::decode(&header, self.incarnation, file.generation, offset) else {
            return Ok(None);
        };
        // The header is whole, so the length is one this journal wrote; bounded by the file all the
        // same.
        if u64::from(offset) + u64::from(header.length) + HEADER as u64 > u64::from(file.length) {
            return Ok(None);
        }
        records.clear();
        records.resize(header.length as usize, 0);
        let whole = self.read(file, records, offset + HEADER as u32)?
            && Checksums::new(self.incarnation, file.generation).of(records) == header.payload;
        Ok(whole.then_some((header, link)))
    }

    /// The next place behind `end` where a batch begins whose header is whole and as `wanted`: the
    /// index of its file, and the header.
    pub(crate) fn next_header(
        &self,
        end: &End,
        wanted: &mut dyn FnMut(usize, &BatchHeader) -> bool,
    ) -> Result<Option<(usize, BatchHeader)>, OpenError> {
        for (at, file) in self.files.iter().enumerate().skip(end.index) {
            let mut offset = if at == end.index { end.offset } else { BLOCK };
            let mut header = [0; HEADER];
            while offset < file.length && self.read(file, &mut header, offset)? {
                let found = BatchHeader::decode(&header, self.incarnation, file.generation, offset);
                if let Some((header, _)) = found.filter(|(header, _)| wanted(at, header)) {
                    return Ok(Some((at, header)));
                }
                offset += BLOCK;
            }
        }
        Ok(None)
    }

    /// Fills `bytes` from the file; false if the file ends before.
    fn read(&self, file: &ScanFile, bytes: &mut [u8], offset: u32) -> Result<bool, OpenError> {
        match file.handle.read_exact_at(bytes, u64::from(offset)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(OpenError::io(format!("reading {}", file.name()))(error)),
        }
    }

    /// Files are readied in the order of their generations, each one durably before the next. So
    /// the last one stands for all before it: one that is missing behind `end` was there, and may
    /// have had batches.
    fn refuse_gap(&self, end: &End) -> Result<(), OpenError> {
        if let Some((one, other)) = &self.twins {
            let what =
                format!("{other} claims to be the same part of the log; one of them was copied over another file");
            return Err(OpenError::damaged(one, 0, what));
        }
        let behind = self.files.get(end.index..).unwrap_or_default();
        let gap = behind.array_windows().find(|[one, next]| one.generation + 1 != next.generation);
        gap.map_or(Ok(()), |[one, next]| {
            let missing = one.generation + 1;
            let what = format!("the log file of generation {missing} is missing, or something was copied over it");
            Err(OpenError::damaged(&next.name(), 0, what))
        })
    }

    /// Looks at every block after `end` for a batch that proves that the one missing there had been
    /// flushed. Gives the number of batches that follow without a proof.
    fn refuse_if_proven(&self, end: &End) -> Result<u64, OpenError> {
        let missing = end.sequence.unwrap_or(1);
        let (mut behind, mut here) = (Behind::default(), true);
        for (at, file) in self.files.iter().enumerate().skip(end.index) {
            let from = if at == end.index { end.offset } else { BLOCK };
            let (name, range) = (file.name(), (u64::from(from), u64::from(file.length)));
            self.look_behind(&*file.handle, &name, range, end, &mut behind)?;
            here &= at != end.index || behind.proven;
        }
        for file in &self.broken {
            self.look_behind(&*file.handle, &slot_name(file.number), (0, file.length), end, &mut behind)?;
        }
        if !behind.proven {
            return Ok(behind.batches);
        }
        // Where nothing follows in its file, the batch had been the first of the next one.
        let next = self.files.get(end.index + 1).filter(|_| !here).map(|next| (next.name(), BLOCK));
        let this = || self.files.get(end.index).map_or_else(|| "wal".to_owned(), ScanFile::name);
        let (name, offset) = next.unwrap_or_else(|| (this(), end.offset));
        let what = format!("batch {missing} had been flushed to disk and does not read back");
        Err(OpenError::damaged(&name, u64::from(offset), what))
    }

    /// Looks at the blocks of a file, in the range `at` to `to`, for headers that were written
    /// behind `end`.
    fn look_behind(
        &self,
        file: &dyn DiskFile,
        name: &str,
        (mut at, to): (u64, u64),
        end: &End,
        behind: &mut Behind,
    ) -> Result<(), OpenError> {
        const CHUNK: usize = 256 << 10;
        let mut chunk = vec![0; CHUNK];
        while at < to {
            let wanted = chunk.len().min((to - at) as usize);
            let mut have = 0;
            while have < wanted {
                match file
                    .read_at(&mut chunk[have..wanted], at + have as u64)
                    .map_err(OpenError::io(format!("reading {name}")))?
                {
                    0 => break,
                    count => have += count,
                }
            }
            chunk[..have].chunks(BLOCK as usize).for_each(|block| behind.note(block, end, self.incarnation));
            if have < wanted {
                return Ok(());
            }
            at += wanted as u64;
        }
        Ok(())
    }
}

impl Behind {
    fn note(&mut self, block: &[u8], end: &End, incarnation: u64) {
        let header = block.first_chunk::<HEADER>().and_then(|bytes| BatchHeader::decode_any(bytes, incarnation));
        let Some((header, _)) = header else { return };
        let missing = end.sequence.unwrap_or(1);
        self.proven |= header.durable >= missing;
        // What an earlier start has cut is of an earlier term, if that start wrote anything.
        let last_run = header.term() >= end.term;
        self.batches += u64::from(last_run && header.sequence >= missing);
    }
}
