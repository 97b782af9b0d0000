//! Subscribers without a queue on behalf of a client: begun and ended.

use std::sync::Arc;

use auth::{Resource, Right};
use journal::Owner;

use crate::arguments::consumer::{BROWSE, ConsumerArguments, InvalidArgument, Mode, PRIORITY, SELECTOR};
use crate::catalog::declaration::{BindingSpec, DestinationName, check_binding_names};
use crate::catalog::direct::{DirectFilter, DirectSubscriber};
use crate::engine::bounds::CHANGE_ENTRIES;
use crate::engine::retained::FeedTarget;
use crate::error::Error;
use crate::message::publisher::PublisherId;
use crate::queue::mailbox::MailboxConsumer;
use crate::queue::{Credit, Settling};
use crate::routing::{Destination, ExchangeKind};
use crate::session::consume::{Consume, DirectSource};
use crate::session::subscribe::searches;
use crate::session::{Client, RetainedWanted, SessionId, SubscriptionFilter};

/// The binding that a filter is. Its destination has no name.
fn binding_of_filter(filter: &SubscriptionFilter) -> BindingSpec {
    BindingSpec {
        source: filter.exchange.clone(),
        destination: DestinationName::Queue(String::new()),
        key: filter.key.clone(),
        arguments: filter.arguments.clone(),
    }
}

/// Fails for what only a queue can do.
fn check_asked(consume: &Consume) -> Result<(), InvalidArgument> {
    let asked = consume.arguments.clone()?;
    let refused = match asked {
        _ if !consume.no_ack => {
            Some(("no-ack", "its deliveries have no queue to come back to: consume without settling"))
        }
        _ if consume.exclusive => Some(("exclusive", "it shares nothing with others")),
        _ if matches!(consume.credit, Credit::Granted { .. }) => {
            Some(("credit", "messages have no queue in which they could wait for it"))
        }
        ConsumerArguments { mode: Mode::Browse, .. } => Some((BROWSE, "there is no queue to browse")),
        ConsumerArguments { ref selector, .. } if !selector.is_empty() => {
            Some((SELECTOR, "a subscriber without a queue has no selector"))
        }
        ConsumerArguments { priority, .. } if priority != 0 => Some((PRIORITY, "it shares nothing with others")),
        _ => None,
    };
    refused.map_or(Ok(()), |(argument, why)| Err(InvalidArgument::new(argument, why)))
}

impl Client {
    /// Starts a consumer without a queue.
    pub(super) fn consume_direct(
        &mut self,
        session: SessionId,
        source: &DirectSource,
        consume: &Consume,
    ) -> Result<String, Error> {
        let vhost = Arc::clone(&self.vhost);
        check_asked(consume).map_err(|invalid| invalid.at("", &vhost.name))?;
        let bindings: Vec<_> = source.filters.iter().map(binding_of_filter).collect();
        for binding in &bindings {
            check_binding_names(binding)?;
        }
        self.authorize_filters(&bindings)?;
        let not_from =
            consume.no_local.then(|| self.publisher.show_own(self.shared.number, self.engine.clock.unix_ms()));
        let tag = self.consumer_tag(session, &consume.tag)?;
        let number = self.add_consumer(session, (&tag, 0), None, Settling::Auto)?;
        let made = self.bind_direct(number, not_from, &bindings, source.retained);
        // The right may have been taken away before the subscriber was there to be looked at.
        made.and_then(|()| self.authorize_filters(&bindings)).inspect_err(|_| drop(self.forget_consumer(number)))?;
        self.receiver.note_consuming();
        Ok(tag)
    }

    /// Checks that the user may consume by these filters now, without doing it.
    ///
    /// # Errors
    /// `AccessRefused`.
    pub fn check_filters(&self, filters: &[SubscriptionFilter]) -> Result<(), Error> {
        self.authorize_filters(&filters.iter().map(binding_of_filter).collect::<Vec<_>>())
    }

    fn authorize_filters(&self, bindings: &[BindingSpec]) -> Result<(), Error> {
        for BindingSpec { source, key, .. } in bindings {
            self.authorize(Resource::exchange(source), Right::Read)?;
            self.authorize_topics(source, std::iter::once(&**key), Right::Read)?;
        }
        Ok(())
    }

    /// Makes the subscriber that a consumer is, and its bindings.
    fn bind_direct(
        &mut self,
        consumer: u32,
        not_from: Option<PublisherId>,
        bindings: &[BindingSpec],
        wanted: RetainedWanted,
    ) -> Result<(), Error> {
        let (engine, vhost, called) = (Arc::clone(&self.engine), Arc::clone(&self.vhost), self.called(consumer)?);
        let retained = (wanted != RetainedWanted::None).then(|| vhost.retained.lock());
        let mut tables = vhost.tables.write();
        let filter = |binding: &BindingSpec| {
            let exchange = tables.exchange(&binding.source)?;
            let is_topic = exchange.kind == ExchangeKind::Topic;
            Some(DirectFilter { exchange: Arc::clone(&exchange.name), key: binding.key.clone(), is_topic })
        };
        let subscriber = Arc::new(DirectSubscriber {
            id: engine.owner(vhost.log()),
            to: MailboxConsumer::new(&self.shared.mailbox, consumer, engine.settings.mailbox_bytes, called),
            not_from,
            filters: bindings.iter().filter_map(filter).collect(),
        });
        let id = subscriber.id;
        let searches = match &retained {
            Some(table) => searches(&tables, table, wanted, (Destination::Subscriber(id), bindings))?,
            None => Vec::new(),
        };
        // From here on the end of the consumer ends the subscriber, with the bindings that it has.
        self.receiver.set_direct(consumer, id);
        tables.direct.put(Arc::clone(&subscriber));
        for binding in bindings {
            let source = tables.exchange(&binding.source).ok_or_else(|| self.no_exchange(&binding.source))?;
            let change = self.new_binding(source, binding, Destination::Subscriber(id), None)?;
            self.publisher.add_cost(CHANGE_ENTRIES);
            if let Some(change) = change {
                engine.change(&vhost, &mut tables, change);
            }
        }
        drop(tables);
        self.feed(searches, &FeedTarget::Subscriber(subscriber), retained);
        Ok(())
    }

    /// Ends a subscriber without a queue, and its bindings.
    pub(super) fn end_direct(&self, subscriber: Option<Owner>) {
        if let Some(id) = subscriber {
            self.engine.end_direct(&self.vhost, id);
        }
    }
}
