//! The arguments of queues, exchanges and consumers, with RabbitMQ's names, rules and reply texts.
//!
//! No argument is ignored unseen. An `x-` argument is understood, or has no effect in RabbitMQ
//! either and is shown so ([`idle`]), or is refused by name. [`UnknownArguments`] can have unknown
//! ones shown so too. Arguments without `x-` are the application's and are only stored.

pub(crate) mod consumer;
pub(crate) mod copies;
pub(crate) mod dead_letters;
pub(crate) mod deduplication;
mod equivalence;
mod groups;
pub(crate) mod idle;
mod retry;

use std::sync::{Arc, LazyLock};

pub(crate) use self::dead_letters::Ways;
pub(crate) use self::deduplication::Remember;
pub(crate) use self::equivalence::{Declared, DeclaredExchange, exchange_inequivalence, inequivalence};
pub(crate) use self::groups::{ENABLED as MESSAGE_GROUPS, Grouping};
pub(crate) use self::retry::{Retry, ReturnCause};
use crate::arguments::copies::CopyRule;
use crate::clock::LONGEST_SPAN_MS;
use crate::encoding::check_depth;
use crate::error::Error;
use crate::routing::{ExchangeKind, HASH_HEADER, HASH_PROPERTY, HashOn};
use crate::settings::UnknownArguments;
use crate::value::{Table, Value};

pub(crate) const QUEUE_TYPE: &str = "x-queue-type";
pub(crate) const CONSUMER_TIMEOUT: &str = "x-consumer-timeout";
/// An unused queue is deleted only while it is empty.
const IF_EMPTY: &str = "x-expires-if-empty";
const DISCONNECTED_TIMEOUT: &str = "x-consumer-disconnected-timeout";
/// The name of the property that is the key of a last value.
const LAST_VALUE_KEY: &str = "x-last-value-key";
/// The kind that a delayed exchange routes as.
const DELAYED_TYPE: &str = "x-delayed-type";
const ALTERNATE_EXCHANGE: &str = "alternate-exchange";
/// Messages of higher priority go first, as in a quorum queue.
const STRICT_PRIORITY: &str = "x-strict-priority";
/// It is counted how often a message comes back.
const COUNT_RETURNS: &str = "x-count-returns";
/// Arguments that say how a queue delivers, and nothing that a later declaration relies on. One
/// that does not name them equals one that does.
const NEED_NOT_BE_REPEATED: [&str; 3] = [STRICT_PRIORITY, COUNT_RETURNS, dead_letters::MADE_FOR];

/// The longest text that AMQP 0-9-1 can carry as a name or key.
const LONGEST_NAME: usize = 255;

/// The values for a queue's node; there is one node.
const LOCATORS: &[&str] = &["client-local", "balanced", "random", "least-leaders", "min-masters"];

/// How often a quorum queue delivers a message before it dies, without an argument.
const QUORUM_DELIVERY_LIMIT: u64 = 20;

/// Types that some clients send to mean none.
const UNSAID: [&str; 2] = ["", "undefined"];

/// The names of arguments of a classic queue, including those refused as not built.
const CLASSIC: &[&str] = &[
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    dead_letters::QUEUE,
    dead_letters::MADE_FOR,
    dead_letters::EXPIRY_EXCHANGE,
    "x-expiry-routing-key",
    dead_letters::EXPIRY_QUEUE,
    IF_EMPTY,
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-overflow",
    "x-queue-mode",
    "x-queue-version",
    "x-single-active-consumer",
    CONSUMER_TIMEOUT,
    QUEUE_TYPE,
    "x-queue-master-locator",
    "x-queue-leader-locator",
    deduplication::ENABLED,
    deduplication::SIZE,
    deduplication::TTL,
    retry::TYPE,
    retry::MIN,
    retry::MAX,
    retry::MULTIPLIER,
    LAST_VALUE_KEY,
    groups::ENABLED,
    groups::BUCKETS,
    groups::REBALANCE,
    copies::TO,
    copies::SELECTOR,
    STRICT_PRIORITY,
    COUNT_RETURNS,
];

/// The names of arguments of a quorum queue, including those refused as not built.
const QUORUM: &[&str] = &[
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    dead_letters::QUEUE,
    dead_letters::MADE_FOR,
    "x-dead-letter-strategy",
    dead_letters::EXPIRY_EXCHANGE,
    "x-expiry-routing-key",
    dead_letters::EXPIRY_QUEUE,
    "x-expires",
    IF_EMPTY,
    "x-max-length",
    "x-max-length-bytes",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-overflow",
    "x-single-active-consumer",
    QUEUE_TYPE,
    "x-quorum-initial-group-size",
    "x-member-placement-tag",
    "x-delivery-limit",
    "x-message-ttl",
    "x-queue-leader-locator",
    DISCONNECTED_TIMEOUT,
    CONSUMER_TIMEOUT,
    retry::TYPE,
    retry::MIN,
    retry::MAX,
    retry::MULTIPLIER,
    deduplication::ENABLED,
    deduplication::SIZE,
    deduplication::TTL,
    LAST_VALUE_KEY,
    groups::ENABLED,
    groups::BUCKETS,
    groups::REBALANCE,
    copies::TO,
    copies::SELECTOR,
    STRICT_PRIORITY,
    COUNT_RETURNS,
];

/// The names of arguments that only a stream has.
const STREAM: &[&str] =
    &["x-max-age", "x-stream-max-segment-size-bytes", "x-stream-filter-size-bytes", "x-initial-cluster-size"];

/// The type of an argument's value, for texts that stand for values.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ArgumentKind {
    /// Text.
    Text,
    /// A whole number.
    Number,
    /// `true` or `false`.
    Truth,
}

/// The type of the value of a queue argument; `None` for a name that no queue type has. Not every
/// queue type takes every name.
pub fn queue_argument(name: &str) -> Option<ArgumentKind> {
    if !name.starts_with("x-") || ![CLASSIC, QUORUM, STREAM].iter().any(|known| known.contains(&name)) {
        return None;
    }
    Some(match name {
        "x-single-active-consumer"
        | IF_EMPTY
        | STRICT_PRIORITY
        | COUNT_RETURNS
        | deduplication::ENABLED
        | groups::ENABLED
        | groups::REBALANCE => ArgumentKind::Truth,
        "x-dead-letter-exchange"
        | "x-dead-letter-routing-key"
        | dead_letters::QUEUE
        | dead_letters::EXPIRY_QUEUE
        | dead_letters::MADE_FOR
        | copies::TO
        | copies::SELECTOR
        | "x-dead-letter-strategy"
        | dead_letters::EXPIRY_EXCHANGE
        | "x-expiry-routing-key"
        | retry::MULTIPLIER
        | "x-overflow"
        | "x-queue-mode"
        | QUEUE_TYPE
        | "x-queue-leader-locator"
        | "x-queue-master-locator"
        | "x-member-placement-tag"
        | "x-max-age"
        | LAST_VALUE_KEY
        | retry::TYPE => ArgumentKind::Text,
        _ => ArgumentKind::Number,
    })
}

/// The promises of a queue, and the arguments that it takes.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum QueueType {
    /// The default.
    #[default]
    Classic,
    /// Durable, shared, and with a delivery limit.
    Quorum,
}

impl QueueType {
    /// The value of `x-queue-type`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Quorum => "quorum",
        }
    }

    /// The name that RabbitMQ gives to the type in errors.
    pub(crate) fn module(self) -> &'static str {
        match self {
            Self::Classic => "rabbit_classic_queue",
            Self::Quorum => "rabbit_quorum_queue",
        }
    }

    /// The arguments that a queue with this declaration may have. A declared type takes its own
    /// list, as in RabbitMQ. A queue without one takes those of every type together, since it
    /// promises no more than it can keep.
    fn lists(table: &Table) -> &'static [&'static [&'static str]] {
        match (Self::of(table), table.get(QUEUE_TYPE).and_then(Value::as_text)) {
            (Ok(Self::Quorum), _) => &[QUORUM],
            (Ok(Self::Classic), Some(name)) if !UNSAID.contains(&name) => &[CLASSIC],
            _ => &[CLASSIC, QUORUM],
        }
    }

    /// The type in a declaration, or the error in its `x-queue-type`.
    fn of(table: &Table) -> Result<Self, String> {
        match table.get(QUEUE_TYPE) {
            None => Ok(Self::Classic),
            Some(Value::Text(name)) => match name.as_str() {
                "classic" => Ok(Self::Classic),
                name if UNSAID.contains(&name) => Ok(Self::Classic),
                "quorum" => Ok(Self::Quorum),
                "stream" => Err(NOT_BUILT.to_owned()),
                other => Err(format!("\"unsupported queue type '{other}'\"")),
            },
            Some(other) => Err(unacceptable(other)),
        }
    }
}

/// True for a default type of a vhost that says no more than none does. Its queues then take the
/// arguments of every type.
pub(crate) fn is_no_choice(name: &str) -> bool {
    name == QueueType::Classic.name() || UNSAID.contains(&name)
}

/// Checks a default type for queues.
pub(crate) fn check_queue_type(name: &str) -> Result<(), String> {
    QueueType::of(&Table(vec![(QUEUE_TYPE.to_owned(), Value::Text(name.to_owned()))])).map(drop)
}

/// The effect of a length limit.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Overflow {
    /// The oldest messages go.
    #[default]
    DropHead,
    /// The new message is refused.
    RejectPublish,
    /// The new message is refused, and goes to the dead-letter exchange.
    RejectPublishDeadLetter,
}

impl Overflow {
    /// True when new messages are refused.
    pub(crate) fn refuses(self) -> bool {
        self != Self::DropHead
    }
}

/// The parsed arguments of a queue.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct QueueArguments {
    /// `x-queue-type`.
    pub(crate) queue_type: QueueType,
    /// `x-message-ttl`: how long a message stays, in milliseconds. With 0 it expires unless it can
    /// be delivered at once.
    pub(crate) message_ttl: Option<u64>,
    /// When it is deleted because it is not used.
    pub(crate) disuse: Disuse,
    /// `x-max-length`, in messages that are ready.
    pub(crate) max_length: Option<u64>,
    /// `x-max-length-bytes`, in bytes of bodies that are ready.
    pub(crate) max_length_bytes: Option<u64>,
    /// Which messages go first, and whether it is counted how often they come back.
    delivering: Delivering,
    /// `x-single-active-consumer`: one consumer at a time gets messages, and another one when it
    /// goes.
    pub(crate) single_active_consumer: bool,
    /// `x-consumer-timeout`: how long a consumer may hold a delivery, in milliseconds; 0 is for any
    /// time.
    pub(crate) consumer_timeout: Option<u64>,
    /// `x-overflow`.
    pub(crate) overflow: Overflow,
    /// The ways of its dead letters.
    pub(crate) dead_letters: Ways,
    /// `x-delivery-limit`; `None` is no limit.
    pub(crate) delivery_limit: Option<u64>,
    /// What becomes of messages that come.
    pub(crate) intake: Intake,
    /// `x-message-groups`: the messages of a group go to one consumer.
    pub(crate) grouping: Option<Grouping>,
    /// `x-delayed-retry-type`: messages that come back wait before they are delivered again.
    pub(crate) retry: Option<Retry>,
}

/// What becomes of messages that come to a queue.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Intake {
    /// `x-message-deduplication`: a message whose id is remembered is dropped.
    pub(crate) deduplication: Option<Remember>,
    /// `x-last-value-key`: only the newest of the messages with one value of this header waits.
    pub(crate) last_value_key: Option<String>,
    /// `x-copy-to`: another queue gets them, too.
    pub(crate) copies: Option<Arc<CopyRule>>,
}

/// What is said about deliveries alone.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
struct Delivering {
    /// `x-max-priority`, 1 to 255: the highest priority that is told apart.
    max_priority: Option<u8>,
    /// `x-strict-priority`: priorities are told apart as in a quorum queue.
    strict_priority: bool,
    /// `x-count-returns`: it is counted how often messages come back, though nothing depends on it.
    count_returns: bool,
}

/// How a queue ranks its messages.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ranks {
    /// In the order of their arrival.
    None,
    /// By priorities up to this one; none is 0.
    UpTo(u8),
    /// By priorities up to 31; none is 4, which is the usual one of AMQP 1.0 and Jakarta Messaging.
    Strict,
}

/// When an unused queue is deleted.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Disuse {
    /// `x-expires`: the time without use, in milliseconds, at least 1.
    pub(crate) after: Option<u64>,
    /// `x-expires-if-empty`: only while it is empty. This is true of an auto-delete queue, too.
    pub(crate) only_empty: bool,
}

/// The text of a refusal for an unknown argument.
const UNKNOWN: &str =
    ": unknown; arguments of the application must not begin with x-, unless compat.unknown_arguments is accept";

/// The end of a refusal for a feature that Hermod does not have.
const NOT_BUILT: &str = "not implemented yet";

impl QueueArguments {
    /// These arguments; all queues without any share one piece of memory.
    pub(crate) fn shared(self) -> Arc<Self> {
        static NONE: LazyLock<Arc<QueueArguments>> = LazyLock::new(Arc::default);
        if self == **NONE { Arc::clone(&NONE) } else { Arc::new(self) }
    }

    /// The parsed arguments of queue `name` in `vhost`, or an error of kind `Precondition`. It
    /// names the first argument that is wrong, belongs to another type of queue, or is not built.
    /// Arguments nested too deep to be stored are refused too. Stored declarations are parsed with
    /// unknown arguments, whatever the setting is now.
    pub(crate) fn parse(name: &str, vhost: &str, table: &Table, unknown: UnknownArguments) -> Result<Self, Error> {
        let invalid = |argument: &str, what: &str| {
            Error::precondition(format!("invalid arg '{argument}' for queue '{name}' in vhost '{vhost}'{what}"))
        };
        check_depth(table)?;
        let queue_type = QueueType::of(table).map_err(|what| invalid(QUEUE_TYPE, &format!(": {what}")))?;
        let delivery_limit = match queue_type {
            QueueType::Classic => None,
            QueueType::Quorum => Some(QUORUM_DELIVERY_LIMIT),
        };
        let mut parsed = Self { queue_type, delivery_limit, ..Self::default() };
        let lists = QueueType::lists(table);
        for argument in lists.iter().copied().flatten() {
            if let Some(value) = table.get(argument) {
                parsed.take(argument, value, table).map_err(|what| invalid(argument, &format!(": {what}")))?;
            }
        }
        parsed.dead_letters.name_queues(name);
        if parsed.intake.copies.as_ref().is_some_and(|rule| *rule.to == *name) {
            return Err(invalid(copies::TO, ": a queue can't get copies of its own messages"));
        }
        for (argument, _) in &table.0 {
            let argument = argument.as_str();
            let takes = |argument: &str| lists.iter().any(|list| list.contains(&argument)) || idle::is_legacy(argument);
            if !argument.starts_with("x-") || takes(argument) {
                continue;
            }
            let elsewhere = [CLASSIC, QUORUM, STREAM].into_iter().any(|known| known.contains(&argument));
            match unknown {
                _ if elsewhere => return Err(invalid(argument, &format!(" of queue type {}", queue_type.module()))),
                UnknownArguments::Refuse => return Err(invalid(argument, UNKNOWN)),
                UnknownArguments::Accept => {}
            }
        }
        Ok(parsed)
    }

    /// The same for a stored declaration. It may be of a version that took any timeout, and of
    /// another setting.
    pub(crate) fn parse_stored(name: &str, vhost: &str, table: &Table) -> Result<Self, Error> {
        let mut bounded = table.clone();
        bounded.0.iter_mut().for_each(|(argument, value)| bound_stored(argument, value));
        Self::parse(name, vhost, &bounded, UnknownArguments::Accept)
    }

    /// Parses the routing key of dead letters. The exchange stands before it in every list of
    /// arguments.
    fn take_routing_key(&mut self, value: &Value, table: &Table) -> Result<(), String> {
        let key = name(value)?;
        if table.get(dead_letters::EXCHANGE).is_none() {
            return Err("routing_key_but_no_dlx_defined".to_owned());
        }
        if let Some(way) = &mut self.dead_letters.usual {
            way.routing_key = Some(key);
        }
        Ok(())
    }

    /// The same of the routing key of expired messages.
    fn take_expiry_key(&mut self, value: &Value, table: &Table) -> Result<(), String> {
        let key = name(value)?;
        if table.get(dead_letters::EXPIRY_EXCHANGE).is_none() {
            return Err(format!("has no effect without {}", dead_letters::EXPIRY_EXCHANGE));
        }
        if let Some(way) = &mut self.dead_letters.expired {
            way.routing_key = Some(key);
        }
        Ok(())
    }

    /// Parses `x-strict-priority`.
    fn strict(&self, value: &Value, table: &Table) -> Result<bool, String> {
        let strict = truth(value)?;
        if strict && table.get("x-max-priority").is_some() {
            return Err("contradicts x-max-priority: declare one of both".to_owned());
        }
        if !strict && self.queue_type == QueueType::Quorum {
            return Err("a quorum queue always tells priorities apart".to_owned());
        }
        Ok(strict)
    }

    /// How it ranks messages.
    #[inline]
    pub(crate) fn ranks(&self) -> Ranks {
        match self.delivering.max_priority {
            _ if self.delivering.strict_priority || self.queue_type == QueueType::Quorum => Ranks::Strict,
            Some(most) => Ranks::UpTo(most),
            None => Ranks::None,
        }
    }

    /// Parses one argument, or says what is wrong with it.
    fn take(&mut self, argument: &str, value: &Value, table: &Table) -> Result<(), String> {
        match argument {
            // Read before all others, since they depend on it.
            QUEUE_TYPE => {}
            "x-message-ttl" => self.message_ttl = Some(span(value)?),
            "x-expires" => self.disuse.after = Some(positive_span(value)?),
            IF_EMPTY => self.disuse.only_empty = truth(value)?,
            "x-max-length" => self.max_length = Some(non_negative(value)?),
            "x-max-length-bytes" => self.max_length_bytes = Some(non_negative(value)?),
            "x-max-priority" => self.delivering.max_priority = Some(priority(value)?),
            STRICT_PRIORITY => self.delivering.strict_priority = self.strict(value, table)?,
            COUNT_RETURNS => self.delivering.count_returns = truth(value)?,
            retry::TYPE | retry::MIN | retry::MAX | retry::MULTIPLIER => self.take_retry(argument, value, table)?,
            deduplication::ENABLED | deduplication::SIZE | deduplication::TTL => {
                self.take_deduplication(argument, value, table)?;
            }
            LAST_VALUE_KEY => self.intake.last_value_key = Some(header(value)?),
            copies::TO | copies::SELECTOR => self.take_copies(argument, value, table)?,
            groups::ENABLED | groups::BUCKETS | groups::REBALANCE => self.take_groups(argument, value, table)?,
            "x-overflow" => self.overflow = overflow(value)?,
            dead_letters::EXCHANGE
            | dead_letters::EXPIRY_EXCHANGE
            | dead_letters::QUEUE
            | dead_letters::EXPIRY_QUEUE
            | dead_letters::MADE_FOR => self.dead_letters.take(argument, value, table)?,
            "x-dead-letter-routing-key" => self.take_routing_key(value, table)?,
            "x-expiry-routing-key" => self.take_expiry_key(value, table)?,
            // A negative number is no limit.
            "x-delivery-limit" => self.delivery_limit = u64::try_from(integer(value)?).ok(),
            // A move is a group of the log, so it always happens exactly once.
            "x-dead-letter-strategy" => {
                if !matches!(word(value)?, "at-most-once" | "at-least-once") {
                    return Err("invalid_dlx_strategy".to_owned());
                }
            }
            "x-single-active-consumer" => self.single_active_consumer = truth(value)?,
            CONSUMER_TIMEOUT => self.consumer_timeout = Some(span(value)?),
            // The others have no effect in current RabbitMQ either, or none with one node.
            "x-queue-mode" => {
                if !matches!(word(value)?, "default" | "lazy") {
                    return Err("invalid_queue_mode".to_owned());
                }
            }
            "x-queue-version" => {
                let version = non_negative(value)?;
                if !matches!(version, 1 | 2) {
                    return Err(format!("\"unsupported queue version '{version}'\""));
                }
            }
            "x-max-in-memory-length" | "x-max-in-memory-bytes" => drop(non_negative(value)?),
            DISCONNECTED_TIMEOUT => drop(span(value)?),
            "x-queue-leader-locator" | "x-queue-master-locator" => {
                if !LOCATORS.contains(&word(value)?) {
                    return Err("invalid_queue_locator_arg".to_owned());
                }
            }
            "x-member-placement-tag" => {
                if word(value)?.is_empty() {
                    return Err("invalid_member_placement_tag_arg".to_owned());
                }
            }
            "x-quorum-initial-group-size" => {
                positive(value)?;
            }
            _ => return Err(NOT_BUILT.to_owned()),
        }
        Ok(())
    }
}

/// The parsed arguments of an exchange.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ExchangeArguments {
    /// `alternate-exchange`: takes the messages that no binding of the exchange matches. The empty
    /// name is the default exchange.
    pub(crate) alternate: Option<String>,
    /// The value that a consistent-hash exchange hashes.
    pub(crate) hash_on: HashOn,
    /// How long an exchange that drops duplicates remembers ids.
    pub(crate) remember: Option<Remember>,
    /// The kind that it routes as: declared for a delayed exchange, its own for any other.
    pub(crate) routes_as: ExchangeKind,
}

/// The arguments that exchanges of this kind know besides `alternate-exchange`.
pub(crate) fn known_to(kind: ExchangeKind) -> &'static [&'static str] {
    match kind {
        ExchangeKind::ConsistentHash => &[HASH_HEADER, HASH_PROPERTY],
        ExchangeKind::Delayed => &[DELAYED_TYPE, HASH_HEADER, HASH_PROPERTY],
        ExchangeKind::Deduplication => &[deduplication::SIZE, deduplication::TTL, deduplication::PERSISTENCE],
        _ => &[],
    }
}

impl ExchangeArguments {
    /// Those of an exchange that was declared without any.
    pub(crate) fn none(kind: ExchangeKind) -> Self {
        Self { alternate: None, hash_on: HashOn::default(), remember: None, routes_as: kind }
    }

    /// The parsed arguments of exchange `name` in `vhost`, or an error of kind `Precondition`. It
    /// names the first argument that is wrong or not built. Arguments nested too deep to be stored
    /// are refused too.
    pub(crate) fn parse(
        kind: ExchangeKind,
        name: &str,
        vhost: &str,
        table: &Table,
        unknown: UnknownArguments,
    ) -> Result<Self, Error> {
        check_depth(table)?;
        let takes = |argument: &str| known_to(kind).contains(&argument) || idle::is_legacy(argument);
        let is_unknown = |argument: &str| argument.starts_with("x-") && !takes(argument);
        let first = table.0.iter().find(|(argument, _)| is_unknown(argument));
        if let (UnknownArguments::Refuse, Some((argument, _))) = (unknown, first) {
            return Err(Error::precondition(format!(
                "invalid arg '{argument}' for exchange '{name}' in vhost '{vhost}': unknown; arguments of the application \
                 must not begin with x-, unless compat.unknown_arguments is accept"
            )));
        }
        let alternate = match table.get(ALTERNATE_EXCHANGE) {
            None => None,
            Some(Value::Text(alternate)) => Some(alternate.clone()),
            Some(other) => {
                return Err(Error::precondition(format!(
                    "invalid type '{}' for arg '{ALTERNATE_EXCHANGE}' in exchange '{name}' in vhost '{vhost}'",
                    other.type_name()
                )));
            }
        };
        let routes_as = match kind {
            ExchangeKind::Delayed => delayed_type(table).map_err(Error::precondition)?,
            kind => kind,
        };
        let hash_on = match routes_as {
            ExchangeKind::ConsistentHash => HashOn::of(table).map_err(Error::precondition)?,
            _ => HashOn::default(),
        };
        let remember = match kind {
            ExchangeKind::Deduplication => Some(Remember::of_exchange(table).map_err(Error::precondition)?),
            _ => None,
        };
        Ok(Self { alternate, hash_on, remember, routes_as })
    }
}

/// The kind that a delayed exchange routes as, or the error in it in the words of RabbitMQ's
/// plugin.
fn delayed_type(table: &Table) -> Result<ExchangeKind, String> {
    let name = table.get(DELAYED_TYPE).and_then(Value::as_text);
    match name.map(|name| (name, ExchangeKind::parse(name))) {
        Some((_, Some(ExchangeKind::Delayed))) => {
            Err(format!("Invalid argument, 'x-delayed-message' can't be used for '{DELAYED_TYPE}'"))
        }
        // There is no argument for its cache.
        Some((_, Some(ExchangeKind::Deduplication))) => Err(format!(
            "Invalid argument, 'x-message-deduplication' can't be used for '{DELAYED_TYPE}'; bind one to the other"
        )),
        Some((_, Some(kind))) => Ok(kind),
        Some((name, None)) => Err(format!("unknown exchange type '{name}'")),
        None => Err(format!("Invalid argument, '{DELAYED_TYPE}' must be an existing exchange type")),
    }
}

/// Checks the value of one argument, whatever the type of the queue. `others` has those that come
/// with it; the exchange of a routing key may be another's to set.
pub(crate) fn check_value(argument: &str, value: &Value, others: &Table) -> Result<(), String> {
    let mut all = others.clone();
    for exchange in dead_letters::exchanges_of_others(others) {
        all.set(exchange, Value::Text(String::new()));
    }
    QueueArguments::default().take(argument, value, &all)
}

fn truth(value: &Value) -> Result<bool, String> {
    match value {
        Value::Bool(truth) => Ok(*truth),
        other => Err(unacceptable(other)),
    }
}

fn unacceptable(value: &Value) -> String {
    format!("{{unacceptable_type,{}}}", value.type_name())
}

fn integer(value: &Value) -> Result<i64, String> {
    value.as_integer().ok_or_else(|| format!("\"expected integer, got {}\"", value.type_name()))
}

fn non_negative(value: &Value) -> Result<u64, String> {
    let number = integer(value)?;
    u64::try_from(number).map_err(|_| format!("{{value_negative,{number}}}"))
}

fn positive(value: &Value) -> Result<u64, String> {
    match non_negative(value)? {
        0 => Err("{value_zero,0}".to_owned()),
        number => Ok(number),
    }
}

/// A span of time in milliseconds.
fn span(value: &Value) -> Result<u64, String> {
    match non_negative(value)? {
        ms if ms > LONGEST_SPAN_MS => Err(format!("{{value_too_large,{ms}}}")),
        ms => Ok(ms),
    }
}

fn positive_span(value: &Value) -> Result<u64, String> {
    positive(value).and_then(|_| span(value))
}

/// Lowers a stored timeout to the bound that later versions have, so that its owner is still there.
pub(crate) fn bound_stored(argument: &str, value: &mut Value) {
    let most = LONGEST_SPAN_MS as i64;
    if [CONSUMER_TIMEOUT, DISCONNECTED_TIMEOUT].contains(&argument) && value.as_integer().is_some_and(|ms| ms > most) {
        *value = Value::I64(most);
    }
}

/// RabbitMQ takes 0 for 1.
fn priority(value: &Value) -> Result<u8, String> {
    let number = non_negative(value)?;
    u8::try_from(number).map(|number| number.max(1)).map_err(|_| format!("{{max_value_exceeded,{number}}}"))
}

fn word(value: &Value) -> Result<&str, String> {
    value.as_text().ok_or_else(|| unacceptable(value))
}

/// Text that must fit into a name or key on delivery.
fn name(value: &Value) -> Result<String, String> {
    let text = word(value)?;
    if text.len() > LONGEST_NAME {
        return Err(format!("{} bytes are too long; at most {LONGEST_NAME} are allowed", text.len()));
    }
    Ok(text.to_owned())
}

/// The name of a header.
fn header(value: &Value) -> Result<String, String> {
    Some(name(value)?).filter(|name| !name.is_empty()).ok_or_else(|| "expected the name of a header".to_owned())
}

fn overflow(value: &Value) -> Result<Overflow, String> {
    match word(value)? {
        "drop-head" => Ok(Overflow::DropHead),
        "reject-publish" => Ok(Overflow::RejectPublish),
        "reject-publish-dlx" => Ok(Overflow::RejectPublishDeadLetter),
        _ => Err("invalid_overflow".to_owned()),
    }
}

#[cfg(test)]
mod tests;
