//! Addresses (docs/mapping/amqp10.md): RabbitMQ's of version 2 and 1, and plain names.
//!
//! `/queues/NAME` and `/exchanges/NAME[/KEY]` are percent-encoded. `/queue/NAME`,
//! `/amq/queue/NAME`, `/exchange/NAME[/KEY]` and `/topic/KEY` are of version 1, and not encoded. A
//! plain name is a queue, or with the capability `topic` a topic.

use std::borrow::Cow;

use crate::codec::Symbols;
use crate::codec::error::condition;
use crate::dialect::address::decoded;
use crate::session::error::Failure;

/// The exchange of topics, as in STOMP.
pub(super) const TOPICS: &str = "amq.topic";

/// What the address of a topic begins with, where no capability says so.
pub(super) const TOPIC_ADDRESS: &str = "/topic/";

/// The address of the links on which queues, exchanges and bindings are declared.
pub(super) const MANAGEMENT: &str = "/management";

/// What an address means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address<'a> {
    /// A queue that must be there.
    Queue(Cow<'a, str>),
    /// A queue that is made if it is not there.
    LastingQueue(Cow<'a, str>),
    /// An exchange, and a routing key or pattern if there is one.
    Exchange(Cow<'a, str>, Option<Cow<'a, str>>),
    /// A topic.
    Topic(Cow<'a, str>),
}

/// What the capabilities of a terminus say about a plain name.
pub(super) fn is_topic(capabilities: Symbols<'_>) -> bool {
    capabilities.has("topic") || capabilities.has("temporary-topic")
}

impl<'a> Address<'a> {
    /// Reads an address, with the capabilities of its terminus.
    pub(super) fn parse(text: &'a str, capabilities: Symbols<'_>) -> Result<Self, Failure> {
        let address = Self::read(text).ok_or_else(|| {
            Failure::invalid(format!(
                "address '{text}' is none of /queues/NAME, /exchanges/NAME[/KEY] with percent-encoded names, or NAME"
            ))
        })?;
        match address {
            Self::LastingQueue(name) if is_topic(capabilities) => Ok(Self::Topic(name)),
            Self::Exchange(name, _) if matches!(&*name, "" | "amq.default") => Err(Failure::new(
                condition::NOT_ALLOWED,
                format!("address '{text}' names the default exchange; write /queues/NAME"),
            )),
            address => Ok(address),
        }
    }

    fn read(text: &'a str) -> Option<Self> {
        let own = |text: &str| decoded(text).map(Cow::Owned);
        let split = |rest: &'a str| rest.split_once('/').map_or((rest, None), |(name, key)| (name, Some(key)));
        let present = |name: Cow<'a, str>| Some(name).filter(|name| !name.is_empty());
        if let Some(rest) = text.strip_prefix("/queues/") {
            return if rest.contains('/') { None } else { own(rest).and_then(present).map(Self::Queue) };
        }
        if let Some(rest) = text.strip_prefix("/exchanges/") {
            let (name, key) = split(rest);
            let key = match key {
                Some(key) if key.contains('/') => return None,
                Some(key) => own(key)?,
                None => Cow::Borrowed(""),
            };
            return Some(Self::Exchange(own(name)?, Some(key)));
        }
        if let Some(rest) = text.strip_prefix("/exchange/") {
            let (name, key) = split(rest);
            return Some(Self::Exchange(name.into(), key.map(Cow::Borrowed)));
        }
        if let Some(key) = text.strip_prefix(TOPIC_ADDRESS) {
            return present(key.into()).map(Self::Topic);
        }
        if let Some(name) = text.strip_prefix("/amq/queue/") {
            return present(name.into()).map(Self::Queue);
        }
        if let Some(name) = text.strip_prefix("/queue/") {
            return present(name.into()).map(Self::LastingQueue);
        }
        if text.starts_with('/') { None } else { present(text.into()).map(Self::LastingQueue) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_versions_and_plain_names() {
        let exchange = |name: &'static str, key: Option<&'static str>| {
            Some(Address::Exchange(name.into(), key.map(Cow::Borrowed)))
        };
        let queue = |name: &'static str| Some(Address::Queue(name.into()));
        let lasting = |name: &'static str| Some(Address::LastingQueue(name.into()));
        for (text, expected) in [
            ("/queues/q", queue("q")),
            ("/queues/a%20b%2Fc", queue("a b/c")),
            ("/queues/a/b", None),
            ("/queues/", None),
            ("/queues/%zz", None),
            ("/exchanges/x", exchange("x", Some(""))),
            ("/exchanges/x/k", exchange("x", Some("k"))),
            ("/exchanges/x/a%2Fb", exchange("x", Some("a/b"))),
            ("/exchanges/x/a/b", None),
            ("/exchange/x", exchange("x", None)),
            ("/exchange/x/a/b", exchange("x", Some("a/b"))),
            ("/exchanges/", None),
            ("/exchanges/amq.default/k", None),
            ("/topic/a.*", Some(Address::Topic("a.*".into()))),
            ("/amq/queue/q", queue("q")),
            ("/queue/q", lasting("q")),
            ("q", lasting("q")),
            ("with a space/and slash", lasting("with a space/and slash")),
            ("", None),
            ("/other/q", None),
        ] {
            assert_eq!(Address::parse(text, Symbols::NONE).ok(), expected, "{text}");
        }
        let topic = Address::parse("news", Symbols::of(&["topic"]));
        assert_eq!(topic, Ok(Address::Topic("news".into())));
        assert_eq!(Address::parse("/queues/q", Symbols::of(&["topic"])).ok(), queue("q"));
    }
}
