//! Wills: the message that a client leaves for the case that its connection ends without a word
//! (section 3.1.2.5 of MQTT 5), at once or after a delay.
//!
//! The broker keeps it, over its own end, too, and publishes it. Here is what a client asks for.

use std::time::Duration;

use broker::{Confirm, Publish, Unroutable};

use super::store::EXCHANGE;
use crate::address::key_of_topic;
use crate::codec::{PropertyId, QoS, Will};
use crate::dialect::{self, Mark, Published};

/// A will, as the broker publishes it.
#[derive(Debug, Clone)]
pub(super) struct WillMessage {
    key: String,
    /// In the dialect of this protocol.
    properties: Vec<u8>,
    persistent: bool,
    retain: bool,
    /// Milliseconds.
    expiration: Option<u64>,
    payload: Vec<u8>,
    pub(super) delay: Duration,
}

/// The time to live in milliseconds that the broker can keep.
pub(super) fn time_to_live(seconds: u32) -> u64 {
    (u64::from(seconds) * 1000).min(broker::LONGEST_SPAN_MS)
}

impl WillMessage {
    /// The will of a client with this mark.
    pub(super) fn of(will: &Will<'_>, by: Mark) -> Self {
        let mut key = String::new();
        key_of_topic(will.topic, &mut key);
        let mut properties = Vec::new();
        dialect::store(Published { qos: will.qos, retain: will.retain, by }, will.properties, &mut properties);
        Self {
            key,
            properties,
            persistent: will.qos != QoS::AtMostOnce || will.retain,
            retain: will.retain,
            expiration: will.properties.number(PropertyId::MessageExpiry).map(time_to_live),
            payload: will.payload.to_vec(),
            delay: Duration::from_secs(will.properties.number(PropertyId::WillDelay).unwrap_or(0).into()),
        }
    }

    /// Its publication.
    pub(super) fn as_publish(&self) -> Publish<'_> {
        Publish {
            exchange: EXCHANGE,
            routing_key: &self.key,
            dialect: dialect::ENCODING,
            properties: &self.properties,
            persistent: self.persistent,
            priority: None,
            expiration: self.expiration,
            body: self.payload.as_slice().into(),
            confirm: Confirm::None,
            unroutable: Unroutable::Drop,
            copies: false,
            instructed: self.retain,
        }
    }
}

/// How long after the end of the connection a will is published: its delay, or until the end of the
/// session, which comes with it.
pub(super) fn delay_within(delay: Duration, outlives: Option<Duration>) -> Duration {
    delay.min(outlives.unwrap_or(Duration::MAX))
}
