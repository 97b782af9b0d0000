//! The firehose, on and off: while a vhost is traced, what is published and delivered in it is
//! copied to `amq.rabbitmq.trace`.
//!
//! Whether a vhost is traced is not logged: after a restart none is.

use std::sync::atomic::Ordering;

use journal::Ticket;

use crate::broker::Broker;
use crate::error::Error;
use crate::settings::Switch;

impl Broker {
    /// Starts or stops copying the messages of a vhost to `amq.rabbitmq.trace`, until the next
    /// start. Returns the ticket for the answer.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn trace(&self, vhost: &str, switch: Switch) -> Result<Ticket, Error> {
        let _alone = self.engine.administration.lock();
        let vhost = self.engine.existing_vhost(vhost)?;
        let ticket = match switch {
            Switch::On => self.engine.make_trace_exchange(&vhost),
            Switch::Off => Ticket::NONE,
        };
        vhost.traced.store(switch == Switch::On, Ordering::Release);
        Ok(ticket)
    }
}
