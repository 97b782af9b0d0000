//! ACK and NACK: outcomes of deliveries.
//!
//! In mode `client` an ACK settles its delivery and every earlier unsettled one of the same
//! subscription, as the specification says. It settles none of another subscription. Each is
//! settled by its own tag, so a delivery that the peer has not seen is never settled.

use broker::{Error, Outcome, Tags, Ticket};

use super::error::Failure;
use super::open::Session;
use crate::codec::{Command, Frame, Version};

impl Session {
    /// NACK: back to the queue, or with `requeue:false` to the dead-letter exchange.
    pub(super) fn refuse(&mut self, frame: &Frame<'_>) -> Result<(), Failure> {
        let outcome = match frame.headers.get("requeue").as_deref() {
            None | Some("true") => Outcome::Released,
            Some("false") => Outcome::REJECTED,
            Some(other) => return Err(Failure::invalid("requeue", "true or false", other)),
        };
        self.settle(frame, &outcome)
    }

    pub(super) fn settle(&mut self, frame: &Frame<'_>, outcome: &Outcome) -> Result<(), Failure> {
        let header = if self.version == Version::V1_2 { "id" } else { "message-id" };
        let id = frame.headers.get(header).ok_or_else(|| Failure::missing(frame.command, header))?;
        let named = self.deliveries.parse_id(&id).ok_or_else(|| {
            let wanted = match frame.command {
                Command::Nack => "that of an unsettled MESSAGE of this connection to refuse",
                _ => "that of an unsettled MESSAGE of this connection",
            };
            Failure::invalid(header, wanted, &id)
        })?;
        let tags = self.deliveries.settled_by(named).ok_or_else(|| {
            Failure::new("Message not found", format!("unknown delivery '{id}': it is settled already"))
        })?;
        let name = frame.headers.get("transaction");
        let transaction = name.map(|name| self.transactions.id(&name)).transpose()?;
        for tag in tags {
            let settled = match transaction {
                Some(transaction) => self.client.settle_in(transaction, self.id, Tags::One(tag), outcome)?,
                None => self.client.settle(self.id, Tags::One(tag), outcome)?,
            };
            if settled == 0 {
                return Err(Error::precondition(format!("unknown delivery tag {tag}")).into());
            }
        }
        self.fence(frame, Ticket::NONE);
        Ok(())
    }
}
