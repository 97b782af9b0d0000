//! Lists for management in parts: first the names, and then the reports of some of them. Only the
//! lists of names grow with the number of objects.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use hashbrown::HashMap;
use journal::Owner;

use crate::alarms::AlarmsUp;
use crate::broker::Broker;
use crate::catalog::declaration::DestinationName;
use crate::catalog::listed::QueueNames;
use crate::catalog::{Exchange, Tables};
use crate::engine::clients::SessionReport;
use crate::queue::{Cause, Queue};
use crate::report::objects::{binding_report, default_binding, default_exchange, exchange_report, in_order};
use crate::report::{BindingReport, ClientReport, ConsumerReport, ExchangeReport, QueueReport, client_report};
use crate::routing::{BindingCursor, Destination};

/// Names in order.
pub type Names = Vec<Arc<str>>;

/// The figures of a queue that lists are sorted by most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueCounts {
    /// Messages that can be delivered.
    pub ready: u64,
    /// Messages that consumers have and have not settled.
    pub unacked: u64,
    /// Its consumers.
    pub consumers: u64,
    /// Messages that entered it.
    pub published: u64,
    /// Messages delivered or fetched.
    pub delivered: u64,
    /// Deliveries accepted.
    pub acknowledged: u64,
}

/// The position of a list among the bindings of an exchange.
#[derive(Debug, Clone)]
pub struct BindingPlace(BindingCursor);

impl Broker {
    /// The alarms that are up. Takes no lock.
    pub fn alarms(&self) -> AlarmsUp {
        self.engine.alarms_up()
    }

    /// The names of all vhosts.
    pub fn vhost_names(&self) -> Names {
        in_name_order(self.engine.catalog.vhosts().into_iter().map(|vhost| Arc::clone(&vhost.name)))
    }

    /// The names of all queues of a vhost, in order. Many lists share them.
    pub fn queue_names(&self, vhost: &str) -> QueueNames {
        self.engine.catalog.vhost(vhost).map(|vhost| vhost.listed.names(&vhost.tables)).unwrap_or_default()
    }

    /// How many queues a vhost has.
    pub fn count_queues(&self, vhost: &str) -> usize {
        self.read(vhost, Tables::count_queues).unwrap_or_default()
    }

    /// The names of the queues of a vhost that have a subscription.
    pub fn subscribed_names(&self, vhost: &str) -> Names {
        let names = |tables: &Tables| {
            let queues = tables.subscriptions.queues().filter_map(|queue| tables.queue_by_id(queue));
            in_name_order(queues.map(|queue| Arc::clone(&queue.name)))
        };
        self.read(vhost, names).unwrap_or_default()
    }

    /// Those of these queues that are there and have a subscription.
    pub fn some_subscribed(&self, vhost: &str, names: &[Arc<str>]) -> Vec<QueueReport> {
        let mut queues = self.some_queues(vhost, names);
        queues.retain(|queue| queue.declared.subscription.is_some());
        queues
    }

    /// The names of all exchanges of a vhost; the default exchange is the empty one.
    pub fn exchange_names(&self, vhost: &str) -> Names {
        let names = |tables: &Tables| in_name_order(tables.exchange_names().into_iter().chain([Arc::from("")]));
        self.read(vhost, names).unwrap_or_default()
    }

    /// True when there is a queue of this name.
    pub fn has_queue(&self, vhost: &str, name: &str) -> bool {
        self.read(vhost, |tables| tables.queue(name).is_some()).unwrap_or(false)
    }

    /// True when there is an exchange of this name; the default exchange has the empty one.
    pub fn has_exchange(&self, vhost: &str, name: &str) -> bool {
        self.read(vhost, |tables| name.is_empty() || tables.exchange(name).is_some()).unwrap_or(false)
    }

    /// Reports of these queues, without the missing ones.
    pub fn some_queues(&self, vhost: &str, names: &[Arc<str>]) -> Vec<QueueReport> {
        let lost = self.engine.damages.lost.lock().clone();
        let reports = |tables: &Tables| {
            let queues = names.iter().filter_map(|name| tables.queue(name));
            queues.map(|queue| self.queue_report(queue, tables, &lost)).collect()
        };
        self.read(vhost, reports).unwrap_or_default()
    }

    /// What of these queues lists are sorted by; `None` for one that is missing.
    pub fn some_counts(&self, vhost: &str, names: &[Arc<str>]) -> Vec<Option<QueueCounts>> {
        let counts = |queue: &Arc<Queue>| {
            let inner = queue.lock(&self.engine);
            QueueCounts {
                ready: inner.ready() as u64,
                unacked: inner.unsettled() as u64,
                consumers: inner.consumer_count() as u64,
                published: inner.totals.published,
                delivered: inner.totals.delivered,
                acknowledged: inner.totals.acknowledged,
            }
        };
        self.read(vhost, |tables| names.iter().map(|name| tables.queue(name).map(counts)).collect()).unwrap_or_default()
    }

    /// At most so many queues of a vhost that are stuck: damaged ones first, then those with most
    /// ready messages. Every queue is looked at, and reports are made of the result alone.
    pub fn stuck_queues(&self, vhost: &str, most: usize) -> Vec<QueueReport> {
        let lost = self.engine.damages.lost.lock().clone();
        let reports = |tables: &Tables| {
            let mut worst: BinaryHeap<Reverse<(bool, u64, Arc<str>)>> = BinaryHeap::with_capacity(most + 1);
            for queue in tables.queues() {
                let Some((damaged, ready)) = self.is_stuck(queue, &lost) else { continue };
                worst.push(Reverse((damaged, ready, Arc::clone(&queue.name))));
                if worst.len() > most {
                    worst.pop();
                }
            }
            let queues = worst.into_sorted_vec().into_iter().filter_map(|Reverse((.., name))| tables.queue(&name));
            queues.map(|queue| self.queue_report(queue, tables, &lost)).collect()
        };
        self.read(vhost, reports).unwrap_or_default()
    }

    /// Whether a queue that is stuck is damaged, and how many messages of it are ready.
    fn is_stuck(&self, queue: &Queue, lost: &HashMap<Owner, String>) -> Option<(bool, u64)> {
        let delayed = queue.delayed(&self.engine);
        let mut inner = queue.lock(&self.engine);
        let delayed = delayed + inner.waiting() as u64;
        let mut causes = queue.causes(&mut inner, delayed, &self.engine);
        let damaged = inner.damage().is_some() || (inner.live() > 0 && lost.contains_key(&queue.id));
        if damaged {
            causes.add(Cause::Damaged);
        }
        causes.has_trouble().then(|| (damaged, inner.ready() as u64))
    }

    /// Reports of these exchanges, without the missing ones.
    pub fn some_exchanges(&self, vhost: &str, names: &[Arc<str>]) -> Vec<ExchangeReport> {
        let report = |tables: &Tables, name: &Arc<str>| match &**name {
            "" => Some(default_exchange(vhost)),
            name => tables.exchange(name).map(|exchange| exchange_report(vhost, exchange)),
        };
        self.read(vhost, |tables| names.iter().filter_map(|name| report(tables, name)).collect()).unwrap_or_default()
    }

    /// Consumers of these queues.
    pub fn consumers_of_queues(&self, vhost: &str, names: &[Arc<str>]) -> Vec<ConsumerReport> {
        let mut reports = Vec::new();
        self.read(vhost, |tables| {
            for queue in names.iter().filter_map(|name| tables.queue(name)) {
                let before = reports.len();
                self.consumers_of(queue, &mut reports);
                reports[before..].sort_by(|a: &ConsumerReport, b| (a.client, &a.tag).cmp(&(b.client, &b.tag)));
            }
        });
        reports
    }

    /// The bindings of these queues to the default exchange.
    pub fn default_bindings(&self, vhost: &str, queues: &[Arc<str>]) -> Vec<BindingReport> {
        let reports = |tables: &Tables| {
            let queues = queues.iter().filter(|name| tables.queue(name).is_some());
            queues.map(|name| default_binding(vhost, name)).collect()
        };
        self.read(vhost, reports).unwrap_or_default()
    }

    /// The next bindings of an exchange behind a position, and the position of the last of them.
    pub fn bindings_of(
        &self,
        vhost: &str,
        exchange: &str,
        after: Option<&BindingPlace>,
        most: usize,
    ) -> (Vec<BindingReport>, Option<BindingPlace>) {
        let page = |tables: &Tables| {
            let Some(exchange) = tables.exchange(exchange) else { return Default::default() };
            let (page, last) = exchange.bindings.page(after.map(|place| &place.0), most);
            let reports = page.into_iter().filter_map(|binding| binding_report(vhost, tables, exchange, binding));
            (reports.collect::<Vec<_>>(), last.map(BindingPlace))
        };
        let (mut reports, last) = self.read(vhost, page).unwrap_or_default();
        in_order(&mut reports);
        (reports, last)
    }

    /// The bindings to a queue, with that of the default exchange.
    pub fn bindings_to_queue(&self, vhost: &str, queue: &str) -> Vec<BindingReport> {
        self.bindings_to(vhost, |tables| Some(Destination::Queue(tables.queue(queue)?.id)), Some(queue))
    }

    /// The bindings to an exchange.
    pub fn bindings_to_exchange(&self, vhost: &str, exchange: &str) -> Vec<BindingReport> {
        self.bindings_to(vhost, |tables| Some(Destination::Exchange(tables.exchange(exchange)?.id)), None)
    }

    /// The bindings from an exchange to a destination.
    pub fn bindings_between(&self, vhost: &str, source: &str, destination: &DestinationName) -> Vec<BindingReport> {
        let reports = |tables: &Tables| {
            let source = tables.exchange(source)?;
            let destination = match destination {
                DestinationName::Queue(name) => Destination::Queue(tables.queue(name)?.id),
                DestinationName::Exchange(name) => Destination::Exchange(tables.exchange(name)?.id),
            };
            let bindings = source.bindings.to(destination);
            let mut reports: Vec<_> =
                bindings.filter_map(|binding| binding_report(vhost, tables, source, binding)).collect();
            in_order(&mut reports);
            Some(reports)
        };
        self.read(vhost, reports).flatten().unwrap_or_default()
    }

    fn bindings_to(
        &self,
        vhost: &str,
        destination: impl FnOnce(&Tables) -> Option<Destination>,
        queue: Option<&str>,
    ) -> Vec<BindingReport> {
        let reports = |tables: &Tables| {
            let destination = destination(tables)?;
            let from = |exchange: &'_ Exchange| -> Vec<_> {
                let bindings = exchange.bindings.to(destination);
                bindings.filter_map(|binding| binding_report(vhost, tables, exchange, binding)).collect()
            };
            let mut reports: Vec<_> = queue.map(|queue| default_binding(vhost, queue)).into_iter().collect();
            reports.extend(tables.sources_of(destination).flat_map(from));
            in_order(&mut reports);
            Some(reports)
        };
        self.read(vhost, reports).flatten().unwrap_or_default()
    }

    /// The number of the client whose connection has these ends.
    pub fn client_at(&self, peer: &str) -> Option<u64> {
        let clients = self.engine.clients.lock();
        clients.values().find(|client| *client.peer == *peer).map(|client| client.number)
    }

    /// Reports of these clients, without those that have gone.
    pub fn some_clients(&self, numbers: &[u64]) -> Vec<ClientReport> {
        let clients = self.engine.clients.lock();
        numbers.iter().filter_map(|number| clients.get(number)).map(|client| client_report(client)).collect()
    }

    /// Sessions of these clients.
    pub fn some_sessions(&self, numbers: &[u64]) -> Vec<SessionReport> {
        let clients: Vec<_> = {
            let clients = self.engine.clients.lock();
            numbers.iter().filter_map(|number| clients.get(number).cloned()).collect()
        };
        clients.iter().flat_map(|client| client.session_reports()).collect()
    }

    fn read<T>(&self, vhost: &str, look: impl FnOnce(&Tables) -> T) -> Option<T> {
        let vhost = self.engine.catalog.vhost(vhost)?;
        let tables = vhost.tables.read();
        Some(look(&tables))
    }
}

fn in_name_order(names: impl Iterator<Item = Arc<str>>) -> Names {
    let mut names: Names = names.collect();
    names.sort_unstable();
    names
}
