//! Reports for management: counts, queues, clients. They are read from the state that serves
//! clients, with short locks.

mod attached;
mod diagnosis;
mod direct;
pub(crate) mod objects;
mod parts;
mod presence;
mod retained;
mod share;
mod wills;

use std::sync::Arc;

use auth::Identity;
use hashbrown::HashMap;
use journal::Owner;

use crate::alarms::AlarmsUp;
use crate::arguments::idle;
use crate::broker::Broker;
use crate::catalog::Tables;
use crate::catalog::policies::Policy;
use crate::catalog::retained::RetainedCount;
use crate::catalog::subscriptions::SubscriptionFact;
use crate::catalog::wills::WillCount;
use crate::engine::clients::{ClientShared, Terms};
use crate::engine::disk_watch::DiskBounds;
use crate::memory::ledger::Held;
use crate::queue::dropped::Loss;
use crate::queue::{Cause, Queue, QueueFigures, SelectorReport};
use crate::stats::Totals;
use crate::value::Table;

pub use attached::AttachedClient;
pub use diagnosis::{Diagnosis, Standing};
pub use direct::DirectConsumer;
pub use objects::{BindingReport, ConsumerReport, ConsumerSource, ExchangeReport, FilterReport, Holder};
pub use parts::{BindingPlace, Names, QueueCounts};
pub use presence::Presence;
pub use retained::{RETAINED_BETWEEN, RetainedReport};
pub use share::Share;
pub use wills::{WILL_BETWEEN, WillReport};

/// Numbers about the whole broker.
#[derive(Debug, Clone)]
pub struct Overview {
    /// What there is.
    pub objects: Objects,
    /// The messages in its queues.
    pub messages: Messages,
    /// What its memory is used for.
    pub memory: MemoryUse,
    /// The alarms that are up.
    pub alarms: AlarmsUp,
    /// Totals since start.
    pub totals: Totals,
    /// The journal.
    pub journal: journal::Stats,
    /// The limits of its disk that are set.
    pub disk: DiskBounds,
}

/// How many objects there are.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    /// Attached clients.
    pub connections: u64,
    /// Their sessions.
    pub sessions: u64,
    /// Those of the sessions that have published.
    pub publishers: u64,
    /// Their consumers.
    pub consumers: u64,
    /// Declared queues.
    pub queues: u64,
    /// Queues with ready messages and no consumer.
    pub unattended_queues: u64,
    /// Queues that stopped at an unreadable message.
    pub damaged_queues: u64,
    /// Declared exchanges, with the predeclared ones.
    pub exchanges: u64,
    /// Declared bindings.
    pub bindings: u64,
    /// What clients left with the broker besides queues.
    pub left: Left,
}

/// What clients left with the broker besides queues.
#[derive(Debug, Clone, Default)]
pub struct Left {
    /// Subscriptions, stored sessions of MQTT included.
    pub subscriptions: u64,
    /// Those without a consumer.
    pub offline_subscriptions: u64,
    /// Retained messages.
    pub retained: RetainedCount,
    /// Wills.
    pub wills: WillCount,
}

/// The messages in all queues.
#[derive(Debug, Clone, Default)]
pub struct Messages {
    /// Entries that are ready.
    pub ready: u64,
    /// Entries that are out with consumers.
    pub unacked: u64,
    /// Messages that are not due yet.
    pub delayed: u64,
}

/// Bytes of memory, and of the log for declarations.
#[derive(Debug, Clone)]
pub struct MemoryUse {
    /// Of messages in memory: queued ones, those that peers make the broker hold, and large ones
    /// that are under way.
    pub used: u64,
    /// The part of it that peers make the broker hold, by kind: see [`Held::ALL`].
    pub held: [u64; Held::ALL.len()],
    /// Of large messages that are arriving or have not been flushed.
    pub arriving: u64,
    /// Of the process, beyond everything that is counted. They count for the alarm as well while
    /// the process is beyond the limit.
    pub uncounted: u64,
    /// What counts for the alarm.
    pub taken: u64,
    /// Where the memory alarm rises.
    pub limit: u64,
    /// Of declarations. They do not count for the alarm.
    pub declared: u64,
    /// Of connections, sessions and consumers. Nor do they.
    pub clients: u64,
    /// Of the log, for durable declarations.
    pub logged: u64,
}

/// One queue.
#[derive(Debug, Clone, Default)]
pub struct QueueReport {
    /// Its vhost.
    pub vhost: String,
    /// Its name.
    pub name: String,
    /// How it was declared.
    pub declared: DeclaredQueue,
    /// The policies that apply to it.
    pub policies: AppliedPolicies,
    /// Entries that are ready.
    pub ready: u64,
    /// Entries that are out with consumers.
    pub unacked: u64,
    /// Messages that are not due yet.
    pub delayed: u64,
    /// Bytes in memory.
    pub bytes: u64,
    /// Its consumers.
    pub consumers: u64,
    /// The selectors of its consumers.
    pub selectors: Vec<SelectorReport>,
    /// Deaths since start: rejected, expired, maxlen, delivery limit.
    pub died: [u64; 4],
    /// Messages that were dropped as duplicates since start.
    pub duplicates: u64,
    /// Messages that newer ones of their keys superseded since start.
    pub superseded: u64,
    /// Why it stopped, if its first message can't be read.
    pub damaged: Option<String>,
    /// Its other figures.
    pub figures: QueueFigures,
}

/// How a queue was declared.
#[derive(Debug, Clone, Default)]
pub struct DeclaredQueue {
    /// It survives a restart.
    pub durable: bool,
    /// It belongs to one connection.
    pub exclusive: bool,
    /// The number of the client that it belongs to, if it is exclusive.
    pub owner: Option<u64>,
    /// It is deleted with its last consumer.
    pub auto_delete: bool,
    /// `classic` or `quorum`.
    pub kind: &'static str,
    /// As declared.
    pub arguments: Table,
    /// The names of its arguments without effect.
    pub idle_arguments: Vec<String>,
    /// The subscription that it belongs to; its bindings are the filters of that.
    pub subscription: Option<Arc<SubscriptionFact>>,
}

/// The policies that apply to a queue.
#[derive(Debug, Clone, Default)]
pub struct AppliedPolicies {
    /// The name of its policy.
    pub user: Option<String>,
    /// The name of its operator policy.
    pub operator: Option<String>,
    /// The merged definition of both.
    pub definition: Table,
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
    /// Messages dropped since its subscribers without a queue left too much unread.
    pub dropped: u64,
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
        let (census, declared) = (engine.catalog.census(), engine.catalog.bindings.load());
        let mut overview = Overview {
            objects: Objects {
                queues: census.queues,
                exchanges: census.exchanges,
                bindings: census.bindings,
                ..Objects::default()
            },
            messages: Messages::default(),
            memory: MemoryUse {
                used: (engine.memory.total() + engine.ingress.used()) as u64,
                held: Held::ALL.map(|(kind, _, _)| engine.memory.held().of(kind) as u64),
                arriving: engine.ingress.used() as u64,
                uncounted: engine.memory.uncounted(engine.counted_elsewhere()) as u64,
                taken: engine.memory.taken() as u64,
                limit: engine.memory.limit() as u64,
                declared: declared.memory,
                clients: engine.memory.kept() as u64,
                logged: declared.logged,
            },
            alarms: engine.alarms_up(),
            totals: engine.totals.clone(),
            journal: engine.journal.stats(),
            disk: engine.disk_bounds(),
        };
        let objects = &mut overview.objects;
        for client in engine.clients.lock().values() {
            objects.connections += 1;
            objects.sessions += u64::from(client.figures.sessions());
            objects.consumers += u64::from(client.figures.consumers());
            objects.publishers += u64::from(client.figures.publishers());
        }
        self.add_queues(&mut overview);
        overview
    }

    /// Adds the counts of queues, one after the other and without a report of each.
    fn add_queues(&self, overview: &mut Overview) {
        let engine = &self.engine;
        let lost = engine.damages.lost.lock().clone();
        for vhost in engine.catalog.vhosts() {
            let tables = vhost.tables.read();
            for queue in tables.queues() {
                let delayed = queue.delayed(engine);
                let inner = queue.lock(engine);
                overview.messages.ready += inner.ready() as u64;
                overview.objects.unattended_queues += u64::from(inner.ready() > 0 && inner.consumer_count() == 0);
                overview.messages.unacked += inner.unsettled() as u64;
                overview.messages.delayed += delayed + inner.waiting() as u64;
                let damaged = inner.damage().is_some() || (inner.live() > 0 && lost.contains_key(&queue.id));
                overview.objects.damaged_queues += u64::from(damaged);
                let left = &mut overview.objects.left;
                if tables.subscriptions.of_queue(queue.id).is_some() {
                    left.subscriptions += 1;
                    left.offline_subscriptions += u64::from(inner.consumer_count() == 0);
                }
            }
            drop(tables);
            let left = &mut overview.objects.left;
            let (retained, wills) = (self.retained_count(&vhost.name), self.will_count(&vhost.name));
            left.retained.messages += retained.messages;
            left.retained.bytes += retained.bytes;
            left.wills += wills;
        }
    }

    /// The last messages that were dropped for good, oldest first: a sample, see [`Loss`].
    pub fn losses(&self) -> Vec<Loss> {
        self.engine.losses.all()
    }

    /// Every queue, by vhost and name.
    pub fn queues(&self) -> Vec<QueueReport> {
        let mut reports = Vec::new();
        let lost = self.engine.damages.lost.lock().clone();
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
        let delayed = delayed + inner.waiting() as u64;
        let mut figures = queue.figures(&mut inner, delayed, &self.engine);
        let damaged = inner.damage().or_else(|| lost.get(&queue.id).filter(|_| inner.live() > 0).map(String::as_str));
        if damaged.is_some() {
            figures.causes.add(Cause::Damaged);
        }
        let policies = tables.policies.of_queue(&queue.name, queue.queue_type);
        let name_of = |policy: Option<&Policy>| policy.map(|policy| policy.name.clone());
        QueueReport {
            vhost: queue.vhost.to_string(),
            name: queue.name.to_string(),
            declared: DeclaredQueue {
                durable: queue.durable,
                exclusive: queue.exclusive_to.is_some(),
                owner: queue.exclusive_to,
                auto_delete: queue.auto_delete,
                kind: queue.queue_type.name(),
                arguments: queue.declared.clone(),
                idle_arguments: owned(idle::of_queue(&queue.declared)),
                subscription: tables.subscriptions.of_queue(queue.id).cloned(),
            },
            policies: AppliedPolicies {
                user: name_of(policies.user),
                operator: name_of(policies.operator),
                definition: policies.definition(),
            },
            ready: inner.ready() as u64,
            unacked: inner.unsettled() as u64,
            delayed,
            bytes: inner.bytes() as u64,
            consumers: inner.consumer_count() as u64,
            selectors: inner.selectors(),
            died: inner.seldom.died,
            duplicates: inner.duplicates(),
            superseded: inner.superseded(),
            damaged: damaged.map(str::to_owned),
            figures,
        }
    }

    /// Who a connected user is whose rights come from elsewhere. Of several connections, the newest
    /// one counts.
    pub fn guest(&self, user: &str) -> Option<Identity> {
        let clients = self.engine.clients.lock();
        let of_user = clients.values().filter(|client| client.user == user && client.identity.backend().is_some());
        of_user.max_by_key(|client| client.number).map(|client| client.identity.clone())
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
        peer: client.peer.to_string(),
        name: client.name.clone(),
        properties: client.properties(),
        terms: client.terms,
        sessions: client.figures.sessions().into(),
        consumers: client.figures.consumers().into(),
        waiting_bytes: client.mailbox.bytes() as u64,
        dropped: client.mailbox.dropped(),
        held_bytes: client.account.held() as u64,
        state: if client.figures.is_blocked() { "blocked" } else { "running" },
        connected_at: client.since,
    }
}
