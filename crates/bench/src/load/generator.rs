//! Those who make a load, as far as the one that measures them is concerned.

use super::sample::Sample;

/// Those who make the load, as far as the one that measures them is concerned.
pub(crate) trait LoadGenerator {
    /// True when nothing is left to send or to be confirmed.
    fn have_sent(&mut self) -> bool;
    /// The state of everything now.
    fn sample(&mut self, pids: &[u32]) -> Sample;
    /// The run's phase, its gate or its measured time has changed: tells those who do not share it.
    fn steer(&mut self);
}
