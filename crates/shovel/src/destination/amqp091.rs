//! A destination by AMQP 0-9-1: publishes that are mandatory and confirmed. One that comes back, or
//! is refused, ends the connection before it is acknowledged to its source.

use std::time::{SystemTime, UNIX_EPOCH};

use amqp091::client::{Client, Event, PublishTemplate, Received};
use amqp091::codec::Method;
use amqp091::codec::methods::{BasicPublish, ChannelOpen, ConfirmSelect, QueueDeclare};
use amqp091::codec::table::Table;

use super::DestinationEvent;
use crate::headers::{Rewriting, table_bytes};
use crate::peer::options091;
use crate::spec::{Destination as DestinationSpec, GiveTo, Missing};
use crate::uri::Uri;

const CHANNEL: u16 = 1;
/// The reply code of what is not there.
const NOT_FOUND: u16 = 404;

/// See the module.
pub(crate) struct Destination091 {
    client: Client,
    to: GiveTo,
    rewriting: Rewriting,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It looks whether the queue is there.
    Looks,
    /// It declares the queue.
    Declares,
    /// It waits for the answer to `confirm.select`.
    Selects,
    /// It takes messages.
    Open,
}

impl Destination091 {
    pub(crate) fn new(spec: &DestinationSpec, uri: &Uri) -> Self {
        let client = Client::new(options091(uri, "destination"));
        Self { client, to: spec.to.clone(), rewriting: Rewriting::of(spec), stage: Stage::Looks }
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

    pub(crate) fn give(&mut self, message: &Received<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        let (exchange, routing_key) = match &self.to {
            GiveTo::Queue(queue) => ("", queue.name.as_str()),
            GiveTo::Exchange { name, key } => {
                (name.as_deref().unwrap_or(message.exchange), key.as_deref().unwrap_or(message.routing_key))
            }
            GiveTo::Address(address) => ("", address.as_str()),
        };
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let rewritten = self.rewriting.apply(message.properties, seconds)?;
        let properties = rewritten.as_deref().unwrap_or(message.properties);
        let publish = BasicPublish { exchange, routing_key, mandatory: true, ..BasicPublish::default() };
        PublishTemplate::new(CHANNEL, publish, properties, self.client.frame_max()).append(message.body, out);
        Ok(())
    }

    pub(crate) fn poll(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<Option<DestinationEvent>, String> {
        let Self { client, to, stage, .. } = self;
        let Some(event) = client.poll(input, out).map_err(|error| error.to_string())? else { return Ok(None) };
        let progress = Ok(Some(DestinationEvent::Progress));
        match event {
            Event::Connected(_) => {
                Method::from(ChannelOpen::default()).encode(CHANNEL, out);
                match to {
                    GiveTo::Queue(queue) => {
                        let look = QueueDeclare { queue: &queue.name, passive: true, ..QueueDeclare::default() };
                        Method::from(look).encode(CHANNEL, out);
                    }
                    _ => select(stage, out),
                }
                progress
            }
            Event::Method { method: Method::QueueDeclareOk(_), .. } => {
                select(stage, out);
                progress
            }
            Event::Method { method: Method::ConfirmSelectOk(_), .. } => {
                *stage = Stage::Open;
                Ok(Some(DestinationEvent::Ready))
            }
            Event::Ack { delivery_tag, multiple, .. } => {
                let from = if multiple { 0 } else { delivery_tag };
                Ok(Some(DestinationEvent::Confirmed(from..=delivery_tag)))
            }
            Event::Nack { .. } => Err("the destination refused a message: is it full, or out of room?".to_owned()),
            Event::Returned { reply_code, reply_text, message, .. } => Err(format!(
                "the destination has no queue for a message: {reply_code} {reply_text}, exchange '{}', routing key '{}'",
                message.exchange, message.routing_key
            )),
            Event::Blocked { .. } => Ok(Some(DestinationEvent::Blocked)),
            Event::Unblocked => Ok(Some(DestinationEvent::Unblocked)),
            Event::ChannelClosed { reply_code: NOT_FOUND, .. } if declare(to, stage, out) => progress,
            Event::ChannelClosed { reply_code, reply_text, .. } | Event::Closed { reply_code, reply_text } => {
                Err(format!("the destination refused it: {reply_code} {reply_text}"))
            }
            Event::CloseOk => Ok(Some(DestinationEvent::Closed)),
            _ => progress,
        }
    }
}

fn select(stage: &mut Stage, out: &mut Vec<u8>) {
    *stage = Stage::Selects;
    Method::from(ConfirmSelect::default()).encode(CHANNEL, out);
}

/// Declares the queue that is not there, if that is wanted.
fn declare(to: &GiveTo, stage: &mut Stage, out: &mut Vec<u8>) -> bool {
    let GiveTo::Queue(queue) = to else { return false };
    let (Stage::Looks, Missing::Declare(arguments)) = (*stage, &queue.missing) else { return false };
    *stage = Stage::Declares;
    let bytes = table_bytes(arguments);
    let arguments = Table::new(&bytes).unwrap_or_default();
    Method::from(ChannelOpen::default()).encode(CHANNEL, out);
    let declare = QueueDeclare { queue: &queue.name, durable: true, arguments, ..QueueDeclare::default() };
    Method::from(declare).encode(CHANNEL, out);
    true
}
