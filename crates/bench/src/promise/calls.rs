//! Which calls that force data to a disk a process makes, counted by `strace` where there is one and it may look. A broker may
//! force its data in ways that it does not show (writes that are synchronous by themselves), so that seeing none is no proof.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::{Context, Failure};
use crate::report::verdict::FLUSHED;

/// The calls that are counted.
const FORCING: &str = "fsync,fdatasync,sync_file_range,syncfs,sync,msync";

/// Forcing calls that the broker made while messages were confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Calls {
    pub(super) count: u64,
    /// Messages confirmed meanwhile.
    pub(super) confirmed: u64,
    pub(super) window: u64,
}

impl Calls {
    /// True when there were about as many as forced confirms need at least: one for each full window.
    pub(super) fn force(&self) -> bool {
        self.count as f64 >= self.confirmed as f64 / self.window as f64 * FLUSHED
    }
}

impl std::fmt::Display for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { count, confirmed, window } = self;
        write!(f, "{count} forcing calls seen for {confirmed} confirms in windows of {window}")
    }
}

/// True where there is `strace`.
pub(super) fn possible() -> bool {
    let asked =
        Command::new("strace").arg("-V").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// Counts the forcing calls of `pids` and their threads for `time`; none where that is not allowed here.
pub(super) fn watch(pids: &[u32], time: Duration) -> Result<Option<u64>, Failure> {
    let table = tempfile::NamedTempFile::new().context("a file for strace")?;
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-c", "-e", &format!("trace={FORCING}"), "-o"]).arg(table.path());
    for pid in pids {
        strace.args(["-p", &pid.to_string()]);
    }
    let strace = strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = strace.spawn().context("starting strace")?;
    std::thread::sleep(time);
    let refused = child.try_wait().context("waiting for strace")?.is_some();
    if !refused {
        interrupt(child.id());
    }
    child.wait().context("waiting for strace")?;
    if refused { Ok(None) } else { read(table.path()).map(Some) }
}

/// Asks strace to let go and write its table.
#[cfg(unix)]
fn interrupt(pid: u32) {
    use rustix::process::{Pid, Signal, kill_process};
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::INT);
    }
}

#[cfg(not(unix))]
fn interrupt(_: u32) {
    // There is no strace here.
}

fn read(path: &Path) -> Result<u64, Failure> {
    let text = std::fs::read_to_string(path).context("the table of strace")?;
    Ok(sum(&text))
}

/// The calls of strace's table: the fourth column of each line whose last is one of ours.
fn sum(table: &str) -> u64 {
    let calls = table.lines().filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let name = columns.last().filter(|name| FORCING.split(',').any(|ours| ours == **name));
        name.and_then(|_| columns.get(3)?.parse::<u64>().ok())
    });
    calls.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_a_table_are_added_up() {
        let table = "% time     seconds  usecs/call     calls    errors syscall\n\
                     ------ ----------- ----------- --------- --------- ----------------\n \
                     99.10    0.061200         306       200           fdatasync\n  \
                     0.90    0.000500         250         2         1 fsync\n\
                     ------ ----------- ----------- --------- --------- ----------------\n\
                     100.00    0.061700         305       202         1 total\n";
        assert_eq!(sum(table), 202);
        assert_eq!(sum(""), 0);
    }
}
