//! How far the requests of a client have come: the ticket that covers their effects.

use std::sync::Arc;

use journal::Ticket;

use crate::engine::ending::Ended;

/// How far the requests of a client have come.
#[derive(Debug)]
pub(super) struct Settled {
    ticket: Ticket,
    /// Ends of its sessions that the housekeeping still works on.
    endings: Vec<Arc<Ended>>,
}

impl Default for Settled {
    fn default() -> Self {
        Self { ticket: Ticket::NONE, endings: Vec::new() }
    }
}

impl Settled {
    /// Covers everything that was settled so far, besides the ends that are under way.
    #[inline]
    pub(super) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// What was settled now is covered by `ticket`. Returns the ticket of everything so far.
    #[inline]
    pub(super) fn reach(&mut self, ticket: Ticket) -> Ticket {
        self.ticket = self.ticket.max(ticket);
        self.ticket
    }

    /// The end of a session is under way.
    pub(super) fn add_ending(&mut self, ended: &Arc<Ended>) {
        // An end without a waiting client is forgotten once it is over.
        let _ = self.ended();
        self.endings.push(Arc::clone(ended));
    }

    /// The ticket that the ends of sessions left, once all of them are over.
    pub(super) fn ended(&mut self) -> Option<Ticket> {
        let all: Option<Vec<Ticket>> = self.endings.iter().map(|ended| ended.ticket()).collect();
        self.ticket = all?.into_iter().fold(self.ticket, Ticket::max);
        self.endings.clear();
        Some(self.ticket)
    }
}
