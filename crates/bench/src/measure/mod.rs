//! What is measured, without any socket: stamps in bodies, sequences, windows, schedules, distributions.

pub(crate) mod latency;
pub(crate) mod random;
pub(crate) mod schedule;
pub(crate) mod sequence;
pub(crate) mod stamp;
pub(crate) mod statistics;
pub(crate) mod window;
