//! Attacks by the work that a message makes: its keys, headers, copies and deaths.

use std::time::Instant;

use amqp091::codec::methods::{ConfirmSelect, ExchangeDeclare, QueueBind, QueuePurge};
use amqp091::codec::table::{Value, encode_fields};
use amqp091::codec::{BasicProperties, Table};

use super::super::peer::{CHANNEL, Peer, headers as properties_of};
use super::{CONNECTIONS, Durability, Ground, PATIENCE, declare, names, together};

const TRANSIENT: [u8; 2] = [0, 0];
/// Publishes that wait for their confirms.
const WINDOW: u64 = 20;
/// Publishes of a flood that wait.
const FLOOD: u64 = 500;
/// Queues of a flood.
const QUEUES: usize = 2000;
/// Bindings whose arguments a message is held against, and how many each has.
const BINDINGS: usize = 200;
const ARGUMENTS: usize = 1400;
/// Words of a long key.
const WORDS: usize = 120;

/// The arguments of a queue that keeps one message, so that memory is never short.
fn short() -> Vec<u8> {
    encode_fields(&[("x-max-length".to_owned(), Value::I32(1))])
}

fn exchange(peer: &mut Peer, exchange: &str, kind: &str) -> Result<(), String> {
    peer.ask(CHANNEL, ExchangeDeclare { exchange, kind, ..ExchangeDeclare::default() })
}

/// The key and the properties of a message, by how much of it there is.
type Shape<'a> = &'a (dyn Fn(usize) -> (String, Vec<u8>) + Sync);

/// Publishes the largest of these messages that is not refused again and again, over several
/// connections, and one that is refused now and then. The first size is refused.
fn push(ground: &Ground, exchange: &str, sizes: &[usize], shape: Shape<'_>) -> Result<(), String> {
    let mut peer = confirming(ground)?;
    let mut allowed = None;
    for size in sizes {
        let (key, properties) = shape(*size);
        if allowed.is_none() && publish(ground, &mut peer, (exchange, &key), &properties, 1)? {
            allowed = Some((key, properties));
            ground.count("is the largest that is not refused", *size as u64);
        }
    }
    let (key, properties) = allowed.ok_or("every message is refused")?;
    let (long, refused) = shape(sizes[0]);
    ground.begin();
    together(CONNECTIONS, |_| {
        let mut peer = confirming(ground)?;
        while ground.goes_on() {
            publish(ground, &mut peer, (exchange, &key), &properties, WINDOW)?;
            publish(ground, &mut peer, (exchange, &long), &refused, 1)?;
        }
        Ok(())
    })
}

fn confirming(ground: &Ground) -> Result<Peer, String> {
    let mut peer = ground.peer()?;
    peer.ask(CHANNEL, ConfirmSelect::default())?;
    Ok(peer)
}

/// Publishes so many of these at once, and waits until they are confirmed or one is refused; says
/// whether they are confirmed.
fn publish(ground: &Ground, peer: &mut Peer, to: (&str, &str), properties: &[u8], count: u64) -> Result<bool, String> {
    let goal = peer.heard.confirmed + count;
    (0..count).for_each(|_| peer.publish(to, properties, b"x"));
    let heard = peer.until(Instant::now() + PATIENCE, |heard| heard.confirmed >= goal || !heard.closed.is_empty())?;
    if !heard {
        return Err(format!("no confirms within {PATIENCE:?}"));
    }
    if peer.heard.closed.is_empty() {
        ground.count("published", count);
        return Ok(true);
    }
    ground.count("refused", peer.reopen()?);
    peer.ask(CHANNEL, ConfirmSelect::default())?;
    Ok(false)
}

fn copies_of(keys: impl Iterator<Item = String>) -> Vec<u8> {
    let keys = keys.map(|key| Value::Str(key.into_bytes())).collect();
    properties_of(&[("CC".to_owned(), Value::Array(keys))])
}

/// A1.
pub(super) fn copies(ground: &Ground) -> Result<(), String> {
    let mut peer = ground.peer()?;
    exchange(&mut peer, "low.topic", "topic")?;
    let names = names(1000);
    declare(&mut peer, &names, Durability::Transient, "", &short())?;
    for queue in &names {
        let bind = QueueBind { queue, exchange: "low.topic", routing_key: "#", nowait: true, ..QueueBind::default() };
        peer.send(CHANNEL, bind);
    }
    peer.fence(&names[0])?;
    let sizes = [21_000, 255, 250, 240, 230, 220, 200, 180, 160, 140, 120, 100, 80, 60, 40, 20, 10];
    let key = |number, size| if size > 255 { String::new() } else { format!("k{number}") };
    push(ground, "low.topic", &sizes, &|size| (String::new(), copies_of((0..size).map(|number| key(number, size)))))
}

/// A3.
pub(super) fn headers(ground: &Ground) -> Result<(), String> {
    let mut peer = ground.peer()?;
    exchange(&mut peer, "low.headers", "headers")?;
    let names = names(1);
    declare(&mut peer, &names, Durability::Transient, "", &short())?;
    let fields = |count: usize| (0..count).map(|number| (format!("n{number}"), Value::Void));
    for number in 0..BINDINGS {
        let own = (format!("x-{number}"), Value::Void);
        let arguments = encode_fields(&fields(ARGUMENTS).chain([own]).collect::<Vec<_>>());
        let arguments = Table::new(&arguments).map_err(|error| error.to_string())?;
        let exchange = "low.headers";
        peer.send(CHANNEL, QueueBind { queue: &names[0], exchange, nowait: true, arguments, ..QueueBind::default() });
    }
    // What a user may declare ends them: those before the refused one stay.
    let fenced = peer.fence(&names[0]);
    if peer.heard.closed.is_empty() {
        fenced?;
    } else {
        ground.count("refused", peer.reopen()?);
    }
    // A header that is missing ends a match: the messages have all names but the last.
    let sizes = [10_000, 1399, 1300, 1200, 1150, 1100, 1050, 1000, 950, 900, 800, 700, 600, 500, 400, 200, 100];
    push(ground, "low.headers", &sizes, &|size| {
        let missing = format!("n{}", ARGUMENTS - 1);
        let fields: Vec<_> = fields(size).filter(|(name, _)| *name != missing).collect();
        (String::new(), properties_of(&fields))
    })
}

/// A4.
pub(super) fn topics(ground: &Ground) -> Result<(), String> {
    let mut peer = ground.peer()?;
    exchange(&mut peer, "low.topic", "topic")?;
    let names = names(1);
    declare(&mut peer, &names, Durability::Transient, "", &short())?;
    for number in 0..1024 {
        let words = (0..10).map(|place| if number >> place & 1 == 0 { "a" } else { "*" });
        let routing_key = &format!("{}.#.b{number}", words.collect::<Vec<_>>().join("."));
        let (queue, exchange) = (names[0].as_str(), "low.topic");
        peer.send(CHANNEL, QueueBind { queue, exchange, routing_key, nowait: true, ..QueueBind::default() });
    }
    peer.fence(&names[0])?;
    // So many words, in keys of up to 120.
    let sizes = [200 * WORDS, 4 * WORDS, 2 * WORDS, WORDS, 110, 100, 90, 80, 70, 60, 50, 40, 30, 25, 20, 15, 12, 10];
    push(ground, "low.topic", &sizes, &|size| {
        let long = |last: usize| format!("{}.b{last}", vec!["a"; size.min(WORDS)].join("."));
        (long(0), copies_of((1..(size / WORDS).max(1)).map(long)))
    })
}

/// A2.
pub(super) fn fanout(ground: &Ground) -> Result<(), String> {
    flood(ground, &[])
}

/// A2 to queues that do not fill up.
pub(super) fn fanout_short(ground: &Ground) -> Result<(), String> {
    flood(ground, &short())
}

fn flood(ground: &Ground, arguments: &[u8]) -> Result<(), String> {
    let mut other = ground.peer()?;
    exchange(&mut other, "low.fanout", "fanout")?;
    let names = names(QUEUES);
    declare(&mut other, &names, Durability::Transient, "low.fanout", arguments)?;
    ground.begin();
    let mut peer = confirming(ground)?;
    while ground.goes_on() {
        let goal = peer.heard.confirmed + FLOOD;
        (0..FLOOD).for_each(|_| peer.publish(("low.fanout", ""), &TRANSIENT, b"x"));
        while peer.heard.confirmed < goal {
            let end = Instant::now() + PATIENCE;
            if !peer.until(end, |heard| heard.confirmed >= goal || heard.blocked || !heard.closed.is_empty())? {
                return Err(format!("no confirms within {PATIENCE:?}"));
            }
            if !peer.heard.closed.is_empty() {
                return Err(peer.heard.reason);
            }
            if peer.heard.blocked {
                ground.count("times stopped by the alarm", 1);
                for queue in &names {
                    other.send(CHANNEL, QueuePurge { queue, nowait: true, ..QueuePurge::default() });
                }
                other.fence(&names[0])?;
                peer.until(Instant::now() + PATIENCE, |heard| !heard.blocked)?;
            }
        }
        ground.count("published", FLOOD);
        ground.count("copies", FLOOD * QUEUES as u64);
    }
    Ok(())
}

/// A5.
pub(super) fn circle(ground: &Ground) -> Result<(), String> {
    deaths(ground, Durability::Transient)
}

/// A5 in the log.
pub(super) fn durable_circle(ground: &Ground) -> Result<(), String> {
    deaths(ground, Durability::Durable)
}

fn deaths(ground: &Ground, durability: Durability) -> Result<(), String> {
    let durable = durability == Durability::Durable;
    let mut peer = confirming(ground)?;
    let (name, kind) = ("low.circle", "fanout");
    peer.ask(CHANNEL, ExchangeDeclare { exchange: name, kind, durable, ..ExchangeDeclare::default() })?;
    let to = ("x-dead-letter-exchange".to_owned(), Value::from(name));
    let arguments = encode_fields(&[to, ("x-message-ttl".to_owned(), Value::I32(0))]);
    let names = names(8);
    declare(&mut peer, &names, durability, name, &arguments)?;
    ground.begin();
    let delivery_mode = Some(if durable { 2 } else { 1 });
    let properties = BasicProperties { delivery_mode, ..BasicProperties::default() }.to_bytes();
    let mut goal = 0;
    while ground.goes_on() {
        goal += WINDOW;
        (0..WINDOW).for_each(|_| peer.publish(("", &names[0]), &properties, b"x"));
        while peer.heard.confirmed < goal && ground.goes_on() {
            peer.turn()?;
            ground.count("glances while stopped by the alarm", peer.heard.blocked.into());
        }
        ground.count("published", WINDOW);
    }
    Ok(())
}
