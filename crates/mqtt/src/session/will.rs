//! Wills: the message that a client leaves for the case that its connection ends without a word
//! (section 3.1.2.5 of MQTT 5), at once or after a delay.
//!
//! A will with a delay waits here, in memory, and so does one that an alarm holds up. It is sent
//! when its time has come, never before, or when its session ends; a client that comes back to its
//! session in time takes it away [MQTT-3.1.3-9].

use std::collections::HashMap;
use std::sync::OnceLock;
use std::task::Waker;
use std::thread::Thread;
use std::time::{Duration, Instant};

use auth::Identity;
use broker::{Broker, Client, Confirm, Publish, SessionId, Unroutable};
use parking_lot::Mutex;

use super::claims::ClientKey;
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

    /// Publishes it. What refuses it is logged: its client is gone. False while an alarm is up.
    pub(super) fn publish(&self, client: &mut Client, session: SessionId, now: Instant) -> bool {
        let publish = Publish {
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
        };
        if let Err(error) = client.publish(session, publish) {
            let (user, vhost) = (client.user(), client.vhost());
            tracing::warn!(user, vhost, %error, "MQTT will not published");
        }
        client.flush(now);
        !client.parked(session)
    }
}

/// How long a will waits that an alarm holds up, before it is tried again.
const HELD: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Delayed {
    due: Instant,
    identity: Identity,
    will: WillMessage,
}

/// Wills that wait. See the module.
#[derive(Debug, Default)]
pub(super) struct Wills {
    waiting: Mutex<HashMap<ClientKey, Delayed>>,
    /// The thread that sends them.
    sender: OnceLock<Thread>,
}

impl Wills {
    /// The will is due then, if its client does not come back.
    pub(super) fn delay(&self, key: ClientKey, will: WillMessage, due: Instant, identity: Identity) {
        self.waiting.lock().insert(key, Delayed { due, identity, will });
        self.sender.get().into_iter().for_each(Thread::unpark);
    }

    /// An alarm holds the will up.
    pub(super) fn hold(&self, key: ClientKey, will: WillMessage, now: Instant, identity: Identity) {
        let waiting = &mut *self.waiting.lock();
        // One that is newer says more.
        waiting.entry(key).or_insert(Delayed { due: now + HELD, identity, will });
        self.sender.get().into_iter().for_each(Thread::unpark);
    }

    /// The client is there again. Its will is taken away, or is due, if its session has ended.
    pub(super) fn returned(&self, key: &ClientKey, returned: Returned, now: Instant) {
        let mut waiting = self.waiting.lock();
        match returned {
            Returned::Resumes => _ = waiting.remove(key),
            Returned::Begins => {
                let Some(delayed) = waiting.get_mut(key) else { return };
                delayed.due = now;
                drop(waiting);
                self.sender.get().into_iter().for_each(Thread::unpark);
            }
        }
    }

    /// Sends those that are due. Returns when the next one is.
    pub(super) fn send_due(&self, broker: &Broker, now: Instant) -> Option<Instant> {
        let (due, next) = {
            let mut waiting = self.waiting.lock();
            let due: Vec<_> = waiting.extract_if(|_, delayed| delayed.due <= now).collect();
            (due, waiting.values().map(|delayed| delayed.due).min())
        };
        let mut held = false;
        for (key, Delayed { identity, will, .. }) in due {
            match broker.attach_unlisted(identity, &key.vhost, "mqtt", Waker::noop().clone()) {
                Ok(mut client) => {
                    let session = client.open_session(1);
                    if !will.publish(&mut client, session, now) {
                        self.hold(key, will, now, client.identity().clone());
                        held = true;
                    }
                }
                Err(error) => {
                    let (user, vhost) = (&*key.user, &*key.vhost);
                    tracing::warn!(user, vhost, %error, "MQTT will not published");
                }
            }
        }
        if held { Some(now + HELD) } else { next }
    }

    /// The thread that calls [`Self::send_due`], and is unparked when it has to.
    pub(super) fn sent_by(&self, thread: Thread) {
        drop(self.sender.set(thread));
    }
}

/// What a client does that comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Returned {
    /// It goes on with its session.
    Resumes,
    /// It begins a new session, so the old one ends.
    Begins,
}
