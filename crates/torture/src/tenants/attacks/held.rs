//! Attacks by what the broker must hold for a peer: consumers, transactions, bodies, replies,
//! arguments and properties.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use amqp091::codec::methods::{
    BasicConsume, BasicPublish, ChannelOpen, ConnectionOpen, ConnectionStartOk, ConnectionTuneOk, TxSelect,
};
use amqp091::codec::table::{Value, encode_fields};
use amqp091::codec::{BasicProperties, Method, Table, frame};
use amqp091::limits::PROTOCOL_HEADER;

use super::super::house::LOW;
use super::super::peer::{CHANNEL, FRAME, Peer};
use super::{Durability, Ground, PATIENCE, declare, names, together};

const TRANSIENT: [u8; 2] = [0, 0];
/// Channels with consumers, and how many on each.
const CHANNELS: u16 = 10;
const CONSUMERS: usize = 5000;
/// Messages for all of them.
const MESSAGES: usize = 1000;
/// Connections with transactions, channels of each, and the larger bodies.
const TRANSACTORS: usize = 4;
const TRANSACTIONS: u16 = 40;
const BODY: usize = 60_000;
/// Connections with bodies that are not whole, and channels of each.
const SENDERS: usize = 40;
const BODIES: u16 = 500;
/// The largest body that has no place in the intake.
const SMALL: usize = 64 * 1024;
const REQUESTERS: usize = 150;
/// Messages of which one stays, and the bodies of the others: together they take a block.
const TOGETHER: usize = 150;
const GONE: usize = 150;
/// Where direct replies go, as requesters write it.
const REPLY: &str = "amq.rabbitmq.reply-to";
/// Elements of the arguments of a queue: some 16 KiB of them.
const ELEMENTS: usize = 1500;
/// Connections with properties, and how many each has: some 8 KB.
const CONNECTED: usize = 1000;
const PROPERTIES: usize = 700;
/// How long what is held is left alone between two looks at it.
const PAUSE: Duration = Duration::from_millis(100);

/// Keeps what there is until the time is over, and goes on hearing what the broker says.
fn keep(ground: &Ground, peers: &mut [Peer]) -> Result<(), String> {
    while ground.goes_on() {
        peers.iter_mut().try_for_each(Peer::turn)?;
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// A6.
pub(super) fn consumers(ground: &Ground) -> Result<(), String> {
    let names = names(5);
    declare(&mut ground.peer()?, &names, Durability::Transient, "", &[])?;
    ground.begin();
    while ground.goes_on() {
        match consume_once(ground, &names) {
            // Those of the connection before have not all gone yet.
            Err(error) if error.contains("reached maximum") => ground.count("times refused", 1),
            ended => ended?,
        }
    }
    Ok(())
}

fn consume_once(ground: &Ground, names: &[String]) -> Result<(), String> {
    let mut peer = ground.peer()?;
    for channel in 2..=CHANNELS {
        peer.ask(channel, ChannelOpen::default())?;
    }
    for channel in 1..=CHANNELS {
        for number in 0..CONSUMERS {
            let (queue, consumer_tag) = (names[number % names.len()].as_str(), &*format!("t{number}"));
            let consume = BasicConsume { queue, consumer_tag, nowait: true, ..BasicConsume::default() };
            peer.send(channel, consume);
        }
    }
    // They go back with the connection.
    (0..MESSAGES).for_each(|number| peer.publish(("", &names[number % names.len()]), &TRANSIENT, b"x"));
    let most = MESSAGES as u64;
    let heard = peer.until(Instant::now() + PATIENCE, |heard| heard.delivered >= most || !heard.closed.is_empty())?;
    if !heard || !peer.heard.closed.is_empty() {
        return Err(format!("{} delivered; {}", peer.heard.delivered, peer.heard.reason));
    }
    ground.count("consumers made and ended", CONSUMERS as u64 * u64::from(CHANNELS));
    ground.count("delivered", peer.heard.delivered);
    Ok(())
}

/// A7, transactions.
pub(super) fn transactions(ground: &Ground) -> Result<(), String> {
    transact(ground, BODY, 8)
}

/// The same with messages that are hardly more than what is kept about them.
pub(super) fn small_transactions(ground: &Ground) -> Result<(), String> {
    transact(ground, 1, 1000)
}

/// Publishes into transactions until that is refused, on several connections, and again in place of
/// what was refused.
fn transact(ground: &Ground, size: usize, batch: usize) -> Result<(), String> {
    declare(&mut ground.peer()?, &names(1), Durability::Transient, "", &[])?;
    ground.begin();
    let body = vec![b'x'; size];
    together(TRANSACTORS, |_| {
        let mut peer = ground.peer()?;
        for channel in 1..=TRANSACTIONS {
            if channel > 1 {
                peer.ask(channel, ChannelOpen::default())?;
            }
            peer.ask(channel, TxSelect {})?;
        }
        while ground.goes_on() {
            for channel in 1..=TRANSACTIONS {
                (0..batch).for_each(|_| peer.publish_on(channel, ("", "low.q0"), &TRANSIENT, &body));
                ground.count("published", batch as u64);
                peer.until(ground.end(), |_| true)?;
                let closed = peer.heard.closed.clone();
                ground.count("times refused", peer.reopen()?);
                for channel in closed {
                    peer.ask(channel, TxSelect {})?;
                }
            }
            if peer.heard.blocked {
                ground.count("glances while stopped by the alarm", 1);
                std::thread::sleep(PAUSE);
            }
        }
        Ok(())
    })
}

/// A7, bodies.
pub(super) fn bodies(ground: &Ground) -> Result<(), String> {
    ground.begin();
    let mut peers: Vec<Peer> = Vec::new();
    let mut bytes = Vec::new();
    frame::encode_body(&mut bytes, 0, FRAME, &vec![b'x'; SMALL - 1]);
    while ground.goes_on() && peers.len() < SENDERS {
        let mut peer = ground.peer()?;
        for channel in 1..=BODIES {
            if channel > 1 {
                peer.send(channel, ChannelOpen::default());
            }
            let publish = BasicPublish { routing_key: "low.none", ..BasicPublish::default() };
            Method::from(publish).encode(channel, &mut peer.output);
            frame::encode_header(&mut peer.output, channel, SMALL as u64, &TRANSIENT);
            // The channel stands behind the kind of the frame.
            bytes[1..3].copy_from_slice(&channel.to_be_bytes());
            peer.output.extend_from_slice(&bytes);
            ground.count("bodies begun", 1);
            if channel % 25 == 0 {
                peer.until(ground.end(), |_| true)?;
            }
        }
        ground.count("refused", peer.heard.closed.len() as u64);
        ground.count("connections stopped by the alarm", peer.heard.blocked.into());
        peers.push(peer);
    }
    keep(ground, &mut peers)
}

/// A7, replies: an answerer that knows the addresses of many who read nothing.
pub(super) fn replies(ground: &Ground) -> Result<(), String> {
    let mut answerer = ground.peer()?;
    declare(&mut answerer, &names(1), Durability::Transient, "", &[])?;
    answerer.ask(CHANNEL, BasicConsume { queue: "low.q0", no_ack: true, ..BasicConsume::default() })?;
    let properties = BasicProperties { reply_to: Some(REPLY.as_bytes()), ..BasicProperties::default() }.to_bytes();
    let mut requesters: Vec<Peer> = Vec::new();
    for _ in 0..REQUESTERS {
        let mut peer = ground.peer()?;
        peer.ask(CHANNEL, BasicConsume { queue: REPLY, no_ack: true, ..BasicConsume::default() })?;
        peer.publish(("", "low.q0"), &properties, b"request!");
        peer.fence("low.q0")?;
        requesters.push(peer);
    }
    answerer.until(Instant::now() + PATIENCE, |heard| heard.addresses.len() == REQUESTERS)?;
    let addresses = std::mem::take(&mut answerer.heard.addresses);
    ground.count("addresses", addresses.len() as u64);
    ground.begin();
    let body = vec![b'x'; BODY];
    while ground.goes_on() {
        for address in &addresses {
            answerer.publish(("", address), &TRANSIENT, &body);
            ground.count("replies sent", 1);
        }
        answerer.until(ground.end(), |_| true)?;
        if answerer.heard.blocked {
            ground.count("glances while stopped by the alarm", 1);
            std::thread::sleep(PAUSE);
        }
    }
    Ok(())
}

/// A7, leftovers: small messages share memory, of which one keeps all. The others go nowhere.
pub(super) fn leftovers(ground: &Ground) -> Result<(), String> {
    declare(&mut ground.peer()?, &names(1), Durability::Transient, "", &[])?;
    ground.begin();
    together(TRANSACTORS, |_| {
        let mut peer = ground.peer()?;
        let gone = vec![b'x'; GONE];
        while ground.goes_on() {
            peer.publish(("", "low.q0"), &TRANSIENT, b"x");
            (0..TOGETHER - 1).for_each(|_| peer.publish(("", "low.none"), &TRANSIENT, &gone));
            ground.count("messages that stay", 1);
            peer.until(ground.end(), |_| true)?;
            if peer.heard.blocked {
                ground.count("glances while stopped by the alarm", 1);
                std::thread::sleep(PAUSE);
            }
        }
        Ok(())
    })
}

/// A7, arguments.
pub(super) fn arguments(ground: &Ground) -> Result<(), String> {
    let mut peer = ground.peer()?;
    let fields: Vec<_> = (0..ELEMENTS).map(|number| (format!("low{number}"), Value::Void)).collect();
    let arguments = encode_fields(&fields);
    ground.begin();
    while ground.goes_on() {
        let names: Vec<String> = (0..50).map(|_| format!("low.a{}", ground.number())).collect();
        match declare(&mut peer, &names, Durability::Transient, "", &arguments) {
            Ok(()) => ground.count("declared", names.len() as u64),
            Err(_) if !peer.heard.closed.is_empty() => {
                ground.count("times refused", peer.reopen()?);
                std::thread::sleep(PAUSE);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A7, client properties.
pub(super) fn properties(ground: &Ground) -> Result<(), String> {
    let fields: Vec<_> = (0..PROPERTIES).map(|number| (format!("low{number:05}"), Value::Bool(true))).collect();
    let fields = encode_fields(&fields);
    let client_properties = Table::new(&fields).map_err(|error| error.to_string())?;
    let response = format!("\0{}\0{}", LOW.name, LOW.password);
    let (mechanism, response, locale) = ("PLAIN", response.as_bytes(), "en_US");
    let mut bytes = Vec::new();
    Method::from(ConnectionStartOk { client_properties, mechanism, response, locale }).encode(0, &mut bytes);
    Method::from(ConnectionTuneOk { channel_max: 10, frame_max: FRAME, heartbeat: 0 }).encode(0, &mut bytes);
    Method::from(ConnectionOpen { virtual_host: "/", ..ConnectionOpen::default() }).encode(0, &mut bytes);
    ground.begin();
    let mut sockets = Vec::new();
    while ground.goes_on() && sockets.len() < CONNECTED {
        if let Ok(socket) = connect(ground.amqp, &bytes) {
            ground.count("connected", 1);
            sockets.push(socket);
        } else {
            ground.count("refused", 1);
            std::thread::sleep(PAUSE);
        }
    }
    keep(ground, &mut [])
}

/// Logs in with these steps and waits for the last answer.
fn connect(port: u16, steps: &[u8]) -> Result<TcpStream, std::io::Error> {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.write_all(&PROTOCOL_HEADER)?;
    socket.write_all(steps)?;
    let mut buffer = [0; 4096];
    let mut said = Vec::new();
    // Class 10, method 41: connection.open-ok.
    while !said.windows(4).any(|part| part == [0, 10, 0, 41]) {
        match socket.read(&mut buffer)? {
            0 => return Err(std::io::ErrorKind::ConnectionReset.into()),
            count => said.extend_from_slice(&buffer[..count]),
        }
    }
    Ok(socket)
}
