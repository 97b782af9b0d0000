//! The windows of a session (part 2, §2.5.6): how many transfer frames either side may send.
//!
//! Ids are 32-bit serial numbers (RFC 1982): they wrap, and differences are what counts.

use crate::codec::performative::{Begin, Flow};

/// Transfers that a peer may send before this side opens the window again: more than the credit of
/// a link, whose flows open it too. It is shut in an alarm.
pub(super) const WINDOW: u32 = 16_384;

/// Whether peers may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    /// An alarm is up.
    Shut,
}

/// What the peer sends.
#[derive(Debug)]
pub(super) struct Incoming {
    next_id: u32,
    /// How many transfers the peer was promised and has not sent. It may be more than what is
    /// announced now: a window shrinks only for what is not on its way.
    promised: u32,
    gate: Gate,
}

impl Incoming {
    pub(super) fn new(begin: &Begin<'_>) -> Self {
        Self { next_id: begin.next_outgoing_id, promised: WINDOW, gate: Gate::Open }
    }

    /// A transfer has come. False if it was not promised.
    #[inline]
    pub(super) fn take(&mut self) -> bool {
        if self.promised == 0 {
            return false;
        }
        self.promised -= 1;
        self.next_id = self.next_id.wrapping_add(1);
        true
    }

    /// Whether a flow should open the window again.
    #[inline]
    pub(super) fn is_low(&self) -> bool {
        self.gate == Gate::Open && self.promised <= WINDOW / 2
    }

    /// Shuts the window, or opens it again.
    pub(super) fn set(&mut self, gate: Gate) {
        self.gate = gate;
    }

    /// `next-incoming-id` and `incoming-window` of a flow that is sent now.
    pub(super) fn announce(&mut self) -> (u32, u32) {
        if self.gate == Gate::Shut {
            return (self.next_id, 0);
        }
        self.promised = self.promised.max(WINDOW);
        (self.next_id, WINDOW)
    }
}

/// What this side sends.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) next_id: u32,
    /// How many transfers the peer takes.
    room: u32,
}

impl Outgoing {
    pub(super) fn new(begin: &Begin<'_>) -> Self {
        Self { next_id: 0, room: begin.incoming_window }
    }

    /// The peer has said how much it takes.
    pub(super) fn update(&mut self, flow: &Flow<'_>) {
        // A peer that has not seen our begin counts from where we began: from 0.
        let from = flow.next_incoming_id.unwrap_or(0);
        let end = from.wrapping_add(flow.incoming_window);
        let room = end.wrapping_sub(self.next_id);
        // A peer whose window ends before what was sent has shut it.
        self.room = if room > flow.incoming_window { 0 } else { room };
    }

    pub(super) fn has_room(&self) -> bool {
        self.room > 0
    }

    /// A transfer is sent.
    #[inline]
    pub(super) fn send(&mut self) {
        self.room = self.room.saturating_sub(1);
        self.next_id = self.next_id.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peers_window_counts_from_what_it_has_seen() {
        for (next_id, seen, window, room) in [
            (0, None, 5, 5),
            (3, None, 5, 2),
            (3, Some(3), 5, 5),
            (3, Some(1), 5, 3),
            (8, Some(1), 5, 0),
            (3, Some(1), 0, 0),
            (2, Some(u32::MAX), 10, 7),
            (u32::MAX, Some(u32::MAX), u32::MAX, u32::MAX),
        ] {
            let mut outgoing = Outgoing { next_id, room: 9 };
            let flow = Flow { next_incoming_id: seen, incoming_window: window, ..Flow::default() };
            outgoing.update(&flow);
            assert_eq!(outgoing.room, room, "{next_id} {seen:?} {window}");
        }
    }

    #[test]
    fn a_window_that_shrinks_still_takes_what_was_promised() {
        let mut incoming = Incoming::new(&Begin { next_outgoing_id: 7, ..Begin::default() });
        assert!(incoming.take());
        incoming.set(Gate::Shut);
        assert_eq!(incoming.announce(), (8, 0));
        for _ in 1..WINDOW {
            assert!(incoming.take());
        }
        assert!(!incoming.take() && !incoming.is_low());
        incoming.set(Gate::Open);
        assert!(incoming.is_low());
        assert_eq!(incoming.announce(), (7 + WINDOW, WINDOW));
        assert!(incoming.take());
    }
}
