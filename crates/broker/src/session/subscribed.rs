//! Subscriptions that are there: found by their names, and compared with what is asked for.

use std::sync::Arc;
use std::time::Instant;

use auth::{Resource, Right, waiting};
use journal::Ticket;

use crate::catalog::declaration::BindingSpec;
use crate::catalog::subscriptions::{SubscriptionFact, SubscriptionName};
use crate::catalog::{Exchange, Tables, binding_of};
use crate::engine::bounds::CHANGE_ENTRIES;
use crate::error::Error;
use crate::queue::Queue;
use crate::routing::{Binding, Destination};
use crate::session::{Client, DeleteIf, SubscriptionFilter, SubscriptionSpec};

/// A subscription, as its client finds it.
#[derive(Debug, Clone)]
pub struct SubscriptionThere {
    /// What is known of it.
    pub fact: Arc<SubscriptionFact>,
    /// The name of its queue.
    pub queue: String,
    /// Whether it survives a restart.
    pub durable: bool,
    /// What it asks for, in order.
    pub filters: Vec<SubscriptionFilter>,
}

/// The bindings of a queue.
fn filters_of(tables: &Tables, queue: &Queue) -> Vec<SubscriptionFilter> {
    let destination = Destination::Queue(queue.id);
    let of_exchange = |exchange: &Exchange| {
        let filter = |binding: &Binding| SubscriptionFilter {
            exchange: exchange.name.to_string(),
            key: binding.key.to_string(),
            arguments: binding.arguments.clone(),
        };
        exchange.bindings.to(destination).map(filter).collect::<Vec<_>>()
    };
    tables.sources_of(destination).flat_map(of_exchange).collect()
}

impl Client {
    /// Finds a subscription, for a client that may end it.
    ///
    /// # Errors
    /// `AccessRefused`.
    pub fn find_subscription(
        &mut self,
        name: &SubscriptionName,
        now: Instant,
    ) -> Result<Option<SubscriptionThere>, Error> {
        self.flush(now);
        let vhost = Arc::clone(&self.vhost);
        let there = vhost.tables.read().subscribed_queue(name).map(|queue| Arc::clone(&queue.name));
        there.map_or(Ok(()), |there| self.authorize(Resource::queue(&there), Right::Configure))?;
        let tables = vhost.tables.read();
        let Some(queue) = tables.subscribed_queue(name) else { return Ok(None) };
        // It may be another queue by now.
        waiting::forbidden(|| self.authorize(Resource::queue(&queue.name), Right::Configure))?;
        let Some(fact) = tables.subscriptions.of_queue(queue.id) else { return Ok(None) };
        let mut filters = filters_of(&tables, queue);
        self.publisher.add_cost(CHANGE_ENTRIES + filters.len());
        filters.sort_by(|one, other| (&one.exchange, &one.key).cmp(&(&other.exchange, &other.key)));
        Ok(Some(SubscriptionThere {
            fact: Arc::clone(fact),
            queue: queue.name.to_string(),
            durable: queue.logged(),
            filters,
        }))
    }

    /// Ends the subscription of this name if it has other filters, another selector or another
    /// durability. Returns the ticket for that.
    pub(super) fn end_other(
        &mut self,
        tables: &mut Tables,
        spec: &SubscriptionSpec,
        bindings: &[BindingSpec],
    ) -> Result<Ticket, Error> {
        let Some(queue) = tables.subscribed_queue(&spec.name).cloned() else { return Ok(Ticket::NONE) };
        // One that is shared in another way is refused later, and stays.
        let Some(fact) = tables.subscriptions.of_queue(queue.id).filter(|fact| fact.sharing == spec.sharing) else {
            return Ok(Ticket::NONE);
        };
        let has = |binding: &BindingSpec| {
            let of_queue = binding_of(Destination::Queue(queue.id), binding.key.as_str(), &binding.arguments);
            tables.exchange(&binding.source).is_some_and(|exchange| exchange.bindings.contains(&of_queue))
        };
        let filters = filters_of(tables, &queue).len();
        self.publisher.add_cost(CHANGE_ENTRIES + filters);
        let is_same = fact.selector == spec.selector
            && bindings.iter().all(has)
            && queue.logged() == spec.queue.durable
            && filters == bindings.len();
        if is_same { Ok(Ticket::NONE) } else { Ok(self.end_queue(tables, &queue, DeleteIf::UNUSED)?.1) }
    }
}
