//! Reports for management: counts, queues, clients. They are read from the state that serves
//! clients, with short locks.

mod objects;
mod parts;
mod share;

use hashbrown::HashMap;
use journal::Owner;

use crate::arguments::idle;
use crate::broker::Broker;
use crate::catalog::Tables;
use crate::catalog::policies::Policy;
use crate::engine::clients::{ClientShared, SessionReport, Terms};
use crate::memory::ledger::Held;
use crate::queue::dropped::Loss;
use crate::queue::{Queue, QueueFigures, SelectorReport};
use crate::stats::Counter;
use crate::value::Table;

pub use objects::{BindingReport, ConsumerReport, ExchangeReport, Holder};
pub use parts::{BindingPlace, Names};
pub use share::Share;

/// Numbers about the whole broker; totals count since start.
#[derive(Debug, Clone)]
pub struct Overview {
    /// Attached clients.
    pub connections: u64,
    /// Their sessions.
    pub sessions: u64,
    /// Their consumers.
    pub consumers: u64,
    /// Declared queues.
    pub queues: u64,
    /// Declared exchanges, with the predeclared ones.
    pub exchanges: u64,
    /// Declared bindings.
    pub bindings: u64,
    /// Entries that are ready.
    pub ready: u64,
    /// Entries that are out with consumers.
    pub unacked: u64,
    /// Messages that are not due yet.
    pub delayed: u64,
    /// Bytes of messages in memory: queued ones, those that peers make the broker hold, and large
    /// ones that are under way.
    pub memory_used: u64,
    /// The part of it that peers make the broker hold, by kind: see [`Held::ALL`].
    pub held: [u64; Held::ALL.len()],
    /// Bytes of memory of names, keys and arguments of declarations. They do not count for the
    /// alarm.
    pub declarations_bytes: u64,
    /// Bytes of the log for durable declarations.
    pub logged_declarations_bytes: u64,
    /// Bytes of large messages that are arriving or have not been flushed.
    pub arriving_bytes: u64,
    /// Bytes at which the memory alarm rises.
    pub memory_limit: u64,
    /// Queues that stopped at an unreadable message.
    pub damaged_queues: u64,
    /// The memory alarm is up.
    pub memory_alarm: bool,
    /// The disk alarm is up.
    pub disk_alarm: bool,
    /// Connections attached since start.
    pub connections_opened: u64,
    /// Connections that have gone since start.
    pub connections_closed: u64,
    /// Sessions started since start.
    pub sessions_opened: u64,
    /// Sessions ended since start.
    pub sessions_closed: u64,
    /// Queue declarations since start.
    pub queues_declared: u64,
    /// Queues made since start.
    pub queues_created: u64,
    /// Queues deleted since start.
    pub queues_deleted: u64,
    /// Messages published.
    pub received: u64,
    /// Bytes of their bodies.
    pub received_bytes: u64,
    /// Messages published in confirming sessions.
    pub received_confirm: u64,
    /// Messages that reached a queue.
    pub routed: u64,
    /// Publishes confirmed.
    pub confirmed: u64,
    /// Publishes refused by a full queue or an alarm.
    pub refused: u64,
    /// Unroutable messages that were returned.
    pub unroutable_returned: u64,
    /// Unroutable messages that were dropped.
    pub unroutable_dropped: u64,
    /// Deliveries to consumers that settle.
    pub delivered_manual: u64,
    /// Deliveries to consumers that do not.
    pub delivered_auto: u64,
    /// Fetches that need settling.
    pub fetched_manual: u64,
    /// Fetches that need no settling.
    pub fetched_auto: u64,
    /// Fetches that found nothing.
    pub fetched_empty: u64,
    /// Deliveries marked as redelivered.
    pub redelivered: u64,
    /// Deliveries accepted.
    pub acknowledged: u64,
    /// Deaths of messages that had a dead-letter exchange: rejected, expired, maxlen, delivery
    /// limit.
    pub dead_lettered: [u64; 4],
    /// Dead letters that no queue took.
    pub dead_letters_dropped: u64,
    /// Messages that queues dropped as duplicates.
    pub duplicates: u64,
    /// Dead letters that were redriven.
    pub redriven: u64,
    /// Connections that a limit refused after they had authenticated: of the broker, of their
    /// vhost, of their user.
    pub connections_refused: [u64; 3],
    /// Messages that newer ones of their keys superseded.
    pub superseded: u64,
    /// Deaths of messages that had no dead-letter exchange: rejected, expired, maxlen, delivery
    /// limit.
    pub lost: [u64; 4],
    /// Parked publishes that were given up after their session had ended.
    pub parked_dropped: u64,
    /// The journal.
    pub journal: journal::Stats,
}

/// One queue.
#[derive(Debug, Clone)]
pub struct QueueReport {
    /// Its vhost.
    pub vhost: String,
    /// Its name.
    pub name: String,
    /// It survives a restart.
    pub durable: bool,
    /// It belongs to one connection.
    pub exclusive: bool,
    /// It is deleted with its last consumer.
    pub auto_delete: bool,
    /// `classic` or `quorum`.
    pub kind: &'static str,
    /// As declared.
    pub arguments: Table,
    /// The names of its arguments without effect.
    pub idle_arguments: Vec<String>,
    /// The name of its policy.
    pub policy: Option<String>,
    /// The name of its operator policy.
    pub operator_policy: Option<String>,
    /// Entries that are ready.
    pub ready: u64,
    /// Entries that are out with consumers.
    pub unacked: u64,
    /// Bytes in memory.
    pub bytes: u64,
    /// Its consumers.
    pub consumers: u64,
    /// The selectors of its consumers.
    pub selectors: Vec<SelectorReport>,
    /// Messages taken since start.
    pub published: u64,
    /// Deliveries since start.
    pub delivered: u64,
    /// Deliveries accepted since start.
    pub acknowledged: u64,
    /// Deaths since start: rejected, expired, maxlen, delivery limit.
    pub died: [u64; 4],
    /// Messages that were dropped as duplicates since start.
    pub duplicates: u64,
    /// Messages that newer ones of their keys superseded since start.
    pub superseded: u64,
    /// Messages that are not due yet.
    pub delayed: u64,
    /// Ids that it remembers for deduplication.
    pub remembered: u64,
    /// Why it stopped, if its first message can't be read.
    pub damaged: Option<String>,
    /// The merged definition of both policies.
    pub policy_definition: Table,
    /// The number of the client that it belongs to, if it is exclusive.
    pub owner: Option<u64>,
    /// Its other figures.
    pub figures: QueueFigures,
}

/// One attached client.
#[derive(Debug, Clone)]
pub struct ClientReport {
    /// Its number, for [`Broker::kick`].
    pub number: u64,
    /// Its user.
    pub user: String,
    /// Its vhost.
    pub vhost: String,
    /// Its protocol.
    pub protocol: &'static str,
    /// Both ends of its connection.
    pub peer: String,
    /// Its name for its connection.
    pub name: Option<String>,
    /// Its other properties.
    pub properties: Table,
    /// The agreed terms.
    pub terms: Terms,
    /// Its sessions.
    pub sessions: u64,
    /// Its consumers.
    pub consumers: u64,
    /// Bytes of deliveries in its mailbox.
    pub waiting_bytes: u64,
    /// Bytes that it makes the broker hold besides queued messages: see [`Held::ALL`].
    pub held_bytes: u64,
    /// `running`, or `blocked` by an alarm.
    pub state: &'static str,
    /// When it attached, in milliseconds since 1970.
    pub connected_at: u64,
}

impl Broker {
    /// Numbers about the whole broker.
    pub fn overview(&self) -> Overview {
        let engine = &self.engine;
        let totals = &engine.totals;
        let census = engine.catalog.census();
        let (memory_alarm, disk_alarm) = engine.alarms_up();
        let mut overview = Overview {
            queues: census.queues,
            exchanges: census.exchanges,
            bindings: census.bindings,
            memory_used: (engine.memory.total() + engine.ingress.used()) as u64,
            held: Held::ALL.map(|(kind, _, _)| engine.memory.held().of(kind) as u64),
            declarations_bytes: engine.catalog.bindings.load().memory,
            logged_declarations_bytes: engine.catalog.bindings.load().logged,
            arriving_bytes: engine.ingress.used() as u64,
            memory_limit: engine.memory.limit() as u64,
            memory_alarm,
            disk_alarm,
            connections_opened: totals.connections_opened.get(),
            connections_closed: totals.connections_closed.get(),
            sessions_opened: totals.sessions_opened.get(),
            sessions_closed: totals.sessions_closed.get(),
            queues_declared: totals.queues_declared.get(),
            queues_created: totals.queues_created.get(),
            queues_deleted: totals.queues_deleted.get(),
            received: totals.received.get(),
            received_bytes: totals.received_bytes.get(),
            received_confirm: totals.received_confirm.get(),
            routed: totals.routed.get(),
            confirmed: totals.confirmed.get(),
            refused: totals.refused.get(),
            unroutable_returned: totals.unroutable_returned.get(),
            unroutable_dropped: totals.unroutable_dropped.get(),
            delivered_manual: totals.delivered_manual.get(),
            delivered_auto: totals.delivered_auto.get(),
            fetched_manual: totals.fetched_manual.get(),
            fetched_auto: totals.fetched_auto.get(),
            fetched_empty: totals.fetched_empty.get(),
            redelivered: totals.redelivered.get(),
            acknowledged: totals.acknowledged.get(),
            dead_lettered: totals.dead_lettered.each_ref().map(Counter::get),
            dead_letters_dropped: totals.dead_letters_dropped.get(),
            duplicates: totals.duplicates.get(),
            redriven: totals.redriven.get(),
            connections_refused: totals.connections_refused.each_ref().map(Counter::get),
            superseded: totals.superseded.get(),
            lost: totals.lost.each_ref().map(Counter::get),
            parked_dropped: totals.parked_dropped.get(),
            journal: engine.journal.stats(),
            connections: 0,
            sessions: 0,
            consumers: 0,
            ready: 0,
            unacked: 0,
            delayed: 0,
            damaged_queues: 0,
        };
        for client in engine.clients.lock().values() {
            overview.connections += 1;
            overview.sessions += u64::from(client.figures.sessions());
            overview.consumers += u64::from(client.figures.consumers());
        }
        self.add_queues(&mut overview);
        overview
    }

    /// Adds the counts of queues, one after the other and without a report of each.
    fn add_queues(&self, overview: &mut Overview) {
        let engine = &self.engine;
        let lost = engine.lost.lock().clone();
        for vhost in engine.catalog.vhosts() {
            let tables = vhost.tables.read();
            for queue in tables.queues() {
                let delayed = queue.delayed(engine);
                let inner = queue.lock(engine);
                overview.ready += inner.ready() as u64;
                overview.unacked += inner.unsettled() as u64;
                overview.delayed += delayed + inner.waiting() as u64;
                let damaged = inner.damage().is_some() || (inner.live() > 0 && lost.contains_key(&queue.id));
                overview.damaged_queues += u64::from(damaged);
            }
        }
    }

    /// The last messages that were dropped for good, oldest first: a sample, see [`Loss`].
    pub fn losses(&self) -> Vec<Loss> {
        self.engine.losses.all()
    }

    /// Every queue, by vhost and name.
    pub fn queues(&self) -> Vec<QueueReport> {
        let mut reports = Vec::new();
        let lost = self.engine.lost.lock().clone();
        for vhost in self.engine.catalog.vhosts() {
            let tables = vhost.tables.read();
            reports.extend(tables.queues().map(|queue| self.queue_report(queue, &tables, &lost)));
        }
        reports.sort_by(|a, b| (&a.vhost, &a.name).cmp(&(&b.vhost, &b.name)));
        reports
    }

    /// The report of one queue; `lost` has descriptions of lost entries of the last run.
    fn queue_report(&self, queue: &Queue, tables: &Tables, lost: &HashMap<Owner, String>) -> QueueReport {
        let delayed = queue.delayed(&self.engine);
        let mut inner = queue.lock(&self.engine);
        let policies = tables.policies.of_queue(&queue.name, queue.queue_type);
        let name_of = |policy: Option<&Policy>| policy.map(|policy| policy.name.clone());
        QueueReport {
            vhost: queue.vhost.to_string(),
            name: queue.name.to_string(),
            durable: queue.durable,
            exclusive: queue.exclusive_to.is_some(),
            auto_delete: queue.auto_delete,
            kind: queue.queue_type.name(),
            arguments: queue.declared.clone(),
            idle_arguments: owned(idle::of_queue(&queue.declared)),
            policy: name_of(policies.user),
            operator_policy: name_of(policies.operator),
            policy_definition: policies.definition(),
            owner: queue.exclusive_to,
            figures: queue.figures(&mut inner, &self.engine),
            ready: inner.ready() as u64,
            unacked: inner.unsettled() as u64,
            bytes: inner.bytes() as u64,
            consumers: inner.consumer_count() as u64,
            selectors: inner.selectors(),
            published: inner.totals.published,
            delivered: inner.totals.delivered,
            acknowledged: inner.totals.acknowledged,
            died: inner.died,
            duplicates: inner.duplicates(),
            superseded: inner.superseded(),
            delayed: delayed + inner.waiting() as u64,
            remembered: inner.remembered() as u64,
            damaged: inner
                .damage()
                .map(str::to_owned)
                .or_else(|| lost.get(&queue.id).filter(|_| inner.live() > 0).cloned()),
        }
    }

    /// Every session, by client and number.
    pub fn sessions(&self) -> Vec<SessionReport> {
        let clients = self.engine.clients.lock();
        let mut all: Vec<_> = clients.values().collect();
        all.sort_by_key(|client| client.number);
        all.into_iter().flat_map(|client| client.session_reports()).collect()
    }

    /// Every attached client, by number.
    pub fn clients(&self) -> Vec<ClientReport> {
        let clients = self.engine.clients.lock();
        let mut reports: Vec<_> = clients.values().map(|client| client_report(client)).collect();
        reports.sort_by_key(|report| report.number);
        reports
    }
}

fn owned(names: Vec<&str>) -> Vec<String> {
    names.into_iter().map(str::to_owned).collect()
}

fn client_report(client: &ClientShared) -> ClientReport {
    ClientReport {
        number: client.number,
        user: client.user.clone(),
        vhost: client.vhost.clone(),
        protocol: client.protocol,
        peer: client.peer.clone(),
        name: client.name.clone(),
        properties: client.properties(),
        terms: client.terms,
        sessions: client.figures.sessions().into(),
        consumers: client.figures.consumers().into(),
        waiting_bytes: client.mailbox.bytes() as u64,
        held_bytes: client.account.held() as u64,
        state: if client.figures.is_blocked() { "blocked" } else { "running" },
        connected_at: client.since,
    }
}
