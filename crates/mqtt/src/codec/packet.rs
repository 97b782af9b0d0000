//! What packets are: one struct for each kind that has fields (section 3 of MQTT 5).
//!
//! They borrow from the received bytes. Older versions have no properties and no reason codes;
//! there both are empty.

use super::fields::PacketId;
use super::kind::PacketKind;
use super::property::Properties;
use super::reason::Reason;
use super::topic::Filter;
use super::version::{QoS, Version};

/// A packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet<'a> {
    /// See [`Connect`].
    Connect(Connect<'a>),
    /// See [`ConnAck`].
    ConnAck(ConnAck<'a>),
    /// See [`Publish`].
    Publish(Publish<'a>),
    /// A message of quality 1 was taken, or refused.
    PubAck(Ack<'a>),
    /// A message of quality 2 was taken, or refused.
    PubRec(Ack<'a>),
    /// The sender has forgotten the message.
    PubRel(Ack<'a>),
    /// The receiver has forgotten the identifier.
    PubComp(Ack<'a>),
    /// See [`Subscribe`].
    Subscribe(Subscribe<'a>),
    /// The answer to SUBSCRIBE.
    SubAck(Granted<'a>),
    /// See [`Unsubscribe`].
    Unsubscribe(Unsubscribe<'a>),
    /// The answer to UNSUBSCRIBE; before MQTT 5 without reasons.
    UnsubAck(Granted<'a>),
    /// A sign of life.
    PingReq,
    /// The answer to it.
    PingResp,
    /// The connection ends.
    Disconnect(Notice<'a>),
    /// A step of an enhanced log-in.
    Auth(Notice<'a>),
}

impl Packet<'_> {
    /// Its kind.
    pub fn kind(&self) -> PacketKind {
        match self {
            Self::Connect(_) => PacketKind::Connect,
            Self::ConnAck(_) => PacketKind::ConnAck,
            Self::Publish(_) => PacketKind::Publish,
            Self::PubAck(_) => PacketKind::PubAck,
            Self::PubRec(_) => PacketKind::PubRec,
            Self::PubRel(_) => PacketKind::PubRel,
            Self::PubComp(_) => PacketKind::PubComp,
            Self::Subscribe(_) => PacketKind::Subscribe,
            Self::SubAck(_) => PacketKind::SubAck,
            Self::Unsubscribe(_) => PacketKind::Unsubscribe,
            Self::UnsubAck(_) => PacketKind::UnsubAck,
            Self::PingReq => PacketKind::PingReq,
            Self::PingResp => PacketKind::PingResp,
            Self::Disconnect(_) => PacketKind::Disconnect,
            Self::Auth(_) => PacketKind::Auth,
        }
    }
}

/// Whether a client is a bridge of Mosquitto, which says so in the level of its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Peer {
    /// A client.
    #[default]
    Client,
    /// A bridge to another broker.
    Bridge,
}

/// A client asks to be let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Connect<'a> {
    /// The version of the connection.
    pub version: Version,
    /// What the client is.
    pub peer: Peer,
    /// It begins a new session (before MQTT 5: clean session).
    pub clean_start: bool,
    /// The most seconds between two packets of the client; 0 for no bound.
    pub keep_alive: u16,
    /// Its properties.
    pub properties: Properties<'a>,
    /// Its identifier; empty if the server must choose one.
    pub client_id: &'a str,
    /// The message that is published if the connection ends without a DISCONNECT.
    pub will: Option<Will<'a>>,
    /// The name of the user.
    pub user: Option<&'a str>,
    /// The password.
    pub password: Option<&'a [u8]>,
}

/// The will of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Will<'a> {
    /// Its quality.
    pub qos: QoS,
    /// It becomes the value of its topic.
    pub retain: bool,
    /// Its properties.
    pub properties: Properties<'a>,
    /// Its topic.
    pub topic: &'a str,
    /// Its payload.
    pub payload: &'a [u8],
}

/// The answer to CONNECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnAck<'a> {
    /// The server had a session of this client; always false in MQTT 3.1.
    pub session_present: bool,
    /// Whether the client is let in.
    pub reason: Reason,
    /// Its properties.
    pub properties: Properties<'a>,
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Publish<'a> {
    /// It may have been sent before.
    pub dup: bool,
    /// Its quality.
    pub qos: QoS,
    /// It becomes the value of its topic; from a server: it was that.
    pub retain: bool,
    /// Its topic; empty if an alias stands for it.
    pub topic: &'a str,
    /// Its identifier, which all but quality 0 have.
    pub id: Option<PacketId>,
    /// Its properties.
    pub properties: Properties<'a>,
    /// The message itself.
    pub payload: &'a [u8],
}

/// An answer to a message, or to such an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack<'a> {
    /// The message's identifier.
    pub id: PacketId,
    /// What became of it.
    pub reason: Reason,
    /// Its properties.
    pub properties: Properties<'a>,
}

impl Ack<'_> {
    /// One that says that all is well.
    pub fn success(id: PacketId) -> Self {
        Self { id, reason: Reason::Success, properties: Properties::NONE }
    }
}

/// Which retained messages a subscription gets first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RetainHandling {
    /// All that match.
    #[default]
    Send = 0,
    /// All that match, if the subscription is new.
    SendIfNew = 1,
    /// None.
    Never = 2,
}

/// The options of a subscription (section 3.8.3.1 of MQTT 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// The highest quality that it gets.
    pub qos: QoS,
    /// It does not get what its own client publishes.
    pub no_local: bool,
    /// Its messages keep the flag RETAIN as they were published.
    pub retain_as_published: bool,
    /// Which retained messages it gets first.
    pub retain_handling: RetainHandling,
}

/// A client asks for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subscribe<'a> {
    /// Its identifier.
    pub id: PacketId,
    /// Its properties.
    pub properties: Properties<'a>,
    /// What it asks for: at least one filter.
    pub filters: SubscribeFilters<'a>,
}

/// The filters of a SUBSCRIBE with their options, as received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubscribeFilters<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) version: Version,
}

/// A filter of a SUBSCRIBE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked<'a> {
    /// As written.
    pub written: &'a str,
    /// What it asks for.
    pub filter: Filter<'a>,
    /// How.
    pub options: Options,
}

/// A client ends subscriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsubscribe<'a> {
    /// Its identifier.
    pub id: PacketId,
    /// Its properties.
    pub properties: Properties<'a>,
    /// Which it ends: at least one.
    pub filters: Filters<'a>,
}

/// The filters of an UNSUBSCRIBE, as received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filters<'a>(pub(super) &'a [u8]);

/// An answer with a reason for each filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted<'a> {
    /// The identifier of what it answers.
    pub id: PacketId,
    /// Its properties.
    pub properties: Properties<'a>,
    /// The codes, one for each filter, in their order.
    pub reasons: Reasons<'a>,
}

/// Reason codes, as bytes that were checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reasons<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) kind: PacketKind,
    pub(super) version: Version,
}

impl<'a> Reasons<'a> {
    /// All of them.
    pub fn iter(self) -> impl Iterator<Item = Reason> + use<'a> {
        self.bytes.iter().filter_map(move |code| Reason::read(*code, self.kind, self.version))
    }
}

/// A packet with a reason and properties alone: DISCONNECT and AUTH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice<'a> {
    /// Why.
    pub reason: Reason,
    /// Its properties.
    pub properties: Properties<'a>,
}

impl Notice<'_> {
    /// Without properties.
    pub fn plain(reason: Reason) -> Self {
        Self { reason, properties: Properties::NONE }
    }
}
