//! The search for a message's queues: through exchanges, their bindings, and their alternate
//! exchanges.
//!
//! Each exchange is visited once and each queue found once, so circles end. An exchange whose
//! bindings do not match this message passes it to its alternate exchange, if there is one. A
//! binding to another exchange counts as a match, whatever is found there (RabbitMQ's rule). All of
//! it takes the steps of one message ([`crate::routing::STEPS`]).
//!
//! Some queues have copies of what they get made for another queue. That is the last step, so a
//! copy makes no copy.

use std::sync::Arc;

use hashbrown::HashSet;
use journal::Owner;

use super::published::Published;
use super::{Exchange, Routing, Tables, Unrouted};
use crate::arguments::copies::CopyRule;
use crate::message::NAME_MAX;
use crate::queue::{DeduplicatingExchange, Queue};
use crate::routing::{Destination, Envelope, ExchangeKind, KeyParts, Reached, STEPS};

/// The relevant properties of the exchanges on a way; of several ways the first one counts.
#[derive(Debug, Clone, Copy, Default)]
struct Way {
    /// The last exchange that drops duplicates.
    gate: Option<DeduplicatingExchange>,
    /// One of them is delayed.
    delays: bool,
}

impl Way {
    fn through(self, exchange: &Exchange) -> Self {
        let own = exchange.remember.map(|remember| DeduplicatingExchange { exchange: exchange.id, remember });
        Self { gate: own.or(self.gate), delays: self.delays || exchange.kind == ExchangeKind::Delayed }
    }
}

pub(super) struct Search<'a> {
    tables: &'a Tables,
    envelope: &'a Envelope<'a>,
    routing: Routing,
    reached: Reached,
    found: HashSet<Owner>,
    seen: HashSet<Owner>,
    /// The parts of its key, once they are asked for.
    parts: Option<KeyParts>,
    /// What is copied for another queue, each with the way of the queue that it is copied from.
    copied: Vec<(Arc<CopyRule>, Way)>,
    /// Exchanges to visit, each with the way that led there.
    waiting: Vec<(&'a Exchange, Way)>,
    /// What it came through, where that is asked for.
    notes: Option<&'a mut Vec<Hop>>,
}

/// What a search found at one exchange.
#[derive(Debug)]
pub(crate) struct Hop {
    pub(crate) exchange: Arc<str>,
    pub(crate) destinations: Vec<Destination>,
    /// Where it went on because nothing matched.
    pub(crate) alternate: Option<String>,
}

impl<'a> Search<'a> {
    pub(super) fn new(tables: &'a Tables, envelope: &'a Envelope<'a>, notes: Option<&'a mut Vec<Hop>>) -> Self {
        Self {
            tables,
            envelope,
            routing: Routing { cacheable: true, ..Routing::default() },
            reached: Reached::within(STEPS),
            found: HashSet::new(),
            seen: HashSet::new(),
            parts: None,
            copied: Vec::new(),
            waiting: Vec::new(),
            notes,
        }
    }

    /// Notes which bindings of an exchange the route depends on. Routes of messages with more keys
    /// or a long one are not remembered, so their parts are not looked for.
    fn note_parts(&mut self, exchange: &Exchange) {
        let envelope = self.envelope;
        if envelope.key().len() > NAME_MAX || envelope.keys().nth(1).is_some() {
            return self.routing.names.add_all();
        }
        let parts = self.parts.get_or_insert_with(|| KeyParts::of(envelope.key()));
        for part in exchange.bindings.parts_of(parts) {
            self.routing.names.add_part(exchange.id, *part);
        }
    }

    /// The queues that a message reaches from `exchange`.
    pub(super) fn run(mut self, exchange: &str) -> Result<Routing, Unrouted> {
        if exchange.is_empty() {
            self.take_named(Way::default());
            self.copy(exchange);
            return self.end("");
        }
        self.enter(self.tables.exchange(exchange).ok_or(Unrouted::NoExchange)?, Way::default());
        while let Some((exchange, before)) = self.waiting.pop() {
            let way = before.through(exchange);
            self.routing.cacheable &= exchange.bindings.are_by_key();
            exchange.bindings.route(self.envelope, &mut self.reached);
            let is_passed_on = self.reached.is_empty();
            if is_passed_on {
                self.turn_to_alternate(exchange, way);
            }
            let destinations = self.reached.take();
            if let Some(notes) = &mut self.notes {
                let alternate = exchange.alternate.clone().filter(|_| is_passed_on);
                let (exchange, destinations) = (Arc::clone(&exchange.name), destinations.clone());
                notes.push(Hop { exchange, destinations, alternate });
            }
            for destination in destinations {
                self.reach(destination, way);
            }
            if self.reached.is_spent() {
                return self.end(&exchange.name);
            }
        }
        self.copy(exchange);
        self.end(exchange)
    }

    /// Takes the queues that get copies.
    fn copy(&mut self, exchange: &str) {
        for (rule, way) in std::mem::take(&mut self.copied) {
            if !self.reached.charge(1) {
                return;
            }
            self.routing.names.add(&rule.to);
            if let Some(selector) = &rule.selector {
                // What it is of a message, the key does not say.
                self.routing.cacheable = false;
                if !selector.matches(&Published { envelope: self.envelope, exchange }) {
                    continue;
                }
            }
            if let Some(queue) = self.tables.queue(&rule.to) {
                self.take(queue, way);
            }
        }
    }

    /// The queues, unless the search took too many steps; `exchange` had the last of them.
    fn end(self, exchange: &str) -> Result<Routing, Unrouted> {
        if self.reached.is_spent() {
            return Err(Unrouted::TooMuch { exchange: exchange.into() });
        }
        Ok(Routing { steps: STEPS - self.reached.left(), ..self.routing })
    }

    fn reach(&mut self, destination: Destination, way: Way) {
        match destination {
            Destination::Queue(id) => {
                if let Some(queue) = self.tables.queue_by_id(id) {
                    self.take(queue, way);
                }
            }
            Destination::Exchange(id) => {
                if let Some(exchange) = self.tables.exchange_by_id(id) {
                    self.enter(exchange, way);
                }
            }
            Destination::Subscriber(id) => {
                if let Some(subscriber) = self.tables.direct.get(id)
                    && self.found.insert(id)
                {
                    self.routing.delayed.extend(way.delays.then_some(id));
                    self.routing.direct.push(Arc::clone(subscriber));
                }
            }
        }
    }

    fn turn_to_alternate(&mut self, exchange: &Exchange, way: Way) {
        match exchange.alternate.as_deref() {
            None => {}
            Some("") => self.take_named(way),
            Some(alternate) => {
                self.routing.names.add(alternate);
                if let Some(alternate) = self.tables.exchange(alternate) {
                    self.enter(alternate, way);
                }
            }
        }
    }

    /// Routes as the default exchange does.
    fn take_named(&mut self, way: Way) {
        let (tables, envelope) = (self.tables, self.envelope);
        for key in envelope.keys() {
            if !self.reached.charge(1) {
                return;
            }
            self.routing.names.add(key);
            if let Some(queue) = tables.queue(key) {
                self.take(queue, way);
            }
        }
    }

    fn take(&mut self, queue: &Arc<Queue>, way: Way) {
        if self.found.insert(queue.id) {
            self.routing.gates.extend(way.gate.map(|gate| (queue.id, gate)));
            self.routing.delayed.extend(way.delays.then_some(queue.id));
            self.routing.queues.push(Arc::clone(queue));
            self.copied.extend(queue.copies().map(|rule| (rule, way)));
        } else {
            self.reached.charge(1);
        }
    }

    fn enter(&mut self, exchange: &'a Exchange, way: Way) {
        // A binding to an exchange without matches is a step too, or ten thousand of these would
        // cost nothing.
        if self.reached.charge(1) && self.seen.insert(exchange.id) {
            self.routing.names.add(&exchange.name);
            self.note_parts(exchange);
            self.waiting.push((exchange, way));
        }
    }
}
