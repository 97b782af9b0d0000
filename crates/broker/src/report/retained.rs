//! The retained messages of vhosts, as management shows them. The table's lock is
//! let go of between pieces.

use std::sync::Arc;

use crate::broker::Broker;
use crate::catalog::Vhost;
use crate::catalog::retained::{RetainedCount, RetainedSearch, Searched};
use crate::message::Message;
use crate::report::Names;
use crate::routing::Sought;

/// Stands between the exchange and the topic in the name of a retained message.
pub const RETAINED_BETWEEN: char = '\0';

/// A retained message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetainedReport {
    /// Its vhost.
    pub vhost: String,
    /// The exchange that it was published to.
    pub exchange: String,
    /// Its topic: the routing key.
    pub topic: String,
    /// Bytes of its body.
    pub body_bytes: u64,
    /// It survives a restart.
    pub persistent: bool,
    /// When it was published, in milliseconds since 1970.
    pub published_at: u64,
    /// When it expires, in milliseconds since 1970; `None` for never.
    pub expires_at: Option<u64>,
}

impl Broker {
    /// How many messages a vhost retains; nothing for one that is not there.
    pub fn retained_count(&self, vhost: &str) -> RetainedCount {
        let vhost = self.engine.catalog.vhost(vhost).filter(|vhost| vhost.retained.is_used());
        vhost.map_or_else(RetainedCount::default, |vhost| vhost.retained.lock().count())
    }

    /// The names of all retained messages of a vhost, each an exchange and a topic with
    /// [`RETAINED_BETWEEN`] between them, in their order.
    pub fn retained_names(&self, vhost: &str) -> Names {
        let mut names = Names::new();
        let Some(vhost) = self.engine.catalog.vhost(vhost).filter(|vhost| vhost.retained.is_used()) else {
            return names;
        };
        let exchanges: Vec<_> = vhost.tables.read().exchanges().map(|exchange| exchange.id).collect();
        for exchange in exchanges {
            let mut search = RetainedSearch::new(exchange, Sought::All, None);
            self.each_piece(&vhost, &mut search, &mut |message| {
                let (exchange, topic) = (message.exchange(), message.routing_key());
                names.push(format!("{exchange}{RETAINED_BETWEEN}{topic}").into());
            });
        }
        names.sort_unstable();
        names
    }

    fn each_piece(&self, vhost: &Vhost, search: &mut RetainedSearch, visit: &mut dyn FnMut(&Message)) {
        let (mut found, now) = (Vec::new(), self.engine.clock.unix_ms());
        let mut searched = Searched::More;
        while searched == Searched::More {
            searched = vhost.retained.lock().look(search, now, &mut found);
            found.drain(..).for_each(|message| visit(&message));
        }
    }

    /// Those of these names that are there.
    pub fn some_retained(&self, vhost: &str, names: &[Arc<str>]) -> Vec<RetainedReport> {
        let messages = names.iter().filter_map(|name| {
            let (exchange, topic) = name.split_once(RETAINED_BETWEEN)?;
            self.retained_message(vhost, exchange, topic)
        });
        let report = |message: Message| RetainedReport {
            vhost: vhost.to_owned(),
            exchange: message.exchange().to_owned(),
            topic: message.routing_key().to_owned(),
            body_bytes: message.body().len() as u64,
            persistent: message.persistent(),
            published_at: message.published_at(),
            expires_at: message.expires_at(),
        };
        messages.map(report).collect()
    }

    /// The retained message of a topic. Its time to live is what is left of it.
    pub fn retained_message(&self, vhost: &str, exchange: &str, topic: &str) -> Option<Message> {
        let vhost = self.engine.catalog.vhost(vhost)?;
        let exchange = vhost.tables.read().exchange(exchange)?.id;
        vhost.retained.lock().message(exchange, topic, self.engine.clock.unix_ms())
    }
}
