//! The scrub: it reads segments from time to time, slowly. So a disk that loses bits is noticed
//! before a consumer waits for the message.
//!
//! It works in rounds, of the segments there were when a round began; what was written since then
//! waits for the next. Invariant: it runs on the background's thread, between two of its steps, so
//! no segment goes while a piece of it is read. From piece to piece it keeps no file open. It
//! changes nothing, and tells of a segment once.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hashbrown::HashSet;
use parking_lot::Mutex;

use crate::cold::index::{Front, HEADER, IndexHeader, Row, SegmentFile};
use crate::engine::{Engine, Log};
use crate::layout::{index_name, segment_name, slot_name};
use crate::record::BODY_HEAD;
use crate::reference::Chunk;
use crate::verify::Damage;
use walk::Walk;

mod walk;

/// How much is read with one step.
const PIECE: u64 = 1 << 20;
/// A round begins this long after the one before began, if that is over by then.
const ROUND_EVERY: Duration = Duration::from_secs(24 * 3600);

/// The scrub of a journal between its steps.
#[derive(Default)]
pub(crate) struct Scrub {
    /// Bytes for each second; zero for none at all.
    rate: AtomicU64,
    bytes: AtomicU64,
    rounds: AtomicU64,
    progress: Mutex<Progress>,
}

/// Where it is. Times are those since the journal was started.
#[derive(Default)]
struct Progress {
    /// Nothing is read before.
    due: Duration,
    next_round: Duration,
    in_round: bool,
    /// The segments still to be read in this round, last first.
    left: Vec<u32>,
    current: Option<Check>,
    /// The segments that were found damaged.
    damaged: HashSet<u32>,
    /// What was found and not told yet.
    found: Vec<Damage>,
}

/// A segment that is being read.
struct Check {
    header: IndexHeader,
    stage: Stage,
}

enum Stage {
    /// Nothing was read yet.
    Begin,
    /// The blocks still to be read, last first, and where the last body that was listed so far
    /// ends.
    Blocks(Vec<Row>, u64),
    Bodies(Box<Walk>),
}

/// What reading a piece came to.
enum Piece {
    /// So many bytes were read, and there are more.
    More(u64),
    /// The segment is whole; so many bytes were read.
    Whole(u64),
}

/// What does not read back: the file, the place in it, and why.
struct Bad(String, u64, String);

impl Scrub {
    /// Bytes read, and rounds that came to their end, since the journal was started.
    pub(crate) fn figures(&self) -> (u64, u64) {
        (self.bytes.load(Ordering::Relaxed), self.rounds.load(Ordering::Relaxed))
    }

    /// What was found damaged since the last call, once for each segment.
    pub(crate) fn take_damages(&self) -> Vec<Damage> {
        std::mem::take(&mut self.progress.lock().found)
    }

    /// The segments that were found damaged; some may have gone since.
    pub(crate) fn damaged(&self) -> Vec<u32> {
        self.progress.lock().damaged.iter().copied().collect()
    }
}

impl Engine {
    /// See [`Journal::scrub`](crate::Journal::scrub).
    pub(crate) fn set_scrub_rate(&self, bytes_per_second: u64) {
        if let Some(log) = &self.log {
            log.scrub.rate.store(bytes_per_second, Ordering::Relaxed);
            self.wake_background();
        }
    }

    /// Reads the next piece of a segment if it is time for that, `now` after the start. Gives the
    /// time when there is more to do; none if scrubbing is off.
    pub(crate) fn scrub(&self, log: &Log, now: Duration) -> Option<Duration> {
        let rate = log.scrub.rate.load(Ordering::Relaxed);
        if rate == 0 {
            return None;
        }
        let mut progress = log.scrub.progress.lock();
        let progress = &mut *progress;
        if now < progress.due {
            return Some(progress.due);
        }
        let Some(mut check) = progress.current.take().or_else(|| self.next_check(log, progress, now)) else {
            return Some(progress.due);
        };
        // Gone, or on its way out: it is not missed.
        let number = check.header.number;
        if log.cold.header(number) != Some(check.header) || !self.is_kept(number) {
            return Some(progress.due);
        }
        let read = match check.step(log) {
            Ok(Piece::More(read)) => {
                progress.current = Some(check);
                read
            }
            Ok(Piece::Whole(read)) => read,
            Err(Bad(file, offset, what)) => {
                if progress.damaged.insert(number) {
                    progress.found.push(Damage { file, offset, what, entries: None });
                }
                PIECE
            }
        };
        log.scrub.bytes.fetch_add(read, Ordering::Relaxed);
        // Told in bytes, so that the pieces of a large file and many small ones are paced alike.
        let pause = Duration::from_micros(read.saturating_mul(1_000_000) / rate);
        progress.due = now.saturating_add(pause);
        Some(progress.due)
    }

    /// The next segment of the round, or of a new one if that is due; the end of the last one is
    /// noted.
    fn next_check(&self, log: &Log, progress: &mut Progress, now: Duration) -> Option<Check> {
        if progress.left.is_empty() {
            if std::mem::take(&mut progress.in_round) {
                log.scrub.rounds.fetch_add(1, Ordering::Relaxed);
            }
            if now < progress.next_round {
                progress.due = progress.next_round;
                return None;
            }
            progress.next_round = now.saturating_add(ROUND_EVERY);
            progress.in_round = true;
            let kept = self.with_buffer(|buffer| buffer.segments.segments.keys().copied().collect());
            progress.left = kept.unwrap_or_default();
            // Last first: the oldest segments come first.
            progress.left.sort_unstable_by(|a, b| b.cmp(a));
            progress.damaged.retain(|number| progress.left.contains(number));
        }
        let number = progress.left.pop()?;
        let header = log.cold.header(number)?;
        Some(Check { header, stage: Stage::Begin })
    }

    fn is_kept(&self, number: u32) -> bool {
        self.with_buffer(|buffer| buffer.segments.segments.contains_key(&number)).unwrap_or(false)
    }
}

impl Check {
    fn step(&mut self, log: &Log) -> Result<Piece, Bad> {
        let index = index_name(self.header.number);
        match &mut self.stage {
            Stage::Begin => {
                let (rows, read) = self.directory(log).map_err(|error| Bad(index, 0, error.to_string()))?;
                self.stage = Stage::Blocks(rows, 0);
                Ok(Piece::More(read))
            }
            Stage::Blocks(rows, end) => {
                let read = blocks(log, self.header.number, rows, end)?;
                if rows.is_empty() {
                    self.stage = Stage::Bodies(Box::new(Walk::new(log.incarnation, self.header, *end)));
                }
                Ok(Piece::More(read))
            }
            Stage::Bodies(walk) => {
                let name = match self.header.place {
                    SegmentFile::Slot(slot) => slot_name(slot),
                    SegmentFile::Own => segment_name(self.header.number),
                };
                let before = walk.at();
                let file =
                    log.cold.disk.open_in_time(&name).map_err(|error| Bad(name.clone(), 0, error.to_string()))?;
                let whole = walk.step(&*file, PIECE).map_err(|(offset, what)| Bad(name, offset, what))?;
                let read = walk.at() - before;
                Ok(if whole { Piece::Whole(read) } else { Piece::More(read) })
            }
        }
    }

    /// Reads header and directory of the index. Gives the rows, last first, and how much was read.
    fn directory(&self, log: &Log) -> io::Result<(Vec<Row>, u64)> {
        let file = log.cold.open_index(self.header.number)?;
        let mut sector = [0; HEADER];
        file.read_exact_at(&mut sector, 0)?;
        if IndexHeader::decode(&sector, log.incarnation, self.header.number) != Front::Whole(self.header) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its header does not check"));
        }
        let mut rows = self.header.read_directory(&*file, log.incarnation)?.rows;
        rows.reverse();
        let read = HEADER as u64 + file.length()?.saturating_sub(u64::from(self.header.directory_at()));
        Ok((rows, read))
    }
}

/// Reads some more blocks of an index, and moves `end` to the end of the last body that they list.
/// Gives how much was read.
fn blocks(log: &Log, number: u32, rows: &mut Vec<Row>, end: &mut u64) -> Result<u64, Bad> {
    let name = index_name(number);
    let file = log.cold.open_index(number).map_err(|error| Bad(name.clone(), 0, error.to_string()))?;
    let (mut read, mut listed) = (0, Vec::new());
    while read < PIECE {
        let Some(row) = rows.pop() else { break };
        let chunk = Chunk { segment: number, block: row.block, count: row.count };
        listed.clear();
        crate::cold::index::read_block(&*file, log.incarnation, chunk, row.page, &mut listed)
            .map_err(|error| Bad(name.clone(), row.block.into(), error.to_string()))?;
        let ends = listed.iter().map(|one| u64::from(one.address.offset) + BODY_HEAD as u64 + u64::from(one.length));
        *end = ends.fold(*end, u64::max);
        read += crate::cold::index::block_len(row.count as usize) as u64;
    }
    Ok(read)
}
