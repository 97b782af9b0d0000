//! Which protocols answer on a port: a real handshake for each, the answer recognised by what the
//! specification says of it. An open port proves nothing.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde::Serialize;

/// Who has not answered by then does not speak the protocol.
const PATIENCE: Duration = Duration::from_millis(1500);
/// Most bytes of an answer that are looked at.
const LONGEST_ANSWER: usize = 16 * 1024;

/// A protocol, how a client begins it, and how its answer is recognised.
struct Handshake {
    protocol: &'static str,
    hello: &'static [u8],
    /// What the answer tells, when it is one; none as long as it is not.
    recognise: fn(&[u8]) -> Option<String>,
}

/// Kafka's ApiVersions, version 0: length, key 18, version 0, correlation 77, client "bench".
const KAFKA_HELLO: &[u8] = b"\x00\x00\x00\x0f\x00\x12\x00\x00\x00\x00\x00\x4d\x00\x05bench";
/// MQTT 3.1.1 CONNECT: clean session, 10 s keep-alive, client "bench".
const MQTT_HELLO: &[u8] = b"\x10\x11\x00\x04MQTT\x04\x02\x00\x0a\x00\x05bench";

/// Protocols in which the server speaks first come first: they need no guess.
const HANDSHAKES: [Handshake; 7] = [
    Handshake {
        protocol: "NATS",
        hello: b"",
        recognise: |answer| answer.starts_with(b"INFO {").then(|| "INFO".to_owned()),
    },
    Handshake { protocol: "OpenWire", hello: b"", recognise: openwire },
    Handshake { protocol: "AMQP 0-9-1", hello: b"AMQP\x00\x00\x09\x01", recognise: amqp091 },
    Handshake { protocol: "AMQP 1.0", hello: b"AMQP\x03\x01\x00\x00", recognise: amqp10 },
    Handshake { protocol: "STOMP", hello: b"CONNECT\naccept-version:1.0,1.1,1.2\nhost:/\n\n\x00", recognise: stomp },
    Handshake { protocol: "MQTT", hello: MQTT_HELLO, recognise: mqtt },
    Handshake { protocol: "Kafka", hello: KAFKA_HELLO, recognise: kafka },
];

/// A protocol that answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Answer {
    pub(crate) protocol: &'static str,
    pub(crate) port: u16,
    /// What the answer was.
    pub(crate) detail: String,
}

/// Tries every handshake on `address`, each on a connection of its own.
pub(crate) fn protocols(address: SocketAddr) -> Vec<Answer> {
    let answers = HANDSHAKES.iter().filter_map(|handshake| {
        let detail = shake(address, handshake)?;
        Some(Answer { protocol: handshake.protocol, port: address.port(), detail })
    });
    answers.collect()
}

fn shake(address: SocketAddr, handshake: &Handshake) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(handshake.hello).ok()?;
    let (mut answer, mut part) = (Vec::new(), [0; 4096]);
    let begin = Instant::now();
    while answer.len() < LONGEST_ANSWER && begin.elapsed() < PATIENCE {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(length) => answer.extend_from_slice(&part[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => break,
        }
        if let Some(detail) = (handshake.recognise)(&answer) {
            return Some(detail);
        }
    }
    None
}

/// WireFormatInfo: length, type 1, the magic.
fn openwire(answer: &[u8]) -> Option<String> {
    (answer.get(4) == Some(&1) && answer.get(5..13) == Some(b"ActiveMQ")).then(|| "WireFormatInfo".to_owned())
}

/// A method frame on channel 0 with connection.start (10, 10).
fn amqp091(answer: &[u8]) -> Option<String> {
    (answer.starts_with(&[1, 0, 0]) && answer.get(7..11) == Some(&[0, 10, 0, 10]))
        .then(|| "connection.start".to_owned())
}

/// The header of SASL, or of the protocol itself where no log-in is wanted. Other servers answer a
/// header of their own.
fn amqp10(answer: &[u8]) -> Option<String> {
    match answer.get(..8)? {
        b"AMQP\x03\x01\x00\x00" => Some("SASL header".to_owned()),
        b"AMQP\x00\x01\x00\x00" => Some("header".to_owned()),
        _ => None,
    }
}

/// CONNECTED, or ERROR where the log-in was refused.
fn stomp(answer: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(answer.split(|byte| *byte == 0).next()?).ok()?;
    let text = text.trim_start_matches(['\n', '\r']);
    if !answer.contains(&0) || !(text.starts_with("CONNECTED\n") || text.starts_with("CONNECTED\r\n")) {
        return (answer.contains(&0) && text.starts_with("ERROR")).then(|| "ERROR".to_owned());
    }
    let version = text.lines().find_map(|line| line.trim_end().strip_prefix("version:"));
    Some(format!("CONNECTED {}", version.unwrap_or("1.0")))
}

/// CONNACK, whatever its return code.
fn mqtt(answer: &[u8]) -> Option<String> {
    let &[0x20, 2, _, code, ..] = answer else { return None };
    Some(if code == 0 { "CONNACK".to_owned() } else { format!("CONNACK, refused with {code}") })
}

/// The length, then our correlation id, then no error.
fn kafka(answer: &[u8]) -> Option<String> {
    (answer.get(4..10) == Some(&[0, 0, 0, 77, 0, 0])).then(|| "ApiVersions".to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A protocol and how its servers really answer.
    const ANSWERS: [(&str, &[u8]); 9] = [
        ("NATS", b"INFO {\"server_id\":\"x\"}\r\n"),
        ("OpenWire", b"\x00\x00\x01\x48\x01ActiveMQ\x00\x00\x00\x0c"),
        ("AMQP 0-9-1", b"\x01\x00\x00\x00\x00\x01\x00\x00\x0a\x00\x0a\x00\x09"),
        ("AMQP 1.0", b"AMQP\x03\x01\x00\x00"),
        ("AMQP 1.0", b"AMQP\x00\x01\x00\x00"),
        ("STOMP", b"CONNECTED\nversion:1.2\n\n\x00"),
        ("STOMP", b"ERROR\nmessage:no\n\n\x00"),
        ("MQTT", b"\x20\x02\x00\x00"),
        ("Kafka", b"\x00\x00\x00\x40\x00\x00\x00\x4d\x00\x00\x00\x00\x00\x05"),
    ];

    #[test]
    fn an_answer_is_recognised_by_its_own_protocol_alone_and_only_when_whole() {
        for (protocol, answer) in ANSWERS {
            for handshake in &HANDSHAKES {
                let seen = (handshake.recognise)(answer).is_some();
                assert_eq!(seen, handshake.protocol == protocol, "{} on {answer:?}", handshake.protocol);
                let cut = (0..answer.len()).any(|end| {
                    // A prefix may be enough, but never of nothing, and never for another protocol.
                    (handshake.recognise)(&answer[..end]).is_some() && (end == 0 || handshake.protocol != protocol)
                });
                assert!(!cut, "{} on a piece of {answer:?}", handshake.protocol);
            }
        }
    }

    #[test]
    fn lengths_in_our_own_greetings_are_right() {
        assert_eq!(usize::from(MQTT_HELLO[1]), MQTT_HELLO.len() - 2);
        assert_eq!(usize::from(KAFKA_HELLO[3]), KAFKA_HELLO.len() - 4);
    }

    #[test]
    fn a_port_that_speaks_is_found_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            for _ in 0..HANDSHAKES.len() {
                let (mut stream, _) = listener.accept().unwrap();
                let mut hello = [0; 8];
                // Answers AMQP 0-9-1 and hangs up on all others.
                stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
                if stream.read(&mut hello).is_ok_and(|length| hello[..length] == *b"AMQP\x00\x00\x09\x01") {
                    stream.write_all(ANSWERS[2].1).unwrap();
                }
            }
        });
        let answers = protocols(address);
        server.join().unwrap();
        let detail = "connection.start".to_owned();
        assert_eq!(answers, [Answer { protocol: "AMQP 0-9-1", port: address.port(), detail }]);
    }
}
