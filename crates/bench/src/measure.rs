//! What is measured, without any socket: stamps in bodies, sequences, windows, schedules,
//! distributions.

pub(crate) mod change;
pub(crate) mod distribution;
pub(crate) mod latency;
pub(crate) mod over_time;
pub(crate) mod random;
pub(crate) mod ratio;
pub(crate) mod schedule;
pub(crate) mod sequence;
pub(crate) mod stamp;
pub(crate) mod statistics;
pub(crate) mod trend;
pub(crate) mod window;
