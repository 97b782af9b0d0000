//! Where the messages of a peer go: the target of its link, or with an anonymous relay the `to` of
//! each message.

use std::time::Instant;

use broker::{Client, ErrorKind, QueueSpec, Table, Ticket, Unroutable, Value};

use crate::codec::Symbols;
use crate::dialect::address::of_queue;
use crate::session::address::{Address, TOPIC_ADDRESS, TOPICS, is_topic};
use crate::session::error::Failure;
use crate::session::subscription::{COUNT, counting};

/// What the name of a temporary topic begins with.
const TEMPORARY_TOPIC: &str = "temporary-topic.";

/// Where messages go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Destination {
    /// Each message says it.
    Anonymous,
    /// Requests about transactions.
    Coordinator,
    /// Requests about queues, exchanges and bindings, on a link of this name.
    Management(String),
    /// An exchange, with this routing key or with the subject of each message.
    Fixed {
        exchange: String,
        key: Option<String>,
        /// What becomes of messages that reach no queue.
        unroutable: Unroutable,
    },
}

impl Destination {
    /// Exchange and routing key of a message with this subject, and what becomes of it if it
    /// reaches no queue. `None` where the message says where it goes.
    #[inline]
    pub(super) fn route<'a>(&'a self, subject: Option<&'a str>) -> Option<(&'a str, &'a str, Unroutable)> {
        let Self::Fixed { exchange, key, unroutable } = self else { return None };
        Some((exchange, key.as_deref().or(subject).unwrap_or_default(), *unroutable))
    }

    /// A queue.
    pub(super) fn queue(name: String) -> Self {
        Self::Fixed { exchange: String::new(), key: Some(name), unroutable: Unroutable::Tell }
    }

    /// A topic.
    fn topic(name: String) -> Self {
        Self::Fixed { exchange: TOPICS.to_owned(), key: Some(name), unroutable: Unroutable::Drop }
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
                let unroutable = if is_topic(capabilities) { Unroutable::Drop } else { Unroutable::Tell };
                Ok((Self::Fixed { exchange, key, unroutable }, Ticket::NONE))
            }
            // A topic without subscribers is no error (Jakarta Messaging, §4.2.1).
            Address::Topic(name) => {
                client.check_target(TOPICS)?;
                Ok((Self::topic(name.into_owned()), Ticket::NONE))
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

/// What a queue of a link does without being asked: Jakarta Messaging wants messages of higher
/// priority first, and knows how often each was delivered. Later declarations need not repeat it,
/// so that AMQP 0-9-1 declares the queue without arguments.
const OF_LINKS: [&str; 2] = ["x-strict-priority", COUNT];

/// Declares a queue that survives a restart.
pub(super) fn declare(client: &mut Client, name: &str, now: Instant) -> Result<Ticket, broker::Error> {
    let arguments = Table(OF_LINKS.iter().map(|name| ((*name).to_owned(), Value::Bool(true))).collect());
    let spec = QueueSpec { name: name.to_owned(), durable: true, arguments, ..QueueSpec::default() };
    client.declare_queue(&spec, now).map(|declared| declared.ticket)
}

/// A dynamic node: a queue that goes with its link, or a topic.
pub(super) struct Dynamic {
    pub(super) address: String,
    /// The queue. Nothing is kept for a topic.
    pub(super) queue: Option<String>,
    pub(super) destination: Destination,
    pub(super) ticket: Ticket,
}

impl Dynamic {
    /// Makes the node that these capabilities ask for.
    pub(super) fn make(client: &mut Client, capabilities: Symbols<'_>, now: Instant) -> Result<Self, Failure> {
        if capabilities.has("temporary-topic") {
            client.check_target(TOPICS)?;
            let name = client.fresh_name(TEMPORARY_TOPIC);
            let address = format!("{TOPIC_ADDRESS}{name}");
            return Ok(Self { address, queue: None, destination: Destination::topic(name), ticket: Ticket::NONE });
        }
        let (queue, ticket) = declare_dynamic(client, now)?;
        let address = of_queue(&queue);
        Ok(Self { address, queue: Some(queue.clone()), destination: Destination::queue(queue), ticket })
    }
}

/// Declares a queue that only this connection consumes from, and that goes with it: a dynamic node.
fn declare_dynamic(client: &mut Client, now: Instant) -> Result<(String, Ticket), Failure> {
    let spec = QueueSpec { exclusive: true, arguments: counting(), ..QueueSpec::default() };
    let declared = client.declare_queue(&spec, now)?;
    Ok((declared.name, declared.ticket))
}
