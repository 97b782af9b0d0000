//! Time as an argument: the calendar time comes from here, the passing of time comes in as
//! `Instant`s.

use std::time::{SystemTime, UNIX_EPOCH};

/// The longest span of time that a peer may ask for, in milliseconds: ten years, as in RabbitMQ.
/// The present plus such a span is far below the limits of a calendar time or an `Instant`.
pub const LONGEST_SPAN_MS: u64 = 315_360_000_000;
/// The valid spans of time, in the words of refusals.
pub const SPAN_WANTED: &str = "a number of milliseconds, ten years at most";
/// The valid calendar times of future events, in the words of refusals.
pub const TIME_WANTED: &str = "a time in milliseconds since 1970, ten years ahead at most";

/// Tells the calendar time.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    fn unix_ms(&self) -> u64;
}

/// The machine's own clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn unix_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}
