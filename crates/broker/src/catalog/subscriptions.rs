//! The subscriptions of a vhost: who asked for messages, under which name, and the queue where they
//! wait.
//!
//! A subscription is a fact about its queue, whose bindings are its filters. Invariant: it comes
//! with its queue, which has no other, and ends with it.

use std::sync::Arc;

use hashbrown::HashMap;
use journal::{Appender, Group, Owner};

use crate::encoding::{Malformed, Reader, write_text, write_varint};
use crate::routing::{Load, Tally, Weight};
use crate::store::facts::SUBSCRIPTION;

/// The identity of a subscription in its vhost.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionName {
    /// The client that it belongs to; `None` where every client finds it by its name.
    pub client: Option<String>,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for SubscriptionName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "'{}'", self.name)?;
        self.client.iter().try_for_each(|client| write!(f, " of client '{client}'"))
    }
}

/// How many consumers a subscription may have at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sharing {
    /// One.
    #[default]
    Exclusive,
    /// Any number. Each message goes to one of them.
    Shared,
}

/// A subscription, as logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionFact {
    /// Its identity.
    pub name: SubscriptionName,
    /// How many consumers it may have at a time.
    pub sharing: Sharing,
    /// It keeps the messages that this selector is true of; all, if it is empty.
    pub selector: String,
    /// How many milliseconds it outlives its last consumer; `None` for as long as its queue.
    pub expires: Option<u64>,
}

/// A subscription.
#[derive(Debug)]
pub(crate) struct Subscription {
    /// Its queue.
    pub(crate) queue: Owner,
    pub(crate) fact: Arc<SubscriptionFact>,
    /// The bytes of its declaration.
    #[expect(dead_code, reason = "counted as long as it is there, not read")]
    weight: Weight,
}

/// The subscriptions of a vhost. See the module.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    by_queue: HashMap<Owner, Subscription>,
    queues: HashMap<SubscriptionName, Owner>,
}

/// Flags of a subscription in its record.
const SHARED: u8 = 1;
const EXPIRES: u8 = 2;

impl SubscriptionFact {
    /// The bytes of one whose queue is logged.
    pub(crate) fn load(&self) -> Load {
        let client = self.name.client.as_ref().map_or(0, String::len);
        Load::of_subscription(client + self.name.name.len(), self.selector.len())
    }

    /// Logs that it is the subscription of this queue.
    pub(crate) fn log(&self, appender: &mut Appender<'_>, group: Option<Group>, queue: Owner) {
        appender.fact(group, queue, SUBSCRIPTION, &[&self.bytes()]);
    }

    fn bytes(&self) -> Vec<u8> {
        let Self { name: SubscriptionName { client, name }, sharing, selector, expires } = self;
        let mut bytes = vec![client.is_some().into()];
        client.iter().for_each(|client| write_text(&mut bytes, client));
        write_text(&mut bytes, name);
        bytes.push(u8::from(*sharing == Sharing::Shared) * SHARED + u8::from(expires.is_some()) * EXPIRES);
        write_text(&mut bytes, selector);
        expires.iter().for_each(|expires| write_varint(&mut bytes, *expires));
        bytes
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let client = if reader.bool()? { Some(reader.text()?.to_owned()) } else { None };
        let name = SubscriptionName { client, name: reader.text()?.to_owned() };
        let flags = reader.byte()?;
        if flags & !(SHARED | EXPIRES) != 0 {
            return Err(reader.malformed("unknown flags of a subscription"));
        }
        let sharing = if flags & SHARED != 0 { Sharing::Shared } else { Sharing::Exclusive };
        let selector = reader.text()?.to_owned();
        let expires = if flags & EXPIRES != 0 { Some(reader.varint()?) } else { None };
        let fact = Self { name, sharing, selector, expires };
        reader.end()?;
        Ok(fact)
    }
}

impl Subscription {
    /// A subscription with this queue. `tally` counts its bytes.
    pub(crate) fn new(queue: Owner, fact: SubscriptionFact, load: Load, tally: &Tally) -> Self {
        Self { queue, weight: Weight::new(tally, load), fact: Arc::new(fact) }
    }
}

impl Subscriptions {
    /// The queue of a subscription.
    pub(crate) fn queue_of(&self, name: &SubscriptionName) -> Option<Owner> {
        self.queues.get(name).copied()
    }

    /// The subscription of a queue, if it has one.
    pub(crate) fn of_queue(&self, queue: Owner) -> Option<&Arc<SubscriptionFact>> {
        Some(&self.by_queue.get(&queue)?.fact)
    }

    /// The queues of all.
    pub(crate) fn queues(&self) -> impl Iterator<Item = Owner> {
        self.by_queue.keys().copied()
    }

    /// Adds one, in place of the one that its queue has.
    pub(crate) fn put(&mut self, subscription: Subscription) {
        let queue = subscription.queue;
        self.end(queue);
        self.queues.insert(subscription.fact.name.clone(), queue);
        self.by_queue.insert(queue, subscription);
    }

    /// Its queue is gone.
    pub(crate) fn end(&mut self, queue: Owner) {
        if let Some(ended) = self.by_queue.remove(&queue) {
            self.queues.remove(&ended.fact.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(client: Option<&str>, name: &str, sharing: Sharing, selector: &str) -> SubscriptionFact {
        let name = SubscriptionName { client: client.map(str::to_owned), name: name.to_owned() };
        SubscriptionFact { name, sharing, selector: selector.to_owned(), expires: None }
    }

    #[test]
    fn a_subscription_is_stored_in_these_bytes_and_every_cut_is_noticed() {
        for (fact, expected) in [
            (fact(Some("me"), "news", Sharing::Exclusive, "a = 1"), &b"\x01\x02me\x04news\0\x05a = 1"[..]),
            (fact(None, "n", Sharing::Shared, ""), b"\0\x01n\x01\0"),
            (
                SubscriptionFact { expires: Some(300), ..fact(None, "n", Sharing::Exclusive, "b") },
                b"\0\x01n\x02\x01b\xac\x02",
            ),
            (SubscriptionFact { expires: Some(0), ..fact(None, "n", Sharing::Shared, "") }, b"\0\x01n\x03\0\0"),
        ] {
            let bytes = fact.bytes();
            assert_eq!(bytes, expected);
            for end in 0..bytes.len() {
                assert!(SubscriptionFact::read(&bytes[..end]).is_err(), "cut at {end}");
            }
            assert_eq!(SubscriptionFact::read(&bytes).unwrap(), fact);
            assert!(SubscriptionFact::read(&[&bytes[..], b"\0"].concat()).is_err());
        }
    }

    #[test]
    fn a_queue_has_one_subscription_and_a_subscription_one_queue() {
        let mut all = Subscriptions::default();
        let (first, later) = (fact(None, "n", Sharing::Shared, ""), fact(None, "n", Sharing::Shared, "b"));
        for fact in [first.clone(), later.clone()] {
            all.put(Subscription::new(7, fact, Load::default(), &Tally::default()));
        }
        assert_eq!((all.queue_of(&first.name), all.of_queue(7).map(|fact| &**fact)), (Some(7), Some(&later)));
        all.end(7);
        assert_eq!((all.queue_of(&first.name), all.of_queue(7).is_none()), (None, true));
    }
}
