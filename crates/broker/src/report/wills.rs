//! The wills of vhosts, as management shows them.

use std::sync::Arc;

use crate::broker::Broker;
use crate::catalog::wills::{ShownWill, WillCount, WillKept, WillKey};
use crate::report::Names;

/// Stands between the user and the client in the name of a will.
pub const WILL_BETWEEN: char = '\0';

/// The will of a client. Where earlier ones of the same client are held up, they are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WillReport {
    /// Its vhost.
    pub vhost: String,
    /// The user that left it.
    pub user: String,
    /// What its client is called.
    pub client: String,
    /// The exchange that it is published to.
    pub exchange: String,
    /// The routing key that it is published with.
    pub topic: String,
    /// Bytes of its body.
    pub body_bytes: u64,
    /// When it is published, or tried again, in milliseconds since 1970; `None` while its client is
    /// connected.
    pub due: Option<u64>,
    /// Where it is kept.
    pub kept: WillKept,
    /// How many wills of this client were due, and wait for the end of an alarm.
    pub held_up: u64,
}

impl Broker {
    /// How many wills a vhost has; none for one that is not there.
    pub fn will_count(&self, vhost: &str) -> WillCount {
        self.engine.catalog.vhost(vhost).map_or_else(WillCount::default, |vhost| vhost.wills.lock().count())
    }

    /// Whose wills a vhost has, each a user and a client with [`WILL_BETWEEN`] between them, in
    /// their order.
    pub fn will_names(&self, vhost: &str) -> Names {
        let Some(vhost) = self.engine.catalog.vhost(vhost) else { return Names::new() };
        let name = |key: &WillKey| format!("{}{WILL_BETWEEN}{}", key.user, key.client).into();
        let mut names: Names = vhost.wills.lock().keys().map(name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Those of these wills that are there.
    pub fn some_wills(&self, vhost: &str, names: &[Arc<str>]) -> Vec<WillReport> {
        let Some(vhost) = self.engine.catalog.vhost(vhost) else { return Vec::new() };
        let report = |name: &Arc<str>| {
            let (user, client) = name.split_once(WILL_BETWEEN)?;
            let key = WillKey { user: user.into(), client: client.into() };
            let ShownWill { message, due, kept, held_up } = vhost.wills.lock().shown(&key)?;
            Some(WillReport {
                vhost: vhost.name.to_string(),
                user: user.to_owned(),
                client: client.to_owned(),
                exchange: message.exchange().to_owned(),
                topic: message.routing_key().to_owned(),
                body_bytes: message.body().len() as u64,
                due,
                kept,
                held_up,
            })
        };
        names.iter().filter_map(report).collect()
    }
}
