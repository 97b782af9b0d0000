//! One evacuation or merge, in bounded steps. It asks what is alive, and waits until that rests on
//! what is durable. It writes a segment and its index, and tells the owners. For a log file it has
//! them restated, and takes the file out of the log.
//!
//! Invariant: an index is written only when every record that the choice rests on is flushed and
//! every group begun by then has ended. Owners hear of a segment only when its index is durable. A
//! log file goes only after that.

use std::io;
use std::sync::atomic::Ordering;

use crate::Owner;
use crate::cold::count::Count;
use crate::cold::index::{IndexWriter, SegmentFile};
use crate::cold::merge::{Sieve, Unreadable};
use crate::cold::plan::{Lengths, Plan};
use crate::cold::segment::{Copier, CopyError};
use crate::engine::owners::Restatement;
use crate::engine::recycle::wait::Wait;
use crate::engine::{Engine, Log};
use crate::layout::{index_name, is_copied, segment_name};
use crate::read::Unread;
use crate::reference::Chunk;

/// How many owners are restated, or asked, with one step.
const OWNERS_AT_ONCE: usize = 256;
/// How many references found end a step of asking.
const FOUND_AT_ONCE: u64 = 64 << 10;
/// What a reference takes in an index at most, about.
const ENTRY_SHARE: u64 = 16;
/// How many chunks the owners are told of in one step.
const TOLD_AT_ONCE: usize = 16;

/// What a step came to.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// There is more to do at once.
    More,
    /// Something must become durable, or an end, first.
    Wait,
    Finished,
}

/// Why a job was given up. Nothing has come of it, so a new one begins later.
pub(super) enum Failure {
    /// A body, or an index, could not be read; the file or segment.
    Read(u32),
    /// Something could not be written.
    Disk,
}

impl From<io::Error> for Failure {
    fn from(_: io::Error) -> Self {
        Self::Disk
    }
}

enum Stage {
    /// The owners still to be asked, last first.
    Ask(Vec<Owner>),
    Sift(Sieve),
    Settle(Wait),
    /// The next page of unknown lengths, and the lengths that are known.
    Measure(usize, Lengths),
    Copy(Box<Copier>),
    Index(IndexWriter),
    /// The next page of the plan.
    Tell(usize),
    Restate,
    Leave,
}

/// A log file on its way out of the log.
pub(super) struct Leaving {
    pub(super) generation: u32,
    pub(super) length: u32,
    pub(super) slot: u32,
    /// The owners to restate, last first.
    pub(super) owners: Vec<Owner>,
    /// Bodies in it are referenced.
    pub(super) alive: bool,
    /// How much had been restated before.
    pub(super) restated: u64,
    /// A body in it can't be read: it is adopted, whatever its live part.
    pub(super) unreadable: bool,
}

/// An evacuation or a merge.
pub(super) struct Job {
    plan: Plan,
    stage: Stage,
    /// None for a merge.
    leaving: Option<Leaving>,
    /// The number of the segment that comes of it; none as long as there is nothing of it on disk.
    target: Option<u32>,
}

impl Job {
    /// Takes a log file out of the log.
    pub(super) fn leave(leaving: Leaving) -> Self {
        let stage = if leaving.alive { Stage::Ask(leaving.owners.clone()) } else { Stage::Restate };
        Self { plan: Plan::new(vec![leaving.generation]), stage, leaving: Some(leaving), target: None }
    }

    /// Writes one segment in place of several.
    pub(super) fn merge(segments: Vec<u32>) -> Self {
        let stage = Stage::Sift(Sieve::new(&segments));
        Self { plan: Plan::new(segments), stage, leaving: None, target: None }
    }

    /// Whether segment `number` is being merged.
    pub(super) fn merges(&self, number: u32) -> bool {
        self.leaving.is_none() && self.plan.sources.contains(&number)
    }

    /// What it waits for.
    pub(super) fn wait(&self) -> Option<&Wait> {
        if let Stage::Settle(wait) = &self.stage { Some(wait) } else { None }
    }

    /// Whether all that is left to do is to wait until nothing keeps the file.
    pub(super) fn only_leaves(&self) -> bool {
        matches!(self.stage, Stage::Leave)
    }

    /// The log file it takes out of the log.
    pub(super) fn leaving(&self) -> Option<&Leaving> {
        self.leaving.as_ref()
    }

    /// The segments it has replaced, once it is finished.
    pub(super) fn replaced(&self) -> &[u32] {
        if self.leaving.is_none() { &self.plan.sources } else { &[] }
    }

    /// The files that a job which is given up may leave behind.
    pub(super) fn leftovers(&self) -> Vec<String> {
        let Some(number) = self.target else { return Vec::new() };
        let segment = is_copied(number).then(|| segment_name(number));
        // The index first: a segment without one is nothing.
        std::iter::once(index_name(number)).chain(segment).collect()
    }

    /// Does the next piece of work, with everything up to `synced` flushed.
    pub(super) fn step(&mut self, engine: &Engine, log: &Log, synced: u64) -> Result<Step, Failure> {
        match &mut self.stage {
            Stage::Ask(_) => self.ask(engine, log),
            Stage::Sift(sieve) => {
                let all = sieve
                    .step(&log.cold, &|owner, page, bits| log.owners.unsettled(owner, page, bits), &mut self.plan)
                    .map_err(|Unreadable(segment)| Failure::Read(segment))?;
                if all {
                    self.stage = Stage::Settle(engine.wait_from_now());
                }
                Ok(Step::More)
            }
            Stage::Settle(wait) => {
                if !engine.is_over(synced, wait) {
                    return Ok(Step::Wait);
                }
                // A segment lists every length, and a body may be empty.
                if self.plan.unmeasured && self.leaving.is_some() {
                    self.stage = Stage::Measure(0, Lengths::new());
                } else {
                    self.begin_segment(engine, log)?;
                }
                Ok(Step::More)
            }
            Stage::Measure(..) => self.measure(engine, log),
            Stage::Copy(_) => self.copy(log),
            Stage::Index(_) => self.index(engine, log),
            Stage::Tell(_) => Ok(self.tell(engine, log)),
            Stage::Restate => Ok(self.restate(engine, log)),
            Stage::Leave => Ok(Step::Finished),
        }
    }

    /// Asks some more owners what they reference in the file.
    fn ask(&mut self, engine: &Engine, log: &Log) -> Result<Step, Failure> {
        let (Stage::Ask(owners), Some(leaving)) = (&mut self.stage, &self.leaving) else { return Ok(Step::More) };
        let (mut found, mut total) = (Vec::new(), 0);
        for _ in 0..OWNERS_AT_ONCE {
            // Looked at first: an owner that is taken from the list and not asked loses all that it
            // has in the file.
            if total >= FOUND_AT_ONCE {
                break;
            }
            let Some(owner) = owners.pop() else { break };
            found.clear();
            log.owners.referenced(owner, leaving.generation, &mut found);
            total += found.len() as u64;
            self.plan.add(owner, &mut found);
        }
        if owners.is_empty() {
            // With nothing to move there is nothing to wait for: what still counts ends with some
            // group.
            let nothing = self.plan.pages.is_empty();
            self.stage = if nothing { Stage::Restate } else { Stage::Settle(engine.wait_from_now()) };
        }
        Ok(Step::More)
    }

    /// Finds out some more lengths, once everything is on disk.
    fn measure(&mut self, engine: &Engine, log: &Log) -> Result<Step, Failure> {
        let (Stage::Measure(next, known), Some(leaving)) = (&mut self.stage, &self.leaving) else {
            return Ok(Step::More);
        };
        let failed = |_| Failure::Read(leaving.generation);
        let file = log.open(leaving.generation).ok_or(Failure::Read(leaving.generation))?;
        // A file that is adopted anyway needs no lengths: where one is unknown, a read asks the
        // file.
        let unread = if leaving.unreadable { Unread::IsNone } else { Unread::Fails };
        match self.plan.measure(*next, &*file, known, unread).map_err(failed)? {
            Some(page) => *next = page,
            None => self.begin_segment(engine, log)?,
        }
        Ok(Step::More)
    }

    /// Begins a segment of its own, or the index of an adopted one. A file at least half of which
    /// is alive stays where it is. At one half both ways cost the same: adopting wastes the dead
    /// half until a merge, copying writes the live one again.
    fn begin_segment(&mut self, engine: &Engine, log: &Log) -> io::Result<()> {
        let leaving = self.leaving.as_ref();
        let length = leaving.map_or(0, |file| file.length);
        let looked =
            engine.with_buffer(|buffer| (log.to_spare(buffer), log.slot_cost(buffer, length), buffer.sizes.ring));
        let (room, slot, ring) = looked.unwrap_or_default();
        let index = ENTRY_SHARE * self.plan.references();
        let (copied, kept) = (self.plan.bytes + index, slot + index);
        // Where the disk is nearly full the dead half, and the padding between batches, is worth
        // more than the writing.
        let alive = self.plan.bytes * 2 >= u64::from(length) && room >= ring;
        let adopted = leaving.filter(|file| file.unreadable || alive || copied >= room);
        if leaving.is_some() && if adopted.is_some() { kept >= room } else { copied >= room } {
            return Err(io::ErrorKind::StorageFull.into());
        }
        match adopted {
            Some(file) => {
                let (generation, place, length) = (file.generation, SegmentFile::Slot(file.slot), file.length);
                self.target = Some(generation);
                self.begin_index(log, generation, place, length)
            }
            None => {
                let number = log.cold.next_number();
                self.target = Some(number);
                let file = log.cold.disk.create(&segment_name(number))?;
                self.stage = Stage::Copy(Box::new(Copier::new(file, log.incarnation, number)));
                Ok(())
            }
        }
    }

    fn begin_index(&mut self, log: &Log, number: u32, place: SegmentFile, length: u32) -> io::Result<()> {
        let file = log.cold.disk.create(&index_name(number))?;
        let writer = IndexWriter::new(file, log.incarnation, &mut self.plan, number, place, length)?;
        self.stage = Stage::Index(writer);
        Ok(())
    }

    fn copy(&mut self, log: &Log) -> Result<Step, Failure> {
        let (Stage::Copy(copier), Some(number)) = (&mut self.stage, self.target) else { return Ok(Step::More) };
        let all = copier.step(&mut self.plan, &|file| log.open(file)).map_err(|error| match error {
            CopyError::Read(file) => Failure::Read(file),
            CopyError::Write => Failure::Disk,
        })?;
        if all {
            let length = copier.finish()?;
            self.begin_index(log, number, SegmentFile::Own, length)?;
        }
        Ok(Step::More)
    }

    /// Writes some more of the index, and in the end its header.
    fn index(&mut self, engine: &Engine, log: &Log) -> Result<Step, Failure> {
        let Stage::Index(writer) = &mut self.stage else { return Ok(Step::More) };
        if !writer.step(&self.plan)? {
            return Ok(Step::More);
        }
        writer.write_directory(&self.plan)?;
        log.cold.disk.sync_directory()?;
        let header = writer.commit()?;
        log.cold.insert(header);
        if is_copied(header.number) {
            log.figures.evacuated.fetch_add(header.bytes, Ordering::Relaxed);
            let (references, bytes, length) = (header.references, header.bytes, header.length);
            let count = Count { live: references, references, bytes, length, unreadable: false };
            engine.with_buffer(|buffer| buffer.segments.insert(header.number, count));
        }
        self.stage = Stage::Tell(0);
        Ok(Step::More)
    }

    /// Tells the owners of some more chunks.
    fn tell(&mut self, engine: &Engine, log: &Log) -> Step {
        let (Stage::Tell(next), Some(number)) = (&mut self.stage, self.target) else { return Step::More };
        for page in self.plan.pages.iter().skip(*next).take(TOLD_AT_ONCE) {
            let chunk = Chunk { segment: number, block: page.block, count: page.items.len() as u32 };
            let entries: Vec<_> = page.items.iter().map(|item| page.reference(number, item)).collect();
            let left = log.owners.moved(page.owner, page.page, &self.plan.sources, chunk, &entries);
            // What is adopted keeps its number, and so its count.
            if is_copied(number) {
                let settled = (entries.len() as u64).saturating_sub(left);
                let from = self.leaving.as_ref().map(|file| file.generation);
                engine.with_buffer(|buffer| {
                    buffer.free(number, settled);
                    from.into_iter().for_each(|file| buffer.free(file, left));
                });
            }
        }
        *next += TOLD_AT_ONCE;
        if *next < self.plan.pages.len() {
            return Step::More;
        }
        if self.leaving.is_some() {
            self.stage = Stage::Restate;
            return Step::More;
        }
        log.figures.merges.fetch_add(1, Ordering::Relaxed);
        Step::Finished
    }

    /// Has some more owners say again what the file says of them.
    fn restate(&mut self, engine: &Engine, log: &Log) -> Step {
        let Some(leaving) = &mut self.leaving else { return Step::Finished };
        let rest = leaving.owners.len().saturating_sub(OWNERS_AT_ONCE);
        let owners = leaving.owners.split_off(rest);
        if !owners.is_empty() {
            let later = log.owners.restate(&owners, &Restatement::new(engine));
            let none = later.len() == owners.len();
            // Asked again behind all others.
            leaving.owners.splice(..0, later);
            return if none { Step::Wait } else { Step::More };
        }
        let restated = engine.with_buffer(|buffer| buffer.volumes.restated).unwrap_or(0);
        log.needs.restatement.fetch_max(restated.saturating_sub(leaving.restated), Ordering::Relaxed);
        self.stage = Stage::Leave;
        Step::Finished
    }

    /// Whether the file is a segment now, where it lies.
    pub(super) fn adopted(&self) -> bool {
        self.leaving.as_ref().is_some_and(|file| self.target == Some(file.generation))
    }

    /// The count of the adopted segment, with `live` references.
    pub(super) fn count(&self, live: u64) -> Count {
        let length = self.leaving.as_ref().map_or(0, |file| file.length);
        Count { live, references: self.plan.references(), bytes: self.plan.bytes, length, unreadable: false }
    }
}
