//! Why received bytes are not a packet: the rule that they break, with its number in the
//! specification.
//!
//! Numbers are those of MQTT 5.0. A rule without one is named by its section. After any of these
//! the connection ends [MQTT-4.13.1-1].

use std::fmt;

use super::kind::PacketKind;
use super::reason::Reason;

/// A rule that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// A packet of type 0, or one that this version does not have.
    UnknownKind,
    /// Flags of the fixed header that its kind does not allow.
    Flags,
    /// A number of variable length with more than four bytes, or with more than it needs.
    VariableNumber,
    /// More bytes than this side takes.
    TooLarge(u32),
    /// Its parts need more bytes than it has.
    Truncated,
    /// Bytes follow its last part.
    Trailing,
    /// A text that is no well-formed UTF-8.
    NotUtf8,
    /// A text with U+0000.
    NulInText,
    /// A property that does not exist, or not in this packet.
    Property(u8),
    /// A property that is there twice.
    PropertyTwice(u8),
    /// A property with a value that it must not have.
    PropertyValue(u8),
    /// Data of an enhanced log-in without its method.
    DataWithoutMethod,
    /// A reason code that means nothing in this packet.
    ReasonCode(u8),
    /// A packet identifier of 0.
    PacketIdZero,
    /// A protocol name and level that belong to no version.
    Protocol,
    /// The reserved flag of CONNECT.
    ConnectReserved,
    /// A will of quality 3.
    WillQos,
    /// Flags of a will that is not there.
    NoWill,
    /// A password without a user name, before MQTT 5.
    PasswordAlone,
    /// A reserved flag of CONNACK.
    ConnAckFlags,
    /// A message of quality 3.
    PublishQos,
    /// A message of quality 0 that claims to be sent again.
    PublishDup,
    /// A message without a topic.
    NoTopic,
    /// A topic name with `+` or `#`.
    TopicWildcard,
    /// A topic for answers with `+` or `#`.
    ResponseWildcard,
    /// A topic alias of 0.
    AliasZero,
    /// SUBSCRIBE or UNSUBSCRIBE without a filter.
    NoFilter,
    /// An empty filter.
    FilterEmpty,
    /// A filter in which `#` is not the last level, alone in it.
    FilterHash,
    /// A filter in which `+` is not alone in its level.
    FilterPlus,
    /// A shared subscription whose name is empty or has wildcards, or that has no filter.
    ShareName,
    /// A subscription of quality 3.
    SubscribeQos,
    /// A subscription with the retain handling 3.
    RetainHandling,
    /// Reserved bits in the options of a subscription.
    OptionsReserved,
    /// A shared subscription with no-local.
    SharedNoLocal,
}

impl Violation {
    /// The reason code to close with, the number of the statement or section, and what is wrong.
    fn facts(self) -> (Reason, &'static str, &'static str) {
        use Reason::{Malformed, ProtocolError, TopicFilterInvalid, TopicNameInvalid};
        match self {
            Self::UnknownKind => (Malformed, "2.1.2", "this type of packet is reserved"),
            Self::Flags => (Malformed, "MQTT-2.1.3-1", "the flags of the fixed header are not those of its type"),
            Self::VariableNumber => {
                (Malformed, "MQTT-1.5.5-1", "a variable byte integer is longer than it needs to be")
            }
            Self::TooLarge(_) => (Reason::PacketTooLarge, "MQTT-3.2.2-15", "the packet is larger than the maximum"),
            Self::Truncated => (Malformed, "2.1.4", "the packet ends before its last field"),
            Self::Trailing => (Malformed, "2.1.4", "bytes follow the last field"),
            Self::NotUtf8 => (Malformed, "MQTT-1.5.4-1", "a string is not well-formed UTF-8"),
            Self::NulInText => (Malformed, "MQTT-1.5.4-2", "a string contains U+0000"),
            Self::Property(_) => (Malformed, "2.2.2.2", "this packet has no such property"),
            Self::PropertyTwice(_) => (ProtocolError, "2.2.2.2", "a property that may be there once is there twice"),
            Self::PropertyValue(_) => (ProtocolError, "2.2.2.2", "a property has a value that it must not have"),
            Self::DataWithoutMethod => (ProtocolError, "3.1.2.11.10", "authentication data needs its method"),
            Self::ReasonCode(_) => (Malformed, "2.4", "this packet has no such reason code"),
            Self::PacketIdZero => (ProtocolError, "MQTT-2.2.1-3", "the packet identifier is 0"),
            Self::Protocol => {
                (Reason::UnsupportedVersion, "MQTT-3.1.2-1", "the protocol is none of MQTT 3.1, 3.1.1 and 5.0")
            }
            Self::ConnectReserved => (Malformed, "MQTT-3.1.2-3", "the reserved flag of CONNECT is set"),
            Self::WillQos => (Malformed, "MQTT-3.1.2-12", "the will has the quality of service 3"),
            Self::NoWill => (Malformed, "MQTT-3.1.2-11", "flags of a will are set, and there is none"),
            Self::PasswordAlone => (Malformed, "3.1.1: MQTT-3.1.2-22", "there is a password without a user name"),
            Self::ConnAckFlags => (Malformed, "MQTT-3.2.2-1", "reserved flags of CONNACK are set"),
            Self::PublishQos => (Malformed, "MQTT-3.3.1-4", "the quality of service is 3"),
            Self::PublishDup => (Malformed, "MQTT-3.3.1-2", "DUP is set at the quality of service 0"),
            Self::NoTopic => (ProtocolError, "MQTT-4.7.3-1", "the topic name is empty, and there is no alias for it"),
            Self::TopicWildcard => (TopicNameInvalid, "MQTT-3.3.2-2", "the topic name contains a wildcard"),
            Self::ResponseWildcard => (ProtocolError, "MQTT-3.3.2-14", "the response topic contains a wildcard"),
            Self::AliasZero => (Reason::TopicAliasInvalid, "MQTT-3.3.2-8", "the topic alias is 0"),
            Self::NoFilter => (ProtocolError, "MQTT-3.8.3-2", "there is no topic filter"),
            Self::FilterEmpty => (TopicFilterInvalid, "MQTT-4.7.3-1", "a topic filter is empty"),
            Self::FilterHash => (TopicFilterInvalid, "MQTT-4.7.1-1", "'#' is not alone in the last level of a filter"),
            Self::FilterPlus => (TopicFilterInvalid, "MQTT-4.7.1-2", "'+' is not alone in its level of a filter"),
            Self::ShareName => (
                TopicFilterInvalid,
                "MQTT-4.8.2-2",
                "a shared subscription must be $share/NAME/FILTER, NAME without wildcards",
            ),
            Self::SubscribeQos => (ProtocolError, "3.8.3.1", "a subscription asks for the quality of service 3"),
            Self::RetainHandling => (ProtocolError, "3.8.3.1", "a subscription has the retain handling 3"),
            Self::OptionsReserved => (Malformed, "MQTT-3.8.3-5", "reserved bits of the subscription options are set"),
            Self::SharedNoLocal => (ProtocolError, "MQTT-3.8.3-4", "a shared subscription must not have no-local"),
        }
    }

    /// The reason code to close with.
    pub fn reason(self) -> Reason {
        self.facts().0
    }

    /// The number of the statement of MQTT 5.0 that is broken, or of the section.
    pub fn statement(self) -> &'static str {
        self.facts().1
    }

    /// With the packet that it was found in.
    pub fn of(self, kind: PacketKind) -> PacketError {
        PacketError { kind: Some(kind), violation: self }
    }
}

/// A rule that was broken, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketError {
    /// The kind of the packet, if it could be told.
    pub kind: Option<PacketKind>,
    /// The rule.
    pub violation: Violation,
}

impl From<Violation> for PacketError {
    fn from(violation: Violation) -> Self {
        Self { kind: None, violation }
    }
}

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, statement, what) = self.violation.facts();
        if let Some(kind) = self.kind {
            write!(f, "{}: ", kind.as_str())?;
        }
        f.write_str(what)?;
        match self.violation {
            Violation::TooLarge(most) => write!(f, " of {most} bytes")?,
            Violation::Property(id) | Violation::PropertyTwice(id) | Violation::PropertyValue(id) => {
                write!(f, " (property {id:#04x})")?;
            }
            Violation::ReasonCode(code) => write!(f, " (reason code {code:#04x})")?,
            _ => {}
        }
        write!(f, " [{statement}]")
    }
}

impl std::error::Error for PacketError {}
