//! The relay seen as a broker that neither reads nor keeps what it is sent: a producer's publish
//! frames come out at its consumer unchanged, and the consumer's acknowledgements come out at the
//! producer, where they are its confirms.

use amqp091::client::PublishTemplate;
use amqp091::codec::methods::{BasicAck, BasicPublish};
use amqp091::codec::{ContentHeader, Frame, FrameKind, Method, decode_frame, decode_method};
use amqp091::limits::DEFAULT_FRAME_MAX;
use wire::Output;

use super::amqp::{delivery_mode, properties};
use super::link::Link;
use super::{AckCount, Conversation, Driver, Event, Line, Part};
use crate::relay::hello::{Hello, PAIRED, Role};
use bench_record::failure::{Context, Failure};
use bench_record::scenario::Scenario;
use bench_record::target::Target;

const CHANNEL: u16 = 1;

/// A relay, for one run.
pub(super) struct RelayDriver {
    target: Target,
    scenario: Scenario,
    run: u32,
}

impl RelayDriver {
    pub(super) fn new(target: Target, scenario: Scenario, run: u32) -> Result<Self, Failure> {
        if scenario.topology.producers != scenario.topology.consumers {
            return Err(Failure::new("a relay pairs each producer with one consumer"));
        }
        Ok(Self { target, scenario, run })
    }
}

impl Driver for RelayDriver {
    fn prepare(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn open(&mut self, part: Part) -> Result<Line, Failure> {
        let (role, pair) = match part {
            Part::Produce(id) => (Role::Producer, id as u16),
            Part::Consume(id) => (Role::Consumer, id as u16),
            Part::PingPong { far: true } => (Role::Consumer, 0),
            Part::PingPong { far: false } => (Role::Producer, 0),
        };
        let mut link = Link::open(&self.target.address)?;
        let mut output = Output::keeping_all();
        output.put(&Hello { role, pair, run: self.run }.encode());
        link.write_all(&mut output)?;
        while link.input().is_empty() {
            if !link.read()? {
                return Err(Failure::new("the relay does not answer"));
            }
        }
        if link.input().first() != Some(&PAIRED) {
            return Err(Failure::new("this is no relay"));
        }
        link.consume(1);
        Ok(Line { link, talk: Box::new(RelayTalk::new(&self.scenario, self.run, output)) })
    }

    fn depth(&mut self) -> Result<Option<u64>, Failure> {
        Ok(None)
    }

    fn clean(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// One end of a pair.
struct RelayTalk {
    output: Output,
    template: PublishTemplate,
    acks: AckCount,
    multiple: bool,
    /// How many messages came.
    received: u64,
    /// Size of the body that is arriving, and what has come of it where it comes in parts.
    size: u64,
    parts: Vec<u8>,
}

impl RelayTalk {
    fn new(scenario: &Scenario, run: u32, output: Output) -> Self {
        // The same bytes that a broker would be sent.
        let queue = format!("hermod-bench.{run:08x}.0");
        let publish = BasicPublish { routing_key: &queue, ..BasicPublish::default() };
        Self {
            output,
            template: PublishTemplate::new(CHANNEL, publish, &properties(delivery_mode(scenario)), DEFAULT_FRAME_MAX),
            acks: AckCount::new(scenario.clients.ack_every),
            multiple: scenario.clients.ack_every > 1,
            received: 0,
            size: 0,
            parts: Vec::new(),
        }
    }

    fn take(&mut self, frame: Frame<'_>, on: &mut dyn FnMut(Event<'_>)) -> Result<(), Failure> {
        match frame.kind {
            // basic.ack and basic.nack; a publish need not be looked into.
            FrameKind::Method if matches!(frame.payload, [0, 60, 0, 80 | 120, ..]) => {
                let (upto, multiple, accepted) = match decode_method(frame.payload).context("an acknowledgement")? {
                    Method::BasicAck(ack) => (ack.delivery_tag, ack.multiple, true),
                    Method::BasicNack(nack) => (nack.delivery_tag, nack.multiple, false),
                    _ => return Ok(()),
                };
                on(Event::Confirm { upto, multiple, accepted });
            }
            FrameKind::Header => {
                let header =
                    ContentHeader::decode(frame.payload).ok_or_else(|| Failure::new("a broken content header"))?;
                self.size = header.body_size;
                self.parts.clear();
                if self.size == 0 {
                    self.deliver(&[], on);
                }
            }
            FrameKind::Body if self.parts.is_empty() && frame.payload.len() as u64 == self.size => {
                self.deliver(frame.payload, on);
            }
            FrameKind::Body => {
                self.parts.extend_from_slice(frame.payload);
                if self.parts.len() as u64 >= self.size {
                    let body = std::mem::take(&mut self.parts);
                    self.deliver(&body, on);
                    self.parts = body;
                    self.parts.clear();
                }
            }
            FrameKind::Method | FrameKind::Heartbeat => {}
        }
        Ok(())
    }

    fn deliver(&mut self, body: &[u8], on: &mut dyn FnMut(Event<'_>)) {
        on(Event::Delivery { body, redelivered: false });
        self.received += 1;
        if self.acks.due() {
            self.acknowledge(BasicAck { delivery_tag: self.received, multiple: self.multiple });
        }
    }

    fn acknowledge(&mut self, ack: BasicAck) {
        Method::from(ack).encode(CHANNEL, self.output.tail());
    }
}

impl Conversation for RelayTalk {
    fn publish(&mut self, body: &[u8]) -> Result<(), Failure> {
        self.template.append(body, self.output.tail());
        Ok(())
    }

    fn receive(&mut self, input: &[u8], on: &mut dyn FnMut(Event<'_>)) -> Result<usize, Failure> {
        let mut used = 0;
        while let Some(frame) = decode_frame(&input[used..], DEFAULT_FRAME_MAX).context("a frame through the relay")? {
            used += frame.wire_len();
            self.take(frame, on)?;
        }
        Ok(used)
    }

    fn settle(&mut self) -> Result<(), Failure> {
        if self.acks.take_rest() {
            self.acknowledge(BasicAck { delivery_tag: self.received, multiple: true });
        }
        Ok(())
    }

    fn output(&mut self) -> &mut Output {
        &mut self.output
    }
}
