//! Reports of declarations: exchanges, bindings and consumers, read vhost by vhost under its
//! tables' read lock.

use std::time::Duration;

use super::owned;
use crate::arguments::idle;
use crate::broker::Broker;
use crate::catalog::{Exchange, Tables};
use crate::engine::clients::ClientShared;
use crate::queue::{Queue, Readiness};
use crate::routing::{Binding, Destination, ExchangeKind};
use crate::value::Table;

/// One exchange.
#[derive(Debug, Clone)]
pub struct ExchangeReport {
    /// Its vhost.
    pub vhost: String,
    /// Its name; empty for the default exchange.
    pub name: String,
    /// The name of its type.
    pub kind: &'static str,
    /// It survives a restart.
    pub durable: bool,
    /// It is deleted with its last binding.
    pub auto_delete: bool,
    /// Clients may not publish to it.
    pub internal: bool,
    /// As declared.
    pub arguments: Table,
    /// The names of its arguments without effect.
    pub idle_arguments: Vec<String>,
}

/// One binding.
#[derive(Debug, Clone)]
pub struct BindingReport {
    /// Its vhost.
    pub vhost: String,
    /// The exchange that messages come from; empty for the default exchange.
    pub source: String,
    /// The name of its destination.
    pub destination: String,
    /// The destination is a queue, not an exchange.
    pub to_queue: bool,
    /// The binding key.
    pub key: String,
    /// As declared.
    pub arguments: Table,
}

/// The user of a client, and its connection.
#[derive(Debug, Clone, Default)]
pub struct Holder {
    /// Its user.
    pub user: String,
    /// Both ends of its connection.
    pub peer: String,
    /// Its name for its connection; over MQTT, its identifier.
    pub name: Option<String>,
}

impl Holder {
    pub(super) fn of(client: &ClientShared) -> Self {
        Self { user: client.user.clone(), peer: client.peer.to_string(), name: client.name.clone() }
    }
}

/// What a consumer gets messages from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConsumerSource {
    /// The queue of this name.
    Queue(String),
    /// What these filters match, without a queue.
    Filters(Vec<FilterReport>),
    /// Replies to what its session asks, without a queue.
    Replies,
}

/// A filter of a consumer without a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterReport {
    /// The exchange that messages come from.
    pub exchange: String,
    /// The binding key.
    pub key: String,
}

/// One consumer.
#[derive(Debug, Clone)]
pub struct ConsumerReport {
    /// Its vhost.
    pub vhost: String,
    /// What it gets messages from.
    pub source: ConsumerSource,
    /// The number of its client.
    pub client: u64,
    /// The user of its client, and its connection.
    pub holder: Holder,
    /// Its protocol's number for its session.
    pub session: u32,
    /// Its client's name for it.
    pub tag: String,
    /// Deliveries are settled as they are sent.
    pub no_ack: bool,
    /// It is the only consumer that the queue may have.
    pub exclusive: bool,
    /// The prefetch that it asked for; 0 for no limit.
    pub prefetch: u32,
    /// Deliveries that it has not settled.
    pub unsettled: u32,
    /// Only one consumer of its queue is active at a time.
    pub single: bool,
    /// It gets messages. With a single active consumer the others wait until it goes.
    pub active: bool,
    /// Whether it would take one now.
    pub readiness: Readiness,
    /// How long it may hold a delivery; `None` for any time.
    pub timeout: Option<Duration>,
    /// The arguments that it asked for, those that change something.
    pub arguments: Table,
}

impl ConsumerReport {
    /// The name of its queue; `None` for a consumer without one.
    pub fn queue(&self) -> Option<&str> {
        match &self.source {
            ConsumerSource::Queue(name) => Some(name),
            ConsumerSource::Filters(_) | ConsumerSource::Replies => None,
        }
    }

    /// The filters of a consumer without a queue.
    pub fn filters(&self) -> &[FilterReport] {
        match &self.source {
            ConsumerSource::Filters(filters) => filters,
            ConsumerSource::Queue(_) | ConsumerSource::Replies => &[],
        }
    }
}

impl Broker {
    /// The types that exchanges can have.
    pub fn exchange_types() -> impl Iterator<Item = &'static str> {
        ExchangeKind::ALL.into_iter().map(ExchangeKind::name)
    }

    /// Every exchange, by vhost and name, with the default exchange of each vhost.
    pub fn exchanges(&self) -> Vec<ExchangeReport> {
        let mut reports = Vec::new();
        for vhost in self.engine.catalog.vhosts() {
            let tables = vhost.tables.read();
            reports.push(default_exchange(&vhost.name));
            reports.extend(tables.exchanges().map(|exchange| exchange_report(&vhost.name, exchange)));
        }
        reports.sort_by(|a, b| (&a.vhost, &a.name).cmp(&(&b.vhost, &b.name)));
        reports
    }

    /// Every binding, by vhost, source, destination and key, with that of each queue to the default
    /// exchange.
    pub fn bindings(&self) -> Vec<BindingReport> {
        let mut reports = Vec::new();
        for vhost in self.engine.catalog.vhosts() {
            let tables = vhost.tables.read();
            reports.extend(tables.queues().map(|queue| default_binding(&vhost.name, &queue.name)));
            for exchange in tables.exchanges() {
                let bindings = exchange.bindings.iter();
                reports.extend(bindings.filter_map(|binding| binding_report(&vhost.name, &tables, exchange, binding)));
            }
        }
        in_order(&mut reports);
        reports
    }

    /// Every consumer, by vhost and queue; in each vhost, those without a queue first.
    pub fn consumers(&self) -> Vec<ConsumerReport> {
        let mut reports = Vec::new();
        for vhost in self.engine.catalog.vhosts() {
            let tables = vhost.tables.read();
            tables.queues().for_each(|queue| self.consumers_of(queue, &mut reports));
            drop(tables);
            reports.extend(self.some_direct(&self.direct_consumers(&vhost.name)));
        }
        reports.sort_by(|a, b| (&a.vhost, a.queue(), a.client, &a.tag).cmp(&(&b.vhost, b.queue(), b.client, &b.tag)));
        reports
    }

    pub(super) fn consumers_of(&self, queue: &Queue, reports: &mut Vec<ConsumerReport>) {
        let before = reports.len();
        self.add_consumers_of(queue, reports);
        // Behind the queue's lock, which comes after the list of clients. A client that has just
        // gone has no name.
        let new = &mut reports[before..];
        if !new.is_empty() {
            let clients = self.engine.clients.lock();
            for report in new {
                report.holder = clients.get(&report.client).map(|client| Holder::of(client)).unwrap_or_default();
            }
        }
    }

    fn add_consumers_of(&self, queue: &Queue, reports: &mut Vec<ConsumerReport>) {
        let inner = queue.lock(&self.engine);
        reports.extend(inner.consumers().map(|(consumer, active)| ConsumerReport {
            vhost: queue.vhost.to_string(),
            source: ConsumerSource::Queue(queue.name.to_string()),
            client: consumer.key.client,
            holder: Holder::default(),
            session: consumer.session,
            tag: consumer.tag.to_string(),
            no_ack: consumer.no_ack,
            exclusive: consumer.exclusive,
            prefetch: consumer.bounds.window.asked,
            unsettled: consumer.out,
            single: inner.arguments.single_active_consumer,
            active,
            readiness: if active { Readiness::of(consumer) } else { Readiness::NotActive },
            timeout: consumer.timeout,
            arguments: consumer.arguments.shown(),
        }));
    }
}

/// It is in no table: it leads to the queue with the name of the routing key.
pub(super) fn default_exchange(vhost: &str) -> ExchangeReport {
    ExchangeReport {
        vhost: vhost.to_owned(),
        name: String::new(),
        kind: "direct",
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: Table::default(),
        idle_arguments: Vec::new(),
    }
}

pub(super) fn exchange_report(vhost: &str, exchange: &Exchange) -> ExchangeReport {
    ExchangeReport {
        vhost: vhost.to_owned(),
        name: exchange.name.to_string(),
        kind: exchange.kind.name(),
        durable: exchange.durable,
        auto_delete: exchange.auto_delete,
        internal: exchange.internal,
        arguments: exchange.arguments.clone(),
        idle_arguments: owned(idle::of_exchange(exchange.kind, &exchange.arguments)),
    }
}

/// The binding of a queue to the default exchange.
pub(super) fn default_binding(vhost: &str, queue: &str) -> BindingReport {
    BindingReport {
        vhost: vhost.to_owned(),
        source: String::new(),
        destination: queue.to_owned(),
        to_queue: true,
        key: queue.to_owned(),
        arguments: Table::default(),
    }
}

pub(crate) fn binding_report(
    vhost: &str,
    tables: &Tables,
    source: &Exchange,
    binding: &Binding,
) -> Option<BindingReport> {
    let (destination, to_queue) = destination_name(tables, binding.destination)?;
    Some(BindingReport {
        vhost: vhost.to_owned(),
        source: source.name.to_string(),
        destination,
        to_queue,
        key: binding.key.to_string(),
        arguments: binding.arguments.clone(),
    })
}

pub(super) fn in_order(reports: &mut [BindingReport]) {
    reports.sort_by(|a, b| {
        (&a.vhost, &a.source, &a.destination, &a.key).cmp(&(&b.vhost, &b.source, &b.destination, &b.key))
    });
}

/// The name, and whether it is a queue's.
fn destination_name(tables: &Tables, destination: Destination) -> Option<(String, bool)> {
    match destination {
        Destination::Queue(id) => Some((tables.queue_by_id(id)?.name.to_string(), true)),
        Destination::Exchange(id) => Some((tables.exchange_by_id(id)?.name.to_string(), false)),
        // It is a consumer, and has no name.
        Destination::Subscriber(_) => None,
    }
}
