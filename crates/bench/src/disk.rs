//! What a disk gives to a backlog: the same batches, each forced to the disk, kept in the ways a
//! store can choose from.
//!
//! No broker is involved. `append` and `zeroed` are the two limits that a store is held against;
//! `adopted` and `copied` are what a write-ahead log has to do besides when nothing is consumed.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Instant;

use clap::ValueEnum;
use serde::Serialize;

use bench_record::failure::{Context, Failure};
use bench_record::statistics::spread::Spread;

/// Bytes of a file.
const FILE: u64 = 64 << 20;
/// Bytes zeroed or copied with one call.
const PIECE: usize = 1 << 20;
/// Pieces zeroed or copied between two flushes: one large flush would hold up the batches'.
const PIECES_AT_ONCE: u64 = 8;
/// Files that the copying way writes over in turn.
const RING: usize = 4;

/// How the batches are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Way {
    /// At the end of a growing file: large bodies go directly to where they stay
    Append,
    /// Over a file full of zeros; zeroing comes first and counts
    Zeroed,
    /// Over files of zeros that another thread makes meanwhile; a full file stays as it is
    Adopted,
    /// Over a few files in turn; another thread copies each to a file where it stays
    Copied,
}

/// One way, measured.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    way: Way,
    /// Bytes of a batch.
    batch: usize,
    /// Megabytes (10^6) of batches a second until everything is where it stays, all else included.
    megabytes_per_second: Spread,
    /// The longest that a batch took, in milliseconds.
    slowest_batch_ms: Spread,
    /// Bytes written for each byte of the batches.
    written: f64,
    /// Of these, zeros.
    zeros: f64,
}

/// One run of one way.
struct Run {
    begin: Instant,
    seconds: f64,
    slowest: f64,
    written: u64,
    zeros: u64,
}

/// Measures every way with batches of each size, `total` bytes each time, in turns.
pub(crate) fn measure(dir: &Path, batches: &[usize], total: u64, blocks: usize) -> Result<Vec<Row>, Failure> {
    let total = files(total) * FILE;
    let mut rows = Vec::new();
    for batch in batches {
        let mut runs: Vec<Vec<Run>> = Way::value_variants().iter().map(|_| Vec::new()).collect();
        for block in 0..blocks {
            for turn in 0..runs.len() {
                let at = (turn + block) % runs.len();
                let scratch = tempfile::Builder::new().prefix("hermod-bench-disk").tempdir_in(dir);
                let scratch = scratch.context(dir.display())?;
                runs[at].push(Way::value_variants()[at].run(scratch.path(), *batch, total)?);
            }
        }
        for (way, runs) in Way::value_variants().iter().zip(&runs) {
            rows.extend(Row::of(*way, *batch, total, runs));
        }
    }
    Ok(rows)
}

impl Row {
    fn of(way: Way, batch: usize, total: u64, runs: &[Run]) -> Option<Self> {
        let each = |figure: &dyn Fn(&Run) -> f64| Spread::of(runs.iter().map(figure).collect());
        let last = runs.last()?;
        Some(Self {
            way,
            batch,
            megabytes_per_second: each(&|run| total as f64 / 1e6 / run.seconds)?,
            slowest_batch_ms: each(&|run| run.slowest * 1e3)?,
            written: last.written as f64 / total as f64,
            zeros: last.zeros as f64 / total as f64,
        })
    }
}

impl Way {
    fn run(self, dir: &Path, batch: usize, total: u64) -> Result<Run, Failure> {
        let batch = vec![0x5a; batch];
        let mut run = match self {
            Self::Append => append(dir, &batch, total),
            Self::Zeroed => zeroed(dir, &batch, total),
            Self::Adopted => adopted(dir, &batch, total),
            Self::Copied => copied(dir, &batch, total),
        }
        .context(dir.display())?;
        run.seconds = run.begin.elapsed().as_secs_f64();
        Ok(run)
    }
}

impl Run {
    fn new() -> Self {
        Self { begin: Instant::now(), seconds: 0.0, slowest: 0.0, written: 0, zeros: 0 }
    }

    /// Writes batches from the start of `file` up to `end` bytes, each forced to the disk.
    fn fill(&mut self, file: &mut File, batch: &[u8], end: u64) -> std::io::Result<()> {
        file.seek(SeekFrom::Start(0))?;
        let mut at = 0;
        while at < end {
            let begin = Instant::now();
            file.write_all(batch)?;
            file.sync_data()?;
            self.slowest = self.slowest.max(begin.elapsed().as_secs_f64());
            at += batch.len() as u64;
            self.written += batch.len() as u64;
        }
        Ok(())
    }
}

fn create(dir: &Path, number: u64) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(dir.join(number.to_string()))
}

/// A file full of zeros, on the disk.
fn zeros(dir: &Path, number: u64) -> std::io::Result<File> {
    let mut file = create(dir, number)?;
    let piece = vec![0; PIECE];
    for count in 1..=FILE / PIECE as u64 {
        file.write_all(&piece)?;
        if count % PIECES_AT_ONCE == 0 {
            file.sync_data()?;
        }
    }
    Ok(file)
}

fn files(total: u64) -> u64 {
    total.div_ceil(FILE)
}

fn append(dir: &Path, batch: &[u8], total: u64) -> std::io::Result<Run> {
    let mut run = Run::new();
    for number in 0..files(total) {
        run.fill(&mut create(dir, number)?, batch, FILE)?;
    }
    Ok(run)
}

fn zeroed(dir: &Path, batch: &[u8], total: u64) -> std::io::Result<Run> {
    let mut run = Run::new();
    for number in 0..files(total) {
        run.fill(&mut zeros(dir, number)?, batch, FILE)?;
        run.zeros += FILE;
    }
    run.written += run.zeros;
    Ok(run)
}

fn adopted(dir: &Path, batch: &[u8], total: u64) -> std::io::Result<Run> {
    let mut run = Run::new();
    let (give, take): (SyncSender<File>, Receiver<File>) = sync_channel(1);
    let (folder, count) = (dir.to_owned(), files(total));
    let maker = thread::spawn(move || -> std::io::Result<()> {
        for number in 0..count {
            // No side waits any more once the other one has failed.
            let _ = give.send(zeros(&folder, number)?);
        }
        Ok(())
    });
    for mut file in take {
        run.fill(&mut file, batch, FILE)?;
        run.zeros += FILE;
    }
    ended(maker)?;
    run.written += run.zeros;
    Ok(run)
}

fn copied(dir: &Path, batch: &[u8], total: u64) -> std::io::Result<Run> {
    let mut ring = (0..RING as u64).map(|number| zeros(dir, number)).collect::<std::io::Result<VecDeque<_>>>()?;
    // The ring is there once and for all.
    let mut run = Run::new();
    let (give, take): (SyncSender<File>, Receiver<File>) = sync_channel(RING);
    let (give_back, take_back) = sync_channel(RING);
    let (folder, count) = (dir.to_owned(), files(total));
    let copier = thread::spawn(move || -> std::io::Result<()> {
        for (number, mut file) in take.into_iter().enumerate() {
            copy(&mut file, &folder, RING as u64 + number as u64)?;
            let _ = give_back.send(file);
        }
        Ok(())
    });
    for _ in 0..count {
        let next = ring.pop_front().map_or_else(|| take_back.recv().map_err(std::io::Error::other), Ok);
        let mut file = next?;
        run.fill(&mut file, batch, FILE)?;
        run.written += FILE;
        give.send(file).map_err(std::io::Error::other)?;
        ring.extend(take_back.try_iter());
    }
    drop(give);
    ended(copier)?;
    Ok(run)
}

fn copy(from: &mut File, dir: &Path, number: u64) -> std::io::Result<()> {
    let mut to = create(dir, number)?;
    let mut piece = vec![0; PIECE];
    from.seek(SeekFrom::Start(0))?;
    for count in 1..=FILE / PIECE as u64 {
        from.read_exact(&mut piece)?;
        to.write_all(&piece)?;
        if count % PIECES_AT_ONCE == 0 {
            to.sync_data()?;
        }
    }
    Ok(())
}

fn ended(thread: thread::JoinHandle<std::io::Result<()>>) -> std::io::Result<()> {
    thread.join().unwrap_or_else(|_| Err(std::io::Error::other("the second thread panicked")))
}

/// The rows as a table for people.
pub(crate) fn render(rows: &[Row]) -> String {
    let mut out = format!(
        "{:<10}{:>10}{:>12}{:>20}{:>16}{:>10}{:>8}\n",
        "way", "batch", "MB/s", "spread", "slowest ms", "written", "zeros"
    );
    for row in rows {
        let rate = &row.megabytes_per_second;
        let spread = format!("{:.0}–{:.0}", rate.min, rate.max);
        out += &format!(
            "{:<10}{:>10}{:>12.0}{:>20}{:>16.1}{:>10.2}{:>8.2}\n",
            format!("{:?}", row.way).to_lowercase(),
            row.batch,
            rate.median,
            spread,
            row.slowest_batch_ms.median,
            row.written,
            row.zeros
        );
    }
    out
}

/// Where the files go, and how much.
#[derive(Debug, clap::Args)]
pub(crate) struct DiskArgs {
    /// Directory on the disk that is asked about
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// Bytes of a batch, each written with one call and forced to the disk; several are measured
    /// one after the other
    #[arg(long, value_delimiter = ',', default_values_t = [64 << 10, 1 << 20])]
    pub(crate) batch: Vec<usize>,
    /// Bytes of batches in each turn, rounded up to files of 64 MiB
    #[arg(long, default_value_t = 512 << 20)]
    pub(crate) total: u64,
    /// How often every way has its turn
    #[arg(long, default_value_t = 3)]
    pub(crate) blocks: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_is_measured_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let rows = measure(dir.path(), &[1 << 20], 1, 1).unwrap();
        let written: Vec<_> = rows.iter().map(|row| (row.way, row.written, row.zeros)).collect();
        let expected =
            [(Way::Append, 1.0, 0.0), (Way::Zeroed, 2.0, 1.0), (Way::Adopted, 2.0, 1.0), (Way::Copied, 2.0, 0.0)];
        assert_eq!(written, expected);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert_eq!(render(&rows).lines().count(), 5);
    }
}
