//! Waiting for a machine that does nothing else.

use bench_record::rules::QUIET_CORES;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::process::machine;

/// How long one look takes.
const LOOK: Duration = Duration::from_millis(500);

/// Waits until the whole machine is quiet, at most `time`; false when it never was. Without `/proc`
/// it can't be told, and counts as quiet.
pub fn wait_until_quiet(time: Duration) -> bool {
    let end = Instant::now() + time;
    loop {
        let (before, begin) = (machine(), Instant::now());
        sleep(LOOK);
        let Some((before, after)) = before.zip(machine()) else { return true };
        let busy = after.busy_ns.saturating_sub(before.busy_ns) as f64 / begin.elapsed().as_nanos() as f64;
        if busy < QUIET_CORES {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
    }
}
