//! The requests of a client: one method per command, and each appends one frame to the output.
//!
//! A receipt comes back as an event with the same text.

use wire::Output;

use super::AckId;
use crate::codec::{Command, FrameWriter, HeartBeat, Version};

/// How to open a session.
#[derive(Debug, Clone, Copy)]
pub struct Connect<'a> {
    /// The `host` header: the virtual host; required since 1.1.
    pub host: &'a str,
    /// User name, if the server asks for one.
    pub login: Option<&'a str>,
    /// Password, if the server asks for one.
    pub passcode: Option<&'a str>,
    /// Versions offered.
    pub versions: &'a [Version],
    /// Heart-beats that this side can send and wants to receive.
    pub heart_beat: HeartBeat,
    /// More headers, such as ActiveMQ's `client-id`.
    pub headers: &'a [(&'a str, &'a str)],
}

impl Default for Connect<'_> {
    fn default() -> Self {
        Self {
            host: "/",
            login: None,
            passcode: None,
            versions: &Version::ALL,
            heart_beat: HeartBeat::default(),
            headers: &[],
        }
    }
}

/// How to publish a message.
#[derive(Debug, Clone, Copy, Default)]
pub struct Send<'a> {
    /// Its destination.
    pub destination: &'a str,
    /// The receipt to ask for.
    pub receipt: Option<&'a str>,
    /// Its transaction.
    pub transaction: Option<&'a str>,
    /// More headers, such as `persistent` and `content-type`.
    pub headers: &'a [(&'a str, &'a str)],
    /// Leaves out `content-length`, by which ActiveMQ tells text from bytes. Bodies with a NUL have
    /// it in any case.
    pub text: bool,
}

/// Which deliveries an ACK settles, and whether one is needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AckMode {
    /// A delivery is settled when it is sent.
    #[default]
    Auto,
    /// An ACK settles its delivery and all earlier ones of the subscription.
    Client,
    /// An ACK settles only its delivery; since 1.1.
    ClientIndividual,
}

impl AckMode {
    /// The mode that an `ack` header names.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Auto, Self::Client, Self::ClientIndividual].into_iter().find(|mode| mode.as_str() == text)
    }

    /// The value of the `ack` header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Client => "client",
            Self::ClientIndividual => "client-individual",
        }
    }
}

/// A subscription to start.
#[derive(Debug, Clone, Copy, Default)]
pub struct Subscribe<'a> {
    /// Its name within the connection.
    pub id: &'a str,
    /// Its destination.
    pub destination: &'a str,
    /// How deliveries are settled.
    pub ack: AckMode,
    /// The receipt to ask for.
    pub receipt: Option<&'a str>,
    /// More headers, such as `prefetch-count` or `activemq.prefetchSize`.
    pub headers: &'a [(&'a str, &'a str)],
}

/// How to accept or refuse a delivery.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settle<'a> {
    /// Its transaction.
    pub transaction: Option<&'a str>,
    /// The receipt to ask for.
    pub receipt: Option<&'a str>,
    /// More headers, such as RabbitMQ's `requeue` on NACK.
    pub headers: &'a [(&'a str, &'a str)],
}

/// Writes requests in the negotiated version.
#[derive(Debug)]
pub struct Requests {
    version: Version,
    output: Output,
}

impl Default for Requests {
    fn default() -> Self {
        Self { version: Version::V1_0, output: Output::keeping_all() }
    }
}

impl Requests {
    /// The bytes to send, in order.
    pub fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    pub(super) fn set_version(&mut self, version: Version) {
        self.version = version;
    }

    pub(super) fn version(&self) -> Version {
        self.version
    }

    fn frame(&mut self, command: Command) -> FrameWriter<'_> {
        FrameWriter::new(self.output.tail(), command, self.version)
    }

    /// Opens the session; the first frame.
    pub fn connect(&mut self, connect: &Connect<'_>) {
        let versions: Vec<&str> = connect.versions.iter().map(|version| version.as_str()).collect();
        let mut frame = self.frame(Command::Connect);
        frame
            .header("accept-version", &versions.join(","))
            .header("host", connect.host)
            .header("heart-beat", &connect.heart_beat.to_string())
            .optional("login", connect.login)
            .optional("passcode", connect.passcode);
        add_all(&mut frame, connect.headers);
        frame.finish();
    }

    /// Publishes a message.
    pub fn send(&mut self, send: &Send<'_>, body: &[u8]) {
        let mut frame = self.frame(Command::Send);
        frame
            .header("destination", send.destination)
            .optional("receipt", send.receipt)
            .optional("transaction", send.transaction);
        add_all(&mut frame, send.headers);
        if send.text { frame.finish_text(body) } else { frame.finish_with(body) }
    }

    /// Starts a subscription.
    pub fn subscribe(&mut self, subscribe: &Subscribe<'_>) {
        let mut frame = self.frame(Command::Subscribe);
        frame
            .header("id", subscribe.id)
            .header("destination", subscribe.destination)
            .header("ack", subscribe.ack.as_str())
            .optional("receipt", subscribe.receipt);
        add_all(&mut frame, subscribe.headers);
        frame.finish();
    }

    /// Ends a subscription.
    pub fn unsubscribe(&mut self, id: &str, receipt: Option<&str>) {
        self.unsubscribe_durable(id, receipt, &[]);
    }

    /// Ends a durable subscription. The headers identify it in the terms of the server.
    pub fn unsubscribe_durable(&mut self, id: &str, receipt: Option<&str>, headers: &[(&str, &str)]) {
        let mut frame = self.frame(Command::Unsubscribe);
        frame.header("id", id).optional("receipt", receipt);
        add_all(&mut frame, headers);
        frame.finish();
    }

    /// Accepts a delivery; in mode `client` also all deliveries before it.
    pub fn ack(&mut self, id: &AckId<'_>, settle: &Settle<'_>) {
        self.settle(Command::Ack, id, settle);
    }

    /// Refuses a delivery; in mode `client` also all deliveries before it. Since 1.1.
    pub fn nack(&mut self, id: &AckId<'_>, settle: &Settle<'_>) {
        self.settle(Command::Nack, id, settle);
    }

    fn settle(&mut self, command: Command, id: &AckId<'_>, settle: &Settle<'_>) {
        let mut frame = self.frame(command);
        match id {
            AckId::Ack(id) => frame.header("id", id),
            AckId::Message { id, subscription } => {
                frame.header("message-id", id).optional("subscription", subscription.as_deref())
            }
        };
        frame.optional("transaction", settle.transaction).optional("receipt", settle.receipt);
        add_all(&mut frame, settle.headers);
        frame.finish();
    }

    /// Opens a transaction under a name of the client's choice.
    pub fn begin(&mut self, transaction: &str, receipt: Option<&str>) {
        self.transaction(Command::Begin, transaction, receipt);
    }

    /// Commits a transaction.
    pub fn commit(&mut self, transaction: &str, receipt: Option<&str>) {
        self.transaction(Command::Commit, transaction, receipt);
    }

    /// Rolls a transaction back.
    pub fn abort(&mut self, transaction: &str, receipt: Option<&str>) {
        self.transaction(Command::Abort, transaction, receipt);
    }

    fn transaction(&mut self, command: Command, transaction: &str, receipt: Option<&str>) {
        let mut frame = self.frame(command);
        frame.header("transaction", transaction).optional("receipt", receipt);
        frame.finish();
    }

    /// Ends the session. Its receipt says that everything before it has been handled.
    pub fn disconnect(&mut self, receipt: Option<&str>) {
        let mut frame = self.frame(Command::Disconnect);
        frame.optional("receipt", receipt);
        frame.finish();
    }

    /// Sends a heart-beat.
    pub fn heart_beat(&mut self) {
        self.output.put(b"\n");
    }
}

fn add_all(frame: &mut FrameWriter<'_>, headers: &[(&str, &str)]) {
    for (name, value) in headers {
        frame.header(name, value);
    }
}
