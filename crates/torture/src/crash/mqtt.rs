//! Two clients of MQTT with stored sessions, one that publishes and one that subscribes, over kills
//! of the broker and losses of their connections.
//!
//! Both keep what the specification says that a client must keep, in this process, which lives.
//! What was acknowledged with quality 1 comes at least once. What was published with quality 2
//! comes exactly once, and that in order.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mqtt::codec::{
    Ack, Connect, FilterList, Options, Packet, PacketId, Properties, PropertyBlock, PropertyId, Publish, QoS, Reason,
    Subscribe, Version, decode, encode,
};

use crate::random::Random;
use crate::stage::Stage;
use crate::talk::Broken;

/// The topics of the load, and all of them.
const TOPICS: [(QoS, &str); 2] = [(QoS::AtLeastOnce, "torture/once/1"), (QoS::ExactlyOnce, "torture/once/2")];
const FILTER: &str = "torture/once/+";
/// Messages that the publisher leaves unanswered.
const WINDOW: usize = 32;
/// How long a read waits.
const GLANCE: Duration = Duration::from_millis(20);
/// How long an answer to CONNECT may take: passwords are checked on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);
/// How long nothing comes once all has come.
pub(super) const SILENCE: Duration = Duration::from_millis(500);

/// How far a message of the publisher is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Published,
    Released,
}

/// Whether a message was said before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Time {
    First,
    Again,
}

/// A message that is not acknowledged.
#[derive(Debug, Clone, Copy)]
struct Open {
    qos: QoS,
    number: u64,
    stage: Progress,
}

/// What the publisher keeps over losses.
#[derive(Debug, Default)]
struct Sender {
    /// The numbers that were given out last, and the last identifier.
    numbers: [u64; 2],
    last_id: u16,
    open: BTreeMap<u64, (u16, Open)>,
    /// The place of the next message in the order of all.
    next: u64,
    acknowledged: u64,
}

/// What the subscriber keeps over losses.
#[derive(Debug, Default)]
struct Receiver {
    /// Identifiers of quality 2 that were not released.
    taken: BTreeSet<u16>,
    once: BTreeSet<u64>,
    /// The last number of quality 2.
    last: u64,
    again: u64,
}

/// The load, and what it has seen.
#[derive(Debug, Default)]
pub(crate) struct MqttLoad {
    port: u16,
    sender: Mutex<Sender>,
    receiver: Mutex<Receiver>,
}

/// A connection.
pub(super) struct Link {
    stream: TcpStream,
    input: Vec<u8>,
}

pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    /// Connects to the stored session of this client.
    pub(super) fn open(port: u16, client_id: &str) -> Result<Self, Broken> {
        let mut block = PropertyBlock::default();
        block.number(PropertyId::SessionExpiry, 100_000);
        Self::open_with(port, &Connect { client_id, properties: block.as_properties(), ..Connect::default() })
    }

    /// Connects as this CONNECT asks, with user and password.
    pub(super) fn open_with(port: u16, connect: &Connect<'_>) -> Result<Self, Broken> {
        let lost = |error: std::io::Error| Broken::Lost(error.to_string());
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(lost)?;
        stream.set_read_timeout(Some(GLANCE)).map_err(lost)?;
        stream.set_nodelay(true).map_err(lost)?;
        let mut link = Self { stream, input: Vec::new() };
        let user = (Some("guest"), Some(&b"guest"[..]));
        link.say(&Packet::Connect(Connect { version: Version::V5, user: user.0, password: user.1, ..*connect }))?;
        let begin = Instant::now();
        let mut answer = None;
        while answer.is_none() && begin.elapsed() < PATIENCE {
            link.hear_one(&mut |packet| {
                answer = Some(match packet {
                    // The log has no room for the will: an end of the broker may lose it.
                    Packet::ConnAck(ack) if ack.properties.text(PropertyId::ReasonString).is_some() => {
                        Ok(Reason::QuotaExceeded)
                    }
                    Packet::ConnAck(ack) => Ok(ack.reason),
                    other => Err(other.kind()),
                });
                Ok(())
            })?;
        }
        match answer {
            Some(Ok(Reason::Success)) => Ok(link),
            Some(Ok(Reason::QuotaExceeded)) if connect.will.is_some() => {
                Err(Broken::Lost("there is no room for the will".to_owned()))
            }
            None => Err(Broken::Lost("no answer to CONNECT".to_owned())),
            Some(other) => Err(Broken::Refused(format!("CONNECT of {} was answered by {other:?}", connect.client_id))),
        }
    }

    /// Subscribes, and waits for the answer.
    pub(super) fn subscribe(&mut self, filter: &str, qos: QoS) -> Result<(), Broken> {
        let mut list = FilterList::default();
        list.subscribe(filter, Options { qos, ..Options::default() }, Version::V5);
        let filters = list.as_subscribe(Version::V5);
        self.say(&Packet::Subscribe(Subscribe { id: PacketId::MIN, properties: Properties::NONE, filters }))?;
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if hear(self)?.is_some() {
                return Ok(());
            }
        }
        Err(Broken::Lost("no answer to SUBSCRIBE".to_owned()))
    }

    pub(super) fn say(&mut self, packet: &Packet<'_>) -> Result<(), Broken> {
        let mut bytes = Vec::new();
        encode(packet, Version::V5, &mut bytes);
        self.stream.write_all(&bytes).map_err(|error| Broken::Lost(error.to_string()))
    }

    pub(super) fn answer(&mut self, packet: fn(Ack<'static>) -> Packet<'static>, id: PacketId) -> Result<(), Broken> {
        self.say(&packet(Ack::success(id)))
    }

    /// Reads some bytes, if any come in time.
    fn read(&mut self) -> Result<(), Broken> {
        let mut bytes = [0; 16 * 1024];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(Broken::Lost("the connection has ended".to_owned())),
            Ok(count) => {
                self.input.extend_from_slice(&bytes[..count]);
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(()),
            Err(error) => Err(Broken::Lost(error.to_string())),
        }
    }

    /// Hears one packet, if one comes in time.
    fn hear_one(&mut self, heard: &mut dyn FnMut(&Packet<'_>) -> Result<(), Broken>) -> Result<bool, Broken> {
        let is_whole = |input: &[u8]| decode(input, Version::V5, u32::MAX).map(|packet| packet.is_some());
        let broken = |error: mqtt::codec::PacketError| Broken::Refused(error.to_string());
        if !is_whole(&self.input).map_err(broken)? {
            self.read()?;
        }
        let Some((packet, length)) = decode(&self.input, Version::V5, u32::MAX).map_err(broken)? else {
            return Ok(false);
        };
        heard(&packet)?;
        self.input.drain(..length);
        Ok(true)
    }
}

/// What a packet asks of its receiver, without its bytes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Heard {
    Publish(QoS, Option<PacketId>, u64),
    Answer(mqtt::codec::PacketKind, PacketId, Reason),
    Other,
}

impl Heard {
    fn of(packet: &Packet<'_>) -> Result<Self, Broken> {
        Ok(match packet {
            Packet::Publish(publish) => {
                let number = std::str::from_utf8(publish.payload).ok().and_then(|text| text.parse().ok());
                let number = number.ok_or_else(|| Broken::Refused("a payload is not what was published".to_owned()))?;
                Self::Publish(publish.qos, publish.id, number)
            }
            Packet::PubAck(ack) | Packet::PubRec(ack) | Packet::PubRel(ack) | Packet::PubComp(ack) => {
                Self::Answer(packet.kind(), ack.id, ack.reason)
            }
            Packet::Disconnect(notice) => {
                return Err(Broken::Refused(format!("the broker has ended a connection: {}", notice.reason.as_str())));
            }
            _ => Self::Other,
        })
    }
}

/// The next packet, if one comes in time.
pub(super) fn hear(link: &mut Link) -> Result<Option<Heard>, Broken> {
    let mut heard = None;
    link.hear_one(&mut |packet| {
        heard = Some(Heard::of(packet)?);
        Ok(())
    })?;
    Ok(heard)
}

impl Sender {
    /// Says again what is open, in order [MQTT-4.4.0-1].
    fn resume(&self, link: &mut Link) -> Result<(), Broken> {
        self.open.values().try_for_each(|(id, open)| say(link, *id, *open, Time::Again))
    }

    fn publish(&mut self, link: &mut Link, random: &mut Random) -> Result<(), Broken> {
        let which = usize::from(random.chance(60));
        loop {
            self.last_id = self.last_id.wrapping_add(1).max(1);
            if self.open.values().all(|(id, _)| *id != self.last_id) {
                break;
            }
        }
        self.numbers[which] += 1;
        let open = Open { qos: TOPICS[which].0, number: self.numbers[which], stage: Progress::Published };
        self.open.insert(self.next, (self.last_id, open));
        self.next += 1;
        say(link, self.last_id, open, Time::First)
    }

    fn take(&mut self, link: &mut Link, heard: Heard) -> Result<(), Broken> {
        use mqtt::codec::PacketKind::{PubAck, PubComp, PubRec};
        let Heard::Answer(kind, id, reason) = heard else { return Ok(()) };
        if reason.is_error() && kind != PubComp {
            return Err(Broken::Refused(format!("{} said {}", kind.as_str(), reason.as_str())));
        }
        let found = self.open.iter().find(|(_, (other, _))| *other == id.get()).map(|(place, _)| *place);
        // Of an earlier connection.
        let Some(place) = found else { return Ok(()) };
        match kind {
            PubAck | PubComp => {
                self.open.remove(&place);
                self.acknowledged += 1;
                Ok(())
            }
            PubRec => {
                if let Some((_, open)) = self.open.get_mut(&place) {
                    open.stage = Progress::Released;
                }
                link.answer(Packet::PubRel, id)
            }
            _ => Ok(()),
        }
    }
}

fn say(link: &mut Link, id: u16, open: Open, time: Time) -> Result<(), Broken> {
    let Some(id) = PacketId::new(id) else { return Ok(()) };
    if open.stage == Progress::Released {
        return link.answer(Packet::PubRel, id);
    }
    let topic = if open.qos == QoS::ExactlyOnce { TOPICS[1].1 } else { TOPICS[0].1 };
    let (payload, qos) = (open.number.to_string(), open.qos);
    let dup = time == Time::Again;
    let publish = Publish { dup, qos, topic, id: Some(id), payload: payload.as_bytes(), ..Publish::default() };
    link.say(&Packet::Publish(publish))
}

impl Receiver {
    /// Whether so many of quality 1 have come, and so many of quality 2, which are released.
    fn has_all(&self, once: u64, twice: u64) -> bool {
        self.once.len() as u64 == once && self.last == twice && self.taken.is_empty()
    }

    fn take(&mut self, link: &mut Link, heard: Heard) -> Result<(), Broken> {
        match heard {
            Heard::Publish(QoS::AtLeastOnce, Some(id), number) => {
                self.again += u64::from(!self.once.insert(number));
                link.answer(Packet::PubAck, id)
            }
            Heard::Publish(QoS::ExactlyOnce, Some(id), number) => {
                if self.taken.insert(id.get()) {
                    if number != self.last + 1 {
                        let last = self.last;
                        return Err(Broken::Refused(format!(
                            "of quality 2, {number} has come after {last}, as {id:?}"
                        )));
                    }
                    self.last = number;
                }
                link.answer(Packet::PubRec, id)
            }
            Heard::Answer(mqtt::codec::PacketKind::PubRel, id, _) => {
                self.taken.remove(&id.get());
                link.answer(Packet::PubComp, id)
            }
            Heard::Publish(qos, ..) => Err(Broken::Refused(format!("a message has come with {qos:?}"))),
            _ => Ok(()),
        }
    }
}

impl MqttLoad {
    pub(crate) fn new(port: u16) -> Self {
        Self { port, ..Self::default() }
    }

    /// Begins the subscriber's session.
    pub(crate) fn subscribe(&self) -> Result<(), String> {
        let begun = (|| {
            self.wait_for_port();
            Link::open(self.port, "torture-subscriber")?.subscribe(FILTER, QoS::ExactlyOnce)
        })();
        begun.map_err(|broken: Broken| format!("MQTT: {broken}"))
    }

    /// Publishes, until the broker dies, or until then.
    pub(crate) fn publish(&self, stage: &Stage, random: &mut Random, until: Instant) {
        self.go_on(stage, until, || {
            let mut link = Link::open(self.port, "torture-publisher")?;
            let mut sender = lock(&self.sender);
            sender.resume(&mut link)?;
            while !stage.is_dying() && Instant::now() < until && random.below(500) > 0 {
                while sender.open.len() < WINDOW && !random.chance(10) {
                    sender.publish(&mut link, random)?;
                }
                if let Some(heard) = hear(&mut link)? {
                    sender.take(&mut link, heard)?;
                }
            }
            Ok(())
        });
    }

    /// Consumes, in the same way.
    pub(crate) fn consume(&self, stage: &Stage, random: &mut Random, until: Instant) {
        self.go_on(stage, until, || {
            let mut link = Link::open(self.port, "torture-subscriber")?;
            let mut receiver = lock(&self.receiver);
            while !stage.is_dying() && Instant::now() < until && random.below(500) > 0 {
                if let Some(heard) = hear(&mut link)? {
                    receiver.take(&mut link, heard)?;
                }
            }
            Ok(())
        });
    }

    /// The broker lives, and opens its ports one after the other.
    fn wait_for_port(&self) {
        let begin = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() && begin.elapsed() < PATIENCE {
            std::thread::sleep(GLANCE);
        }
    }

    /// Connects again and again.
    fn go_on(&self, stage: &Stage, until: Instant, mut connection: impl FnMut() -> Result<(), Broken>) {
        while !stage.is_dying() && Instant::now() < until {
            match connection() {
                Ok(()) => {}
                // The broker's death may be seen here first.
                Err(Broken::Lost(_)) => std::thread::sleep(GLANCE),
                Err(broken @ Broken::Refused(_)) => return stage.report("MQTT", &broken),
            }
        }
    }

    /// The broker lives: all that is open ends, and nothing is missing.
    pub(crate) fn settle(&self) -> Result<(), String> {
        self.settle_all().map_err(|broken| format!("MQTT: {broken}"))
    }

    fn settle_all(&self) -> Result<(), Broken> {
        let (mut sender, mut receiver) = (lock(&self.sender), lock(&self.receiver));
        self.wait_for_port();
        let mut link = Link::open(self.port, "torture-publisher")?;
        sender.resume(&mut link)?;
        let begin = Instant::now();
        while !sender.open.is_empty() && begin.elapsed() < PATIENCE {
            if let Some(heard) = hear(&mut link)? {
                sender.take(&mut link, heard)?;
            }
        }
        let mut link = Link::open(self.port, "torture-subscriber")?;
        let [once, twice] = sender.numbers;
        // What is missing has time; what should not come has some, too.
        let (begin, mut last) = (Instant::now(), Instant::now());
        while last.elapsed() < SILENCE || (!receiver.has_all(once, twice) && begin.elapsed() < PATIENCE) {
            if let Some(heard) = hear(&mut link)? {
                receiver.take(&mut link, heard)?;
                last = Instant::now();
            }
        }
        let missing: Vec<u64> = (1..=once).filter(|number| !receiver.once.contains(number)).take(10).collect();
        if !sender.open.is_empty() || !receiver.has_all(once, twice) {
            return Err(Broken::Refused(format!(
                "{} messages have no acknowledgement; of {once} of quality 1 {missing:?} did not come; of {twice} of \
                 quality 2 {} came, and {} were not released",
                sender.open.len(),
                receiver.last,
                receiver.taken.len()
            )));
        }
        Ok(())
    }
}

impl std::fmt::Display for MqttLoad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (sender, receiver) = (lock(&self.sender), lock(&self.receiver));
        let [once, twice] = sender.numbers;
        let (acknowledged, again) = (sender.acknowledged, receiver.again);
        write!(
            f,
            "MQTT: {acknowledged} acknowledged, {once} of quality 1 ({again} came again), {twice} of quality 2, each once"
        )
    }
}
