//! AMQP 1.0 over this program's own client: one connection with one session and one link for each
//! queue of a part.
//!
//! Queues are made by RabbitMQ's management nodes where a broker offers them (`LINK_PAIR_V1_0`).
//! Elsewhere they come into being with the first link that names them, as JMS clients have it.

mod management;
mod session;
mod talk;

use amqp10::client::LinkId;
use amqp10::codec::message::Header;
use amqp10::codec::performative::{Attach, Role, SenderSettleMode};
use amqp10::codec::terminus::{Durability, ExpiryPolicy};
use amqp10::codec::{AttachTarget, Encode, Map, Section, Source, Symbols, Target as Terminus, Value};

use super::{AckCount, Driver, Line, Part, SELECTED, SELECTOR};
use bench_record::failure::{Context, Failure};
use bench_record::scenario::{Destination, QueueKind, Scenario};
use bench_record::target::Target;
use management::Management;
use session::Session;
use talk::{Amqp10Talk, Sending, Taking};

/// Credit of a consumer without a prefetch: as many as the broker can have on their way.
const NO_PREFETCH: u32 = 20_000;
/// The filter of JMS selectors, by its descriptor.
const SELECTOR_FILTER: u64 = 0x468c_0000_0004;

/// A broker that speaks AMQP 1.0.
pub(super) struct Amqp10Driver {
    target: Target,
    scenario: Scenario,
    /// What the names of this run's queues begin with.
    prefix: String,
    /// Where the broker has management nodes.
    management: Option<Management>,
}

/// Whether a name is one of a queue or of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Queue,
    Topic,
}

impl Kind {
    fn capability(self) -> &'static [&'static str] {
        match self {
            Self::Queue => &["queue"],
            Self::Topic => &["topic"],
        }
    }
}

impl Amqp10Driver {
    pub(super) fn new(target: Target, scenario: Scenario, run: u32) -> Result<Self, Failure> {
        let exchange =
            matches!(scenario.topology.destination, Destination::Fanout | Destination::Direct | Destination::Pattern);
        let durable = scenario.topology.destination == Destination::DurableTopic;
        let lacks = [
            (exchange, "exchanges over AMQP 1.0 (they are made by AMQP 0-9-1: use amqp:// for them)"),
            (durable, "durable subscriptions over this program's client for AMQP 1.0 (use qpid-jms:// for them)"),
            (scenario.topology.idle_queues > 0, "bound on a queue without a consumer, over AMQP 1.0"),
        ];
        match lacks.iter().find(|(wanted, _)| *wanted) {
            Some((_, what)) => Err(Failure::lacking(*what)),
            None => Ok(Self { target, scenario, prefix: format!("hermod-bench.{run:08x}"), management: None }),
        }
    }

    fn queue(&self, number: usize) -> String {
        match &self.scenario.topology.queue_name {
            Some(name) => name.clone(),
            None if self.scenario.is_topic() => format!("{}.topic", self.prefix),
            None => format!("{}.{number}", self.prefix),
        }
    }

    /// Where the consumers of producer `id` send their replies.
    fn reply_queue(&self, id: usize) -> String {
        format!("{}.reply.{id}", self.prefix)
    }

    fn kind(&self) -> Kind {
        if self.scenario.is_topic() { Kind::Topic } else { Kind::Queue }
    }

    /// How a link names a queue or a topic.
    fn address(&self, name: &str) -> String {
        match self.management {
            Some(_) => management::queue_address(name),
            None => name.to_owned(),
        }
    }

    /// The queues that this run makes.
    fn names(&self) -> Vec<String> {
        if self.scenario.is_topic() {
            return Vec::new();
        }
        let queues = match self.scenario.mode {
            bench_record::scenario::Mode::Pingpong => 2,
            _ => self.scenario.topology.queues,
        };
        let replies = if self.scenario.clients.reply { self.scenario.topology.producers } else { 0 };
        let replies = (0..replies).map(|id| self.reply_queue(id));
        (0..queues).map(|number| self.queue(number)).chain(replies).collect()
    }

    /// Attaches what a connection sends with to the queue or topic `name`.
    fn open_sender(&self, session: &mut Session, name: &str, kind: Kind) -> Result<LinkId, Failure> {
        let address = self.address(name);
        let target =
            Terminus { address: Some(&address), capabilities: Symbols::of(kind.capability()), ..Terminus::default() };
        let settled = self.scenario.clients.window == 0;
        let attach = Attach {
            name: &format!("to {name}"),
            snd_settle_mode: if settled { SenderSettleMode::Settled } else { SenderSettleMode::Unsettled },
            source: Some(Source::default()),
            target: Some(AttachTarget::Target(target)),
            ..Attach::default()
        };
        session.attach(&attach)
    }

    /// Attaches what takes from the queue or topic `name`, without credit.
    fn open_receiver(
        &self,
        session: &mut Session,
        name: &str,
        kind: Kind,
        settled: Settled,
    ) -> Result<LinkId, Failure> {
        let address = self.address(name);
        let selected = self.scenario.clients.selector.map(|_| selector_filter());
        let filter = selected.as_deref().map(|bytes| Map::new(bytes).context("a filter")).transpose()?;
        let source = Source {
            address: Some(&address),
            durable: Durability::None,
            expiry_policy: ExpiryPolicy::LinkDetach,
            filter,
            capabilities: Symbols::of(kind.capability()),
            ..Source::default()
        };
        let attach = Attach {
            name: &format!("from {name}"),
            role: Role::Receiver,
            snd_settle_mode: match settled {
                Settled::BySender => SenderSettleMode::Settled,
                Settled::ByReceiver => SenderSettleMode::Unsettled,
            },
            source: Some(source),
            target: Some(AttachTarget::Target(Terminus::default())),
            ..Attach::default()
        };
        session.attach(&attach)
    }

    /// What stands before the body of each message of this `kind`, which is what consumers select
    /// by.
    fn front(&self, kind: &str) -> Vec<u8> {
        let mut front = Vec::new();
        let header = Header {
            durable: self.scenario.message.persistent,
            priority: self.scenario.message.priority,
            ..Header::default()
        };
        header.encode(&mut front);
        if self.scenario.clients.selector.is_some() {
            let pairs = vec![(Value::Str("kind".to_owned()), Value::Str(kind.to_owned()))];
            Section::ApplicationProperties.encode(&Value::Map(pairs), &mut front);
        }
        front
    }

    /// Attaches what the part consumes.
    fn consume(&self, session: &mut Session, queue: usize) -> Result<Vec<LinkId>, Failure> {
        // What bystanders are sent stays unsettled.
        let presettled = self.scenario.acks_nothing() && !self.scenario.clients.bystander;
        let settled = if presettled { Settled::BySender } else { Settled::ByReceiver };
        let names = self.scenario.queues_of(queue).map(|number| self.queue(number));
        names.map(|name| self.open_receiver(session, &name, self.kind(), settled)).collect()
    }

    /// Attaches what the part sends with.
    fn produce(&self, session: &mut Session, queue: usize) -> Result<Vec<LinkId>, Failure> {
        let names = self.scenario.queues_of(queue).map(|number| self.queue(number));
        names.map(|name| self.open_sender(session, &name, self.kind())).collect()
    }
}

/// Who settles what is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settled {
    BySender,
    ByReceiver,
}

/// The encoded filters of a consumer that asks for some messages.
fn selector_filter() -> Vec<u8> {
    let filter = Value::Described(Box::new((Value::U64(SELECTOR_FILTER), Value::Str(SELECTOR.to_owned()))));
    Value::Map(vec![(Value::Symbol("jms-selector".to_owned()), filter)]).to_bytes()
}

/// What a broker says of itself: product and version.
pub(super) fn server(target: &Target) -> Result<(String, String), Failure> {
    Session::open(target, "greeting").map(|session| session.server)
}

impl Driver for Amqp10Driver {
    fn prepare(&mut self) -> Result<(), Failure> {
        let session = Session::open(&self.target, "control")?;
        if !session.has_management {
            if self.target.queue_type.is_some() {
                return Err(Failure::lacking("types of queues over AMQP 1.0 (the broker has no management nodes)"));
            }
            return Ok(());
        }
        if self.scenario.is_topic() {
            return Err(Failure::lacking("topics over AMQP 1.0 in a broker whose topics are exchanges (use amqp://)"));
        }
        let mut management = Management::open(session)?;
        let kind = self.target.queue_type.as_deref().filter(|_| self.scenario.topology.queue == QueueKind::Durable);
        for name in self.names() {
            management.declare(&name, kind)?;
        }
        self.management = Some(management);
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
        let mut senders = publish.map_or(Ok(Vec::new()), |queue| self.produce(&mut session, queue))?;
        let mut receivers = consume.map_or(Ok(Vec::new()), |queue| self.consume(&mut session, queue))?;
        match part {
            Part::Produce(id) if self.scenario.clients.reply => {
                let name = self.reply_queue(id);
                receivers.push(self.open_receiver(&mut session, &name, Kind::Queue, Settled::BySender)?);
            }
            Part::Consume(id) if self.scenario.clients.reply => {
                let name = self.reply_queue(id % self.scenario.topology.producers);
                senders.push(self.open_sender(&mut session, &name, Kind::Queue)?);
            }
            _ => {}
        }
        let Session { link, client, channel, .. } = session;
        link.set_delay(&self.scenario)?;
        let prefetch = match self.scenario.clients.prefetch {
            0 => NO_PREFETCH,
            some => u32::from(some),
        };
        let fronts = match self.scenario.selects() {
            1 => vec![self.front(SELECTED)],
            several => (0..several).map(|turn| self.front(if turn == 0 { SELECTED } else { "B" })).collect(),
        };
        let sending = Sending { links: senders, fronts, settled: self.scenario.clients.window == 0 };
        let taking = Taking {
            acks: AckCount::new(if consume.is_some() { self.scenario.clients.ack_every } else { 0 }),
            prefetch,
            polls: self.scenario.clients.poll,
        };
        let mut talk = Amqp10Talk::new(client, channel, sending, taking);
        talk.begin(&receivers)?;
        Ok(Line { link, talk: Box::new(talk) })
    }

    fn depth(&mut self) -> Result<Option<u64>, Failure> {
        let names = self.names();
        let Some(management) = &mut self.management else { return Ok(None) };
        names.iter().map(|name| management.depth(name)).sum::<Result<u64, Failure>>().map(Some)
    }

    /// Without management nodes nothing can be removed: names are this run's own.
    fn clean(&mut self) -> Result<(), Failure> {
        let names = self.names();
        let Some(management) = &mut self.management else { return Ok(()) };
        names.iter().try_for_each(|name| management.delete(name))
    }
}
