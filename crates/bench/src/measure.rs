//! What is measured, without any socket: stamps in bodies, sequences, windows, schedules,
//! distributions.

pub(crate) mod schedule;
pub(crate) mod sequence;
pub(crate) mod stamp;
pub(crate) mod window;
