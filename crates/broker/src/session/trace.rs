//! Tracing: copies of the messages that a client publishes or gets in a traced vhost, published
//! with its turn.

use std::sync::Arc;

use crate::engine::tracing::EXCHANGE;
use crate::message::Message;
use crate::message::cc::Copies;
use crate::queue::Queue;
use crate::queue::arrival::Arrival;
use crate::queue::mailbox::Outgoing;
use crate::routing::Envelope;
use crate::session::publish::Routed;
use crate::session::routes::Route;
use crate::session::{Client, SessionId};
use crate::value::Value;

impl Client {
    /// True when copies of this message are wanted.
    #[inline]
    pub(super) fn traces(&self, message: &Message) -> bool {
        self.vhost.is_traced() && message.exchange() != EXCHANGE
    }

    /// Traces a message that was published and goes to these queues.
    #[cold]
    pub(super) fn trace_publish(&mut self, session: SessionId, message: &Message, queues: &[Arc<Queue>]) {
        let names = queues.iter().map(|queue| Value::Text(queue.name.to_string()));
        let routed = ("routed_queues".to_owned(), Value::Array(names.collect()));
        self.trace(session, message, ("publish", message.exchange()), vec![routed]);
    }

    /// The same for the arrival at `index`, which goes to what is in these slots.
    #[cold]
    pub(super) fn trace_arrival(&mut self, index: u32, route: &Route) {
        let arrival = self.publisher.arrival_mut(index);
        let (session, message) = (SessionId(arrival.session), arrival.message().clone());
        if self.traces(&message) {
            let queues: Vec<_> = route.iter().filter_map(|slot| self.slots.queue(*slot)).cloned().collect();
            self.trace_publish(session, &message, &queues);
        }
    }

    /// Traces the delivery of a message of the queue in this slot.
    #[cold]
    pub(super) fn trace_delivery(&mut self, session: SessionId, slot: Option<u32>, outgoing: &Outgoing) {
        let Some(queue) = slot.and_then(|slot| self.slots.queue(slot)).cloned() else { return };
        let redelivered = ("redelivered".to_owned(), Value::I32(outgoing.past.is_redelivered().into()));
        self.trace(session, &outgoing.message, ("deliver", &queue.name), vec![redelivered]);
    }

    /// Publishes a copy with this turn, if a queue takes it.
    fn trace(&mut self, session: SessionId, message: &Message, key: (&str, &str), mut more: Vec<(String, Value)>) {
        let text = |text: &str| Value::Text(text.to_owned());
        more.extend([
            ("vhost".to_owned(), text(&self.shared.vhost)),
            ("connection".to_owned(), text(&self.shared.peer)),
            ("channel".to_owned(), Value::I32(i32::try_from(session.0).unwrap_or(i32::MAX))),
            ("user".to_owned(), text(&self.shared.user)),
        ]);
        let engine = Arc::clone(&self.engine);
        let copy = engine.traced(message, key, more, self.publisher.arena_for_copies());
        let envelope = Envelope::new(copy.routing_key(), Copies::None, &|| None);
        let routing = self.vhost.tables.read().route(EXCHANGE, &envelope);
        let queues = routing.map(|routing| routing.queues).unwrap_or_default();
        if queues.is_empty() {
            return;
        }
        let route: Vec<_> = queues.iter().map(|queue| self.slots.slot(queue)).collect();
        self.gather(Arrival::of_broker(copy), Routed::known(route.into()));
        self.publisher.note_traced();
    }
}
