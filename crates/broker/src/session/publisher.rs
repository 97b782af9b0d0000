//! The publishing side of a client: the turn that it gathers, and what the turn needs.

use journal::Ticket;

use crate::message::Arena;
use crate::queue::arrival::Arrival;
use crate::session::publish::Routes;

/// The publishing side of a client.
#[derive(Default)]
pub(super) struct Publisher {
    pub(super) arena: Arena,
    pub(super) arrivals: Vec<Arrival>,
    pub(super) routes: Routes,
    /// Number of the turn that is being gathered.
    pub(super) turn: u64,
    /// The cost of the turn so far, in entries.
    pub(super) cost: usize,
    /// The calendar time of the turn in milliseconds since 1970; 0 until it is read.
    pub(super) ms: u64,
    /// This turn has copies of traced messages.
    pub(super) traced: bool,
    pub(super) lag_ticket: Ticket,
}
