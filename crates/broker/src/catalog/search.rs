//! The search for a message's queues: through exchanges, what is bound to them, and their alternate
//! exchanges.
//!
//! Each exchange is visited once and each queue found once, so that circles end. An exchange whose
//! bindings lead nowhere for this message hands it to its alternate exchange, if that is there; a
//! binding that leads to another exchange leads somewhere, whatever comes of it there (RabbitMQ's
//! rule). All of it has the steps of one message ([`crate::routing::STEPS`]).

use std::sync::Arc;

use hashbrown::HashSet;
use journal::Owner;

use super::{Exchange, Routing, Tables, Unrouted};
use crate::queue::{DeduplicatingExchange, Queue};
use crate::routing::{Destination, Envelope, ExchangeKind, Reached, STEPS};

/// What matters of the exchanges by which something was found; of several ways the one that was
/// followed first.
#[derive(Debug, Clone, Copy, Default)]
struct Way {
    /// The last one that lets nothing through twice.
    gate: Option<DeduplicatingExchange>,
    /// One of them delays.
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
    /// Exchanges to be looked at, each with the way that led there.
    waiting: Vec<(&'a Exchange, Way)>,
}

impl<'a> Search<'a> {
    pub(super) fn new(tables: &'a Tables, envelope: &'a Envelope<'a>) -> Self {
        Self {
            tables,
            envelope,
            routing: Routing { cacheable: true, ..Routing::default() },
            reached: Reached::within(STEPS),
            found: HashSet::new(),
            seen: HashSet::new(),
            waiting: Vec::new(),
        }
    }

    /// The queues that a message reaches from `exchange`.
    pub(super) fn run(mut self, exchange: &str) -> Result<Routing, Unrouted> {
        if exchange.is_empty() {
            self.take_named(Way::default());
            return self.end("");
        }
        self.enter(self.tables.exchange(exchange).ok_or(Unrouted::NoExchange)?, Way::default());
        while let Some((exchange, before)) = self.waiting.pop() {
            let way = before.through(exchange);
            self.routing.cacheable &= exchange.bindings.are_by_key();
            exchange.bindings.route(self.envelope, &mut self.reached);
            if self.reached.is_empty() {
                self.turn_to_alternate(exchange, way);
            }
            for destination in self.reached.take() {
                self.reach(destination, way);
            }
            if self.reached.is_spent() {
                return self.end(&exchange.name);
            }
        }
        self.end(exchange)
    }

    /// What was found, unless that took too many steps, of which `exchange` had the last.
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
        }
    }

    fn turn_to_alternate(&mut self, exchange: &Exchange, way: Way) {
        match exchange.alternate.as_deref() {
            None => {}
            Some("") => self.take_named(way),
            Some(alternate) => {
                if let Some(alternate) = self.tables.exchange(alternate) {
                    self.enter(alternate, way);
                }
            }
        }
    }

    /// What the default exchange does.
    fn take_named(&mut self, way: Way) {
        let (tables, envelope) = (self.tables, self.envelope);
        for key in envelope.keys() {
            if !self.reached.charge(1) {
                return;
            }
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
        } else {
            self.reached.charge(1);
        }
    }

    fn enter(&mut self, exchange: &'a Exchange, way: Way) {
        // Also one whose bindings lead nowhere is a step, or ten thousand of these would cost
        // nothing.
        if self.reached.charge(1) && self.seen.insert(exchange.id) {
            self.waiting.push((exchange, way));
        }
    }
}
