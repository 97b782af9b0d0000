//! The client's half of the opening: protocol headers, SASL (part 5, §5.3), `open`.

use std::fmt;

use crate::client::{Client, ClientError};
use crate::codec::frame::PROTOCOL_HEADER;
use crate::codec::performative::Open;
use crate::codec::sasl::{SaslCode, SaslInit, SaslMechanisms, Secret};
use crate::codec::{FrameKind, ProtocolId, SaslFrame, Symbol, Symbols, decode_sasl, encode_frame};

/// How to connect.
#[derive(Debug, Clone)]
pub struct Options {
    /// Who we are to the peer's user table.
    pub login: Login,
    /// Our name among the peer's connections. Durable subscriptions belong to it.
    pub container_id: String,
    /// The host that is meant; brokers may choose a virtual host by it.
    pub hostname: Option<String>,
    /// Milliseconds without a frame after which we would give the connection up; none: never. The
    /// caller watches the time.
    pub idle_time_out: Option<u32>,
    /// Largest frame in bytes that we take, and that we send.
    pub max_frame_size: u32,
    /// Largest message in bytes that we take.
    pub max_message_size: usize,
    /// Transfers of a session that may be on their way to us.
    pub incoming_window: u32,
    /// Capabilities that we want of the peer.
    pub desired_capabilities: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            login: Login::Anonymous,
            container_id: "hermod-client".to_owned(),
            hostname: None,
            idle_time_out: None,
            max_frame_size: 128 * 1024,
            max_message_size: 512 * 1024 * 1024,
            incoming_window: 2048,
            desired_capabilities: Vec::new(),
        }
    }
}

/// How to log in.
#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    /// Without the SASL layer.
    None,
    /// By the mechanism ANONYMOUS.
    Anonymous,
    /// By the mechanism EXTERNAL: by what the connection itself proves, such as a certificate.
    External,
    /// By the mechanism PLAIN.
    Plain {
        /// The user's name.
        user: String,
        /// Its password.
        password: String,
    },
}

impl Login {
    /// By name and password.
    pub fn plain(user: &str, password: &str) -> Self {
        Self::Plain { user: user.to_owned(), password: password.to_owned() }
    }

    /// The mechanism and its first response.
    fn response(&self) -> (&'static str, Vec<u8>) {
        match self {
            Self::None | Self::Anonymous => ("ANONYMOUS", b"anonymous".to_vec()),
            Self::External => ("EXTERNAL", Vec::new()),
            Self::Plain { user, password } => ("PLAIN", format!("\0{user}\0{password}").into_bytes()),
        }
    }
}

/// Shows no password.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Anonymous => f.write_str("Anonymous"),
            Self::External => f.write_str("External"),
            Self::Plain { user, .. } => write!(f, "Plain({user})"),
        }
    }
}

/// What the connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The peer's first header.
    Header,
    /// The mechanisms, and whether the log-in succeeded.
    Sasl,
    /// The peer's header behind SASL.
    InnerHeader,
    /// The peer's `open`.
    Open,
    /// Anything.
    Running,
    /// The peer's `close`.
    Closing,
}

impl Phase {
    #[inline]
    pub(super) fn awaits_header(self) -> bool {
        matches!(self, Self::Header | Self::InnerHeader)
    }
}

impl Client {
    /// Appends the bytes that open a connection.
    pub fn start(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.expected_header().header());
        if self.options.login == Login::None {
            self.send_open(out);
        }
    }

    fn expected_header(&self) -> ProtocolId {
        let sasl = self.phase == Phase::Header && self.options.login != Login::None;
        if sasl { ProtocolId::Sasl } else { ProtocolId::Amqp }
    }

    /// Takes the peer's header. False if more bytes are needed.
    pub(super) fn take_header(&mut self, input: &mut &[u8]) -> Result<bool, ClientError> {
        let Some(header) = input.first_chunk::<PROTOCOL_HEADER>() else { return Ok(false) };
        let expected = self.expected_header();
        if *header != expected.header() {
            return Err(ClientError::Version(*header));
        }
        *input = &input[PROTOCOL_HEADER..];
        self.phase = if expected == ProtocolId::Sasl { Phase::Sasl } else { Phase::Open };
        Ok(true)
    }

    /// Takes a frame of the log-in.
    pub(super) fn take_sasl(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<(), ClientError> {
        if self.phase != Phase::Sasl {
            return Err(ClientError::Unexpected("a frame of SASL outside of the log-in"));
        }
        match decode_sasl(body)? {
            SaslFrame::Mechanisms(mechanisms) => self.take_mechanisms(&mechanisms, out),
            SaslFrame::Outcome(outcome) if outcome.code == SaslCode::Ok => {
                self.phase = Phase::InnerHeader;
                out.extend_from_slice(&ProtocolId::Amqp.header());
                self.send_open(out);
                Ok(())
            }
            SaslFrame::Outcome(outcome) => Err(ClientError::Login(outcome.code)),
            _ => Err(ClientError::Unexpected("a question of SASL that the mechanism does not have")),
        }
    }

    fn take_mechanisms(&self, mechanisms: &SaslMechanisms<'_>, out: &mut Vec<u8>) -> Result<(), ClientError> {
        let (mechanism, response) = self.options.login.response();
        let offered = mechanisms.sasl_server_mechanisms;
        if !offered.has(mechanism) {
            return Err(ClientError::Mechanisms(offered.iter().map(str::to_owned).collect()));
        }
        let init = SaslInit {
            mechanism: Symbol(mechanism),
            initial_response: Some(Secret(&response)),
            hostname: self.options.hostname.as_deref(),
        };
        encode_frame(out, FrameKind::Sasl, 0, &init);
        Ok(())
    }

    fn send_open(&self, out: &mut Vec<u8>) {
        let desired: Vec<&str> = self.options.desired_capabilities.iter().map(String::as_str).collect();
        let open = Open {
            container_id: &self.options.container_id,
            hostname: self.options.hostname.as_deref(),
            max_frame_size: self.options.max_frame_size,
            idle_time_out: self.options.idle_time_out,
            desired_capabilities: Symbols::of(&desired),
            ..Open::default()
        };
        encode_frame(out, FrameKind::Amqp, 0, &open);
    }
}
