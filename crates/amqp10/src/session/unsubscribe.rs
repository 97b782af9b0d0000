//! The end of subscriptions (amqp-bindmap-jms): by a detach that closes their link, or a link that
//! finds them by their name alone. Any other end of a link leaves them.

use std::time::Instant;

use broker::{Sharing, SubscriptionFilter, Ticket};

use crate::codec::error::condition;
use crate::codec::performative::{Attach, Role};
use crate::codec::terminus::{Durability, ExpiryPolicy, Source};
use crate::codec::{Symbols, Value};
use crate::dialect::address::encoded;
use crate::session::address::{TOPIC_ADDRESS, TOPICS};
use crate::session::error::Failure;
use crate::session::frames::{self, OwnMap};
use crate::session::link::{Found, Link};
use crate::session::running::{Running, Taken};
use crate::session::subscription::{GLOBAL, Lasting, SHARED, name_of, refused};

/// The address of what a subscription asks for.
fn address_of(filters: &[SubscriptionFilter]) -> Option<String> {
    let SubscriptionFilter { exchange, key, .. } = filters.first()?;
    Some(match exchange == TOPICS {
        true => format!("{TOPIC_ADDRESS}{key}"),
        false => format!("/exchanges/{}/{}", encoded(exchange), encoded(key)),
    })
}

impl Running {
    /// The peer asks for a subscription by its name alone: its link has no source.
    pub(super) fn attach_found(&mut self, channel: u16, attach: &Attach<'_>, now: Instant) -> Result<Taken, Failure> {
        let room = self.client.admit_publisher(attach.name.len())?;
        let name = name_of(attach.name, &self.container.id, attach.desired_capabilities);
        let found = self.client.find_subscription(&name, now)?;
        let found = found.ok_or_else(|| {
            Failure::new(
                condition::NOT_FOUND,
                format!("there is no subscription {name}; such are named by their links"),
            )
        })?;
        let selector = OwnMap::new(vec![(
            Value::Symbol("jms-selector".to_owned()),
            Value::Described(Box::new((
                Value::Symbol("apache.org:selector-filter:string".to_owned()),
                Value::Str(found.fact.selector.clone()),
            ))),
        )]);
        let mut capabilities = vec!["topic"];
        if found.fact.sharing == Sharing::Shared {
            capabilities.push(SHARED);
        }
        if found.fact.name.client.is_none() {
            capabilities.push(GLOBAL);
        }
        let address = address_of(&found.filters);
        let source = Source {
            address: address.as_deref(),
            durable: if found.durable { Durability::UnsettledState } else { Durability::None },
            expiry_policy: ExpiryPolicy::Never,
            filter: selector.get().filter(|_| !found.fact.selector.is_empty()),
            capabilities: Symbols::of(&capabilities),
            ..Source::default()
        };
        let reply = Attach {
            name: attach.name,
            handle: attach.handle,
            role: Role::Sender,
            snd_settle_mode: attach.snd_settle_mode,
            rcv_settle_mode: attach.rcv_settle_mode,
            source: Some(source),
            target: attach.target,
            initial_delivery_count: Some(0),
            ..Attach::default()
        };
        let frames = frames::frame(channel, &reply);
        let Some(begun) = self.begun(channel) else { return Ok(Taken::Done) };
        let lasting = Lasting { name: found.fact.name.clone(), queue: found.queue };
        begun.links.insert(attach.handle, Link::Found(Box::new(Found::new(lasting, room))));
        Ok(Taken::Waits { awaited: Ticket::NONE.into(), frames })
    }

    /// Ends a subscription, as a detach that closes asks for.
    pub(super) fn end_subscription(&mut self, subscription: &Lasting, now: Instant) -> Result<Ticket, Failure> {
        self.client.unsubscribe(&subscription.name, &subscription.queue, now).map_err(refused)
    }
}
