//! The client's half of the opening handshake: start, tune, open (specification §2.2.4), with
//! authentication by PLAIN or EXTERNAL.

use crate::client::Client;
use crate::codec::Method;
use crate::codec::methods::{ConnectionOpen, ConnectionStartOk, ConnectionTuneOk};
use crate::codec::table::{Table, Value, encode_fields};
use crate::limits::{DEFAULT_CHANNEL_MAX, DEFAULT_FRAME_MAX};

/// How to connect.
#[derive(Debug, Clone)]
pub struct Options {
    /// User name for PLAIN.
    pub user: String,
    /// Password for PLAIN.
    pub password: String,
    /// How to log in.
    pub mechanism: Mechanism,
    /// Virtual host.
    pub virtual_host: String,
    /// A name that the server's tools show.
    pub connection_name: String,
    /// Heartbeat interval in seconds; 0 for none. The caller sends the heartbeats.
    pub heartbeat: u16,
    /// Largest frame in bytes that the client agrees to.
    pub frame_max: u32,
    /// Highest channel number that the client agrees to.
    pub channel_max: u16,
    /// Largest body in bytes that the client accepts.
    pub max_message_size: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            user: "guest".to_owned(),
            password: "guest".to_owned(),
            mechanism: Mechanism::Plain,
            virtual_host: "/".to_owned(),
            connection_name: String::new(),
            heartbeat: 0,
            frame_max: DEFAULT_FRAME_MAX,
            channel_max: DEFAULT_CHANNEL_MAX,
            max_message_size: 512 * 1024 * 1024,
        }
    }
}

/// How a client logs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mechanism {
    /// By name and password.
    #[default]
    Plain,
    /// By what the connection itself proves, such as a certificate.
    External,
}

impl Mechanism {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::External => "EXTERNAL",
        }
    }
}

/// The result of the handshake.
#[derive(Debug, Clone, PartialEq)]
pub struct Connected {
    /// Largest frame in bytes.
    pub frame_max: u32,
    /// Highest channel number.
    pub channel_max: u16,
    /// Heartbeat interval in seconds; 0 for none.
    pub heartbeat: u16,
    /// The properties that the server sent.
    pub server_properties: Vec<(String, Value)>,
}

impl Client {
    /// Answers a step of the handshake. Returns the result after the last step.
    pub(super) fn take_handshake(&mut self, method: Method<'_>, out: &mut Vec<u8>) -> Option<Connected> {
        match method {
            Method::ConnectionStart(start) => {
                let server_properties = start.server_properties.to_fields();
                let (frame_max, channel_max) = (self.options.frame_max, self.options.channel_max);
                self.connected = Some(Connected { frame_max, channel_max, heartbeat: 0, server_properties });
                self.send_start_ok(out);
                None
            }
            Method::ConnectionTune(tune) => {
                let channel_max = lower(tune.channel_max, self.options.channel_max);
                let frame_max = lower(tune.frame_max, self.options.frame_max);
                let heartbeat = self.options.heartbeat;
                if let Some(connected) = &mut self.connected {
                    *connected = Connected {
                        frame_max,
                        channel_max,
                        heartbeat,
                        server_properties: std::mem::take(&mut connected.server_properties),
                    };
                }
                self.send(0, ConnectionTuneOk { channel_max, frame_max, heartbeat }, out);
                let virtual_host = self.options.virtual_host.as_str();
                Method::from(ConnectionOpen { virtual_host, ..Default::default() }).encode(0, out);
                None
            }
            _ => self.connected.clone(),
        }
    }

    fn send_start_ok(&self, out: &mut Vec<u8>) {
        let able = |name: &str| (name.to_owned(), Value::Bool(true));
        let capabilities = Value::Table(vec![
            able("publisher_confirms"),
            able("basic.nack"),
            able("consumer_cancel_notify"),
            able("connection.blocked"),
            able("authentication_failure_close"),
        ]);
        let mut fields =
            vec![("product".to_owned(), Value::from("hermod-client")), ("capabilities".to_owned(), capabilities)];
        if !self.options.connection_name.is_empty() {
            fields.push(("connection_name".to_owned(), Value::from(self.options.connection_name.as_str())));
        }
        let fields = encode_fields(&fields);
        let response = match self.options.mechanism {
            Mechanism::Plain => format!("\0{}\0{}", self.options.user, self.options.password),
            Mechanism::External => String::new(),
        };
        Method::from(ConnectionStartOk {
            // This was just encoded, so it is a valid table.
            client_properties: Table::new(&fields).unwrap_or_default(),
            mechanism: self.options.mechanism.name(),
            response: response.as_bytes(),
            locale: "en_US",
        })
        .encode(0, out);
    }
}

/// The lower of two limits; 0 means no limit.
fn lower<N: Copy + Ord + Default>(a: N, b: N) -> N {
    if a == N::default() || (b != N::default() && b < a) { b } else { a }
}
