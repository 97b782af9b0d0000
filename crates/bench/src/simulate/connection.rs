//! One connection to a simulated broker: reads frames, answers methods, and takes publishes
//! together as they come, so that one flush serves all of them.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use amqp091::codec::methods::*;
use amqp091::codec::table::{Value, encode_fields};
use amqp091::codec::{ContentHeader, Frame, FrameKind, Method, Table, decode_frame, decode_method, decode_properties};
use amqp091::limits::{DEFAULT_CHANNEL_MAX, DEFAULT_FRAME_MAX, PROTOCOL_HEADER};

use super::behaviour::Fault;
use super::model::{Message, Model, Queue, encode_content};
use super::outbox::{self, Outbox};
use super::store::Store;
use bench_record::failure::{Context, Failure};

/// Largest body that is taken, in bytes.
const LARGEST: u64 = 128 * 1024 * 1024;
/// Capabilities that clients look for before they use them.
const CAPABILITIES: [&str; 4] =
    ["publisher_confirms", "basic.nack", "consumer_cancel_notify", "authentication_failure_close"];

/// A publish whose content is on its way.
#[derive(Debug, Default)]
struct Arriving {
    message: Option<Message>,
    mandatory: bool,
    missing: u64,
}

/// A channel as its publisher sees it.
#[derive(Debug, Default)]
struct Publisher {
    confirms: bool,
    published: u64,
    arriving: Arriving,
}

/// A message that came whole and is not taken yet.
struct Publish {
    channel: u16,
    message: Message,
    mandatory: bool,
}

pub(super) struct Connection {
    number: u64,
    core: Arc<Mutex<Model>>,
    store: Option<Arc<Mutex<Store>>>,
    outbox: Arc<Outbox>,
    frame_max: u32,
    publishers: HashMap<u16, Publisher>,
    waiting: Vec<Publish>,
}

/// Serves one connection until it ends.
pub(super) fn serve(
    mut stream: TcpStream,
    core: Arc<Mutex<Model>>,
    store: Option<Arc<Mutex<Store>>>,
) -> Result<(), Failure> {
    stream.set_nodelay(true)?;
    let mut greeting = [0; 8];
    stream.read_exact(&mut greeting)?;
    if greeting != PROTOCOL_HEADER {
        stream.write_all(&PROTOCOL_HEADER)?;
        return Err(Failure::new("a client that does not speak AMQP 0-9-1"));
    }
    let outbox = Arc::new(Outbox::default());
    let (ours, writing) = (outbox.clone(), stream.try_clone()?);
    let writer = std::thread::Builder::new().name("simulated-writer".to_owned());
    let writer = writer.spawn(move || outbox::write(ours, writing)).context("starting a thread")?;
    let number = lock(&core).connect();
    let (publishers, waiting) = Default::default();
    let frame_max = DEFAULT_FRAME_MAX;
    let mut connection = Connection { number, core, store, outbox, frame_max, publishers, waiting };
    let served = connection.read(&mut stream);
    lock(&connection.core).disconnect(number);
    connection.outbox.close();
    if served.is_err() {
        // Nothing more will be said; what is due later must not be waited for.
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
    drop(writer);
    served
}

/// What one broken connection left half done is of no matter to the others.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connection {
    /// Reads until the client leaves (`Ok`) or has to be cut off.
    fn read(&mut self, stream: &mut TcpStream) -> Result<(), Failure> {
        self.greet();
        let (mut input, mut buffer) = (Vec::new(), vec![0; 256 * 1024]);
        loop {
            let count = stream.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            input.extend_from_slice(&buffer[..count]);
            let mut used = 0;
            while let Some(frame) = decode_frame(&input[used..], 0).context("a frame")? {
                used += frame.wire_len();
                if !self.frame(frame)? {
                    return Ok(());
                }
            }
            input.drain(..used);
            self.take_waiting()?;
        }
    }

    fn greet(&mut self) {
        let capabilities = CAPABILITIES.map(|name| (name.to_owned(), Value::Bool(true))).to_vec();
        let text = |text: &str| Value::Str(text.as_bytes().to_vec());
        let properties = encode_fields(&[
            ("capabilities".to_owned(), Value::Table(capabilities)),
            ("product".to_owned(), text("hermod-bench simulate")),
            ("version".to_owned(), text(env!("CARGO_PKG_VERSION"))),
        ]);
        // It was encoded here.
        let server_properties = Table::new(&properties).unwrap_or_default();
        self.say(
            0,
            ConnectionStart {
                version_major: 0,
                version_minor: 9,
                mechanisms: b"PLAIN AMQPLAIN",
                locales: b"en_US",
                server_properties,
            },
        );
    }

    fn say<'m>(&self, channel: u16, method: impl Into<Method<'m>>) {
        let method = method.into();
        let due = lock(&self.core).speaks();
        self.outbox.put(due, |out| method.encode(channel, out));
    }

    /// Takes one frame. False: the client has said goodbye.
    fn frame(&mut self, frame: Frame<'_>) -> Result<bool, Failure> {
        match frame.kind {
            FrameKind::Heartbeat => {}
            FrameKind::Header => {
                let header = ContentHeader::decode(frame.payload).ok_or_else(|| Failure::new("a content header"))?;
                let arriving = &mut self.publishers.entry(frame.channel).or_default().arriving;
                if header.body_size > LARGEST {
                    return Err(Failure::new("a body is too large"));
                }
                arriving.missing = header.body_size;
                if let Some(message) = &mut arriving.message {
                    message.properties = header.properties.to_vec();
                }
                self.complete(frame.channel);
            }
            FrameKind::Body => {
                let arriving = &mut self.publishers.entry(frame.channel).or_default().arriving;
                arriving.missing = arriving.missing.saturating_sub(frame.payload.len() as u64);
                if let Some(message) = &mut arriving.message {
                    message.body.extend_from_slice(frame.payload);
                }
                self.complete(frame.channel);
            }
            FrameKind::Method => return self.method(decode_method(frame.payload).context("a method")?, frame.channel),
        }
        Ok(true)
    }

    /// Lets a message wait for its companions once it is whole.
    fn complete(&mut self, channel: u16) {
        let arriving = &mut self.publishers.entry(channel).or_default().arriving;
        if arriving.missing == 0
            && let Some(message) = arriving.message.take()
        {
            self.waiting.push(Publish { channel, message, mandatory: arriving.mandatory });
        }
    }

    fn method(&mut self, method: Method<'_>, channel: u16) -> Result<bool, Failure> {
        if let Method::BasicPublish(publish) = method {
            let (exchange, key) = (publish.exchange.to_owned(), publish.routing_key.to_owned());
            let message = Message { exchange, key, properties: Vec::new(), body: Vec::new() };
            self.publishers.entry(channel).or_default().arriving =
                Arriving { message: Some(message), mandatory: publish.mandatory, missing: u64::MAX };
            return Ok(true);
        }
        // What was published before is there before.
        self.take_waiting()?;
        match method {
            Method::ConnectionClose(_) => {
                self.say(0, ConnectionCloseOk {});
                return Ok(false);
            }
            Method::ConnectionCloseOk(_) => return Ok(false),
            Method::ConnectionStartOk(_) => {
                let (channel_max, frame_max) = (DEFAULT_CHANNEL_MAX, DEFAULT_FRAME_MAX);
                self.say(0, ConnectionTune { channel_max, frame_max, heartbeat: 0 });
            }
            Method::ConnectionTuneOk(tune) => {
                self.frame_max = if tune.frame_max == 0 { DEFAULT_FRAME_MAX } else { tune.frame_max };
                if tune.heartbeat > 0 {
                    self.outbox.beat(Duration::from_secs(tune.heartbeat.into()) / 2);
                }
            }
            Method::ConnectionOpen(_) => self.say(0, ConnectionOpenOk::default()),
            Method::ChannelOpen(_) => {
                lock(&self.core).open((self.number, channel), &self.outbox, self.frame_max);
                self.say(channel, ChannelOpenOk::default());
            }
            Method::ChannelClose(_) => {
                self.publishers.remove(&channel);
                lock(&self.core).close_channel((self.number, channel));
                self.say(channel, ChannelCloseOk {});
            }
            Method::ChannelCloseOk(_) => {}
            Method::ConfirmSelect(select) => {
                self.publishers.entry(channel).or_default().confirms = true;
                if !select.nowait {
                    self.say(channel, ConfirmSelectOk {});
                }
            }
            other => self.objects(other, channel),
        }
        Ok(true)
    }

    /// Methods on exchanges and queues.
    fn objects(&mut self, method: Method<'_>, channel: u16) {
        match method {
            Method::ExchangeDeclare(m) if !["direct", "fanout"].contains(&m.kind) && !m.passive => {
                self.refuse(channel, 540, &format!("NOT_IMPLEMENTED - a simulated broker has no {} exchanges", m.kind));
            }
            Method::ExchangeDeclare(m) => {
                lock(&self.core).exchanges.entry(m.exchange.to_owned()).or_insert_with(|| m.kind.to_owned());
                self.say(channel, ExchangeDeclareOk {});
            }
            Method::ExchangeDelete(m) => {
                lock(&self.core).exchanges.remove(m.exchange);
                self.say(channel, ExchangeDeleteOk {});
            }
            Method::QueueDeclare(m) => self.declare(&m, channel),
            Method::QueueBind(m) => {
                let binding = (m.exchange.to_owned(), m.routing_key.to_owned(), m.queue.to_owned());
                lock(&self.core).bindings.push(binding);
                self.say(channel, QueueBindOk {});
            }
            Method::QueuePurge(m) => {
                let message_count = lock(&self.core).queues.get_mut(m.queue).map_or(0, Queue::purge) as u32;
                self.say(channel, QueuePurgeOk { message_count });
            }
            Method::QueueDelete(m) => {
                let message_count = lock(&self.core).delete(m.queue) as u32;
                self.say(channel, QueueDeleteOk { message_count });
            }
            other => self.basic(other, channel),
        }
    }

    fn declare(&self, m: &QueueDeclare<'_>, channel: u16) {
        let most = m.arguments.get("x-max-length").and_then(|most| usize::try_from(most.as_integer()?).ok());
        let mut core = lock(&self.core);
        if m.passive && !core.queues.contains_key(m.queue) {
            drop(core);
            return self.refuse(channel, 404, &format!("NOT_FOUND - no queue '{}'", m.queue));
        }
        let name = core.declare(m.queue, m.exclusive.then_some(self.number), most);
        let message_count = core.queues.get(&name).map_or(0, Queue::len) as u32;
        drop(core);
        if !m.nowait {
            self.say(channel, QueueDeclareOk { queue: &name, message_count, consumer_count: 0 });
        }
    }

    /// Methods on messages.
    fn basic(&mut self, method: Method<'_>, channel: u16) {
        let place = (self.number, channel);
        match method {
            Method::BasicQos(m) => {
                if let Some(channel) = lock(&self.core).channels.get_mut(&place) {
                    channel.prefetch = m.prefetch_count;
                }
                self.say(channel, BasicQosOk {});
            }
            Method::BasicConsume(m) => {
                let tag = if m.consumer_tag.is_empty() { format!("ctag-{channel}") } else { m.consumer_tag.to_owned() };
                let mut core = lock(&self.core);
                if core.refuses_consumers || !core.consume(place, &m, &tag) {
                    let text = if core.refuses_consumers { "ACCESS_REFUSED" } else { "NOT_FOUND - no such queue" };
                    drop(core);
                    return self.refuse(channel, if text == "ACCESS_REFUSED" { 403 } else { 404 }, text);
                }
                drop(core);
                if !m.nowait {
                    self.say(channel, BasicConsumeOk { consumer_tag: &tag });
                }
                lock(&self.core).begin(m.queue);
            }
            Method::BasicCancel(m) => {
                lock(&self.core).cancel(place, m.consumer_tag);
                if !m.nowait {
                    self.say(channel, BasicCancelOk { consumer_tag: m.consumer_tag });
                }
            }
            Method::BasicGet(m) => lock(&self.core).get(place, &m),
            Method::BasicAck(m) => lock(&self.core)
                .settle(place, BasicNack { delivery_tag: m.delivery_tag, multiple: m.multiple, requeue: false }),
            Method::BasicReject(m) => lock(&self.core)
                .settle(place, BasicNack { delivery_tag: m.delivery_tag, multiple: false, requeue: m.requeue }),
            Method::BasicNack(m) => lock(&self.core).settle(place, m),
            other => {
                self.refuse(channel, 540, &format!("NOT_IMPLEMENTED - a simulated broker has no {}", other.name()))
            }
        }
    }

    /// Closes the channel with a reason.
    fn refuse(&self, channel: u16, reply_code: u16, reply_text: &str) {
        lock(&self.core).close_channel((self.number, channel));
        self.say(channel, ChannelClose { reply_code, reply_text, ..ChannelClose::default() });
    }

    /// Takes the messages that have come: writes the persistent ones down together, then routes and
    /// confirms each.
    fn take_waiting(&mut self) -> Result<(), Failure> {
        if let Some(store) = &self.store {
            let kept = self.waiting.iter().filter(|publish| publish.message.exchange.is_empty());
            let kept = kept.filter(|publish| is_persistent(&publish.message.properties));
            lock(store).append(kept.map(|publish| (publish.message.key.as_str(), publish.message.body.as_slice())))?;
        }
        let mut core = lock(&self.core);
        for Publish { channel, message, mandatory } in self.waiting.drain(..) {
            let returned = mandatory.then(|| message.clone());
            let published = core.publish(message);
            if published.fault == Some(Fault::Die) {
                return Err(Failure::new("a programmed death"));
            }
            if let Some(message) = returned.filter(|_| !published.routed) {
                let (exchange, routing_key) = (message.exchange.as_str(), message.key.as_str());
                let back = BasicReturn { reply_code: 312, reply_text: "NO_ROUTE", exchange, routing_key };
                self.outbox.put(published.confirm, |out| {
                    encode_content(out, channel, self.frame_max, back.into(), &message);
                });
            }
            let publisher = self.publishers.entry(channel).or_default();
            publisher.published += 1;
            if publisher.confirms {
                let delivery_tag = publisher.published;
                let answer: Method<'_> = match published.fault {
                    Some(Fault::Refuse) => BasicNack { delivery_tag, ..BasicNack::default() }.into(),
                    _ => BasicAck { delivery_tag, multiple: false }.into(),
                };
                let times = match published.fault {
                    Some(Fault::Swallow) => 0,
                    Some(Fault::ConfirmTwice) => 2,
                    _ => 1,
                };
                for _ in 0..times {
                    self.outbox.put(published.confirm, |out| answer.encode(channel, out));
                }
            }
        }
        Ok(())
    }
}

fn is_persistent(properties: &[u8]) -> bool {
    decode_properties(properties).is_ok_and(|properties| properties.delivery_mode == Some(2))
}
