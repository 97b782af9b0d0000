//! Lists that are made a part at a time, and single objects by name. Of a long list, only the names
//! of its objects are held in memory.
//!
//! A list is not a picture of one moment. An object that is deleted meanwhile is left out; one that
//! is created meanwhile may be left out or included.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use broker::{BindingPlace, Broker, Names, QueueReport};
use serde_json::Value as Json;

use super::{Listed, binding, channel, connection, consumer, exchange, list, queue, user};
use crate::source::{Socket, Source};

/// Rows that are made at once.
const PART: usize = 64;

/// A list that has been written up to some part.
pub(crate) struct Parts {
    what: Listed,
    left: VecDeque<Part>,
    /// The sockets of connections, by their peers.
    sockets: HashMap<String, Socket>,
}

enum Part {
    /// The objects with these names in a vhost, or what belongs to these objects.
    Named(Arc<str>, Names),
    /// Bindings of an exchange after this one.
    Bindings { vhost: Arc<str>, exchange: Arc<str>, after: Option<BindingPlace> },
    /// These clients, or their sessions.
    Clients(Vec<u64>),
    /// The whole list, for kinds with few objects.
    Whole(Option<String>),
}

impl Parts {
    /// A list of which nothing is written yet; if there is a vhost, only the objects in it.
    pub(crate) fn new(source: &Source, what: Listed, vhost: Option<&str>) -> Self {
        let broker = &source.broker;
        let mut left = VecDeque::new();
        let mut sockets = HashMap::new();
        match what {
            Listed::Queues | Listed::Exchanges | Listed::Consumers | Listed::Bindings => {
                let vhosts = vhost.map_or_else(|| broker.vhost_names(), |vhost| vec![vhost.into()]);
                vhosts.iter().for_each(|vhost| within(broker, what, vhost, &mut left));
            }
            Listed::Connections | Listed::Channels => {
                if what == Listed::Connections {
                    sockets.extend(source.sockets().into_iter().map(|socket| (socket.peer.clone(), socket)));
                }
                let numbers = broker.client_numbers();
                left.extend(numbers.chunks(PART).map(|numbers| Part::Clients(numbers.to_vec())));
            }
            _ => left.push_back(Part::Whole(vhost.map(str::to_owned))),
        }
        // A list of one vhost's clients is rare, so they are found by their reports.
        let left = if let (Some(vhost), Listed::Connections | Listed::Channels) = (vhost, what) {
            of_vhost(broker, vhost, left)
        } else {
            left
        };
        Self { what, left, sockets }
    }

    /// The next rows, perhaps none; `None` after the last.
    pub(crate) fn next(&mut self, source: &Source) -> Option<Vec<Json>> {
        let (broker, facts) = (&source.broker, &source.facts);
        Some(match self.left.pop_front()? {
            Part::Named(vhost, names) => self.named(source, &vhost, &names),
            Part::Bindings { vhost, exchange, after } => {
                let (reports, last) = broker.bindings_of(&vhost, &exchange, after.as_ref(), PART);
                if last.is_some() {
                    self.left.push_front(Part::Bindings { vhost, exchange, after: last });
                }
                reports.iter().map(binding).collect()
            }
            Part::Clients(numbers) if self.what == Listed::Channels => {
                broker.some_sessions(&numbers).iter().map(|session| channel(session, facts)).collect()
            }
            Part::Clients(numbers) => {
                let socket = |peer: &str| self.sockets.get(peer).map(std::slice::from_ref).unwrap_or_default();
                let clients = broker.some_clients(&numbers);
                clients.iter().map(|client| connection(client, facts, socket(&client.peer))).collect()
            }
            Part::Whole(vhost) => list(broker, facts, &[], self.what, vhost.as_deref()),
        })
    }

    fn named(&self, source: &Source, vhost: &str, names: &[Arc<str>]) -> Vec<Json> {
        let broker = &source.broker;
        match self.what {
            Listed::Exchanges => broker.some_exchanges(vhost, names).iter().map(exchange).collect(),
            Listed::Consumers => broker.consumers_of_queues(vhost, names).iter().map(consumer).collect(),
            Listed::Bindings => broker.default_bindings(vhost, names).iter().map(binding).collect(),
            _ => broker.some_queues(vhost, names).iter().map(|report| queue_of(source, report)).collect(),
        }
    }

    /// Bytes of memory that the list takes, estimated.
    pub(crate) fn weight(&self) -> usize {
        let of = |part: &Part| match part {
            Part::Named(_, names) => names.len() * size_of::<Arc<str>>(),
            Part::Clients(numbers) => numbers.len() * size_of::<u64>(),
            Part::Bindings { .. } | Part::Whole(_) => 0,
        };
        let sockets = self.sockets.len() * (2 * size_of::<Socket>());
        sockets + self.left.iter().map(|part| size_of::<Part>() + of(part)).sum::<usize>()
    }
}

fn within(broker: &Broker, what: Listed, vhost: &Arc<str>, parts: &mut VecDeque<Part>) {
    let names = if what == Listed::Exchanges { broker.exchange_names(vhost) } else { broker.queue_names(vhost) };
    parts.extend(names.chunks(PART).map(|names| Part::Named(Arc::clone(vhost), names.to_vec())));
    if what == Listed::Bindings {
        let sources = broker.exchange_names(vhost).into_iter().filter(|name| !name.is_empty());
        parts.extend(sources.map(|exchange| Part::Bindings { vhost: Arc::clone(vhost), exchange, after: None }));
    }
}

fn of_vhost(broker: &Broker, vhost: &str, parts: VecDeque<Part>) -> VecDeque<Part> {
    let narrow = |part: Part| match part {
        Part::Clients(numbers) => {
            let clients = broker.some_clients(&numbers);
            Part::Clients(clients.iter().filter(|client| client.vhost == vhost).map(|client| client.number).collect())
        }
        other => other,
    };
    parts.into_iter().map(narrow).collect()
}

/// A queue with the rates of its counters.
fn queue_of(source: &Source, report: &QueueReport) -> Json {
    let mut row = queue(report, &source.facts);
    if let Some(Json::Object(stats)) = row.get_mut("message_stats") {
        source.rates.add(&format!("queue {} {}", report.vhost, report.name), stats, Instant::now());
    }
    row
}

/// The object of this name, in this vhost if its kind has one. Objects of kinds with few objects
/// are found by searching the list.
pub(crate) fn one(source: &Source, what: Listed, vhost: Option<&str>, name: &str) -> Option<Json> {
    let (broker, facts) = (&source.broker, &source.facts);
    match (what, vhost) {
        (Listed::Queues, Some(vhost)) => {
            let mut row = queue_of(source, broker.some_queues(vhost, &[name.into()]).first()?);
            let consumers = broker.consumers_of_queues(vhost, &[name.into()]);
            row["consumer_details"] = consumers.iter().map(consumer).collect();
            Some(row)
        }
        (Listed::Exchanges, Some(vhost)) => broker.some_exchanges(vhost, &[name.into()]).first().map(exchange),
        (Listed::Users, _) => broker.authority().user(name).as_ref().map(|of| user(broker, of)),
        (Listed::Connections, _) => {
            let clients = broker.some_clients(&[broker.client_at(name)?]);
            let sockets = source.sockets();
            clients.first().map(|client| connection(client, facts, &sockets))
        }
        (Listed::Channels, _) => {
            let (peer, number) = name.strip_suffix(')')?.rsplit_once(" (")?;
            let number: u32 = number.parse().ok()?;
            let sessions = broker.some_sessions(&[broker.client_at(peer)?]);
            sessions.iter().find(|session| session.number == number).map(|session| channel(session, facts))
        }
        _ => list(broker, facts, &[], what, vhost).into_iter().find(|row| row["name"] == name),
    }
}

/// Channels of the connection of this name.
pub(crate) fn channels_of(source: &Source, connection: &str) -> Vec<Json> {
    let number = source.broker.client_at(connection);
    let sessions = number.map(|number| source.broker.some_sessions(&[number])).unwrap_or_default();
    sessions.iter().map(|session| channel(session, &source.facts)).collect()
}

/// Bindings that lead to a queue.
pub(crate) fn bindings_to_queue(source: &Source, vhost: &str, name: &str) -> Vec<Json> {
    source.broker.bindings_to_queue(vhost, name).iter().map(binding).collect()
}

/// Bindings that lead to an exchange.
pub(crate) fn bindings_to_exchange(source: &Source, vhost: &str, name: &str) -> Vec<Json> {
    source.broker.bindings_to_exchange(vhost, name).iter().map(binding).collect()
}
