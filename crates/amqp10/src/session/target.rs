//! Where the messages of a peer go: the target of its link, or with an anonymous relay the `to` of
//! each message.

use std::time::Instant;

use broker::{Client, ErrorKind, QueueSpec, Ticket, Unroutable};

use crate::codec::Symbols;
use crate::session::address::{Address, TOPICS};
use crate::session::error::Failure;

/// Where messages go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Destination {
    /// Each message says it.
    Anonymous,
    /// Requests about transactions.
    Coordinator,
    /// An exchange, with this routing key or with the subject of each message.
    Fixed {
        exchange: String,
        key: Option<String>,
        /// What becomes of messages that reach no queue.
        unroutable: Unroutable,
    },
}

impl Destination {
    /// A queue.
    pub(super) fn queue(name: String) -> Self {
        Self::Fixed { exchange: String::new(), key: Some(name), unroutable: Unroutable::Tell }
    }

    /// Finds what an address means, and makes the queue of a plain name. Also returns the ticket
    /// that an answer must wait for.
    pub(super) fn find(
        client: &mut Client,
        address: &str,
        capabilities: Symbols<'_>,
        now: Instant,
    ) -> Result<(Self, Ticket), Failure> {
        match Address::parse(address, capabilities)? {
            Address::Queue(name) => {
                let ticket = client.check_recipient(&name, now)?;
                Ok((Self::queue(name.into_owned()), ticket))
            }
            Address::LastingQueue(name) => {
                let ticket = ensure(client, &name, now)?;
                Ok((Self::queue(name.into_owned()), ticket))
            }
            Address::Exchange(name, key) => {
                client.check_target(&name)?;
                let (exchange, key) = (name.into_owned(), key.map(|key| key.into_owned()));
                Ok((Self::Fixed { exchange, key, unroutable: Unroutable::Tell }, Ticket::NONE))
            }
            // A topic without subscribers is no error (Jakarta Messaging, §4.2.1).
            Address::Topic(name) => {
                client.check_target(TOPICS)?;
                let (exchange, key) = (TOPICS.to_owned(), Some(name.into_owned()));
                Ok((Self::Fixed { exchange, key, unroutable: Unroutable::Drop }, Ticket::NONE))
            }
        }
    }
}

/// Makes a queue that survives a restart, unless one of this name is there.
pub(super) fn ensure(client: &mut Client, name: &str, now: Instant) -> Result<Ticket, Failure> {
    match client.check_recipient(name, now) {
        Ok(ticket) => Ok(ticket),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(declare(client, name, now)?),
        Err(error) => Err(error.into()),
    }
}

/// Declares a queue that survives a restart.
pub(super) fn declare(client: &mut Client, name: &str, now: Instant) -> Result<Ticket, broker::Error> {
    let spec = QueueSpec { name: name.to_owned(), durable: true, ..QueueSpec::default() };
    client.declare_queue(&spec, now).map(|declared| declared.ticket)
}

/// Declares a queue that only this connection consumes from, and that goes with it: a dynamic node.
pub(super) fn declare_dynamic(client: &mut Client, now: Instant) -> Result<(String, Ticket), Failure> {
    let spec = QueueSpec { exclusive: true, ..QueueSpec::default() };
    let declared = client.declare_queue(&spec, now)?;
    Ok((declared.name, declared.ticket))
}
