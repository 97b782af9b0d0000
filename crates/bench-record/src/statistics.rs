//! What many figures say together: medians, ratios, changes and trends, with their intervals.

pub mod change;
pub mod distribution;
pub mod random;
pub mod ratio;
pub mod spread;
pub mod trend;
