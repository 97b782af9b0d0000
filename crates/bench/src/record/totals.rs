//! What moved in a run, in four counts.

/// The sum of all counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) sent: u64,
    pub(crate) confirmed: u64,
    pub(crate) refused: u64,
    pub(crate) received: u64,
}
