//! The kinds of packets, and the flags of their fixed header (section 2.1 of MQTT 5).

/// The kind of a packet: the upper half of its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketKind {
    /// A client asks to be let in.
    Connect = 1,
    /// The answer to CONNECT.
    ConnAck = 2,
    /// A message.
    Publish = 3,
    /// A message of quality 1 has come.
    PubAck = 4,
    /// A message of quality 2 has come.
    PubRec = 5,
    /// The sender has seen PUBREC.
    PubRel = 6,
    /// The receiver has seen PUBREL.
    PubComp = 7,
    /// A client asks for messages.
    Subscribe = 8,
    /// The answer to SUBSCRIBE.
    SubAck = 9,
    /// A client ends subscriptions.
    Unsubscribe = 10,
    /// The answer to UNSUBSCRIBE.
    UnsubAck = 11,
    /// A sign of life.
    PingReq = 12,
    /// The answer to PINGREQ.
    PingResp = 13,
    /// The connection ends.
    Disconnect = 14,
    /// A step of an enhanced log-in; only MQTT 5 has it.
    Auth = 15,
}

/// All kinds, with their names in the order of their numbers.
const KINDS: [(PacketKind, &str); 15] = [
    (PacketKind::Connect, "CONNECT"),
    (PacketKind::ConnAck, "CONNACK"),
    (PacketKind::Publish, "PUBLISH"),
    (PacketKind::PubAck, "PUBACK"),
    (PacketKind::PubRec, "PUBREC"),
    (PacketKind::PubRel, "PUBREL"),
    (PacketKind::PubComp, "PUBCOMP"),
    (PacketKind::Subscribe, "SUBSCRIBE"),
    (PacketKind::SubAck, "SUBACK"),
    (PacketKind::Unsubscribe, "UNSUBSCRIBE"),
    (PacketKind::UnsubAck, "UNSUBACK"),
    (PacketKind::PingReq, "PINGREQ"),
    (PacketKind::PingResp, "PINGRESP"),
    (PacketKind::Disconnect, "DISCONNECT"),
    (PacketKind::Auth, "AUTH"),
];

impl PacketKind {
    /// The kind that a first byte names; `None` for 0, which is reserved.
    #[inline]
    pub(super) fn of(first: u8) -> Option<Self> {
        let at = usize::from(first >> 4).checked_sub(1)?;
        KINDS.get(at).map(|(kind, _)| *kind)
    }

    /// Its name in the specification.
    pub fn as_str(self) -> &'static str {
        KINDS[self as usize - 1].1
    }

    /// The flags that it must have; `None` for PUBLISH, where they mean something.
    #[inline]
    pub(super) fn flags(self) -> Option<u8> {
        match self {
            Self::Publish => None,
            Self::PubRel | Self::Subscribe | Self::Unsubscribe => Some(0b0010),
            _ => Some(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_at_its_number() {
        for (at, (kind, name)) in KINDS.iter().enumerate() {
            assert_eq!((*kind as usize, kind.as_str()), (at + 1, *name));
            assert_eq!(PacketKind::of((*kind as u8) << 4 | 0xf), Some(*kind));
        }
        assert_eq!(PacketKind::of(0x0f), None);
    }
}
