//! Subscriptions that outlive their connection, as the client's headers name them and their queues.
//!
//! The headers are those of RabbitMQ (`durable:true` with `id`), ActiveMQ
//! (`activemq.subscriptionName`) and Artemis (`durable-subscription-name`). Subscriptions of the
//! last two belong to a client, which CONNECT names by `client-id`, and have one consumer at a
//! time, as JMS requires.

use broker::{Sharing, SubscriptionName};

use crate::codec::{Command, Headers, Version};

use super::destination::Destination;
use super::error::Failure;

/// Headers by which ActiveMQ and Artemis name a subscription. ActiveMQ once misspelt the first one.
const NAMES: [&str; 4] =
    ["activemq.subscriptionName", "activemq.subcriptionName", "durable-subscription-name", "durable-subscriber-name"];
/// The prefix of the names of their queues.
const PREFIX: &str = "stomp-subscription.";
/// The longest name of a queue, in bytes.
const LONGEST: usize = 255;

/// A subscription that outlives its connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Durable {
    pub(super) name: SubscriptionName,
    /// Its queue.
    pub(super) queue: String,
}

/// The client that subscribes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subscriber<'a> {
    /// The `client-id` of CONNECT.
    pub(super) client: Option<&'a str>,
    pub(super) version: Version,
}

impl Durable {
    /// The subscription that a frame identifies by its name and its client.
    pub(super) fn named(headers: &Headers<'_>, who: Subscriber<'_>) -> Result<Option<Self>, Failure> {
        let Some(name) = NAMES.iter().find_map(|name| headers.get(name)) else { return Ok(None) };
        let client = match who.client {
            Some(client) => client,
            // A client of STOMP 1.0 is named by its subscription, as in ActiveMQ.
            None if who.version == Version::V1_0 => &name,
            None => return Err(Failure::missing(Command::Connect, "client-id")),
        };
        let queue = format!("{PREFIX}{client}.{name}");
        let name = SubscriptionName { client: Some(client.to_owned()), name: name.into_owned() };
        Self { name, queue }.checked().map(Some)
    }

    /// The durable subscription that a frame identifies, if it is a durable one.
    pub(super) fn find(
        headers: &Headers<'_>,
        destination: &Destination<'_>,
        who: Subscriber<'_>,
    ) -> Result<Option<Self>, Failure> {
        let named = Self::named(headers, who)?;
        if named.is_some() && destination.lasts() {
            let detail =
                "a queue keeps what comes while nobody subscribes; a durable subscription is to a topic or an exchange";
            return Err(Failure::new("Invalid destination", detail));
        }
        if named.is_some() || destination.lasts() || !is_durable(headers) {
            return Ok(named);
        }
        if let Some(name) = headers.get("x-queue-name") {
            return Self::shared(name.into_owned()).checked().map(Some);
        }
        let id = headers.get("id").ok_or_else(|| {
            Failure::new("Missing Id", "Durable subscriptions require a unique Id: give the header 'id'")
        })?;
        let (exchange, key) = destination.address();
        Self::shared(format!("{PREFIX}{id}.{exchange}.{key}")).checked().map(Some)
    }

    /// One that is called like its queue, for all clients.
    fn shared(queue: String) -> Self {
        Self { name: SubscriptionName { client: None, name: queue.clone() }, queue }
    }

    /// Those of a client have one consumer at a time.
    pub(super) fn sharing(&self) -> Sharing {
        if self.name.client.is_some() { Sharing::Exclusive } else { Sharing::Shared }
    }

    fn checked(self) -> Result<Self, Failure> {
        let queue = &self.queue;
        if queue.len() > LONGEST {
            let detail = format!("its queue would be called '{queue}', which is longer than {LONGEST} bytes");
            return Err(Failure::new("Subscription name too long", detail));
        }
        Ok(self)
    }
}

/// Whether a frame asks for a durable subscription in RabbitMQ's way; `persistent` is the older
/// header.
pub(super) fn is_durable(headers: &Headers<'_>) -> bool {
    ["durable", "persistent"].iter().any(|name| headers.get(name).as_deref() == Some("true"))
}
