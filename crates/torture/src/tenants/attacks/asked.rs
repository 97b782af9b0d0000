//! Attacks by what is asked for: addresses that are not one's own, and answers that are not read.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use amqp091::codec::methods::{BasicPublish, QueueDeclare};
use amqp091::codec::{Method, frame};

use super::super::peer::{CHANNEL, FRAME};
use super::{CONNECTIONS, Durability, Ground, PATIENCE, declare, together};
use crate::random::Random;

/// Guesses that wait for their answers.
const GUESSES: u64 = 200;
/// Queues whose names are long, and how many ask for a list of them.
const QUEUES: usize = 10_000;
const NAME: usize = 200;
const ASKERS: usize = 192;
/// `low:low-password`, as HTTP has it.
const PASSWORD: &str = "bG93Omxvdy1wYXNzd29yZA==";
/// What is asked for in turn.
const PATHS: [&str; 3] = ["/metrics/per-object", "/api/queues", "/api/queues?sort=name"];
/// How long the askers hold their answers before they begin again.
const HELD: Duration = Duration::from_secs(2);

/// A8: mandatory publishes to addresses that another tenant may have, and questions whether it has.
pub(super) fn addresses(ground: &Ground) -> Result<(), String> {
    ground.begin();
    together(CONNECTIONS, |number| {
        let mut random = Random::new(number as u64);
        let mut guess = || {
            let word = |length: usize, random: &mut Random| {
                let letters =
                    (0..length).map(|_| char::from(*random.pick(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghij012345")));
                letters.collect::<String>()
            };
            format!("amq.rabbitmq.reply-to.{}.{}", word(22, &mut random), word(24, &mut random))
        };
        let mut peer = ground.peer()?;
        while ground.goes_on() {
            let goal = peer.heard.returned + GUESSES;
            for _ in 0..GUESSES {
                let routing_key = &guess();
                let publish = BasicPublish { routing_key, mandatory: true, ..BasicPublish::default() };
                Method::from(publish).encode(CHANNEL, &mut peer.output);
                frame::encode_header(&mut peer.output, CHANNEL, 1, &[0, 0]);
                frame::encode_body(&mut peer.output, CHANNEL, FRAME, b"x");
            }
            let end = Instant::now() + PATIENCE;
            if !peer.until(end, |heard| heard.returned >= goal || !heard.closed.is_empty())? {
                return Err(format!("{} guesses were not returned", goal - peer.heard.returned));
            }
            ground.count("guesses returned", GUESSES);
            let queue = &guess();
            let asked = peer.ask(CHANNEL, QueueDeclare { queue, passive: true, ..QueueDeclare::default() });
            ground.count(if asked.is_ok() { "addresses FOUND" } else { "questions refused" }, 1);
            peer.reopen()?;
        }
        Ok(())
    })
}

/// A10: many ask for what is long, and read only the head of the answer.
pub(super) fn unread(ground: &Ground) -> Result<(), String> {
    let names: Vec<String> = (0..QUEUES).map(|number| format!("low.{}{number}", "q".repeat(NAME))).collect();
    for some in names.chunks(1000) {
        declare(&mut ground.peer()?, some, Durability::Transient, "", &[])?;
    }
    ground.begin();
    while ground.goes_on() {
        let ask = |number: usize| ask(ground.http, PATHS[number % PATHS.len()]);
        let mut asked: Vec<_> = (0..ASKERS).map(ask).collect();
        let end = Instant::now() + HELD;
        for socket in &mut asked {
            let what = socket.as_mut().map_or("not connected", |socket| answer(socket, end));
            ground.count(what, 1);
        }
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

fn ask(port: u16, path: &str) -> std::io::Result<TcpStream> {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    write!(socket, "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {PASSWORD}\r\n\r\n")?;
    Ok(socket)
}

/// What a request is answered until then.
fn answer(socket: &mut TcpStream, end: Instant) -> &'static str {
    let mut status = [0; 12];
    let wait = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let read = socket.set_read_timeout(Some(wait)).and_then(|()| socket.read_exact(&mut status));
    match (read, &status[9..]) {
        (Ok(()), b"200") => "answers begun",
        (Ok(()), b"401") => "answers 401",
        (Ok(()), b"503") => "answers 503",
        (Ok(()), _) => "other answers",
        (Err(error), _) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => "not answered yet",
        (Err(_), _) => "closed without an answer",
    }
}
