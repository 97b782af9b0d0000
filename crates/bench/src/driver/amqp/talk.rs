//! One AMQP 0-9-1 connection that carries messages: publishes in turn to where its part sends,
//! takes what is pushed to it or asks for each message by itself, and acknowledges what is due.

use amqp091::client::{Client, Event as Said, PublishTemplate};
use amqp091::codec::Method;
use amqp091::codec::methods::BasicAck;
use wire::Output;

use super::super::session::{CHANNEL, refusal};
use super::super::{AckCount, Conversation, Event, in_turn};
use bench_record::failure::{Context, Failure};

/// One connection that carries messages.
pub(super) struct AmqpTalk {
    pub(super) client: Client,
    pub(super) output: Output,
    /// Message number n uses the one at n modulo their number; empty: this connection publishes
    /// nothing.
    pub(super) templates: Vec<PublishTemplate>,
    pub(super) published: u64,
    /// The encoded request for one message, where none are pushed.
    pub(super) get: Option<Vec<u8>>,
    pub(super) acks: AckCount,
    /// True when one acknowledgement stands for several deliveries.
    pub(super) multiple: bool,
    /// Tag of the newest delivery.
    pub(super) newest: u64,
}

impl AmqpTalk {
    fn ask_for_next(&mut self) {
        if let Some(get) = &self.get {
            self.output.tail().extend_from_slice(get);
        }
    }

    fn acknowledge(&mut self, delivery_tag: u64) {
        self.newest = delivery_tag;
        if self.acks.due() {
            self.client.send(CHANNEL, BasicAck { delivery_tag, multiple: self.multiple }, self.output.tail());
        }
    }
}

impl Conversation for AmqpTalk {
    fn publish(&mut self, body: &[u8]) -> Result<(), Failure> {
        self.published += 1;
        let template = in_turn(&self.templates, self.published)?;
        template.append(body, self.output.tail());
        Ok(())
    }

    fn receive(&mut self, input: &[u8], on: &mut dyn FnMut(Event<'_>)) -> Result<usize, Failure> {
        let mut rest = input;
        while let Some(said) = self.client.poll(&mut rest, self.output.tail()).context("reading from the broker")? {
            match said {
                Said::Deliver { delivery_tag, redelivered, message, .. } => {
                    on(Event::Delivery { body: message.body, redelivered });
                    self.acknowledge(delivery_tag);
                }
                Said::Got { delivery_tag, redelivered, message, .. } => {
                    on(Event::Delivery { body: message.body, redelivered });
                    self.acknowledge(delivery_tag);
                    self.ask_for_next();
                }
                Said::Method { method: Method::BasicGetEmpty(_), .. } => self.ask_for_next(),
                Said::Ack { delivery_tag, multiple, .. } => {
                    on(Event::Confirm { upto: delivery_tag, multiple, accepted: true });
                }
                Said::Nack { delivery_tag, multiple, .. } => {
                    on(Event::Confirm { upto: delivery_tag, multiple, accepted: false });
                }
                Said::Returned { .. } => on(Event::Returned),
                other => {
                    if let Some(failure) = refusal(&other) {
                        return Err(failure);
                    }
                }
            }
        }
        Ok(input.len() - rest.len())
    }

    fn settle(&mut self) -> Result<(), Failure> {
        if self.acks.take_rest() {
            self.client.send(CHANNEL, BasicAck { delivery_tag: self.newest, multiple: true }, self.output.tail());
        }
        Ok(())
    }

    fn output(&mut self) -> &mut Output {
        &mut self.output
    }
}
