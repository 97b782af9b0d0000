//! A broker of MQTT 3.1.1 in memory whose faults are known, for the tests of this folder: exact
//! topics, `#` at the end, retained messages, quality 1 for those that publish.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::spawn;

use mqtt::codec::{Ack, ConnAck, Packet, Properties, Publish, Reason, Version, decode, encode};

const VERSION: Version = Version::V3_1_1;

/// What it does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Nothing,
    /// It forgets a retained message.
    Forgets,
    /// It gives each retained message twice.
    Repeats,
    /// It changes the bodies of retained messages.
    Changes,
    /// It refuses subscriptions.
    Refuses,
    /// It drops what is not retained.
    Drops,
}

#[derive(Debug, Default)]
struct Shared {
    kept: BTreeMap<String, Vec<u8>>,
    subscribers: Vec<(String, TcpStream)>,
}

/// Starts one; returns its target. It ends with the process.
pub(super) fn start(fault: Fault) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("mqtt://guest:guest@{}", listener.local_addr().unwrap());
    let shared = Arc::new(Mutex::new(Shared::default()));
    spawn(move || {
        for stream in listener.incoming() {
            let shared = Arc::clone(&shared);
            // A connection that the client ends is no failure.
            spawn(move || serve(stream?, &shared, fault));
        }
    });
    target
}

fn serve(mut stream: TcpStream, shared: &Mutex<Shared>, fault: Fault) -> std::io::Result<()> {
    let (mut input, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Ok(());
        }
        input.extend_from_slice(&piece[..count]);
        let mut used = 0;
        while let Some((packet, length)) = decode(&input[used..], VERSION, u32::MAX).unwrap() {
            used += length;
            let mut out = Vec::new();
            answer(&packet, &stream, &mut shared.lock().unwrap(), fault, &mut out)?;
            stream.write_all(&out)?;
        }
        input.drain(..used);
    }
}

fn answer(
    packet: &Packet<'_>,
    stream: &TcpStream,
    shared: &mut Shared,
    fault: Fault,
    out: &mut Vec<u8>,
) -> std::io::Result<()> {
    match packet {
        Packet::Connect(_) => {
            let properties = Properties::NONE;
            encode(
                &Packet::ConnAck(ConnAck { session_present: false, reason: Reason::Success, properties }),
                VERSION,
                out,
            );
        }
        Packet::Publish(message) => {
            publish(message, shared, fault)?;
            message.id.into_iter().for_each(|id| encode(&Packet::PubAck(Ack::success(id)), VERSION, out));
        }
        Packet::Subscribe(subscribe) => {
            let [high, low] = subscribe.id.get().to_be_bytes();
            let granted = if fault == Fault::Refuses { 0x80 } else { 0 };
            out.extend([0x90, 3, high, low, granted]);
            for asked in subscribe.filters.iter() {
                shared.subscribers.push((asked.written.to_owned(), stream.try_clone()?));
                give_kept(asked.written, shared, fault, out);
            }
        }
        _ => {}
    }
    Ok(())
}

fn matches(filter: &str, topic: &str) -> bool {
    filter.strip_suffix('#').map_or(filter == topic, |front| topic.starts_with(front))
}

fn publish(message: &Publish<'_>, shared: &mut Shared, fault: Fault) -> std::io::Result<()> {
    if message.retain {
        if message.payload.is_empty() {
            shared.kept.remove(message.topic);
        } else if fault != Fault::Forgets || !message.topic.ends_with("/7") {
            shared.kept.insert(message.topic.to_owned(), message.payload.to_vec());
        }
    } else if fault == Fault::Drops {
        return Ok(());
    }
    let mut bytes = Vec::new();
    let copy = Publish { retain: false, id: None, qos: Default::default(), ..*message };
    encode(&Packet::Publish(copy), VERSION, &mut bytes);
    // One that has gone is told nothing.
    shared
        .subscribers
        .retain(|(filter, stream)| !matches(filter, message.topic) || (&*stream).write_all(&bytes).is_ok());
    Ok(())
}

fn give_kept(filter: &str, shared: &Shared, fault: Fault, out: &mut Vec<u8>) {
    for (topic, body) in shared.kept.iter().filter(|(topic, _)| matches(filter, topic)) {
        let mut body = body.clone();
        if fault == Fault::Changes {
            body.iter_mut().rev().take(1).for_each(|byte| *byte ^= 1);
        }
        for _ in 0..if fault == Fault::Repeats { 2 } else { 1 } {
            let kept = Publish { retain: true, topic, payload: &body, ..Publish::default() };
            encode(&Packet::Publish(kept), VERSION, out);
        }
    }
}
