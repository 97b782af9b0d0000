//! What a shovel is told while it runs, and how far it has come.

use crate::spec::Extent;

/// What a shovel is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// To go on.
    Go,
    /// To wait for what is on its way, and end.
    End,
}

/// How far a shovel has come since both ends were connected last.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Messages that were moved and acknowledged.
    pub(crate) moved: u64,
    /// When it ends.
    pub(crate) extent: Extent,
}
