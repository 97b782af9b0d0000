//! What moved in a run, in four counts.

/// The sum of all counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages sent.
    pub sent: u64,
    /// Messages that the broker confirmed.
    pub confirmed: u64,
    /// Messages that the broker refused.
    pub refused: u64,
    /// Messages received.
    pub received: u64,
}
