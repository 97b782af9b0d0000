//! A source by AMQP 0-9-1. Channel 1 consumes; channel 2 asks how many messages are ready, by a
//! passive declaration, because a refusal of that ends its channel.

use amqp091::client::{Client, Event};
use amqp091::codec::Method;
use amqp091::codec::methods::{BasicAck, BasicConsume, BasicQos, ChannelOpen, QueueBind, QueueDeclare};
use amqp091::codec::table::{Table, Value};

use super::{Content, SourceEvent, Terms};
use crate::headers::table_bytes;
use crate::peer::options091;
use crate::spec::{AckMode, Missing, TakeFrom};
use crate::uri::Uri;
use crate::window::Done;

/// The channel that consumes.
const CONSUMES: u16 = 1;
/// The channel that asks.
const ASKS: u16 = 2;
/// The reply code of what is not there.
const NOT_FOUND: u16 = 404;

/// See the module.
pub(crate) struct Source091 {
    client: Client,
    from: TakeFrom,
    terms: Terms,
    stage: Stage,
    /// The queue that it consumes from.
    queue: String,
    asking: Asking,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It looks whether the queue is there.
    Looks,
    /// It declares the queue.
    Declares,
    /// It consumes, or asks to.
    Consumes,
}

/// Whether the channel that asks is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asking {
    /// It is not open.
    Shut,
    /// It is open, and has no question.
    Free,
    /// It waits for an answer.
    Waits,
}

impl Source091 {
    pub(crate) fn new(from: &TakeFrom, uri: &Uri, terms: Terms) -> Self {
        let client = Client::new(options091(uri, "source"));
        let queue = match from {
            TakeFrom::Queue { queue, .. } => queue.name.clone(),
            _ => String::new(),
        };
        Self { client, from: from.clone(), terms, stage: Stage::Looks, queue, asking: Asking::Shut }
    }

    pub(crate) fn start(&mut self, out: &mut Vec<u8>) {
        self.client.start(out);
    }

    pub(crate) fn close(&mut self, out: &mut Vec<u8>) {
        self.client.close(out);
    }

    pub(crate) fn heartbeat(&mut self, out: &mut Vec<u8>) {
        self.client.heartbeat(out);
    }

    pub(crate) fn settle(&mut self, done: &Done, out: &mut Vec<u8>) {
        if self.terms.ack != AckMode::NoAck {
            self.client.send(CONSUMES, BasicAck { delivery_tag: done.to, multiple: true }, out);
        }
    }

    pub(crate) fn ask_left(&mut self, out: &mut Vec<u8>) {
        if self.stage != Stage::Consumes || self.asking == Asking::Waits {
            return;
        }
        if self.asking == Asking::Shut {
            self.client.send(ASKS, ChannelOpen::default(), out);
        }
        self.asking = Asking::Waits;
        let look = QueueDeclare { queue: &self.queue, passive: true, ..QueueDeclare::default() };
        self.client.send(ASKS, look, out);
    }

    pub(crate) fn poll<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<SourceEvent<'a>>, String> {
        let Self { client, from, terms, stage, queue, asking } = self;
        let Some(event) = client.poll(input, out).map_err(|error| error.to_string())? else { return Ok(None) };
        let mut after = After { from, terms: *terms, stage, queue, asking };
        Ok(Some(match event {
            Event::Deliver { channel: CONSUMES, delivery_tag, message, .. } => {
                SourceEvent::Message { tag: delivery_tag, content: Content::Amqp091(message) }
            }
            event => after.take(&event, out)?,
        }))
    }
}

/// All of a source but its client, while an event of that is looked at.
struct After<'a> {
    from: &'a TakeFrom,
    terms: Terms,
    stage: &'a mut Stage,
    queue: &'a mut String,
    asking: &'a mut Asking,
}

impl After<'_> {
    fn take(&mut self, event: &Event<'_>, out: &mut Vec<u8>) -> Result<SourceEvent<'static>, String> {
        match event {
            Event::Connected(_) => self.begin(out),
            Event::Method { channel: CONSUMES, method } => return Ok(self.answered(method, out)),
            Event::Method { channel: ASKS, method: Method::QueueDeclareOk(answer) } => {
                *self.asking = Asking::Free;
                return Ok(SourceEvent::Left(answer.message_count.into()));
            }
            // It may not ask, or the queue is gone, of which the other channel hears.
            Event::ChannelClosed { channel: ASKS, .. } => *self.asking = Asking::Shut,
            Event::ChannelClosed { reply_code: NOT_FOUND, .. } if self.may_declare() => self.declare(out),
            Event::ChannelClosed { reply_code, reply_text, .. } | Event::Closed { reply_code, reply_text } => {
                return Err(format!("the source refused it: {reply_code} {reply_text}"));
            }
            Event::Cancelled { .. } => return Err(format!("the source ended the consumer: is '{}' gone?", self.queue)),
            Event::CloseOk => return Ok(SourceEvent::Closed),
            _ => {}
        }
        Ok(SourceEvent::Progress)
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        Method::from(ChannelOpen::default()).encode(CONSUMES, out);
        let declare = match self.from {
            TakeFrom::Exchange { .. } => QueueDeclare { exclusive: true, ..QueueDeclare::default() },
            _ => QueueDeclare { queue: self.queue, passive: true, ..QueueDeclare::default() },
        };
        Method::from(declare).encode(CONSUMES, out);
    }

    fn may_declare(&self) -> bool {
        let TakeFrom::Queue { queue, .. } = self.from else { return false };
        *self.stage == Stage::Looks && matches!(queue.missing, Missing::Declare(_))
    }

    fn declare(&mut self, out: &mut Vec<u8>) {
        let TakeFrom::Queue { queue, .. } = self.from else { return };
        let Missing::Declare(arguments) = &queue.missing else { return };
        *self.stage = Stage::Declares;
        let bytes = table_bytes(arguments);
        let arguments = Table::new(&bytes).unwrap_or_default();
        Method::from(ChannelOpen::default()).encode(CONSUMES, out);
        let declare = QueueDeclare { queue: self.queue, durable: true, arguments, ..QueueDeclare::default() };
        Method::from(declare).encode(CONSUMES, out);
    }

    /// Takes an answer on the channel that consumes.
    fn answered(&mut self, method: &Method<'_>, out: &mut Vec<u8>) -> SourceEvent<'static> {
        let Method::QueueDeclareOk(answer) = method else { return SourceEvent::Progress };
        answer.queue.clone_into(self.queue);
        if let TakeFrom::Exchange { name, key } = self.from {
            let bind = QueueBind { queue: self.queue, exchange: name, routing_key: key, ..QueueBind::default() };
            Method::from(bind).encode(CONSUMES, out);
        }
        *self.stage = Stage::Consumes;
        if self.terms.ack != AckMode::NoAck {
            let qos = BasicQos { prefetch_count: self.terms.prefetch, ..BasicQos::default() };
            Method::from(qos).encode(CONSUMES, out);
        }
        let none: &[(String, Value)] = &[];
        let bytes = table_bytes(match self.from {
            TakeFrom::Queue { consumer, .. } => consumer,
            _ => none,
        });
        let consume = BasicConsume {
            queue: self.queue,
            no_ack: self.terms.ack == AckMode::NoAck,
            arguments: Table::new(&bytes).unwrap_or_default(),
            ..BasicConsume::default()
        };
        Method::from(consume).encode(CONSUMES, out);
        SourceEvent::Ready { left: Some(answer.message_count.into()) }
    }
}
