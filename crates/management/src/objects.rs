//! Exchanges, queues and bindings, declared and deleted for a user. This is the same code, with the
//! same permissions, as for a client of a protocol.

use std::task::Waker;
use std::time::Instant;

use broker::{BindingSpec, Broker, Client, DeleteIf, DestinationName, Error, ExchangeSpec, QueueSpec, Ticket};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::change::Caller;
use crate::json;

/// The kind of a binding's destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DestinationType {
    /// A queue.
    Queue,
    /// An exchange.
    Exchange,
}

/// A declaration or a deletion. Names of fields are those of RabbitMQ's definitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectChange {
    /// Declares a queue.
    DeclareQueue {
        /// Its name.
        name: String,
        /// Whether it survives a restart.
        durable: bool,
        /// Whether it is deleted with its last consumer.
        auto_delete: bool,
        /// Its arguments.
        arguments: Map<String, Json>,
    },
    /// Deletes a queue.
    DeleteQueue {
        /// Its name.
        name: String,
        /// Only if it has no consumers.
        if_unused: bool,
        /// Only if no message waits in it.
        if_empty: bool,
    },
    /// Drops the messages that wait in a queue.
    PurgeQueue {
        /// Its name.
        name: String,
    },
    /// Declares an exchange.
    DeclareExchange {
        /// Its name.
        name: String,
        /// Its type.
        #[serde(rename = "type")]
        kind: String,
        /// Whether it survives a restart.
        durable: bool,
        /// Whether it is deleted with its last binding.
        auto_delete: bool,
        /// Whether clients can't publish to it.
        internal: bool,
        /// Its arguments.
        arguments: Map<String, Json>,
    },
    /// Deletes an exchange.
    DeleteExchange {
        /// Its name.
        name: String,
        /// Only if nothing is bound to it.
        if_unused: bool,
    },
    /// Makes a binding.
    Bind(BindingChange),
    /// Deletes a binding.
    Unbind(BindingChange),
}

/// A binding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindingChange {
    /// The exchange that messages come from.
    pub source: String,
    /// The queue or exchange that messages go to.
    pub destination: String,
    /// The kind of the destination.
    pub destination_type: DestinationType,
    /// The routing key or pattern.
    pub routing_key: String,
    /// Arguments.
    pub arguments: Map<String, Json>,
}

/// Makes the change. Returns the number of messages that it deleted.
pub(crate) fn apply(
    broker: &Broker,
    vhost: &str,
    change: ObjectChange,
    caller: Caller,
) -> Result<(u64, Ticket), Error> {
    let mut client = broker.attach_unlisted(caller.identity, vhost, &caller.from, Waker::noop().clone())?;
    let now = Instant::now();
    match without_line_ends(change) {
        ObjectChange::DeclareQueue { name, durable, auto_delete, arguments } => {
            let arguments = json::table(&arguments).map_err(Error::precondition)?;
            let spec = QueueSpec { name, durable, exclusive: false, auto_delete, arguments };
            client.declare_queue(&spec, now).map(|declared| (0, declared.ticket))
        }
        ObjectChange::DeleteQueue { name, if_unused, if_empty } => {
            client.check_queue(&name, now)?;
            client.delete_queue(&name, DeleteIf { unused: if_unused, empty: if_empty }, now)
        }
        ObjectChange::PurgeQueue { name } => client.purge_queue(&name, now),
        ObjectChange::DeclareExchange { name, kind, durable, auto_delete, internal, arguments } => {
            let arguments = json::table(&arguments).map_err(Error::precondition)?;
            let spec = ExchangeSpec { name, kind, durable, auto_delete, internal, arguments };
            client.declare_exchange(&spec, now).map(|ticket| (0, ticket))
        }
        ObjectChange::DeleteExchange { name, if_unused } => {
            client.check_exchange(&name, now)?;
            client.delete_exchange(&name, DeleteIf { unused: if_unused, empty: false }, now).map(|ticket| (0, ticket))
        }
        ObjectChange::Bind(binding) => with_binding(&mut client, binding, |client, spec| client.bind(spec, now)),
        ObjectChange::Unbind(binding) => with_binding(&mut client, binding, |client, spec| client.unbind(spec, now)),
    }
}

/// Drops line feeds and carriage returns from names, as RabbitMQ does and as is done for clients of
/// AMQP.
fn without_line_ends(mut change: ObjectChange) -> ObjectChange {
    let names = match &mut change {
        ObjectChange::DeclareQueue { name, .. }
        | ObjectChange::DeleteQueue { name, .. }
        | ObjectChange::PurgeQueue { name }
        | ObjectChange::DeclareExchange { name, .. }
        | ObjectChange::DeleteExchange { name, .. } => vec![name],
        ObjectChange::Bind(binding) | ObjectChange::Unbind(binding) => {
            vec![&mut binding.source, &mut binding.destination]
        }
    };
    for name in names {
        name.retain(|letter| !['\r', '\n'].contains(&letter));
    }
    change
}

fn with_binding(
    client: &mut Client,
    binding: BindingChange,
    act: impl FnOnce(&mut Client, &BindingSpec) -> Result<Ticket, Error>,
) -> Result<(u64, Ticket), Error> {
    act(client, &binding_spec(binding)?).map(|ticket| (0, ticket))
}

/// A binding as the broker declares it.
///
/// # Errors
/// If a table can't hold its arguments.
pub(crate) fn binding_spec(binding: BindingChange) -> Result<BindingSpec, Error> {
    let destination = match binding.destination_type {
        DestinationType::Queue => DestinationName::Queue(binding.destination),
        DestinationType::Exchange => DestinationName::Exchange(binding.destination),
    };
    let arguments = json::table(&binding.arguments).map_err(Error::precondition)?;
    Ok(BindingSpec { source: binding.source, destination, key: binding.routing_key, arguments })
}
