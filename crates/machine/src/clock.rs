//! The one clock of a run: monotonic nanoseconds since the program started, the same for all of its
//! threads.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Nanoseconds since the first call. Never zero, so that zero can mean "not yet".
#[inline]
pub fn now() -> u64 {
    // 584 years fit into 64 bits of nanoseconds.
    START.elapsed().as_nanos() as u64 + 1
}

/// Seconds since 1970.
pub fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
