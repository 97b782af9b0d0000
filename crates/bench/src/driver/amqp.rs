//! AMQP 0-9-1: queues and exchanges on a control connection, one connection with one channel for
//! each part.

mod talk;

use std::thread::sleep;
use std::time::Duration;

use amqp091::client::{Event as Said, PublishTemplate};
use amqp091::codec::methods::{
    BasicConsume, BasicGet, BasicPublish, BasicQos, ConfirmSelect, ExchangeDeclare, ExchangeDelete, QueueBind,
    QueueDeclare, QueueDelete,
};
use amqp091::codec::table::{Value, encode_fields};
use amqp091::codec::{BasicProperties, Method, Table};

use super::session::{CHANNEL, Questions, Session};
use super::{AckCount, Driver, Line, Notation, Part, SELECTED, SELECTOR};
use bench_record::failure::{Context, Failure};
use bench_record::scenario::{Destination, Mode, QueueKind, Scenario};
use bench_record::target::Target;
use talk::AmqpTalk;

const KEYS: Notation = Notation { between: '.', any: '*' };
/// Delivery modes as the protocol numbers them.
pub(crate) const TRANSIENT: u8 = 1;
pub(crate) const PERSISTENT: u8 = 2;
/// Arguments of a consumer that asks for some messages: Hermod's, and that of Qpid's brokers.
const SELECTOR_ARGUMENTS: [&str; 2] = ["x-selector", "x-filter-jms-selector"];
/// How often, and how long apart, it is looked whether an unexpected message was
/// delivered all the same.
const UNWANTED_LOOKS: usize = 10;
const UNWANTED_APART: Duration = Duration::from_millis(20);
/// Bindings that are asked for before their answers have come.
const BINDINGS_UNANSWERED: usize = 100;

/// The delivery mode of the messages of `scenario`.
pub(super) fn delivery_mode(scenario: &Scenario) -> u8 {
    if scenario.message.persistent { PERSISTENT } else { TRANSIENT }
}

/// The encoded properties of every message: its delivery mode and nothing else.
pub(crate) fn properties(mode: u8) -> Vec<u8> {
    BasicProperties { delivery_mode: Some(mode), ..BasicProperties::default() }.to_bytes()
}

/// The encoded arguments of a queue on `target` that holds at most `most` messages. Only durable
/// queues are of the target's type: brokers that have types keep them for what is to last.
pub(crate) fn queue_arguments(target: &Target, kind: QueueKind, most: Option<u32>) -> Vec<u8> {
    let mut arguments = Vec::new();
    if let Some(kind) = target.queue_type.as_ref().filter(|_| kind == QueueKind::Durable) {
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
    /// The argument by which its consumers ask for some messages, once it was found.
    selector_argument: &'static str,
}

impl AmqpDriver {
    pub(super) fn new(target: Target, scenario: Scenario, run: u32) -> Self {
        let [selector_argument, _] = SELECTOR_ARGUMENTS;
        Self { target, scenario, prefix: format!("hermod-bench.{run:08x}"), control: None, selector_argument }
    }

    fn queue(&self, number: usize) -> String {
        self.scenario.topology.queue_name.clone().unwrap_or_else(|| format!("{}.{number}", self.prefix))
    }

    fn idle_queue(&self, number: usize) -> String {
        format!("{}.idle.{number}", self.prefix)
    }

    /// Where the consumers of producer `id` send their replies.
    fn reply_queue(&self, id: usize) -> String {
        format!("{}.reply.{id}", self.prefix)
    }

    /// How many queues carry messages.
    fn queues(&self) -> usize {
        match self.scenario.mode {
            Mode::Pingpong => 2,
            // Without subscribers a topic has no queues.
            Mode::Throughput if self.scenario.is_topic() && self.scenario.topology.consumers == 0 => 0,
            Mode::Throughput | Mode::Exchange => self.scenario.topology.queues,
        }
    }

    /// The kind of the run's own exchange; none: messages go to queues by their names.
    fn exchange(&self) -> Option<&'static str> {
        match self.scenario.topology.destination {
            Destination::Queue | Destination::Spread => None,
            Destination::Fanout => Some("fanout"),
            Destination::Direct => Some("direct"),
            Destination::Pattern | Destination::Topic | Destination::DurableTopic => Some("topic"),
        }
    }

    /// What messages for a queue are published with.
    fn routing_key(&self, number: usize) -> String {
        match self.scenario.topology.destination {
            Destination::Queue | Destination::Spread | Destination::Direct => self.queue(number),
            Destination::Fanout => String::new(),
            Destination::Pattern => KEYS.matched(&format!("bench.{number}")),
            Destination::Topic | Destination::DurableTopic => "bench.topic".to_owned(),
        }
    }

    /// What a queue is bound with: exactly one of these matches its messages.
    fn binding_keys(&self, number: usize) -> Vec<String> {
        match self.scenario.topology.destination {
            Destination::Pattern => KEYS.patterns(&format!("bench.{number}"), self.scenario.topology.bindings),
            _ => vec![self.routing_key(number)],
        }
    }

    /// Declares a queue of this run and binds it where the scenario needs it.
    fn make_queue(&self, session: &mut Session, name: &str, keys: &[String], most: Option<u32>) -> Result<(), Failure> {
        let kind = self.scenario.topology.queue;
        let arguments = queue_arguments(&self.target, kind, most);
        session.call(QueueDeclare {
            queue: name,
            durable: kind == QueueKind::Durable,
            exclusive: kind == QueueKind::Exclusive,
            arguments: Table::new(&arguments).context("queue arguments")?,
            ..QueueDeclare::default()
        })?;
        if self.exchange().is_none() {
            return Ok(());
        }
        let what = "the bindings of a queue";
        let questions = Questions { what, count: keys.len(), unanswered: BINDINGS_UNANSWERED };
        let mut bind = |at: usize, out: &mut Vec<u8>| {
            let bind =
                QueueBind { queue: name, exchange: &self.prefix, routing_key: &keys[at], ..QueueBind::default() };
            Method::from(bind).encode(CHANNEL, out);
        };
        session.ask(questions, &mut bind, &mut |said, _| {
            Ok(usize::from(matches!(said, Said::Method { method: Method::QueueBindOk(_), .. })))
        })
    }

    fn control(&mut self) -> Result<&mut Session, Failure> {
        self.control.as_mut().ok_or_else(|| Failure::new("the control connection is not open"))
    }

    /// Starts to consume what the consumer `id` reads.
    fn subscribe(&self, session: &mut Session, id: usize) -> Result<(), Failure> {
        let queues = self.scenario.queues_of(id);
        if self.scenario.topology.queue == QueueKind::Exclusive {
            self.make_queue(session, &self.queue(id), &self.binding_keys(id), None)?;
        }
        if self.scenario.clients.prefetch > 0 && !self.scenario.clients.poll {
            session.call(BasicQos { prefetch_count: self.scenario.clients.prefetch, ..BasicQos::default() })?;
        }
        if self.scenario.clients.poll {
            // The first request leaves with the consumer's first turn.
            return Ok(());
        }
        let arguments =
            self.scenario.clients.selector.map_or(Vec::new(), |_| selector_arguments(self.selector_argument, SELECTOR));
        for (at, number) in queues.enumerate() {
            let (queue, tag) = (self.queue(number), format!("c{at}"));
            let consume = BasicConsume {
                queue: &queue,
                consumer_tag: &tag,
                no_ack: self.scenario.clients.ack_every == 0,
                arguments: Table::new(&arguments).context("arguments of a consumer")?,
                ..BasicConsume::default()
            };
            if self.scenario.clients.drain {
                // Nothing may come before the time is taken: this leaves with the consumer's first
                // turn.
                Method::from(consume).encode(CHANNEL, session.output.tail());
            } else {
                session.call(consume)?;
            }
        }
        Ok(())
    }

    /// What a connection publishes with that sends to `queue`; in a spread, to all of them in turn.
    fn templates(&self, session: &Session, queue: usize) -> Result<Vec<PublishTemplate>, Failure> {
        let selects = self.scenario.selects() as usize;
        let turns = if self.scenario.topology.destination == Destination::Spread {
            self.scenario.topology.queues
        } else {
            selects
        };
        let template = |turn: usize| {
            let number = if self.scenario.topology.destination == Destination::Spread { turn } else { queue };
            let key = self.routing_key(number);
            let exchange = if self.exchange().is_some() { self.prefix.as_str() } else { "" };
            let publish = BasicPublish { exchange, routing_key: &key, ..BasicPublish::default() };
            let properties = self.properties(if turn == 0 { SELECTED } else { "B" })?;
            Ok(PublishTemplate::new(CHANNEL, publish, &properties, session.client.frame_max()))
        };
        (0..turns).map(template).collect()
    }

    /// The encoded properties of a message of this `kind`, which is what consumers select by.
    fn properties(&self, kind: &str) -> Result<Vec<u8>, Failure> {
        let mut headers = Vec::new();
        if self.scenario.clients.selector.is_some() {
            headers.push(("kind".to_owned(), Value::Str(kind.as_bytes().to_vec())));
        }
        let fields = encode_fields(&headers);
        let table = Table::new(&fields).context("headers of a message")?;
        let properties = BasicProperties {
            headers: (!headers.is_empty()).then_some(table),
            delivery_mode: Some(delivery_mode(&self.scenario)),
            priority: self.scenario.message.priority,
            ..BasicProperties::default()
        };
        Ok(properties.to_bytes())
    }

    /// The template of what answers producer `id`.
    fn reply_template(&self, session: &Session, id: usize) -> PublishTemplate {
        let queue = self.reply_queue(id);
        let publish = BasicPublish { routing_key: &queue, ..BasicPublish::default() };
        PublishTemplate::new(CHANNEL, publish, &properties(TRANSIENT), session.client.frame_max())
    }

    /// Makes the queue of producer `id` for replies, and consumes it.
    fn await_replies(&self, session: &mut Session, id: usize) -> Result<(), Failure> {
        let queue = self.reply_queue(id);
        session.call(QueueDeclare { queue: &queue, exclusive: true, ..QueueDeclare::default() })?;
        session.call(BasicConsume { queue: &queue, consumer_tag: "r", no_ack: true, ..BasicConsume::default() })?;
        Ok(())
    }

    /// Finds the argument by which consumers ask for some messages.
    fn find_selectors(&self) -> Result<&'static str, Failure> {
        for argument in SELECTOR_ARGUMENTS {
            if self.selects_by(argument)? {
                return Ok(argument);
            }
        }
        Err(Failure::lacking(format!("selectors over AMQP 0-9-1 (the arguments {})", SELECTOR_ARGUMENTS.join(" and "))))
    }

    /// A broker may well take an argument and not know it, so this looks whether a message that is
    /// not asked for stays.
    fn selects_by(&self, argument: &str) -> Result<bool, Failure> {
        let mut session = Session::open(&self.target, "probe")?;
        // Of its own: the queue of the connection before may be there for a while yet, and locked.
        let queue = format!("{}.probe.{argument}", self.prefix);
        session.call(QueueDeclare { queue: &queue, exclusive: true, ..QueueDeclare::default() })?;
        let arguments = selector_arguments(argument, "kind = 'nothing of this kind'");
        let arguments = Table::new(&arguments).context("arguments of a consumer")?;
        let consume = BasicConsume { queue: &queue, no_ack: true, arguments, ..BasicConsume::default() };
        if session.call(consume).is_err() {
            return Ok(false);
        }
        let publish = BasicPublish { routing_key: &queue, ..BasicPublish::default() };
        let template = PublishTemplate::new(CHANNEL, publish, &properties(TRANSIENT), session.client.frame_max());
        template.append(b"probe", session.output.tail());
        for _ in 0..UNWANTED_LOOKS {
            if session.call(QueueDeclare { queue: &queue, passive: true, ..QueueDeclare::default() })? == 0 {
                return Ok(false);
            }
            sleep(UNWANTED_APART);
        }
        Ok(true)
    }
}

/// The encoded arguments of a consumer with this selector.
fn selector_arguments(argument: &str, selector: &str) -> Vec<u8> {
    encode_fields(&[(argument.to_owned(), Value::Str(selector.as_bytes().to_vec()))])
}

impl Driver for AmqpDriver {
    fn prepare(&mut self) -> Result<(), Failure> {
        if self.scenario.clients.selector.is_some() {
            self.selector_argument = self.find_selectors()?;
        }
        let mut control = Session::open(&self.target, "control")?;
        if let Some(kind) = self.exchange() {
            control.call(ExchangeDeclare { exchange: &self.prefix, kind, ..ExchangeDeclare::default() })?;
        }
        if self.scenario.topology.queue != QueueKind::Exclusive {
            for number in 0..self.queues() {
                self.make_queue(&mut control, &self.queue(number), &self.binding_keys(number), None)?;
            }
        }
        for number in 0..self.scenario.topology.idle_queues {
            let keys = self.binding_keys(number);
            self.make_queue(&mut control, &self.idle_queue(number), &keys, Some(self.scenario.topology.idle_length))?;
        }
        self.control = Some(control);
        Ok(())
    }

    fn open(&mut self, part: Part) -> Result<Line, Failure> {
        let queues = self.scenario.topology.queues;
        let (name, publish, consume) = match part {
            Part::Produce(id) => (format!("producer {id}"), Some(id % queues), None),
            Part::Consume(id) => (format!("consumer {id}"), None, Some(id % queues)),
            Part::PingPong { far: false } => ("near end".to_owned(), Some(0), Some(1)),
            Part::PingPong { far: true } => ("far end".to_owned(), Some(1), Some(0)),
        };
        let mut session = Session::open(&self.target, &name)?;
        if publish.is_some() && self.scenario.clients.window > 0 {
            session.call(ConfirmSelect::default())?;
        }
        let mut templates = publish.map_or(Ok(Vec::new()), |queue| self.templates(&session, queue))?;
        if let Some(queue) = consume {
            self.subscribe(&mut session, queue)?;
        }
        match part {
            Part::Produce(id) if self.scenario.clients.reply => self.await_replies(&mut session, id)?,
            Part::Consume(id) if self.scenario.clients.reply => {
                templates.push(self.reply_template(&session, id % self.scenario.topology.producers));
            }
            _ => {}
        }
        let get = consume.filter(|_| self.scenario.clients.poll).map(|number| {
            let (queue, mut get) = (self.queue(number), Vec::new());
            let no_ack = self.scenario.clients.ack_every == 0;
            Method::from(BasicGet { queue: &queue, no_ack, ..BasicGet::default() }).encode(CHANNEL, &mut get);
            get
        });
        let Session { link, client, mut output, .. } = session;
        output.tail().extend_from_slice(get.as_deref().unwrap_or_default());
        link.set_delay(&self.scenario)?;
        // Replies to a producer need no acknowledgement.
        let acks = AckCount::new(if consume.is_some() { self.scenario.clients.ack_every } else { 0 });
        let multiple = self.scenario.clients.ack_every > 1;
        let talk = AmqpTalk { client, output, templates, published: 0, get, acks, multiple, newest: 0 };
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
        if self.scenario.topology.queue != QueueKind::Exclusive {
            names.extend((0..self.queues()).map(|number| self.queue(number)));
            names.extend((0..self.scenario.topology.idle_queues).map(|number| self.idle_queue(number)));
        }
        let exchange = self.exchange().map(|_| self.prefix.clone());
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
