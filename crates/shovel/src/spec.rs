//! What is moved from where to where.

use std::time::Duration;

use amqp091::codec::table::Value;

use crate::uri::Uri;

/// What a shovel does.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// Where messages come from.
    pub source: Source,
    /// Where they go.
    pub destination: Destination,
    /// When they are acknowledged.
    pub ack: AckMode,
    /// Messages on their way at most. Besides, they have at most 16 MiB, or are one.
    pub prefetch: u16,
    /// The longest pause before both sides are connected again; `None`: the first failure ends it.
    pub reconnect: Option<Duration>,
    /// When it ends by itself.
    pub extent: Extent,
}

/// The end that messages come from.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// The brokers, of which one is used at a time. At least one.
    pub uris: Vec<Uri>,
    /// What in them.
    pub from: TakeFrom,
}

/// The end that messages go to.
#[derive(Debug, Clone, PartialEq)]
pub struct Destination {
    /// The brokers, of which one is used at a time. At least one.
    pub uris: Vec<Uri>,
    /// What in them.
    pub to: GiveTo,
    /// Properties that each message gets instead of its own; AMQP 0-9-1 only.
    pub properties: Overrides,
    /// What each message is told of the shovel, by name; empty for nothing. By AMQP 0-9-1 these are
    /// fields of the header `x-shovelled`, by AMQP 1.0 they are message annotations.
    pub trail: Vec<(String, String)>,
    /// Whether each message is told the time.
    pub timestamp: Timestamp,
}

/// Whether messages get the time at which they were moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timestamp {
    /// They do not.
    #[default]
    None,
    /// In the header `x-shovelled-timestamp`, in seconds since 1970; by AMQP 1.0 in the annotation
    /// `x-opt-shovelled-timestamp`, in milliseconds.
    Added,
}

/// Where messages come from in a broker.
#[derive(Debug, Clone, PartialEq)]
pub enum TakeFrom {
    /// A queue, by AMQP 0-9-1.
    Queue {
        /// The queue.
        queue: Queue,
        /// Arguments of the consumer.
        consumer: Vec<(String, Value)>,
    },
    /// An exchange, by AMQP 0-9-1: through a queue that lasts as long as the connection.
    Exchange {
        /// Its name.
        name: String,
        /// The key of the binding.
        key: String,
    },
    /// A node, by AMQP 1.0.
    Address(String),
}

/// Where messages go in a broker.
#[derive(Debug, Clone, PartialEq)]
pub enum GiveTo {
    /// A queue, by AMQP 0-9-1.
    Queue(Queue),
    /// An exchange, by AMQP 0-9-1.
    Exchange {
        /// Its name; `None` for the one that each message was published to.
        name: Option<String>,
        /// The routing key; `None` for the one of each message.
        key: Option<String>,
    },
    /// A node, by AMQP 1.0.
    Address(String),
}

impl TakeFrom {
    /// How it is spoken to.
    pub fn protocol(&self) -> Protocol {
        match self {
            Self::Queue { .. } | Self::Exchange { .. } => Protocol::Amqp091,
            Self::Address(_) => Protocol::Amqp10,
        }
    }
}

impl GiveTo {
    /// How it is spoken to.
    pub fn protocol(&self) -> Protocol {
        match self {
            Self::Queue(_) | Self::Exchange { .. } => Protocol::Amqp091,
            Self::Address(_) => Protocol::Amqp10,
        }
    }
}

/// A queue, and what happens if it is not there.
#[derive(Debug, Clone, PartialEq)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// If it is not there.
    pub missing: Missing,
}

/// What happens if a queue is not there.
#[derive(Debug, Clone, PartialEq)]
pub enum Missing {
    /// The shovel waits for it.
    Fail,
    /// It is declared, durable, with these arguments.
    Declare(Vec<(String, Value)>),
}

/// The protocol of one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// AMQP 0-9-1.
    Amqp091,
    /// AMQP 1.0.
    Amqp10,
}

impl Protocol {
    /// Its name in parameters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Amqp091 => "amqp091",
            Self::Amqp10 => "amqp10",
        }
    }
}

/// When a message is acknowledged to its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AckMode {
    /// Once the destination has confirmed it: none is lost.
    #[default]
    OnConfirm,
    /// Once it was given to the destination: a crash may lose some.
    OnPublish,
    /// When the source sends it: a crash may lose some.
    NoAck,
}

/// When a shovel ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extent {
    /// Never.
    #[default]
    Endless,
    /// After as many messages as the source had when it began.
    Present,
    /// After so many messages.
    Count(u64),
}

/// Properties of AMQP 0-9-1 that each message gets instead of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overrides {
    /// Texts by the name of the property.
    pub texts: Vec<(TextProperty, String)>,
    /// `delivery_mode`.
    pub delivery_mode: Option<u8>,
    /// `priority`.
    pub priority: Option<u8>,
    /// `timestamp`, in seconds since 1970.
    pub timestamp: Option<u64>,
}

impl Overrides {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A property that is a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are the names of the specification")]
pub enum TextProperty {
    ContentType,
    ContentEncoding,
    CorrelationId,
    ReplyTo,
    Expiration,
    MessageId,
    Type,
    UserId,
    AppId,
    ClusterId,
}

impl TextProperty {
    /// All of them, by their name in parameters.
    pub const NAMED: [(&'static str, Self); 10] = [
        ("content_type", Self::ContentType),
        ("content_encoding", Self::ContentEncoding),
        ("correlation_id", Self::CorrelationId),
        ("reply_to", Self::ReplyTo),
        ("expiration", Self::Expiration),
        ("message_id", Self::MessageId),
        ("type", Self::Type),
        ("user_id", Self::UserId),
        ("app_id", Self::AppId),
        ("cluster_id", Self::ClusterId),
    ];
}
