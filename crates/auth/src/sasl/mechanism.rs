//! The mechanisms by their names, as clients choose and operators list them.

/// How a client shows who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// Name and password (RFC 4616).
    Plain,
    /// Name and password in a table of AMQP 0-8.
    AmqPlain,
    /// Proof of the password without sending it (RFC 7677).
    ScramSha256,
    /// By the certificate that it has shown to TLS (RFC 4422 appendix A).
    External,
    /// Not at all (RFC 4505).
    Anonymous,
}

impl Mechanism {
    /// Every mechanism there is.
    pub const ALL: [Self; 5] = [Self::Plain, Self::AmqPlain, Self::ScramSha256, Self::External, Self::Anonymous];

    /// Its registered name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::AmqPlain => "AMQPLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::External => "EXTERNAL",
            Self::Anonymous => "ANONYMOUS",
        }
    }

    /// The mechanism of this name. Names are in capitals (RFC 4422 §3.1).
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }
}
