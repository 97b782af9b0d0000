//! What many figures say together: medians, ratios, changes and trends, with their intervals.

pub(crate) mod change;
pub(crate) mod distribution;
pub(crate) mod random;
pub(crate) mod ratio;
pub(crate) mod spread;
pub(crate) mod trend;
