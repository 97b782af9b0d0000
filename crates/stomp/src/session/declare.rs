//! Queues that a SEND or SUBSCRIBE creates, and the headers that say how.
//!
//! Names and defaults are those of RabbitMQ's STOMP plugin: a `/queue` is durable, and the queue of
//! a topic subscription lives as long as the subscription.

use std::borrow::Cow;
use std::time::Instant;

use broker::{
    ArgumentKind, QueueSpec, RetainedWanted, Sharing, Source, SubscriptionFilter, SubscriptionSpec, Table, Ticket,
    Value, queue_argument,
};

use super::destination::{self, Destination, TOPIC_EXCHANGE};
use super::durable::Durable;
use super::error::Failure;
use super::open::Session;
use crate::codec::Headers;
use crate::limits;

/// On a message this header says how long its id is remembered. It is an argument of the queue only
/// if the other header is there too.
const OF_MESSAGES: &str = "x-cache-ttl";
const OF_QUEUES: &str = "x-message-deduplication";
/// Headers that say how long the queue lives and which connections may use it.
const FLAGS: [&str; 3] = ["durable", "auto-delete", "exclusive"];

/// Whether a header asks for properties of the queue.
fn asks(headers: &Headers<'_>) -> bool {
    headers.raw().any(|(name, _)| is_declaration(headers, name))
}

fn is_declaration(headers: &Headers<'_>, name: &str) -> bool {
    FLAGS.contains(&name) || argument(headers, name).is_some()
}

/// The type of the value, if the header is an argument of the queue.
pub(super) fn argument(headers: &Headers<'_>, name: &str) -> Option<ArgumentKind> {
    let kind = queue_argument(name)?;
    (name != OF_MESSAGES || headers.get(OF_QUEUES).is_some()).then_some(kind)
}

fn flag(headers: &Headers<'_>, name: &str) -> Result<Option<bool>, Failure> {
    match headers.get(name).as_deref() {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(other) => Err(Failure::invalid(name, "true or false", other)),
    }
}

fn arguments(headers: &Headers<'_>) -> Result<Table, Failure> {
    let mut table = Table::default();
    for (name, value) in headers.iter() {
        let value = match argument(headers, &name) {
            None => continue,
            Some(ArgumentKind::Text) => Value::Text(value.into_owned()),
            Some(ArgumentKind::Number) => {
                Value::I64(value.trim().parse().map_err(|_| Failure::invalid(&name, "a number", &value))?)
            }
            Some(ArgumentKind::Truth) => Value::Bool(flag(headers, &name)?.unwrap_or_default()),
        };
        table.set(&name, value);
    }
    Ok(table)
}

/// The queue of a `/queue` destination.
fn lasting(name: &str, headers: &Headers<'_>) -> Result<QueueSpec, Failure> {
    Ok(QueueSpec {
        name: name.to_owned(),
        durable: flag(headers, "durable")?.unwrap_or(true),
        exclusive: flag(headers, "exclusive")?.unwrap_or_default(),
        auto_delete: flag(headers, "auto-delete")?.unwrap_or_default(),
        arguments: arguments(headers)?,
    })
}

/// The queue of a subscription to a topic or an exchange. A queue with a name (`x-queue-name`) can
/// be shared by several connections. Any other belongs to its connection, unless the subscription
/// is durable.
fn passing(headers: &Headers<'_>, durable: Option<&Durable>) -> Result<QueueSpec, Failure> {
    let name = durable.map(|durable| Cow::Borrowed(&*durable.queue)).or_else(|| headers.get("x-queue-name"));
    let name = name.unwrap_or_default();
    Ok(QueueSpec {
        durable: durable.is_some(),
        exclusive: flag(headers, "exclusive")?.unwrap_or(name.is_empty()),
        auto_delete: flag(headers, "auto-delete")?.unwrap_or(durable.is_none()),
        arguments: arguments(headers)?,
        name: name.into_owned(),
    })
}

/// The queue of one connection; the broker gives it a name.
pub(super) fn own(headers: &Headers<'_>) -> Result<QueueSpec, Failure> {
    if !flag(headers, "exclusive")?.unwrap_or(true) {
        return Err(Failure::invalid("exclusive", "true for a queue that goes with its connection", "false"));
    }
    Ok(QueueSpec {
        name: String::new(),
        durable: flag(headers, "durable")?.unwrap_or_default(),
        exclusive: true,
        auto_delete: flag(headers, "auto-delete")?.unwrap_or_default(),
        arguments: arguments(headers)?,
    })
}

/// The header of a SUBSCRIBE that asks for retained messages.
pub(super) const RETAINED: &str = "x-retained";

/// Which retained messages a subscription gets first.
fn retained(headers: &Headers<'_>) -> Result<RetainedWanted, Failure> {
    match headers.get(RETAINED).as_deref() {
        None | Some("false") => Ok(RetainedWanted::None),
        Some("true") => Ok(RetainedWanted::OfAll),
        Some("new") => Ok(RetainedWanted::OfNew),
        Some(other) => Err(Failure::invalid(RETAINED, "true, new or false", other)),
    }
}

impl Session {
    /// Makes sure that the queue of a SEND exists. It may be an exclusive queue of another
    /// connection, because replies are sent to such queues.
    pub(super) fn ensure_recipient(
        &mut self,
        destination: &Destination<'_>,
        headers: &Headers<'_>,
        now: Instant,
    ) -> Result<(), Failure> {
        if let Destination::ExistingQueue(name) = destination {
            if !self.known.contains(&**name) {
                self.client.check_recipient(name, now)?;
                self.note_known(name.clone().into_owned());
            }
            return Ok(());
        }
        match self.ensure(destination, headers, now) {
            // It exists, and the frame does not ask for properties of it.
            Err(failure) if failure.is_locked() && !asks(headers) => Ok(()),
            ensured => ensured.map(drop),
        }
    }

    fn note_known(&mut self, key: String) {
        if self.known.len() >= limits::KNOWN_QUEUES {
            self.known.clear();
        }
        self.known.insert(key);
    }

    /// Makes sure that the queue of a SEND or SUBSCRIBE exists. Remembers the result, because every
    /// SEND asks for it. Returns the ticket that a receipt must wait for.
    fn ensure(
        &mut self,
        destination: &Destination<'_>,
        headers: &Headers<'_>,
        now: Instant,
    ) -> Result<Ticket, Failure> {
        let (name, lasts) = match destination {
            Destination::Queue(name) => (name, true),
            Destination::ExistingQueue(name) => (name, false),
            // The broker refuses a publish to an exchange that does not exist.
            Destination::Topic(_) | Destination::Exchange(..) => return Ok(Ticket::NONE),
            // The connection of the queue may have ended, and its queue with it. Then the message
            // is unroutable.
            Destination::Temporary(_) | Destination::Reply(_) => return Ok(Ticket::NONE),
        };
        let mut key = Cow::Borrowed(&**name);
        if lasts && asks(headers) {
            for (name, value) in headers.raw().filter(|(name, _)| is_declaration(headers, name)) {
                key.to_mut().extend(["\n", name, ":", value]);
            }
        }
        if self.known.contains(&*key) {
            return Ok(Ticket::NONE);
        }
        let declared = if lasts {
            self.client.declare_queue(&lasting(name, headers)?, now)?
        } else {
            self.client.check_queue(name, now)?
        };
        self.note_known(key.into_owned());
        Ok(declared.ticket)
    }

    /// What a SUBSCRIBE to `destination` consumes from; it is declared if it is not there. Also
    /// returns the ticket that a receipt must wait for.
    pub(super) fn source(
        &mut self,
        destination: &Destination<'_>,
        durable: Option<Durable>,
        headers: &Headers<'_>,
        selector: &str,
        now: Instant,
    ) -> Result<(Source, Ticket), Failure> {
        let (exchange, key) = match destination {
            Destination::Temporary(name) => {
                let (queue, ticket) = self.temporary(name, own(headers)?, now)?;
                return Ok((queue.into(), ticket));
            }
            Destination::Reply(name) => return Ok((Source::from(&**name), Ticket::NONE)),
            Destination::Queue(name) | Destination::ExistingQueue(name) => {
                let name = name.clone().into_owned();
                // The queue may have been deleted since an earlier SEND.
                self.known.remove(&name);
                let ticket = self.ensure(destination, headers, now)?;
                return Ok((name.into(), ticket));
            }
            Destination::Topic(key) => (TOPIC_EXCHANGE, destination::pattern(key)),
            Destination::Exchange(exchange, key) => (&**exchange, Cow::Borrowed(&**key)),
        };
        let queue = passing(headers, durable.as_ref())?;
        let filter =
            SubscriptionFilter { exchange: exchange.to_owned(), key: key.into_owned(), arguments: Table::default() };
        let named = headers.get("x-queue-name").is_some();
        let spec = SubscriptionSpec {
            sharing: match &durable {
                Some(durable) => durable.sharing(),
                None if named => Sharing::Shared,
                None => Sharing::Exclusive,
            },
            name: durable.map(|durable| durable.name).unwrap_or_default(),
            selector: if named { String::new() } else { selector.to_owned() },
            expires: None,
            filters: vec![filter],
            retained: retained(headers)?,
            queue,
        };
        let subscribed = self.client.subscribe(&spec, now)?;
        // Those who share a queue of this name may each have a selector, and take what is for them.
        let source = if named { subscribed.queue.into() } else { Source::Subscription(subscribed.name) };
        Ok((source, subscribed.ticket))
    }
}
