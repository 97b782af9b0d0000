//! Alarms, and the publishers that they stop.
//!
//! The journal's lag passes by itself and only pauses a socket. Alarms pass when consumers work.
//! Clients that only publish stop at once. A client that consumes goes on into a headroom, and past
//! that its publishes are parked.

use std::sync::atomic::AtomicU8;
use std::task::Waker;

use parking_lot::Mutex;

pub(crate) const MEMORY: u8 = 1;
pub(crate) const DISK: u8 = 2;

/// Whether a connection should be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Read on.
    Run,
    /// Do not read; the waker is woken when that changes.
    Pause,
}

/// The publishes that the alarms allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Allowance {
    /// All.
    All,
    /// Those of clients that also consume.
    Consuming,
    /// Nothing.
    None,
}

/// The clients that wait for a change of the alarms, and the alarms that are up by hand.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    pub(crate) watch: Mutex<Watch>,
    pub(crate) by_hand: AtomicU8,
}

#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) waiting: Vec<Waker>,
    /// The housekeeping will look at the alarms again by itself.
    pub(crate) polled: bool,
}
