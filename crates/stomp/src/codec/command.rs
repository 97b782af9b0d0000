//! The versions of the protocol, and the commands that a frame begins with.

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// STOMP 1.0: no escapes, no heart-beats, no NACK.
    V1_0,
    /// STOMP 1.1.
    V1_1,
    /// STOMP 1.2.
    V1_2,
}

impl Version {
    /// Every version, oldest first.
    pub const ALL: [Self; 3] = [Self::V1_0, Self::V1_1, Self::V1_2];

    /// The value in `accept-version` and `version` headers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1_0 => "1.0",
            Self::V1_1 => "1.1",
            Self::V1_2 => "1.2",
        }
    }

    /// The version that a header names; spaces around it are ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        Self::ALL.into_iter().find(|version| version.as_str() == text)
    }
}

/// The first line of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Command {
    /// Opens a session (client).
    Connect,
    /// Opens a session since 1.1; its name differs from HTTP's CONNECT (client).
    Stomp,
    /// Answers CONNECT (server).
    Connected,
    /// Publishes (client).
    Send,
    /// Starts a subscription (client).
    Subscribe,
    /// Ends a subscription (client).
    Unsubscribe,
    /// Accepts a delivery (client).
    Ack,
    /// Refuses a delivery, since 1.1 (client).
    Nack,
    /// Opens a transaction (client).
    Begin,
    /// Commits a transaction (client).
    Commit,
    /// Rolls a transaction back (client).
    Abort,
    /// Ends the session (client).
    Disconnect,
    /// A delivery (server).
    Message,
    /// The frame with this receipt has been handled (server).
    Receipt,
    /// The session has failed; the connection closes after it (server).
    Error,
}

impl Command {
    /// All commands, frequent ones first. They are tried in this order.
    pub const ALL: [Self; 15] = [
        Self::Send,
        Self::Ack,
        Self::Message,
        Self::Receipt,
        Self::Nack,
        Self::Begin,
        Self::Commit,
        Self::Abort,
        Self::Subscribe,
        Self::Unsubscribe,
        Self::Connect,
        Self::Stomp,
        Self::Connected,
        Self::Disconnect,
        Self::Error,
    ];

    /// The first line of a frame with this command.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "CONNECT",
            Self::Stomp => "STOMP",
            Self::Connected => "CONNECTED",
            Self::Send => "SEND",
            Self::Subscribe => "SUBSCRIBE",
            Self::Unsubscribe => "UNSUBSCRIBE",
            Self::Ack => "ACK",
            Self::Nack => "NACK",
            Self::Begin => "BEGIN",
            Self::Commit => "COMMIT",
            Self::Abort => "ABORT",
            Self::Disconnect => "DISCONNECT",
            Self::Message => "MESSAGE",
            Self::Receipt => "RECEIPT",
            Self::Error => "ERROR",
        }
    }

    /// The command that this line names. Commands are case-sensitive.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|command| command.as_str().as_bytes() == line)
    }

    /// Whether a frame of this command may have a body (STOMP 1.2, "Body").
    pub fn has_body(self) -> bool {
        matches!(self, Self::Send | Self::Message | Self::Error)
    }

    /// Whether the headers of this frame have no escapes in any version: "all frames except the
    /// CONNECT and CONNECTED frames will also escape" (STOMP 1.2, "Value Encoding"). STOMP is
    /// CONNECT by another name.
    pub fn is_unescaped(self) -> bool {
        matches!(self, Self::Connect | Self::Stomp | Self::Connected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_commands_and_versions_are_read_back() {
        for command in Command::ALL {
            assert_eq!(Command::parse(command.as_str().as_bytes()), Some(command));
            assert_eq!(Command::parse(command.as_str().to_lowercase().as_bytes()), None);
        }
        for version in Version::ALL {
            assert_eq!(Version::parse(&format!(" {} ", version.as_str())), Some(version));
        }
        assert_eq!(Version::parse("1.3"), None);
    }
}
