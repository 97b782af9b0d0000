//! A message under a selector while it is routed: it has no place in a queue, and no marks of the
//! broker yet.

use selector::{Lookup, Value};

use crate::message::selected::Facts;
use crate::routing::Envelope;

/// See the module.
pub(super) struct Published<'m> {
    pub(super) envelope: &'m Envelope<'m>,
    pub(super) exchange: &'m str,
}

impl Lookup for Published<'_> {
    fn get(&self, name: &str) -> Value<'_> {
        let properties = self.envelope.properties();
        let facts = Facts {
            persistent: properties.persistent,
            priority: properties.priority.unwrap_or(0),
            published_at: None,
            expiration: properties.expiration,
            exchange: self.exchange,
            routing_key: self.envelope.key(),
            redelivered: false,
        };
        facts.get(name, &|field| properties.look_up(field))
    }
}
