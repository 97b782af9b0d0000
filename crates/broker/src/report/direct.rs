//! Consumers without a queue, for management: subscribers by filters, and those of replies. A list
//! holds the consumers themselves, and reports are made of some of them at a time.

use std::sync::Arc;

use super::objects::{ConsumerReport, ConsumerSource, FilterReport, Holder};
use crate::broker::Broker;
use crate::catalog::direct::{DirectFilter, DirectSubscriber};
use crate::engine::clients::ClientShared;
use crate::engine::replies::Requester;
use crate::queue::Readiness;
use crate::queue::mailbox::{Called, MailboxConsumer};
use crate::value::Table;

/// A consumer without a queue, to be reported by [`Broker::some_direct`].
#[derive(Debug, Clone)]
pub struct DirectConsumer(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Subscriber(Arc<DirectSubscriber>),
    Requester(Arc<Requester>),
}

impl DirectConsumer {
    fn to(&self) -> &MailboxConsumer {
        match &self.0 {
            Kind::Subscriber(subscriber) => &subscriber.to,
            Kind::Requester(requester) => &requester.to,
        }
    }

    /// Not the address of replies: who knows it can send some.
    fn source(&self) -> ConsumerSource {
        let filter = |DirectFilter { exchange, key, .. }: &DirectFilter| FilterReport {
            exchange: exchange.to_string(),
            key: key.clone(),
        };
        match &self.0 {
            Kind::Subscriber(subscriber) => ConsumerSource::Filters(subscriber.filters.iter().map(filter).collect()),
            Kind::Requester(_) => ConsumerSource::Replies,
        }
    }
}

impl Broker {
    /// The consumers without a queue of a vhost, by client, session and tag.
    pub fn direct_consumers(&self, vhost: &str) -> Vec<DirectConsumer> {
        let Some(vhost) = self.engine.catalog.vhost(vhost) else { return Vec::new() };
        let subscribers = vhost.tables.read().direct.iter().cloned().map(Kind::Subscriber).collect::<Vec<_>>();
        let requesters = self.engine.replies.of(&vhost.name).into_iter().map(Kind::Requester);
        let mut all: Vec<_> = subscribers.into_iter().chain(requesters).map(DirectConsumer).collect();
        all.sort_unstable_by(|one, other| one.to().called().cmp(other.to().called()));
        all
    }

    /// Reports of these, without those whose clients have gone.
    pub fn some_direct(&self, consumers: &[DirectConsumer]) -> Vec<ConsumerReport> {
        let clients = self.engine.clients.lock();
        let report = |consumer: &DirectConsumer| Some(report(clients.get(&consumer.to().called().client)?, consumer));
        consumers.iter().filter_map(report).collect()
    }
}

fn report(client: &ClientShared, consumer: &DirectConsumer) -> ConsumerReport {
    let Called { session, tag, .. } = consumer.to().called();
    let unread = consumer.to().unread();
    ConsumerReport {
        vhost: client.vhost.clone(),
        source: consumer.source(),
        client: client.number,
        holder: Holder::of(client),
        session: *session,
        tag: tag.to_string(),
        no_ack: true,
        exclusive: false,
        prefetch: 0,
        unsettled: 0,
        single: false,
        active: true,
        readiness: unread.map_or(Readiness::Ready, |bytes| Readiness::NotReading { bytes: bytes as u64 }),
        timeout: None,
        arguments: Table::default(),
    }
}
