//! A broker of known faults, for the tests of the benchmark itself: it takes a relay's place, does to chosen messages what it
//! is told, and confirms every one of them.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use amqp091::codec::methods::BasicAck;
use amqp091::codec::{FrameKind, Method, decode_frame};

use crate::relay::hello::{Hello, PAIRED};
use crate::target::Target;

/// What happens to one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is confirmed and never delivered.
    Lose,
    /// It is delivered twice.
    Double,
    /// It is delivered after the next one.
    Overtake,
    /// The last byte of its body changes.
    Flip,
    /// Nothing moves for this many milliseconds before it.
    Stall(u64),
    /// It is refused, and not delivered.
    Refuse,
    /// It is delivered and confirmed twice.
    ConfirmTwice,
    /// The broker dies instead of taking it.
    Die,
}

/// Starts a broker for one pair of connections; message numbers count from 1.
pub(crate) fn start(faults: &[(u64, Fault)], confirms: bool) -> (Target, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("relay://{}", listener.local_addr().unwrap()).parse().unwrap();
    let faults: HashMap<u64, Fault> = faults.iter().copied().collect();
    let thread = spawn(move || {
        let consumer = greet(&listener);
        let producer = greet(&listener);
        let mut swallowed = consumer.try_clone().unwrap();
        let swallower = spawn(move || while matches!(swallowed.read(&mut [0; 4096]), Ok(1..)) {});
        deliver(producer, consumer, &faults, confirms);
        swallower.join().unwrap();
    });
    (target, thread)
}

fn greet(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().unwrap();
    let mut bytes = [0; Hello::LENGTH];
    stream.read_exact(&mut bytes).unwrap();
    Hello::decode(&bytes).unwrap();
    stream.write_all(&[PAIRED]).unwrap();
    stream
}

/// Reads publishes until the producer leaves. Bodies must fit into one frame.
fn deliver(mut producer: TcpStream, mut consumer: TcpStream, faults: &HashMap<u64, Fault>, confirms: bool) {
    let (mut input, mut number, mut held) = (Vec::new(), 0, Vec::new());
    let mut buffer = vec![0; 65536];
    while let Ok(count @ 1..) = producer.read(&mut buffer) {
        input.extend_from_slice(&buffer[..count]);
        let (mut out, mut answers) = (Vec::new(), Vec::new());
        while let Some(length) = message_length(&input) {
            let mut message: Vec<u8> = input.drain(..length).collect();
            number += 1;
            let fault = faults.get(&number).copied();
            let mut ack = Method::from(BasicAck { delivery_tag: number, multiple: false });
            match fault {
                Some(Fault::Stall(ms)) => {
                    let _ = consumer.write_all(&std::mem::take(&mut out));
                    sleep(Duration::from_millis(ms));
                }
                Some(Fault::Die) => {
                    let _ = consumer.shutdown(std::net::Shutdown::Both);
                    return;
                }
                Some(Fault::Flip) => message[length - 2] ^= 1,
                Some(Fault::Refuse) => {
                    ack = Method::BasicNack(amqp091::codec::methods::BasicNack {
                        delivery_tag: number,
                        ..Default::default()
                    })
                }
                _ => {}
            }
            match fault {
                Some(Fault::Lose | Fault::Refuse) => {}
                Some(Fault::Overtake) => held.clone_from(&message),
                Some(Fault::Double) => out.extend([message.as_slice(), &message].concat()),
                _ => {
                    out.extend_from_slice(&message);
                    out.append(&mut held);
                }
            }
            ack.encode(1, &mut answers);
            if fault == Some(Fault::ConfirmTwice) {
                ack.encode(1, &mut answers);
            }
        }
        let gone = consumer.write_all(&out).is_err() || (confirms && producer.write_all(&answers).is_err());
        if gone {
            break;
        }
    }
    let _ = consumer.shutdown(std::net::Shutdown::Both);
}

/// Bytes of the method, header and body frames at the front, once all are there.
fn message_length(input: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let frame = decode_frame(&input[at..], 0).unwrap()?;
        at += frame.wire_len();
        let empty = frame.kind == FrameKind::Header && frame.payload[4..12] == [0; 8];
        if frame.kind == FrameKind::Body || empty {
            return Some(at);
        }
    }
}
