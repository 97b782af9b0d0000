//! How often the machine really forced data to its disks, and what one forced write costs here.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::clock::now;
use bench_record::failure::{Context, Failure};
use bench_record::latency::Latency;
use bench_record::machine::Forced;

/// Field of `/sys/block/DEVICE/stat` that counts completed cache flushes (kernel documentation,
/// block/stat).
const FLUSHES: usize = 15;
/// Field of the same line that counts sectors written, and the bytes of such a sector whatever the
/// device's own are.
const SECTORS_WRITTEN: usize = 6;
const SECTOR: u64 = 512;
/// Bytes of one forced write: what a journal writes at least.
const BLOCK: usize = 4096;
/// The file is written over from the start after this many blocks, so that the probe stays small.
const BLOCKS: u64 = 4096;

/// Cache flushes completed by all block devices since the machine started; none where `/sys/block`
/// is absent.
pub fn flushes() -> Option<u64> {
    let devices = fs::read_dir("/sys/block").ok()?.flatten();
    let counts = devices.filter_map(|device| field(&fs::read_to_string(device.path().join("stat")).ok()?, FLUSHES));
    Some(counts.sum())
}

/// Bytes that all disks of the machine were given since it started; none where `/sys/block` shows
/// no disk. Devices that stand on others (volumes, loops) do not count, so that nothing counts
/// twice.
pub fn bytes_written() -> Option<u64> {
    let disks = fs::read_dir("/sys/block").ok()?.flatten().filter(|device| device.path().join("device").exists());
    let counts: Vec<u64> = disks
        .filter_map(|device| field(&fs::read_to_string(device.path().join("stat")).ok()?, SECTORS_WRITTEN))
        .collect();
    (!counts.is_empty()).then(|| counts.iter().sum::<u64>() * SECTOR)
}

fn field(text: &str, number: usize) -> Option<u64> {
    text.split_whitespace().nth(number)?.parse().ok()
}

/// Writes 4 KiB and forces them to the disk under `dir`, again and again for `time`.
pub fn forced_writes(dir: &Path, time: Duration) -> Result<Forced, Failure> {
    let probe = tempfile::Builder::new().prefix("hermod-bench-floor").tempfile_in(dir).context(dir.display())?;
    let path = probe.path().to_owned();
    let mut file = OpenOptions::new().write(true).open(&path).context(path.display())?;
    let block = vec![0x5a; BLOCK];
    // Allocated ahead, as a journal's files are: no forced write should pay for growing the file.
    for _ in 0..BLOCKS {
        file.write_all(&block).context(path.display())?;
    }
    file.sync_all().context(path.display())?;
    let mut latency = Latency::new()?;
    let (cpu, flushed, begin) = (own_cpu(), flushes(), Instant::now());
    let mut count = 0u64;
    while count == 0 || begin.elapsed() < time {
        let at = now();
        file.seek(SeekFrom::Start(count % BLOCKS * BLOCK as u64)).context(path.display())?;
        file.write_all(&block).context(path.display())?;
        file.sync_data().context(path.display())?;
        latency.record(now() - at);
        count += 1;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let per_write =
        |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?) as f64 / count as f64);
    Ok(Forced {
        per_second: count as f64 / seconds,
        cpu_us: per_write(cpu, own_cpu()).map(|ns| ns / 1000.0),
        flushes_each: per_write(flushed, flushes()),
        latency: latency.summary().ok_or_else(|| Failure::new("no forced write was made"))?,
    })
}

fn own_cpu() -> Option<u64> {
    super::process::own_usage().map(|usage| usage.cpu_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_are_the_sixteenth_field_and_written_sectors_the_seventh() {
        let line = "  1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 777 17\n";
        assert_eq!((field(line, FLUSHES), field(line, SECTORS_WRITTEN)), (Some(777), Some(7)));
        assert_eq!(field("1 2 3", FLUSHES), None);
    }

    #[test]
    fn forced_writes_are_timed_and_leave_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let forced = forced_writes(dir.path(), Duration::from_millis(20)).unwrap();
        assert!(forced.latency.samples > 0 && forced.latency.min > 0.0);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_missing_directory_is_named() {
        let failure = forced_writes(Path::new("/nowhere/at/all"), Duration::ZERO).unwrap_err();
        assert!(failure.to_string().contains("/nowhere/at/all"), "{failure}");
    }
}
