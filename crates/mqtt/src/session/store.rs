//! A session as the broker has it: a subscription of its client, whose bindings are its filters.
//!
//! A session that ends with its connection has a queue of the connection. One that outlives it has
//! a durable queue, named after client and user. The options of a filter are the arguments of its
//! binding, so they are there when the client comes back.

use std::time::Duration;

use broker::{
    BindingReport, BindingSpec, DestinationName, Error, QueueSpec, RetainedWanted, Sharing, SubscriptionFilter,
    SubscriptionName, SubscriptionSpec, Table, Value,
};

use super::claims::ClientKey;
use super::filters::Subscription;
use crate::address::{filter_of_key, key_of_filter, key_of_topic, word_of};
use crate::codec::{Options, QoS};
use crate::limits;

/// The exchange whose routing keys are topics.
pub(super) const EXCHANGE: &str = "amq.topic";
/// The prefix of the names of sessions' queues.
pub(super) const PREFIX: &str = "mqtt-session.";
/// The prefix of the names of shared subscriptions' queues.
const SHARED: &str = "mqtt-share.";
/// The shortest time that a shared subscription outlives its last member, in milliseconds.
const SHARED_OUTLIVES: u64 = 60_000;
/// A session that never expires.
pub(super) const NEVER: u32 = u32::MAX;

/// The tag of the consumer of the session's own queue. Those of shared subscriptions are their
/// filters, which begin otherwise.
pub(super) const OWN: &str = "session";

/// In front of filters of quality 0, where a session keeps them.
const DIRECT: &str = "$direct/";

/// Whether the key of a session's binding is a filter, and not only kept there: nothing is
/// published under the others.
pub(super) fn is_filter_key(key: &str) -> bool {
    !["$direct.", "$share.", "$queue."].iter().any(|kept| key.starts_with(kept))
}

/// The tag of a consumer without a queue: its number, and its filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DirectTag<'t>(pub(super) u32, pub(super) &'t str);

impl<'t> DirectTag<'t> {
    /// Reads a tag; `None` for those of other consumers, which do not begin with a digit.
    pub(super) fn read(tag: &'t str) -> Option<Self> {
        let (number, filter) = tag.split_once(' ')?;
        Some(Self(number.parse().ok()?, filter))
    }
}

impl std::fmt::Display for DirectTag<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.0, self.1)
    }
}

/// Names of the arguments of bindings.
const QOS: &str = "x-mqtt-qos";
const NO_LOCAL: &str = "x-mqtt-no-local";
const RETAIN_AS_PUBLISHED: &str = "x-mqtt-retain-as-published";
const ID: &str = "x-mqtt-subscription-id";

/// How long a session lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// As long as its connection.
    Connection,
    /// Longer than that: it is stored.
    Stored,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Store {
    pub(super) life: Life,
    /// The seconds that it outlives its connection. A stored one may have 0 for the last one.
    pub(super) expiry: u32,
    pub(super) name: SubscriptionName,
    /// Its queue.
    pub(super) queue: String,
}

impl Store {
    /// The stored session of a client.
    ///
    /// # Errors
    /// If the client's identifier is too long for the name of a queue.
    pub(super) fn stored(key: &ClientKey, expiry: u32) -> Result<Self, Error> {
        let mut queue = PREFIX.to_owned();
        word_of(&key.client_id, &mut queue);
        queue.push('.');
        word_of(&key.user, &mut queue);
        if queue.len() > limits::QUEUE_NAME {
            return Err(Error::precondition(format!(
                "the client identifier is too long for a session that is stored: its queue would be called '{queue}', which \
                 is longer than {} bytes",
                limits::QUEUE_NAME
            )));
        }
        let name = SubscriptionName { client: Some(key.client_id.clone()), name: key.user.clone() };
        Ok(Self { life: Life::Stored, expiry, name, queue })
    }

    /// One that ends with its connection, under a name that nothing else has.
    pub(super) fn of_connection(queue: String) -> Self {
        let name = SubscriptionName { client: None, name: queue.clone() };
        Self { life: Life::Connection, expiry: 0, name, queue }
    }

    /// The subscription to begin, or to change: with these filters in addition.
    pub(super) fn spec(&self, filters: Vec<SubscriptionFilter>, retained: RetainedWanted) -> SubscriptionSpec {
        let is_stored = self.life == Life::Stored;
        let expires = is_stored && self.expiry != NEVER;
        SubscriptionSpec {
            name: self.name.clone(),
            sharing: Sharing::Exclusive,
            expires: expires.then(|| u64::from(self.expiry) * 1000),
            filters,
            retained,
            queue: QueueSpec {
                name: self.queue.clone(),
                durable: is_stored,
                exclusive: !is_stored,
                ..QueueSpec::default()
            },
            ..SubscriptionSpec::default()
        }
    }

    /// How long it outlives its connection; `None` for ever.
    pub(super) fn outlives(&self) -> Option<Duration> {
        outlives(self.expiry)
    }

    /// The binding of a filter.
    pub(super) fn binding(&self, filter: &str, subscription: Subscription) -> BindingSpec {
        let SubscriptionFilter { exchange, key, arguments } = binding_filter(filter, subscription);
        BindingSpec { source: exchange, destination: DestinationName::Queue(self.queue.clone()), key, arguments }
    }
}

/// How long a session with this expiry outlives its connection; `None` for ever.
pub(super) fn outlives(expiry: u32) -> Option<Duration> {
    (expiry != NEVER).then(|| Duration::from_secs(expiry.into()))
}

/// The messages of a filter.
pub(super) fn topic_filter(filter: &str) -> SubscriptionFilter {
    let mut key = String::new();
    key_of_filter(filter, &mut key);
    SubscriptionFilter { exchange: EXCHANGE.to_owned(), key, arguments: Table::default() }
}

/// A filter as the session's queue has it. One of quality 0 is kept under a key that nothing is
/// published to, since its messages do not come through the queue.
pub(super) fn binding_filter(filter: &str, subscription: Subscription) -> SubscriptionFilter {
    let Subscription { options, id, .. } = subscription;
    let mut key = String::new();
    if options.qos == QoS::AtMostOnce {
        key_of_filter(DIRECT, &mut key);
    }
    key_of_filter(filter, &mut key);
    let mut fields = vec![(QOS.to_owned(), Value::I32(options.qos as i32))];
    if options.no_local {
        fields.push((NO_LOCAL.to_owned(), Value::Bool(true)));
    }
    if options.retain_as_published {
        fields.push((RETAIN_AS_PUBLISHED.to_owned(), Value::Bool(true)));
    }
    fields.extend(id.map(|id| (ID.to_owned(), Value::I64(id.into()))));
    SubscriptionFilter { exchange: EXCHANGE.to_owned(), key, arguments: Table(fields) }
}

/// The filter that a binding is; `None` for one that was not made over MQTT.
pub(super) fn filter_of_binding(binding: &BindingReport) -> Option<(String, Subscription)> {
    let number = |name: &str| binding.arguments.get(name).and_then(Value::as_integer);
    let is_set = |name: &str| binding.arguments.get(name) == Some(&Value::Bool(true));
    if binding.source != EXCHANGE {
        return None;
    }
    let qos = QoS::of(u8::try_from(number(QOS)?).ok()?)?;
    let options = Options {
        qos,
        no_local: is_set(NO_LOCAL),
        retain_as_published: is_set(RETAIN_AS_PUBLISHED),
        ..Options::default()
    };
    let id = number(ID).and_then(|id| u32::try_from(id).ok());
    let written = filter_of_key(&binding.key);
    let filter = if qos == QoS::AtMostOnce { written.strip_prefix(DIRECT)?.to_owned() } else { written };
    Some((filter, Subscription { options, id, direct: 0 }))
}

/// A shared subscription, for a member whose session lives so many seconds.
///
/// # Errors
/// If its name is too long for that of a queue.
pub(super) fn shared(written: &str, group: &str, filter: &str, expiry: u32) -> Result<SubscriptionSpec, Error> {
    let mut queue = SHARED.to_owned();
    key_of_topic(group, &mut queue);
    queue.push('.');
    key_of_filter(filter, &mut queue);
    if queue.len() > limits::QUEUE_NAME {
        return Err(Error::precondition(format!(
            "the shared subscription is too long: its queue would be called '{queue}', which is longer than {} bytes",
            limits::QUEUE_NAME
        )));
    }
    let filter = topic_filter(filter);
    Ok(SubscriptionSpec {
        name: SubscriptionName { client: None, name: written.to_owned() },
        sharing: Sharing::Shared,
        expires: (expiry != NEVER).then(|| (u64::from(expiry) * 1000).max(SHARED_OUTLIVES)),
        filters: vec![filter],
        queue: QueueSpec { name: queue, durable: true, ..QueueSpec::default() },
        ..SubscriptionSpec::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_and_its_options_come_back_from_the_binding() {
        let options =
            Options { qos: QoS::AtLeastOnce, no_local: true, retain_as_published: true, ..Options::default() };
        for (filter, subscription) in [
            ("a/+/b.c/#", Subscription { options, id: Some(268_435_455), direct: 0 }),
            ("#", Subscription::default()),
            ("$share/g/a/+", Subscription::default()),
        ] {
            let SubscriptionFilter { exchange, key, arguments } = binding_filter(filter, subscription);
            let mut report = BindingReport {
                vhost: "/".to_owned(),
                source: exchange,
                destination: "q".to_owned(),
                to_queue: true,
                key,
                arguments,
            };
            assert_eq!(filter_of_binding(&report), Some((filter.to_owned(), subscription)));
            report.arguments = Table::default();
            assert_eq!(filter_of_binding(&report), None);
        }
    }

    #[test]
    fn sessions_have_queues_of_their_own() {
        let queue = |user: &str, client_id: &str| {
            let key = ClientKey { vhost: "/".into(), user: user.into(), client_id: client_id.into() };
            Store::stored(&key, 1).map(|store| store.queue)
        };
        assert_eq!(queue("guest", "c/1").unwrap(), "mqtt-session.c/1.guest");
        assert_ne!(queue("b.c", "a").unwrap(), queue("c", "a.b").unwrap());
        assert_ne!(queue("u", "a/b").unwrap(), queue("u", "a%2Fb").unwrap());
        assert!(queue("guest", &"c".repeat(300)).is_err());
    }
}
