//! A broker in memory for the tests of this folder: it speaks as much of AMQP 0-9-1 as they need, keeps what it is given
//! across connections, and does to chosen publishes what it is told.

use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::spawn;

use amqp091::codec::methods::*;
use amqp091::codec::{ContentHeader, FrameKind, Method, Table, decode_frame, decode_method, frame};

use crate::load::simulated::Fault;

const FRAME_MAX: u32 = 128 * 1024;

/// What the broker holds.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) queues: HashMap<String, VecDeque<Vec<u8>>>,
    /// Queues by exchange and key.
    bindings: HashMap<(String, String), String>,
    /// By number of the publish over all connections, from 1.
    faults: HashMap<u64, Fault>,
    published: u64,
    /// Consumers have their channel closed.
    pub(super) refuses_consumers: bool,
    /// Messages that the next one overtakes, by queue.
    overtaken: HashMap<String, Vec<u8>>,
}

/// A running broker. Its threads end with the tests.
pub(super) struct Broker {
    /// As an option of the command line.
    pub(super) target: String,
    pub(super) held: Arc<Mutex<Held>>,
}

/// Starts a broker that treats the publishes with these numbers badly.
pub(super) fn start(faults: &[(u64, Fault)]) -> Broker {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("amqp://{}", listener.local_addr().unwrap());
    let held = Arc::new(Mutex::new(Held { faults: faults.iter().copied().collect(), ..Held::default() }));
    let shared = held.clone();
    spawn(move || {
        for stream in listener.incoming() {
            let held = shared.clone();
            spawn(move || Connection::new(stream.unwrap(), held).serve());
        }
    });
    Broker { target, held }
}

struct Connection {
    stream: TcpStream,
    held: Arc<Mutex<Held>>,
    out: Vec<u8>,
    /// Exchange and key of the publish that is arriving, and the bytes that are still missing.
    route: (String, String),
    missing: u64,
    body: Vec<u8>,
    confirms: bool,
    published: u64,
    prefetch: u16,
    /// The queue consumed from, and whether acknowledgements are expected.
    consumed: Option<(String, bool)>,
    unsettled: u16,
    delivered: u64,
}

impl Connection {
    fn new(stream: TcpStream, held: Arc<Mutex<Held>>) -> Self {
        let (route, body, out) = Default::default();
        let (missing, published, prefetch, unsettled, delivered) = Default::default();
        let (confirms, consumed) = (false, None);
        Self { stream, held, out, route, missing, body, confirms, published, prefetch, consumed, unsettled, delivered }
    }

    fn serve(mut self) -> Option<()> {
        self.stream.read_exact(&mut [0; 8]).ok()?;
        let start = ConnectionStart {
            version_major: 0,
            version_minor: 9,
            mechanisms: b"PLAIN",
            locales: b"en_US",
            server_properties: Table::default(),
        };
        Method::from(start).encode(0, &mut self.out);
        let (mut input, mut buffer) = (Vec::new(), vec![0; 65536]);
        loop {
            self.stream.write_all(&std::mem::take(&mut self.out)).ok()?;
            let count = self.stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
            input.extend_from_slice(&buffer[..count]);
            let mut used = 0;
            while let Some(frame) = decode_frame(&input[used..], 0).unwrap() {
                match frame.kind {
                    FrameKind::Method => self.method(decode_method(frame.payload).unwrap(), frame.channel),
                    FrameKind::Header => {
                        self.missing = ContentHeader::decode(frame.payload).unwrap().body_size;
                        self.body.clear();
                    }
                    FrameKind::Body => {
                        self.body.extend_from_slice(frame.payload);
                        self.missing -= frame.payload.len() as u64;
                        if self.missing == 0 {
                            self.publish()?;
                        }
                    }
                    FrameKind::Heartbeat => {}
                }
                used += frame.wire_len();
            }
            input.drain(..used);
            self.deliver();
        }
    }

    fn method(&mut self, method: Method<'_>, channel: u16) {
        let held = self.held.clone();
        let mut held = held.lock().unwrap();
        let depth = |held: &Held, queue: &str| held.queues.get(queue).map_or(0, VecDeque::len) as u32;
        let answer: Method<'_> = match method {
            Method::ConnectionStartOk(_) => {
                ConnectionTune { channel_max: 9, frame_max: FRAME_MAX, heartbeat: 0 }.into()
            }
            Method::ConnectionOpen(_) => ConnectionOpenOk::default().into(),
            Method::ChannelOpen(_) => ChannelOpenOk::default().into(),
            Method::ExchangeDeclare(_) => ExchangeDeclareOk {}.into(),
            Method::ExchangeDelete(_) => ExchangeDeleteOk {}.into(),
            Method::QueueDeclare(m) => {
                held.queues.entry(m.queue.to_owned()).or_default();
                QueueDeclareOk { queue: m.queue, message_count: depth(&held, m.queue), consumer_count: 0 }.into()
            }
            Method::QueueBind(m) => {
                held.bindings.insert((m.exchange.to_owned(), m.routing_key.to_owned()), m.queue.to_owned());
                QueueBindOk {}.into()
            }
            Method::QueueDelete(m) => {
                let message_count = depth(&held, m.queue);
                held.queues.remove(m.queue);
                QueueDeleteOk { message_count }.into()
            }
            Method::ConfirmSelect(_) => {
                self.confirms = true;
                ConfirmSelectOk {}.into()
            }
            Method::BasicQos(m) => {
                self.prefetch = m.prefetch_count;
                BasicQosOk {}.into()
            }
            Method::BasicConsume(_) if held.refuses_consumers => {
                ChannelClose { reply_code: 403, reply_text: "ACCESS_REFUSED", ..ChannelClose::default() }.into()
            }
            Method::BasicConsume(m) => {
                self.consumed = Some((m.queue.to_owned(), !m.no_ack));
                BasicConsumeOk { consumer_tag: m.consumer_tag }.into()
            }
            Method::BasicPublish(m) => {
                self.route = (m.exchange.to_owned(), m.routing_key.to_owned());
                return;
            }
            Method::BasicAck(_) => {
                self.unsettled = self.unsettled.saturating_sub(1);
                return;
            }
            Method::BasicGet(m) => match held.queues.get_mut(m.queue).and_then(VecDeque::pop_front) {
                Some(body) => {
                    self.delivered += 1;
                    let got = BasicGetOk { delivery_tag: self.delivered, ..BasicGetOk::default() };
                    return self.content(got.into(), &body);
                }
                None => BasicGetEmpty::default().into(),
            },
            _ => return,
        };
        answer.encode(channel, &mut self.out);
    }

    fn content(&mut self, method: Method<'_>, body: &[u8]) {
        method.encode(1, &mut self.out);
        frame::encode_header(&mut self.out, 1, body.len() as u64, &[0, 0]);
        frame::encode_body(&mut self.out, 1, FRAME_MAX, body);
    }

    /// Keeps what was published, as faults will have it. None: the broker dies.
    fn publish(&mut self) -> Option<()> {
        let held = self.held.clone();
        let mut held = held.lock().unwrap();
        self.published += 1;
        held.published += 1;
        let fault = held.faults.get(&held.published).copied();
        let queue = held.bindings.get(&self.route).unwrap_or(&self.route.1).clone();
        let mut body = std::mem::take(&mut self.body);
        match fault {
            Some(Fault::Die) => return None,
            Some(Fault::Flip) => *body.last_mut().unwrap() ^= 1,
            _ => {}
        }
        let overtaken = held.overtaken.remove(&queue);
        let kept = held.queues.entry(queue.clone()).or_default();
        match fault {
            Some(Fault::Lose | Fault::Refuse) => {}
            Some(Fault::Double) => kept.extend([body.clone(), body]),
            Some(Fault::Overtake) => {
                held.overtaken.insert(queue, body);
            }
            _ => kept.extend(std::iter::once(body).chain(overtaken)),
        }
        if self.confirms {
            let delivery_tag = self.published;
            if fault == Some(Fault::Refuse) {
                Method::from(BasicNack { delivery_tag, ..BasicNack::default() }).encode(1, &mut self.out);
            } else {
                Method::from(BasicAck { delivery_tag, multiple: false }).encode(1, &mut self.out);
            }
        }
        Some(())
    }

    /// Gives the consumer what its prefetch allows.
    fn deliver(&mut self) {
        let Some((queue, acknowledged)) = self.consumed.clone() else { return };
        while !acknowledged || self.prefetch == 0 || self.unsettled < self.prefetch {
            let body = self.held.lock().unwrap().queues.get_mut(&queue).and_then(VecDeque::pop_front);
            let Some(body) = body else { return };
            self.delivered += 1;
            self.unsettled += u16::from(acknowledged);
            let deliver = BasicDeliver { consumer_tag: "c", delivery_tag: self.delivered, ..BasicDeliver::default() };
            self.content(deliver.into(), &body);
        }
    }
}

/// The verb of a command line, which must be right. Of an option that is there twice the last counts.
pub(super) fn verb(words: &str) -> crate::cli::Verb {
    use clap::{CommandFactory, FromArgMatches};
    let words = std::iter::once("hermod-bench").chain(words.split_whitespace());
    let matches = crate::cli::Cli::command().args_override_self(true).try_get_matches_from(words).unwrap();
    crate::cli::Cli::from_arg_matches(&matches).unwrap().verb
}
