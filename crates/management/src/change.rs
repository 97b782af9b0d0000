//! How management changes something, for the command line, `rabbitmqctl` and HTTP.
//!
//! A change is answered when it is durable. The audit log is told of each: who asked, from where,
//! and the outcome.

use std::sync::Arc;
use std::task::{Wake, Waker};

use auth::Identity;
use auth::shown::extract;
use broker::{Broker, Client, Error, ErrorKind, Ticket};
use serde::{Deserialize, Serialize};

use crate::audit::Told;
pub(crate) use crate::recent::AUDIT;

/// Bytes of a refusal's text in the audit log.
pub(crate) const WHY: usize = 512;

/// Why a change was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The object does not exist.
    NotFound,
    /// The user has no right to do it.
    Denied,
    /// The change is wrong in itself, or contradicts what exists.
    Invalid,
    /// The broker failed.
    Failed,
}

/// A refused change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Why.
    pub why: Why,
    /// One line about it.
    pub text: String,
    /// The faults of a document, one line for each.
    #[serde(default)]
    pub items: Vec<String>,
}

impl Refused {
    pub(crate) fn new(why: Why, text: impl Into<String>) -> Self {
        Self { why, text: text.into(), items: Vec::new() }
    }

    pub(crate) fn for_items(why: Why, text: impl Into<String>, items: Vec<String>) -> Self {
        Self { why, text: text.into(), items }
    }

    /// The refusal and its items as one line.
    pub fn whole(&self) -> String {
        match self.items.is_empty() {
            true => self.text.clone(),
            false => format!("{}: {}", self.text, self.items.join("; ")),
        }
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let why = match error.kind {
            ErrorKind::NotFound => Why::NotFound,
            ErrorKind::AccessRefused | ErrorKind::NotAllowed => Why::Denied,
            ErrorKind::Internal => Why::Failed,
            _ => Why::Invalid,
        };
        Self::new(why, error.text)
    }
}

/// The user that asks for a change, and its origin.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The identity whose permissions apply.
    pub(crate) identity: Identity,
    /// The origin, for the audit log.
    pub(crate) from: String,
}

/// A change of one resource, or of any.
pub(crate) trait Changes {
    /// What the audit log says of it.
    fn told(&self) -> Told;

    /// Makes it. Returns the number of messages or connections that it deleted or closed, or that
    /// of the task that it started, and when it is durable.
    fn apply(self, broker: &Broker, caller: Caller) -> Result<(u64, Ticket), Error>;
}

/// Makes a change, waits until it is durable, and tells the audit log. Blocks meanwhile. Returns
/// the number of messages or connections that the change deleted or closed.
pub(crate) fn make(broker: &Broker, change: impl Changes, caller: Caller) -> Result<u64, Refused> {
    let (who, from) = (caller.identity.user().to_owned(), caller.from.clone());
    let Told { action, vhost, name, about } = change.told();
    let made = change.apply(broker, caller).map_err(Refused::from).map(|(count, ticket)| {
        wait(broker, ticket);
        count
    });
    match &made {
        Ok(count) => {
            let outcome = "done";
            tracing::info!(target: AUDIT, %who, %from, action, vhost, name, %about, count, outcome, "administrative change");
        }
        Err(refused) => {
            let (why, outcome) = (extract(&refused.text, WHY), "refused");
            tracing::warn!(target: AUDIT, %who, %from, action, vhost, name, %about, outcome, %why, "administrative change refused");
        }
    }
    made
}

/// Blocks until `ticket` is durable.
pub(crate) fn wait(broker: &Broker, ticket: Ticket) {
    let waker = unpark();
    while !broker.is_durable(ticket, &waker) {
        std::thread::park();
    }
}

/// A waker that unparks this thread.
pub(crate) fn unpark() -> Waker {
    Waker::from(Arc::new(Unpark(std::thread::current())))
}

/// Unparks a thread that waits for the broker.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A client for the changes of a user in a vhost. It has the same permissions as a client of a
/// protocol.
pub(crate) fn client(broker: &Broker, vhost: &str, caller: Caller) -> Result<Client, Error> {
    broker.attach_unlisted(caller.identity, vhost, &caller.from, Waker::noop().clone())
}

/// Drops line feeds and carriage returns from a name, as RabbitMQ does and as is done for clients
/// of AMQP.
pub(crate) fn without_line_ends(mut name: String) -> String {
    name.retain(|letter| !['\r', '\n'].contains(&letter));
    name
}

pub(crate) fn invalid(error: impl std::fmt::Display) -> Error {
    Error::precondition(error.to_string())
}
