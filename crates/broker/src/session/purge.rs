//! Purging a queue, as far as a turn goes.
//!
//! Invariant: a client that has begun a purge makes no other request before its end, so all of them
//! keep their order. Deliveries and confirms go on meanwhile.

use std::time::Instant;

use auth::Right;
use journal::Ticket;

use crate::engine::bounds::CHANGE_ENTRIES;
use crate::error::Error;
use crate::queue::Purging;
use crate::session::Client;

impl Client {
    /// Begins to drop the ready entries of a queue, and those that are not due yet.
    /// [`Client::go_on_purging`] drops them.
    ///
    /// # Errors
    /// `NotFound`, `Locked`, `AccessRefused`.
    pub fn begin_purge(&mut self, name: &str, now: Instant) -> Result<Purging, Error> {
        self.flush(now);
        self.publisher.add_cost(CHANGE_ENTRIES);
        Ok(Purging::of(&self.queue_to(name, Right::Read)?))
    }

    /// Goes on with a purge until the turn is full ([`Client::is_turn_full`]), by one piece at
    /// least. Returns the number of entries, and what the reply waits for, once all are gone.
    pub fn go_on_purging(&mut self, purging: &mut Purging) -> Option<(u64, Ticket)> {
        loop {
            let count = purging.step(&self.engine);
            self.publisher.add_cost(count as usize + 1);
            if purging.is_over() {
                let (count, ticket) = purging.done();
                return Some((count, ticket.max(self.settled.ticket())));
            }
            if self.is_turn_full() {
                return None;
            }
        }
    }

    /// Both at once. For a thread that serves no other client.
    ///
    /// # Errors
    /// As [`Client::begin_purge`].
    pub fn purge_queue(&mut self, name: &str, now: Instant) -> Result<(u64, Ticket), Error> {
        let mut purging = self.begin_purge(name, now)?;
        loop {
            if let Some(done) = self.go_on_purging(&mut purging) {
                return Ok(done);
            }
        }
    }
}
