//! A small client without I/O, for the benchmark, the tests and the crash harness.
//!
//! The caller owns the socket. [`Client::start`] and [`Client::send`] append frames to a vector
//! that the caller writes. [`Client::poll`] takes bytes that the caller read, and returns one
//! [`Event`] at a time, borrowed from them; handshakes happen inside. Publishes and deliveries are
//! cheap: a [`PublishTemplate`] copies a prepared prefix, and a delivery that is complete in the
//! input is not copied.
//!
//! ```
//! use amqp091::client::{Client, Event, Options};
//! use amqp091::codec::methods::{ChannelOpen, QueueDeclare};
//!
//! let mut client = Client::new(Options::default());
//! let mut out = Vec::new();
//! client.start(&mut out); // write `out` to the socket, then feed what comes back:
//! let received: &[u8] = &[];
//! let mut input = received;
//! while let Some(event) = client.poll(&mut input, &mut out)? {
//!     if let Event::Connected(_) = event {
//!         client.send(1, ChannelOpen::default(), &mut out);
//!         client.send(1, QueueDeclare { queue: "q", durable: true, ..Default::default() }, &mut out);
//!     }
//! }
//! // Keep what is left in `input`, append what arrives next, and write `out` after each round.
//! # Ok::<(), amqp091::client::ClientError>(())
//! ```

mod assembly;
mod handshake;
mod publish;

use crate::codec::methods::{ChannelCloseOk, ConnectionClose, ConnectionCloseOk, method_name};
use crate::codec::{
    ContentHeader, Frame, FrameError, FrameKind, Method, MethodError, decode_frame, decode_method, frame,
};

use assembly::Assembly;
pub use handshake::{Connected, Mechanism, Options};
pub use publish::PublishTemplate;

/// Something that the server sent.
#[derive(Debug, PartialEq)]
pub enum Event<'a> {
    /// The handshake is complete; channels can be opened.
    Connected(Connected),
    /// A message for a consumer.
    Deliver {
        /// The channel of the consumer.
        channel: u16,
        /// The consumer's tag.
        consumer_tag: &'a str,
        /// The number to settle it by.
        delivery_tag: u64,
        /// True when it may have been delivered before.
        redelivered: bool,
        /// The message itself.
        message: Received<'a>,
    },
    /// The message that `basic.get` asked for.
    Got {
        /// The channel that asked.
        channel: u16,
        /// The number to settle it by.
        delivery_tag: u64,
        /// True when it may have been delivered before.
        redelivered: bool,
        /// How many ready messages are left in the queue.
        message_count: u32,
        /// The message itself.
        message: Received<'a>,
    },
    /// A mandatory message that reached no queue.
    Returned {
        /// The channel it was published on.
        channel: u16,
        /// 312: no route.
        reply_code: u16,
        /// The same as a text.
        reply_text: &'a str,
        /// The message itself.
        message: Received<'a>,
    },
    /// Publishes are confirmed.
    Ack {
        /// The channel they were published on.
        channel: u16,
        /// Number of the publish, from 1.
        delivery_tag: u64,
        /// Whether all publishes up to it are confirmed.
        multiple: bool,
    },
    /// Publishes were refused.
    Nack {
        /// The channel they were published on.
        channel: u16,
        /// Number of the publish, from 1.
        delivery_tag: u64,
        /// Whether all publishes up to it are refused.
        multiple: bool,
    },
    /// The server ended a consumer.
    Cancelled {
        /// The channel of the consumer.
        channel: u16,
        /// The consumer's tag.
        consumer_tag: &'a str,
    },
    /// The server does not read publishes at the moment.
    Blocked {
        /// Why.
        reason: &'a str,
    },
    /// The server reads publishes again.
    Unblocked,
    /// The server closed a channel; the answer is in the output already.
    ChannelClosed {
        /// The channel, now free.
        channel: u16,
        /// AMQP's number of the error.
        reply_code: u16,
        /// What went wrong.
        reply_text: &'a str,
    },
    /// The server closed the connection; the answer is in the output already.
    Closed {
        /// AMQP's number of the error.
        reply_code: u16,
        /// What went wrong.
        reply_text: &'a str,
    },
    /// The server answered our close; nothing follows.
    CloseOk,
    /// Any other method: the answers to what was sent.
    Method {
        /// The channel it belongs to.
        channel: u16,
        /// The method.
        method: Method<'a>,
    },
}

/// A message as it was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received<'a> {
    /// The exchange it was published to.
    pub exchange: &'a str,
    /// The routing key it was published with.
    pub routing_key: &'a str,
    /// Property flags and values; see [`crate::codec::decode_properties`].
    pub properties: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

/// The server broke the protocol. The connection cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientError {
    /// The server does not speak AMQP 0-9-1, and answered with this header.
    Version([u8; 8]),
    /// Bytes that are not a frame.
    Frame(FrameError),
    /// A method that cannot be read.
    Method(MethodError),
    /// A frame that is not allowed here; the text says which one was expected.
    Unexpected(&'static str),
    /// A message larger than [`Options::max_message_size`].
    TooLarge(u64),
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Version(header) => write!(f, "the server wants another protocol: {}", header.escape_ascii()),
            Self::Frame(error) => write!(f, "the server sent a broken frame: {error}"),
            Self::Method(error) => write!(f, "the server sent a broken method: {error}"),
            Self::Unexpected(what) => write!(f, "the server broke the protocol: {what}"),
            Self::TooLarge(size) => write!(f, "the server sent a message of {size} bytes, more than allowed"),
        }
    }
}

impl std::error::Error for ClientError {}

impl From<FrameError> for ClientError {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}

impl From<MethodError> for ClientError {
    fn from(error: MethodError) -> Self {
        Self::Method(error)
    }
}

/// One connection as the client sees it.
#[derive(Debug)]
pub struct Client {
    options: Options,
    connected: Option<Connected>,
    /// The incoming content of each channel; grows with the channels in use.
    assemblies: Vec<Assembly>,
    /// The assembly of the last event's message, which is cleared before the next event.
    shown: Option<usize>,
}

impl Client {
    /// A client that has sent nothing yet.
    pub fn new(options: Options) -> Self {
        Self { options, connected: None, assemblies: Vec::new(), shown: None }
    }

    /// Appends the bytes that open a connection.
    pub fn start(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&crate::limits::PROTOCOL_HEADER);
    }

    /// The result of the handshake, once it is complete.
    pub fn connected(&self) -> Option<&Connected> {
        self.connected.as_ref()
    }

    /// The size that frames must not exceed: the negotiated one, or before that the one in the
    /// options.
    pub fn frame_max(&self) -> u32 {
        self.connected.as_ref().map_or(self.options.frame_max, |connected| connected.frame_max)
    }

    /// Appends a method without content. Publishes go through [`PublishTemplate`].
    pub fn send<'m>(&mut self, channel: u16, method: impl Into<Method<'m>>, out: &mut Vec<u8>) {
        method.into().encode(channel, out);
    }

    /// Appends a close of the connection; [`Event::CloseOk`] answers it.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        self.send(0, ConnectionClose { reply_code: 200, reply_text: "Goodbye", ..Default::default() }, out);
    }

    /// Appends a heartbeat. The caller writes one when half an interval passed without output.
    pub fn heartbeat(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&frame::HEARTBEAT);
    }

    /// Reads the next event from `input` and advances `input`. `None` if more bytes are needed. The
    /// caller keeps the rest, which is at most one incomplete frame. Answers that can't wait are
    /// appended to `out`.
    ///
    /// # Errors
    /// If the server broke the protocol. The connection can't be used any further.
    #[inline]
    pub fn poll<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'a>>, ClientError> {
        if let Some(shown) = self.shown.take() {
            self.assemblies[shown].clear();
        }
        let frame_max = self.frame_max();
        loop {
            let Some(frame) = decode_frame(input, frame_max).map_err(|error| self.version_or(input, error))? else {
                return Ok(None);
            };
            let after = &input[frame.wire_len()..];
            if let Some((event_input, method)) = whole_content(frame, after, frame_max)? {
                *input = event_input;
                return Ok(Some(method.event(frame.channel)));
            }
            *input = after;
            if let Some(step) = self.take_frame(frame, out)? {
                return Ok(Some(match step {
                    Step::Assembled(index) => {
                        self.shown = Some(index);
                        self.assemblies[index].event(frame.channel)?
                    }
                    Step::Event(event) => event,
                }));
            }
        }
    }

    /// A server that speaks another protocol answers with its own header, which is not a frame.
    fn version_or(&self, input: &[u8], error: FrameError) -> ClientError {
        match input.first_chunk::<8>() {
            Some(header) if header.starts_with(b"AMQP") => ClientError::Version(*header),
            _ => ClientError::Frame(error),
        }
    }

    fn assembly(&mut self, channel: u16) -> &mut Assembly {
        let index = usize::from(channel);
        if index >= self.assemblies.len() {
            self.assemblies.resize_with(index + 1, Assembly::default);
        }
        &mut self.assemblies[index]
    }

    /// Takes a frame that does not begin a message in one piece.
    fn take_frame<'a>(&mut self, frame: Frame<'a>, out: &mut Vec<u8>) -> Result<Option<Step<'a>>, ClientError> {
        let channel = frame.channel;
        match frame.kind {
            FrameKind::Heartbeat => Ok(None),
            FrameKind::Method => {
                let method = decode_method(frame.payload)?;
                if assembly::has_content(&method) {
                    self.assembly(channel).begin(frame.payload)?;
                    return Ok(None);
                }
                self.take_method(channel, method, out).map(|event| event.map(Step::Event))
            }
            FrameKind::Header => {
                let limit = self.options.max_message_size;
                let whole = self.assembly(channel).take_header(frame.payload, limit)?;
                Ok(whole.then_some(Step::Assembled(channel.into())))
            }
            FrameKind::Body => {
                let whole = self.assembly(channel).take_body(frame.payload)?;
                Ok(whole.then_some(Step::Assembled(channel.into())))
            }
        }
    }

    fn take_method<'a>(
        &mut self,
        channel: u16,
        method: Method<'a>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'a>>, ClientError> {
        Ok(Some(match method {
            Method::BasicAck(m) => Event::Ack { channel, delivery_tag: m.delivery_tag, multiple: m.multiple },
            Method::BasicNack(m) => Event::Nack { channel, delivery_tag: m.delivery_tag, multiple: m.multiple },
            Method::BasicCancel(m) => Event::Cancelled { channel, consumer_tag: m.consumer_tag },
            Method::ConnectionBlocked(m) => Event::Blocked { reason: m.reason },
            Method::ConnectionUnblocked(_) => Event::Unblocked,
            Method::ChannelClose(m) => {
                self.send(channel, ChannelCloseOk {}, out);
                self.assembly(channel).clear();
                Event::ChannelClosed { channel, reply_code: m.reply_code, reply_text: m.reply_text }
            }
            Method::ConnectionClose(m) => {
                self.send(0, ConnectionCloseOk {}, out);
                Event::Closed { reply_code: m.reply_code, reply_text: m.reply_text }
            }
            Method::ConnectionCloseOk(_) => Event::CloseOk,
            Method::ConnectionStart(_) | Method::ConnectionTune(_) | Method::ConnectionOpenOk(_) => {
                return Ok(self.take_handshake(method, out).map(Event::Connected));
            }
            method => Event::Method { channel, method },
        }))
    }
}

enum Step<'a> {
    /// The message on this channel is complete.
    Assembled(usize),
    Event(Event<'a>),
}

/// A method with content, and the content, all borrowed.
pub(crate) struct WholeContent<'a> {
    method: Method<'a>,
    properties: &'a [u8],
    body: &'a [u8],
}

/// The usual case: method, header and at most one body frame are complete in the input. Returns
/// them and the input that follows. `None` means that the frame must take the general way.
#[inline]
fn whole_content<'a>(
    first: Frame<'a>,
    after: &'a [u8],
    frame_max: u32,
) -> Result<Option<(&'a [u8], WholeContent<'a>)>, ClientError> {
    // Deliver, get-ok and return are the methods of class 60 that bring content to a client.
    if first.kind != FrameKind::Method || !matches!(first.payload, [0, 60, 0, 60 | 71 | 50, ..]) {
        return Ok(None);
    }
    let Some(header_frame) = decode_frame(after, frame_max)? else { return Ok(None) };
    let after = &after[header_frame.wire_len()..];
    if header_frame.kind != FrameKind::Header || header_frame.channel != first.channel {
        return Ok(None);
    }
    let Some(header) = ContentHeader::decode(header_frame.payload) else { return Ok(None) };
    let method = || decode_method(first.payload);
    if header.body_size == 0 {
        let content = WholeContent { method: method()?, properties: header.properties, body: &[] };
        return Ok(Some((after, content)));
    }
    let Some(body) = decode_frame(after, frame_max)? else { return Ok(None) };
    if body.kind != FrameKind::Body || body.channel != first.channel || body.payload.len() as u64 != header.body_size {
        return Ok(None);
    }
    let content = WholeContent { method: method()?, properties: header.properties, body: body.payload };
    Ok(Some((&after[body.wire_len()..], content)))
}

impl<'a> WholeContent<'a> {
    #[inline]
    fn event(self, channel: u16) -> Event<'a> {
        let (properties, body) = (self.properties, self.body);
        let received = |exchange, routing_key| Received { exchange, routing_key, properties, body };
        match self.method {
            Method::BasicDeliver(m) => Event::Deliver {
                channel,
                consumer_tag: m.consumer_tag,
                delivery_tag: m.delivery_tag,
                redelivered: m.redelivered,
                message: received(m.exchange, m.routing_key),
            },
            Method::BasicGetOk(m) => Event::Got {
                channel,
                delivery_tag: m.delivery_tag,
                redelivered: m.redelivered,
                message_count: m.message_count,
                message: received(m.exchange, m.routing_key),
            },
            Method::BasicReturn(m) => Event::Returned {
                channel,
                reply_code: m.reply_code,
                reply_text: m.reply_text,
                message: received(m.exchange, m.routing_key),
            },
            method => Event::Method { channel, method },
        }
    }
}

/// A close reason for logs: `queue.declare: 404 NOT_FOUND - …`.
pub fn describe_close(close: &ConnectionClose<'_>) -> String {
    match method_name(close.class_id, close.method_id) {
        Some(name) => format!("{name}: {} {}", close.reply_code, close.reply_text),
        None => format!("{} {}", close.reply_code, close.reply_text),
    }
}

#[cfg(test)]
mod tests;
