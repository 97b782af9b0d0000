//! The versions of the protocol, and what differs between them on the wire.

/// A version of MQTT, as CONNECT names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Version {
    /// Level 3, called `MQIsdp`.
    V3_1,
    /// Level 4: the OASIS standard of 2014.
    #[default]
    V3_1_1,
    /// Level 5: the OASIS standard of 2019. Only it has reason codes and properties.
    V5,
}

/// Bridges of Mosquitto set this bit of the level to say that they are none of the usual clients.
pub(super) const BRIDGE: u8 = 0x80;

impl Version {
    /// The version of a protocol name and level; `None` if the two do not belong together.
    pub(super) fn of(name: &[u8], level: u8) -> Option<Self> {
        match (name, level & !BRIDGE) {
            (b"MQIsdp", 3) => Some(Self::V3_1),
            (b"MQTT", 4) => Some(Self::V3_1_1),
            (b"MQTT", 5) => Some(Self::V5),
            _ => None,
        }
    }

    /// Its protocol name and level.
    pub(super) fn name_and_level(self) -> (&'static str, u8) {
        match self {
            Self::V3_1 => ("MQIsdp", 3),
            Self::V3_1_1 => ("MQTT", 4),
            Self::V5 => ("MQTT", 5),
        }
    }

    /// As users write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V3_1 => "3.1",
            Self::V3_1_1 => "3.1.1",
            Self::V5 => "5.0",
        }
    }

    /// Whether packets have properties.
    #[inline]
    pub fn has_properties(self) -> bool {
        self == Self::V5
    }
}

/// A quality of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum QoS {
    /// At most once: no answer.
    #[default]
    AtMostOnce = 0,
    /// At least once: PUBACK.
    AtLeastOnce = 1,
    /// Exactly once: PUBREC, PUBREL, PUBCOMP.
    ExactlyOnce = 2,
}

impl QoS {
    /// The quality of two bits; `None` for 3, which is reserved.
    #[inline]
    pub fn of(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::AtMostOnce),
            1 => Some(Self::AtLeastOnce),
            2 => Some(Self::ExactlyOnce),
            _ => None,
        }
    }
}
