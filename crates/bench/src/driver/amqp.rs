//! AMQP 0-9-1: queues and exchanges on a control connection, one connection with one channel for each part.

use amqp091::client::{Client, Event as Said, PublishTemplate};
use amqp091::codec::methods::{
    BasicConsume, BasicPublish, BasicQos, ConfirmSelect, ExchangeDeclare, ExchangeDelete, QueueBind, QueueDeclare,
    QueueDelete,
};
use amqp091::codec::table::{Value, encode_fields};
use amqp091::codec::{BasicProperties, Table};
use wire::Output;

use super::session::{CHANNEL, Session, refusal};
use super::{AckCount, Conversation, Driver, Event, Line, Part};
use crate::failure::{Context, Failure};
use crate::scenario::{Mode, QueueKind, Scenario};
use crate::target::Target;

/// Delivery modes as the protocol numbers them.
const TRANSIENT: u8 = 1;
const PERSISTENT: u8 = 2;

/// The encoded properties of every message: its delivery mode and nothing else.
pub(crate) fn properties(persistent: bool) -> Vec<u8> {
    let mode = if persistent { PERSISTENT } else { TRANSIENT };
    BasicProperties { delivery_mode: Some(mode), ..BasicProperties::default() }.to_bytes()
}

/// The encoded arguments of a queue on `target` that holds at most `most` messages.
pub(crate) fn queue_arguments(target: &Target, most: Option<u32>) -> Vec<u8> {
    let mut arguments = Vec::new();
    if let Some(kind) = &target.queue_type {
        arguments.push(("x-queue-type".to_owned(), Value::Str(kind.clone().into_bytes())));
    }
    if let Some(most) = most {
        arguments.push(("x-max-length".to_owned(), Value::I64(most.into())));
    }
    encode_fields(&arguments)
}

/// A broker that speaks AMQP 0-9-1.
pub(super) struct AmqpDriver {
    target: Target,
    scenario: Scenario,
    /// What the names of this run's queues begin with.
    prefix: String,
    control: Option<Session>,
}

impl AmqpDriver {
    pub(super) fn new(target: Target, scenario: Scenario, run: u32) -> Self {
        Self { target, scenario, prefix: format!("hermod-bench.{run:08x}"), control: None }
    }

    fn queue(&self, number: usize) -> String {
        self.scenario.queue_name.clone().unwrap_or_else(|| format!("{}.{number}", self.prefix))
    }

    fn idle_queue(&self, number: usize) -> String {
        format!("{}.idle.{number}", self.prefix)
    }

    /// How many queues carry messages.
    fn queues(&self) -> usize {
        if self.scenario.mode == Mode::Pingpong { 2 } else { self.scenario.queues }
    }

    /// Declares a queue of this run and binds it where the scenario needs it.
    fn make_queue(&self, session: &mut Session, name: &str, most: Option<u32>) -> Result<(), Failure> {
        let kind = self.scenario.queue;
        let arguments = queue_arguments(&self.target, most);
        session.call(QueueDeclare {
            queue: name,
            durable: kind == QueueKind::Durable,
            exclusive: kind == QueueKind::Exclusive,
            arguments: Table::new(&arguments).context("queue arguments")?,
            ..QueueDeclare::default()
        })?;
        if self.scenario.fanout {
            session.call(QueueBind { queue: name, exchange: &self.prefix, ..QueueBind::default() })?;
        }
        Ok(())
    }

    fn control(&mut self) -> Result<&mut Session, Failure> {
        self.control.as_mut().ok_or_else(|| Failure::new("the control connection is not open"))
    }

    fn subscribe(&self, session: &mut Session, queue: usize) -> Result<(), Failure> {
        let name = self.queue(queue);
        if self.scenario.queue == QueueKind::Exclusive {
            self.make_queue(session, &name, None)?;
        }
        if self.scenario.prefetch > 0 {
            session.call(BasicQos { prefetch_count: self.scenario.prefetch, ..BasicQos::default() })?;
        }
        session.call(BasicConsume {
            queue: &name,
            consumer_tag: "c",
            no_ack: self.scenario.ack_every == 0,
            ..BasicConsume::default()
        })?;
        Ok(())
    }

    fn template(&self, session: &Session, queue: usize) -> PublishTemplate {
        let name = self.queue(queue);
        let publish = if self.scenario.fanout {
            BasicPublish { exchange: &self.prefix, ..BasicPublish::default() }
        } else {
            BasicPublish { routing_key: &name, ..BasicPublish::default() }
        };
        PublishTemplate::new(CHANNEL, publish, &properties(self.scenario.persistent), session.client.frame_max())
    }
}

impl Driver for AmqpDriver {
    fn prepare(&mut self) -> Result<(), Failure> {
        let mut control = Session::open(&self.target, "control")?;
        if self.scenario.fanout {
            control.call(ExchangeDeclare { exchange: &self.prefix, kind: "fanout", ..ExchangeDeclare::default() })?;
        }
        if self.scenario.queue != QueueKind::Exclusive {
            for number in 0..self.queues() {
                self.make_queue(&mut control, &self.queue(number), None)?;
            }
        }
        for number in 0..self.scenario.idle_queues {
            self.make_queue(&mut control, &self.idle_queue(number), Some(self.scenario.idle_length))?;
        }
        self.control = Some(control);
        Ok(())
    }

    fn open(&mut self, part: Part) -> Result<Line, Failure> {
        let (name, publish, consume) = match part {
            Part::Produce(id) => (format!("producer {id}"), Some(id % self.scenario.queues), None),
            Part::Consume(id) => (format!("consumer {id}"), None, Some(id % self.scenario.queues)),
            Part::PingPong { far: false } => ("near end".to_owned(), Some(0), Some(1)),
            Part::PingPong { far: true } => ("far end".to_owned(), Some(1), Some(0)),
        };
        let mut session = Session::open(&self.target, &name)?;
        if publish.is_some() && self.scenario.window > 0 {
            session.call(ConfirmSelect::default())?;
        }
        let template = self.template(&session, publish.unwrap_or(0));
        if let Some(queue) = consume {
            self.subscribe(&mut session, queue)?;
        }
        let Session { link, client, output, .. } = session;
        let acks = AckCount::new(self.scenario.ack_every);
        let multiple = self.scenario.ack_every > 1;
        let talk = AmqpTalk { client, output, template, acks, multiple, newest: 0 };
        Ok(Line { link, talk: Box::new(talk) })
    }

    fn depth(&mut self) -> Result<Option<u64>, Failure> {
        let names: Vec<String> = (0..self.queues()).map(|number| self.queue(number)).collect();
        let control = self.control()?;
        let mut held = 0;
        for name in &names {
            held += control.call(QueueDeclare { queue: name, passive: true, ..QueueDeclare::default() })?;
        }
        Ok(Some(held))
    }

    fn clean(&mut self) -> Result<(), Failure> {
        let mut names: Vec<String> = Vec::new();
        if self.scenario.queue != QueueKind::Exclusive {
            names.extend((0..self.queues()).map(|number| self.queue(number)));
            names.extend((0..self.scenario.idle_queues).map(|number| self.idle_queue(number)));
        }
        let exchange = self.scenario.fanout.then(|| self.prefix.clone());
        // Without a control connection nothing was made.
        let Some(control) = &mut self.control else { return Ok(()) };
        for name in &names {
            control.call(QueueDelete { queue: name, ..QueueDelete::default() })?;
        }
        if let Some(exchange) = &exchange {
            control.call(ExchangeDelete { exchange, ..ExchangeDelete::default() })?;
        }
        Ok(())
    }
}

/// One connection that carries messages.
struct AmqpTalk {
    client: Client,
    output: Output,
    template: PublishTemplate,
    acks: AckCount,
    /// True when one acknowledgement stands for several deliveries.
    multiple: bool,
    /// Tag of the newest delivery.
    newest: u64,
}

impl Conversation for AmqpTalk {
    fn publish(&mut self, body: &[u8]) -> Result<(), Failure> {
        self.template.append(body, self.output.tail());
        Ok(())
    }

    fn receive(&mut self, input: &[u8], on: &mut dyn FnMut(Event<'_>)) -> Result<usize, Failure> {
        let mut rest = input;
        while let Some(said) = self.client.poll(&mut rest, self.output.tail()).context("reading from the broker")? {
            match said {
                Said::Deliver { delivery_tag, redelivered, message, .. } => {
                    on(Event::Delivery { body: message.body, redelivered });
                    self.newest = delivery_tag;
                    if self.acks.due() {
                        self.client.ack(CHANNEL, delivery_tag, self.multiple, self.output.tail());
                    }
                }
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
            self.client.ack(CHANNEL, self.newest, true, self.output.tail());
        }
        Ok(())
    }

    fn output(&mut self) -> &mut Output {
        &mut self.output
    }
}
