//! The way of a message that a task takes: as which message, and to which queues.

use std::collections::HashSet;
use std::sync::Arc;

use journal::Owner;

use crate::catalog::Vhost;
use crate::catalog::tasks::{TaskKind, TaskSpec, TaskTarget};
use crate::engine::Engine;
use crate::error::Error;
use crate::message::annotations::{Annotations, Death};
use crate::message::cc::Copies;
use crate::message::{Arena, Head, Message};
use crate::queue::Queue;
use crate::routing::Envelope;

/// Where a task sends messages.
pub(crate) struct Ways {
    /// The queue that they leave. None arrives in it again.
    source: Owner,
    to: To,
}

enum To {
    /// Dropped.
    Nothing,
    /// To the queue in which it died first.
    Back,
    Queue(Arc<Queue>),
    Exchange {
        name: String,
        key: Option<String>,
    },
}

/// The way of one message.
pub(crate) enum Way {
    /// It never died, so it can't go back.
    Alive,
    Nowhere,
    /// As this message, into these queues; into none if it is deleted.
    To(Message, Vec<Arc<Queue>>),
}

impl Ways {
    /// The ways of a task.
    ///
    /// # Errors
    /// `NotFound` without the target, `Precondition` for a task without one that needs it, or to
    /// the queue itself.
    pub(crate) fn of(vhost: &Vhost, queue: &Queue, spec: &TaskSpec) -> Result<Self, Error> {
        let tables = vhost.tables.read();
        let name = &vhost.name;
        let to = match (spec.kind, &spec.target) {
            (TaskKind::Delete, None) => To::Nothing,
            (TaskKind::Redrive, None) => To::Back,
            (kind, Some(TaskTarget::Queue(to))) if kind.has_target() => {
                let missing = || Error::not_found(format!("no queue '{to}' in vhost '{name}' to send messages to"));
                let to = tables.queue(to).ok_or_else(missing)?;
                if to.id == queue.id {
                    return Err(Error::precondition(format!(
                        "messages of queue '{}' can't be sent to the same queue: name another one",
                        queue.name
                    )));
                }
                To::Queue(Arc::clone(to))
            }
            (TaskKind::Move | TaskKind::Copy, Some(TaskTarget::Exchange { name: exchange, routing_key })) => {
                if !exchange.is_empty() && tables.exchange(exchange).is_none() {
                    return Err(Error::not_found(format!(
                        "no exchange '{exchange}' in vhost '{name}' to send messages to"
                    )));
                }
                To::Exchange { name: exchange.clone(), key: routing_key.clone() }
            }
            (kind, None) => {
                return Err(Error::precondition(format!(
                    "{} needs a target: a queue, or an exchange with a routing key",
                    kind.name()
                )));
            }
            (kind, Some(_)) => return Err(Error::precondition(format!("{} takes no target", kind.name()))),
        };
        Ok(Self { source: queue.id, to })
    }

    /// The way of this message.
    pub(crate) fn way(&self, engine: &Engine, vhost: &Vhost, message: Message, arena: &mut Arena) -> Way {
        let (message, mut targets) = match &self.to {
            To::Nothing => return Way::To(message, Vec::new()),
            To::Queue(queue) => return Way::To(message, vec![Arc::clone(queue)]),
            To::Back if !message.is_marked() => return Way::Alive,
            To::Back => match way_back(engine, vhost, &message, arena) {
                Some(way) => way,
                None => return Way::Nowhere,
            },
            To::Exchange { name, key } => match way_through(engine, vhost, (name, key.as_deref()), &message, arena) {
                Some(way) => way,
                None => return Way::Nowhere,
            },
        };
        targets.retain(|target| target.id != self.source);
        if targets.is_empty() { Way::Nowhere } else { Way::To(message, targets) }
    }
}

/// The message as it was published, and the queues that it goes back to. `None` if the message has
/// no history of the broker.
fn way_back(
    engine: &Engine,
    vhost: &Vhost,
    message: &Message,
    arena: &mut Arena,
) -> Option<(Message, Vec<Arc<Queue>>)> {
    let mut annotations = message.annotations()?;
    let first = annotations.first.clone()?;
    let death = first_death(&annotations)?;
    let keys = death.routing_keys.clone();
    let key = keys.first().map_or("", String::as_str);
    let tables = vhost.tables.read();
    let mut targets: Vec<_> = tables.queue(&first.queue).cloned().into_iter().collect();
    if targets.is_empty() {
        let mut known = HashSet::new();
        for key in &keys {
            let routed = tables.route(&first.exchange, &Envelope::new(key, Copies::None, &|| None));
            let queues = routed.into_iter().flat_map(|routed| routed.queues);
            targets.extend(queues.filter(|queue| known.insert(queue.id)));
        }
    }
    drop(tables);
    annotations.carry();
    let mut encoded = Vec::new();
    annotations.encode(&mut encoded);
    let head = Head {
        copies: if message.copies() == Copies::None { Copies::None } else { Copies::Spent },
        exchange: &first.exchange,
        routing_key: key,
        annotations: &encoded,
        ..head_again(engine, message)
    };
    Some((arena.add(&head, message.body()), targets))
}

/// The message as it goes through an exchange, and its queues there.
fn way_through(
    engine: &Engine,
    vhost: &Vhost,
    (exchange, key): (&str, Option<&str>),
    message: &Message,
    arena: &mut Arena,
) -> Option<(Message, Vec<Arc<Queue>>)> {
    // As with dead letters, a key of the task replaces all keys of the message.
    let (key, copies) = match (key, message.copies()) {
        (None, copies) => (message.routing_key(), copies),
        (Some(key), Copies::None) => (key, Copies::None),
        (Some(key), _) => (key, Copies::Spent),
    };
    let read = || engine.dialects.read_message(message).ok();
    let routed = vhost.tables.read().route(exchange, &Envelope::new(key, copies, &read)).ok()?;
    let mut encoded = Vec::new();
    if let Some(mut annotations) = message.annotations() {
        annotations.carry();
        annotations.encode(&mut encoded);
    }
    let head = Head {
        expiration: message.expiration(),
        copies,
        exchange,
        routing_key: key,
        annotations: &encoded,
        ..head_again(engine, message)
    };
    Some((arena.add(&head, message.body()), routed.queues))
}

/// The head of a message that the broker sends on its way again.
fn head_again<'a>(engine: &Engine, message: &'a Message) -> Head<'a> {
    Head {
        dialect: message.dialect(),
        persistent: message.persistent(),
        priority: message.given_priority(),
        published_at: engine.clock.unix_ms(),
        expiration: None,
        copies: message.copies(),
        instructed: message.instructed(),
        delayed: message.was_delayed(),
        exchange: message.exchange(),
        routing_key: message.routing_key(),
        properties: message.properties(),
        annotations: &[],
        publisher: message.publisher(),
    }
}

/// The annotation of the first death of all.
fn first_death(annotations: &Annotations) -> Option<&Death> {
    let first = annotations.first.as_ref()?;
    annotations
        .deaths
        .iter()
        .find(|death| death.queue == first.queue && death.reason == first.reason)
        .or(annotations.deaths.last())
}
