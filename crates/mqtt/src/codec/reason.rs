//! Reason codes of MQTT 5, and the return codes of older versions that stand for them.

use super::kind::PacketKind;
use super::version::Version;

/// Declares the codes: name, number, text, and the packets that may carry it.
macro_rules! reasons {
    ($($name:ident = $code:literal, $text:literal, [$($packet:ident)*];)*) => {
        /// Why something was answered as it was (section 2.4 of MQTT 5).
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Reason {
            $(#[doc = $text] $name = $code,)*
        }

        impl Reason {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// In words.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// Whether packets of this kind may carry it.
            pub fn is_in(self, kind: PacketKind) -> bool {
                match self {
                    $(Self::$name => [$(PacketKind::$packet),*].contains(&kind),)*
                }
            }
        }
    };
}

reasons! {
    Success = 0x00, "success", [ConnAck PubAck PubRec PubRel PubComp SubAck UnsubAck Disconnect Auth];
    GrantedQos1 = 0x01, "granted, quality of service 1", [SubAck];
    GrantedQos2 = 0x02, "granted, quality of service 2", [SubAck];
    DisconnectWithWill = 0x04, "disconnect with will message", [Disconnect];
    NoMatchingSubscribers = 0x10, "no matching subscribers", [PubAck PubRec];
    NoSubscriptionExisted = 0x11, "no subscription existed", [UnsubAck];
    ContinueAuthentication = 0x18, "continue authentication", [Auth];
    Reauthenticate = 0x19, "re-authenticate", [Auth];
    Unspecified = 0x80, "unspecified error", [ConnAck PubAck PubRec SubAck UnsubAck Disconnect];
    Malformed = 0x81, "malformed packet", [ConnAck Disconnect];
    ProtocolError = 0x82, "protocol error", [ConnAck Disconnect];
    ImplementationSpecific = 0x83, "implementation specific error", [ConnAck PubAck PubRec SubAck UnsubAck Disconnect];
    UnsupportedVersion = 0x84, "unsupported protocol version", [ConnAck];
    ClientIdInvalid = 0x85, "client identifier not valid", [ConnAck];
    BadUserOrPassword = 0x86, "bad user name or password", [ConnAck];
    NotAuthorized = 0x87, "not authorized", [ConnAck PubAck PubRec SubAck UnsubAck Disconnect];
    ServerUnavailable = 0x88, "server unavailable", [ConnAck];
    ServerBusy = 0x89, "server busy", [ConnAck Disconnect];
    Banned = 0x8A, "banned", [ConnAck];
    ServerShuttingDown = 0x8B, "server shutting down", [Disconnect];
    BadAuthenticationMethod = 0x8C, "bad authentication method", [ConnAck Disconnect];
    KeepAliveTimeout = 0x8D, "keep alive timeout", [Disconnect];
    SessionTakenOver = 0x8E, "session taken over", [Disconnect];
    TopicFilterInvalid = 0x8F, "topic filter invalid", [SubAck UnsubAck Disconnect];
    TopicNameInvalid = 0x90, "topic name invalid", [ConnAck PubAck PubRec Disconnect];
    PacketIdInUse = 0x91, "packet identifier in use", [PubAck PubRec SubAck UnsubAck];
    PacketIdNotFound = 0x92, "packet identifier not found", [PubRel PubComp];
    ReceiveMaximumExceeded = 0x93, "receive maximum exceeded", [Disconnect];
    TopicAliasInvalid = 0x94, "topic alias invalid", [Disconnect];
    PacketTooLarge = 0x95, "packet too large", [ConnAck Disconnect];
    MessageRateTooHigh = 0x96, "message rate too high", [Disconnect];
    QuotaExceeded = 0x97, "quota exceeded", [ConnAck PubAck PubRec SubAck Disconnect];
    AdministrativeAction = 0x98, "administrative action", [Disconnect];
    PayloadFormatInvalid = 0x99, "payload format invalid", [ConnAck PubAck PubRec Disconnect];
    RetainNotSupported = 0x9A, "retain not supported", [ConnAck Disconnect];
    QosNotSupported = 0x9B, "quality of service not supported", [ConnAck Disconnect];
    UseAnotherServer = 0x9C, "use another server", [ConnAck Disconnect];
    ServerMoved = 0x9D, "server moved", [ConnAck Disconnect];
    SharedNotSupported = 0x9E, "shared subscriptions not supported", [SubAck Disconnect];
    ConnectionRateExceeded = 0x9F, "connection rate exceeded", [ConnAck Disconnect];
    MaximumConnectTime = 0xA0, "maximum connect time", [Disconnect];
    SubscriptionIdsNotSupported = 0xA1, "subscription identifiers not supported", [SubAck Disconnect];
    WildcardsNotSupported = 0xA2, "wildcard subscriptions not supported", [SubAck Disconnect];
}

/// The codes of CONNACK before MQTT 5, in their order from 0.
const RETURNS: [Reason; 6] = [
    Reason::Success,
    Reason::UnsupportedVersion,
    Reason::ClientIdInvalid,
    Reason::ServerUnavailable,
    Reason::BadUserOrPassword,
    Reason::NotAuthorized,
];

impl Reason {
    /// The reason of a byte in a packet of this kind; `None` if it means nothing there.
    pub(super) fn read(code: u8, kind: PacketKind, version: Version) -> Option<Self> {
        if kind == PacketKind::ConnAck && !version.has_properties() {
            return RETURNS.get(usize::from(code)).copied();
        }
        let reason = Self::ALL.iter().copied().find(|reason| *reason as u8 == code && reason.is_in(kind))?;
        let is_old = matches!(reason, Self::Success | Self::GrantedQos1 | Self::GrantedQos2 | Self::Unspecified);
        (version.has_properties() || is_old).then_some(reason)
    }

    /// Its byte in a packet of this kind. A version without it gets the closest that it has.
    pub(super) fn code(self, kind: PacketKind, version: Version) -> u8 {
        if version.has_properties() {
            return self as u8;
        }
        match kind {
            PacketKind::ConnAck => {
                let closest = match self {
                    Self::Banned | Self::BadAuthenticationMethod => Self::NotAuthorized,
                    other => other,
                };
                let at = RETURNS.iter().position(|known| *known == closest);
                // 3: the server is unavailable.
                at.map_or(3, |at| at as u8)
            }
            _ if self.is_error() => Self::Unspecified as u8,
            _ => self as u8,
        }
    }

    /// Whether it says that something failed.
    #[inline]
    pub fn is_error(self) -> bool {
        self as u8 >= 0x80
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_rise_and_none_is_taken_twice() {
        assert!(Reason::ALL.windows(2).all(|pair| (pair[0] as u8) < pair[1] as u8));
        assert_eq!(Reason::ALL.len(), 43);
    }

    #[test]
    fn older_versions_get_the_closest_code() {
        for (reason, kind, code) in [
            (Reason::Success, PacketKind::ConnAck, 0),
            (Reason::UnsupportedVersion, PacketKind::ConnAck, 1),
            (Reason::ClientIdInvalid, PacketKind::ConnAck, 2),
            (Reason::QuotaExceeded, PacketKind::ConnAck, 3),
            (Reason::BadUserOrPassword, PacketKind::ConnAck, 4),
            (Reason::Banned, PacketKind::ConnAck, 5),
            (Reason::NotAuthorized, PacketKind::SubAck, 0x80),
            (Reason::GrantedQos1, PacketKind::SubAck, 1),
        ] {
            assert_eq!(reason.code(kind, Version::V3_1_1), code, "{reason:?}");
            assert_eq!(reason.code(kind, Version::V5), reason as u8);
        }
    }

    #[test]
    fn a_code_is_read_only_where_it_may_stand() {
        assert_eq!(Reason::read(0x92, PacketKind::PubRel, Version::V5), Some(Reason::PacketIdNotFound));
        assert_eq!(Reason::read(0x92, PacketKind::PubAck, Version::V5), None);
        assert_eq!(Reason::read(5, PacketKind::ConnAck, Version::V3_1_1), Some(Reason::NotAuthorized));
        assert_eq!(Reason::read(6, PacketKind::ConnAck, Version::V3_1_1), None);
        assert_eq!(Reason::read(0x87, PacketKind::SubAck, Version::V3_1_1), None);
    }
}
