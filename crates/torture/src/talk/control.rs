//! A connection that asks the broker one question at a time: to declare the queues of the load and
//! to see them empty. Besides, it publishes numbers, and takes them again.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use amqp091::client::{Client, Event, Options, PublishTemplate};
use amqp091::codec::methods::{
    BasicAck, BasicGet, BasicPublish, ChannelOpen, ConfirmSelect, ExchangeBind, ExchangeDeclare, QueueBind,
    QueueDeclare, QueueDelete, QueuePurge,
};
use amqp091::codec::table::{Value, encode_fields};
use amqp091::codec::{BasicProperties, Method, Table};

use super::Broken;
use super::amqp::{CHANNEL, refusal};
use super::link::Link;
use crate::topology::{
    BINDINGS, EXCHANGES, Exchange, FANOUT, HEADER_BINDINGS, KEY, LINKS, Overflow, PLAIN, QUEUES, Queue, VOID,
};

/// A delivery mode as the protocol numbers it.
const PERSISTENT: u8 = 2;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// An open connection with one channel.
pub(crate) struct Control {
    link: Link,
    client: Client,
    output: Vec<u8>,
    /// How many publishes it has numbered; `None` before it asked for confirms.
    published: Option<u64>,
}

impl Control {
    /// Connects to the AMQP port on loopback and opens a channel.
    pub(crate) fn open(port: u16) -> Result<Self, Broken> {
        let options = Options { connection_name: "crash".to_owned(), ..Options::default() };
        let mut control =
            Self { link: Link::open(port)?, client: Client::new(options), output: Vec::new(), published: None };
        control.client.start(&mut control.output);
        control.answer("the handshake", |event| matches!(event, Event::Connected(_)).then_some(0))?;
        control.call(ChannelOpen::default())?;
        Ok(control)
    }

    /// What a conversation that asks no questions goes on with.
    pub(super) fn into_parts(self) -> (Link, Client) {
        (self.link, self.client)
    }

    /// Makes the exchanges, queues and bindings of the load.
    pub(crate) fn declare(&mut self) -> Result<(), Broken> {
        EXCHANGES.iter().try_for_each(|exchange| self.declare_exchange(exchange))?;
        for queue in &QUEUES {
            self.declare_queue(queue)?;
        }
        let (exchange, kind, durable) = (VOID, "fanout", true);
        self.call(ExchangeDeclare { exchange, kind, durable, ..ExchangeDeclare::default() })?;
        self.declare_extra(VOID)?;
        self.call(QueueBind { queue: VOID, exchange, routing_key: VOID, ..QueueBind::default() })?;
        for (source, routing_key, destination) in LINKS.into_iter().chain([(VOID, VOID, FANOUT)]) {
            self.call(ExchangeBind { destination, source, routing_key, ..ExchangeBind::default() })?;
        }
        for (exchange, routing_key, queue) in BINDINGS {
            let queue = QUEUES[queue].name;
            self.call(QueueBind { queue, exchange, routing_key, ..QueueBind::default() })?;
        }
        for (exchange, header, queue) in HEADER_BINDINGS {
            // A header without a value need only be there.
            let arguments = [("x-match".to_owned(), Value::from("all")), (header.to_owned(), Value::Void)];
            let arguments = encode_fields(&arguments);
            let arguments = table(exchange, &arguments)?;
            self.call(QueueBind { queue: QUEUES[queue].name, exchange, arguments, ..QueueBind::default() })?;
        }
        Ok(())
    }

    /// Sees that what was declared before a crash is still there, and makes what need not be.
    pub(crate) fn verify(&mut self) -> Result<(), Broken> {
        for Exchange { name, kind, .. } in &EXCHANGES {
            self.call(ExchangeDeclare { exchange: name, kind, passive: true, ..ExchangeDeclare::default() })?;
        }
        for queue in &QUEUES {
            if queue.durable {
                self.depth(queue.name)?;
            } else {
                self.declare_queue(queue)?;
            }
        }
        Ok(())
    }

    /// Makes a durable queue that is none of the load's.
    pub(crate) fn declare_extra(&mut self, queue: &str) -> Result<(), Broken> {
        self.call(QueueDeclare { queue, durable: true, ..QueueDeclare::default() }).map(drop)
    }

    /// The same, that counts failed deliveries and has this queue for its dead letters.
    pub(crate) fn declare_counting(&mut self, queue: &str, dead: Option<&str>) -> Result<(), Broken> {
        let mut arguments = vec![("x-count-returns".to_owned(), Value::Bool(true))];
        if let Some(dead) = dead {
            arguments.push(("x-dead-letter-exchange".to_owned(), Value::from("")));
            arguments.push(("x-dead-letter-routing-key".to_owned(), Value::from(dead)));
        }
        self.declare_with(QueueDeclare { queue, durable: true, ..QueueDeclare::default() }, &arguments)
    }

    /// A durable queue with what an exchange of the load brings.
    pub(crate) fn declare_bound(&mut self, queue: &str, exchange: &str) -> Result<(), Broken> {
        self.declare_extra(queue)?;
        self.call(QueueBind { queue, exchange, ..QueueBind::default() }).map(drop)
    }

    /// Makes a durable queue whose messages die of age after so many milliseconds.
    pub(crate) fn declare_expiring(&mut self, queue: &str, after_ms: i64) -> Result<(), Broken> {
        let durable = QueueDeclare { queue, durable: true, ..QueueDeclare::default() };
        self.declare_with(durable, &[("x-message-ttl".to_owned(), Value::I64(after_ms))])
    }

    /// Whether there is a queue of this name. If not, the connection cannot be used any more.
    pub(crate) fn exists(&mut self, queue: &str) -> Result<bool, Broken> {
        match self.call(QueueDeclare { queue, passive: true, ..QueueDeclare::default() }) {
            Ok(_) => Ok(true),
            Err(Broken::Refused(text)) if text.contains("404 NOT_FOUND") => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// Deletes a queue with all that it holds.
    pub(crate) fn delete(&mut self, queue: &str) -> Result<(), Broken> {
        self.call(QueueDelete { queue, ..QueueDelete::default() }).map(drop)
    }

    /// Drops all that the plain queue holds. Returns how much that was.
    pub(crate) fn purge_plain(&mut self) -> Result<u64, Broken> {
        self.call(QueuePurge { queue: QUEUES[PLAIN].name, ..QueuePurge::default() })
    }

    /// How many ready messages all queues hold together.
    pub(crate) fn depth_of_all(&mut self) -> Result<u64, Broken> {
        QUEUES.iter().try_fold(0, |sum, queue| Ok(sum + self.depth(queue.name)?))
    }

    /// How many ready messages a queue holds.
    pub(crate) fn depth(&mut self, queue: &str) -> Result<u64, Broken> {
        self.call(QueueDeclare { queue, passive: true, ..QueueDeclare::default() })
    }

    /// Puts these numbers into a queue, each as a persistent message, and waits until all of them
    /// are confirmed.
    pub(crate) fn publish_numbers(&mut self, queue: &str, numbers: RangeInclusive<u64>) -> Result<(), Broken> {
        let before = match self.published {
            Some(count) => count,
            None => {
                self.call(ConfirmSelect::default())?;
                0
            }
        };
        let properties = BasicProperties { delivery_mode: Some(PERSISTENT), ..BasicProperties::default() }.to_bytes();
        let publish = BasicPublish { routing_key: queue, ..BasicPublish::default() };
        let template = PublishTemplate::new(CHANNEL, publish, &properties, self.client.frame_max());
        let mut open = BTreeSet::new();
        for (tag, number) in (before + 1..).zip(numbers) {
            template.append(number.to_string().as_bytes(), &mut self.output);
            open.insert(tag);
        }
        self.published = Some(before + open.len() as u64);
        self.answer("the confirms of numbers", |event| {
            match *event {
                Event::Ack { delivery_tag, multiple: true, .. } => open.retain(|tag| *tag > delivery_tag),
                Event::Ack { delivery_tag, .. } => {
                    open.remove(&delivery_tag);
                }
                _ => {}
            }
            open.is_empty().then_some(0)
        })
        .map(drop)
    }

    /// Takes the first number of a queue, if there is one, and acknowledges it with what is said
    /// next.
    pub(crate) fn take_number(&mut self, queue: &str) -> Result<Option<u64>, Broken> {
        self.client.send(CHANNEL, BasicGet { queue, ..BasicGet::default() }, &mut self.output);
        let mut got = None;
        self.answer("basic.get", |event| match event {
            Event::Got { delivery_tag, message, .. } => {
                got = Some((*delivery_tag, str::from_utf8(message.body).ok().and_then(|text| text.parse().ok())));
                Some(0)
            }
            Event::Method { method: Method::BasicGetEmpty(_), .. } => Some(0),
            _ => None,
        })?;
        let Some((delivery_tag, number)) = got else { return Ok(None) };
        self.client.send(CHANNEL, BasicAck { delivery_tag, multiple: false }, &mut self.output);
        number.map(Some).ok_or_else(|| Broken::Refused(format!("what {queue} gave is no number")))
    }

    fn declare_exchange(&mut self, exchange: &Exchange) -> Result<(), Broken> {
        let Exchange { name, kind, alternate } = exchange;
        let arguments = alternate.map(|other| ("alternate-exchange".to_owned(), Value::from(other)));
        let arguments = encode_fields(arguments.as_slice());
        let arguments = table(name, &arguments)?;
        let declare = ExchangeDeclare { exchange: name, kind, durable: true, arguments, ..ExchangeDeclare::default() };
        self.call(declare).map(drop)
    }

    fn declare_queue(&mut self, queue: &Queue) -> Result<(), Broken> {
        let mut arguments = Vec::new();
        if let Some(target) = queue.dead_letter {
            arguments.push(("x-dead-letter-exchange".to_owned(), Value::from("")));
            arguments.push(("x-dead-letter-routing-key".to_owned(), Value::from(QUEUES[target].name)));
        }
        if let Some(most) = queue.max_length {
            arguments.push(("x-max-length".to_owned(), Value::I64(most)));
        }
        match queue.overflow {
            Overflow::DropHead => {}
            Overflow::Refuse => arguments.push(("x-overflow".to_owned(), Value::from("reject-publish"))),
            Overflow::RefuseAndMove => {
                arguments.push(("x-overflow".to_owned(), Value::from("reject-publish-dlx")));
            }
        }
        if let Some(most) = queue.delivery_limit {
            arguments.push(("x-queue-type".to_owned(), Value::from("quorum")));
            arguments.push(("x-delivery-limit".to_owned(), Value::I64(most)));
        }
        if let Some(most) = queue.max_priority {
            arguments.push(("x-max-priority".to_owned(), Value::I64(most.into())));
        }
        if let Some(ttl_ms) = queue.ttl_ms {
            arguments.push(("x-message-ttl".to_owned(), Value::I64(ttl_ms as i64)));
        }
        match queue.groups {
            None => {}
            Some(1) => arguments.push(("x-single-active-consumer".to_owned(), Value::Bool(true))),
            Some(_) => arguments.push(("x-message-groups".to_owned(), Value::Bool(true))),
        }
        if let Some(wait_ms) = queue.retry_ms {
            arguments.push(("x-delayed-retry-type".to_owned(), Value::from("all")));
            arguments.push(("x-delayed-retry-min".to_owned(), Value::I64(wait_ms as i64)));
        }
        if queue.last_value {
            arguments.push(("x-last-value-key".to_owned(), Value::from(KEY)));
        }
        if queue.sifts {
            arguments.push(("x-message-deduplication".to_owned(), Value::Bool(true)));
            arguments.push(("x-cache-size".to_owned(), Value::I64(1_000_000)));
        }
        let declare = QueueDeclare { queue: queue.name, durable: queue.durable, ..QueueDeclare::default() };
        self.declare_with(declare, &arguments)
    }

    fn declare_with(&mut self, declare: QueueDeclare<'_>, arguments: &[(String, Value)]) -> Result<(), Broken> {
        let arguments = encode_fields(arguments);
        let arguments = table(declare.queue, &arguments)?;
        self.call(QueueDeclare { arguments, ..declare }).map(drop)
    }

    /// Sends a method and waits for its answer, which has the next number in its class. Returns the
    /// message count of `queue.declare-ok` and `queue.purge-ok`, else 0.
    pub(super) fn call<'m>(&mut self, method: impl Into<Method<'m>>) -> Result<u64, Broken> {
        let method = method.into();
        let (class, number) = method.id();
        self.client.send(CHANNEL, method, &mut self.output);
        self.answer(method.name(), |event| match event {
            Event::Method { method: Method::QueueDeclareOk(ok), .. } => Some(ok.message_count.into()),
            Event::Method { method: Method::QueuePurgeOk(ok), .. } => Some(ok.message_count.into()),
            Event::Method { method, .. } if method.id() == (class, number + 1) => Some(0),
            _ => None,
        })
    }

    /// Reads until `pick` finds what was waited for; what comes behind it stays for later.
    fn answer(&mut self, what: &str, mut pick: impl FnMut(&Event<'_>) -> Option<u64>) -> Result<u64, Broken> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            self.link.write(&mut self.output)?;
            let mut rest = self.link.input();
            let before = rest.len();
            let mut found = None;
            while found.is_none() {
                let polled = self.client.poll(&mut rest, &mut self.output);
                let polled = polled.map_err(|error| Broken::Refused(format!("{what}: {error}")))?;
                let Some(event) = polled else { break };
                if let Some(reason) = refusal(&event) {
                    return Err(Broken::Refused(format!("{what}: {reason}")));
                }
                found = pick(&event);
            }
            let used = before - rest.len();
            self.link.consume(used);
            if let Some(found) = found {
                return Ok(found);
            }
            // What was just understood may have asked for an answer, without which nothing more
            // comes.
            self.link.write(&mut self.output)?;
            self.link.read(Duration::from_millis(100))?;
        }
        Err(Broken::Refused(format!("{what}: no answer within {PATIENCE:?}")))
    }
}

/// The arguments of what has this name.
fn table<'a>(name: &str, arguments: &'a [u8]) -> Result<Table<'a>, Broken> {
    Table::new(arguments).map_err(|error| Broken::Refused(format!("the arguments of {name}: {error}")))
}
