//! Where a peer's messages come from: the source of its link, as a consumer of the broker.

use std::time::Instant;

use broker::{
    Client, ConsumerArguments, ErrorKind, Mode, Outcome, QueueSpec, Sharing, SubscriptionFilter, SubscriptionSpec,
    Table, Ticket,
};

use crate::codec::performative::Attach;
use crate::codec::terminus::Source;
use crate::codec::{Map, Value, ValueRef, descriptor_code};
use crate::dialect::address::of_queue;
use crate::session::address::{Address, TOPICS};
use crate::session::error::Failure;
use crate::session::names::{Node, Suspended};
use crate::session::outcome::outcome_of;
use crate::session::subscription::{Identity, Lasting, Lasts, counting, refused};
use crate::session::target::{Destination, Dynamic, declare};

/// Descriptors of filters (registered by apache.org).
const NO_LOCAL: u64 = 0x468c_0000_0003;
const SELECTOR: u64 = 0x468c_0000_0004;

/// The argument of the binding of a subscription without what its own connection publishes.
const NO_LOCAL_OPTION: &str = "x-no-local";

/// The outcomes that a peer can give.
pub(super) const OUTCOMES: [&str; 4] =
    ["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"];

/// What a source asks for, and what of that is in force.
pub(super) struct Wanted {
    pub(super) arguments: ConsumerArguments,
    pub(super) no_local: bool,
    pub(super) browses: bool,
    pub(super) default_outcome: Outcome,
    /// The subscription that the link is of, if that is more than the link.
    pub(super) identity: Option<Identity>,
    /// The filters that are applied, as they came.
    pub(super) filters: Vec<(Value, Value)>,
}

impl Wanted {
    /// Reads a source, and the properties of its link.
    pub(super) fn read(
        source: &Source<'_>,
        properties: Option<Map<'_>>,
        identity: Option<Identity>,
    ) -> Result<Self, Failure> {
        let mut wanted = Self {
            arguments: ConsumerArguments::default(),
            no_local: false,
            browses: false,
            default_outcome: Outcome::Released,
            identity,
            filters: Vec::new(),
        };
        match source.distribution_mode.map(|mode| mode.0) {
            None | Some("move") => {}
            Some("copy") => {
                wanted.browses = true;
                wanted.arguments.mode = Mode::Browse;
            }
            Some(other) => {
                return Err(Failure::invalid(format!("distribution-mode must be move or copy, not '{other}'")));
            }
        }
        if let Some(outcome) = &source.default_outcome {
            wanted.default_outcome = outcome_of(outcome)?;
        }
        for (name, filter) in source.filter.into_iter().flat_map(|map| map.iter()) {
            wanted.take_filter(name, filter)?;
        }
        for (name, value) in properties.into_iter().flat_map(|map| map.iter()) {
            if matches!(name.as_text(), Some("rabbitmq:priority" | "priority")) {
                let priority = value.as_integer().and_then(|number| i32::try_from(number).ok());
                wanted.arguments.priority = priority.ok_or_else(|| Failure::invalid("a priority must be an int"))?;
            }
        }
        Ok(wanted)
    }

    /// Whether the subscription of the link outlives it.
    pub(super) fn lasts(&self) -> bool {
        self.identity.as_ref().is_some_and(|identity| identity.lasts != Lasts::Links)
    }

    /// What else makes a durable subscription another one (Jakarta Messaging,
    /// `createDurableConsumer`). It is an argument of the binding.
    fn options(&self) -> Table {
        let is_kept = self.no_local && self.identity.is_some();
        Table(if is_kept { vec![(NO_LOCAL_OPTION.to_owned(), broker::Value::Bool(true))] } else { Vec::new() })
    }

    /// Applies a filter that is known. A peer sees in our attach which ones are.
    fn take_filter(&mut self, name: ValueRef<'_>, filter: ValueRef<'_>) -> Result<(), Failure> {
        let ValueRef::Described(described) = filter else { return Ok(()) };
        match descriptor_code(&described.descriptor()) {
            Some(SELECTOR) => {
                let text = described.value().as_text();
                let text = text.ok_or_else(|| Failure::invalid("the filter of a selector must be a string"))?;
                self.arguments.selector = text.to_owned();
            }
            Some(NO_LOCAL) => self.no_local = true,
            _ => return Ok(()),
        }
        self.filters.push((name.into(), filter.into()));
        Ok(())
    }
}

/// What a consumer gets messages from.
pub(super) struct Found {
    pub(super) source: broker::Source,
    /// The queue that goes with the link.
    pub(super) dynamic: Option<Node>,
    /// The address, if this side has made it.
    pub(super) address: Option<String>,
    /// The subscription that the link is of, if that is more than the link.
    pub(super) subscription: Option<Lasting>,
    /// What the answer must wait for.
    pub(super) ticket: Ticket,
}

impl Found {
    fn queue(name: String, ticket: Ticket) -> Self {
        Self { source: name.into(), dynamic: None, address: None, subscription: None, ticket }
    }

    /// The dynamic node of a link that was suspended.
    pub(super) fn again(node: Node) -> Self {
        let address = Some(of_queue(&node.queue));
        Self { dynamic: Some(node.clone()), address, ..Self::queue(node.queue, Ticket::NONE) }
    }

    /// Finds what the source of a link means, and makes what is not there.
    pub(super) fn find(
        client: &mut Client,
        (attach, source): (&Attach<'_>, &Source<'_>),
        wanted: &mut Wanted,
        now: Instant,
    ) -> Result<Self, Failure> {
        if source.dynamic {
            return Self::dynamic(client, (attach, source), wanted, now);
        }
        let address = source.address.ok_or_else(|| Failure::invalid("the source has no address"))?;
        let (exchange, key) = match Address::parse(address, source.capabilities)? {
            Address::Queue(_) | Address::LastingQueue(_) if wanted.identity.is_some() => {
                return Err(Failure::not_built("a durable or shared source that is a queue"));
            }
            Address::Queue(name) => {
                let name = name.into_owned();
                client.check_queue(&name, now)?;
                return Ok(Self::queue(name, Ticket::NONE));
            }
            Address::LastingQueue(name) => {
                let ticket = match client.check_queue(&name, now) {
                    Ok(_) => Ticket::NONE,
                    Err(error) if error.kind == ErrorKind::NotFound => declare(client, &name, now)?,
                    Err(error) => return Err(error.into()),
                };
                return Ok(Self::queue(name.into_owned(), ticket));
            }
            Address::Exchange(name, key) => (name.into_owned(), key.unwrap_or_default().into_owned()),
            Address::Topic(name) => (TOPICS.to_owned(), name.into_owned()),
        };
        Self::subscription(client, (exchange, key), wanted, now)
    }

    fn dynamic(
        client: &mut Client,
        (attach, source): (&Attach<'_>, &Source<'_>),
        wanted: &mut Wanted,
        now: Instant,
    ) -> Result<Self, Failure> {
        if wanted.identity.is_some() {
            return Err(Failure::not_built("a dynamic source that is durable or shared"));
        }
        let made = Dynamic::make(client, source.capabilities, now)?;
        let found = match (made.queue, made.destination) {
            (None, Destination::Fixed { exchange, key: Some(key), .. }) => {
                Self::subscription(client, (exchange, key), wanted, now)?
            }
            (queue, _) => {
                let node = |queue| Node { queue, suspended: Suspended::of(attach) };
                Self { dynamic: queue.clone().map(node), ..Self::queue(queue.unwrap_or_default(), made.ticket) }
            }
        };
        Ok(Self { address: Some(made.address), ..found })
    }

    /// A subscription: with an identity that one, else one that lives as long as its link.
    fn subscription(
        client: &mut Client,
        (exchange, key): (String, String),
        wanted: &mut Wanted,
        now: Instant,
    ) -> Result<Self, Failure> {
        // Each subscription has a copy of its own, so `copy` says nothing new here.
        wanted.browses = false;
        wanted.arguments.mode = Mode::Take;
        let identity = wanted.identity.as_ref();
        let arguments = counting();
        let own = || QueueSpec { exclusive: true, auto_delete: true, arguments, ..QueueSpec::default() };
        let spec = SubscriptionSpec {
            name: identity.map(|identity| identity.name.clone()).unwrap_or_default(),
            sharing: identity.map_or(Sharing::Exclusive, |identity| identity.sharing),
            selector: std::mem::take(&mut wanted.arguments.selector),
            expires: None,
            filters: vec![SubscriptionFilter { exchange, key, arguments: wanted.options() }],
            queue: identity.map_or_else(own, Identity::queue),
            retained: broker::RetainedWanted::None,
        };
        let subscribed = client.subscribe_exactly(&spec, now).map_err(refused)?;
        let name = subscribed.name.clone();
        let subscription = identity.map(|_| Lasting { name, queue: subscribed.queue });
        let source = broker::Source::Subscription(subscribed.name);
        Ok(Self { source, dynamic: None, address: None, subscription, ticket: subscribed.ticket })
    }
}
