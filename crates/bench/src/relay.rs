//! The floor: pairs a producer's socket with a consumer's and copies bytes between them. No broker
//! on this machine can move the same bytes between two sockets with less; what one needs beyond it
//! is what it costs.
//!
//! One thread accepts and pairs; the threads that copy use non-blocking sockets, as a broker does.

mod copy;
pub(crate) mod hello;
mod log;
pub(crate) mod own;

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use bench_record::failure::{Context, Failure};
use copy::copy_pairs;
use hello::{Hello, PAIRED, Role};
use log::Log;

/// A connection that has not said what it is after this long is closed.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most consumers waiting for their producers; more than that and the relay forgets them all.
const MOST_WAITING: usize = 1024;

/// A producer's socket and its consumer's.
type Pair = (TcpStream, TcpStream);

/// Serves on `listen` for ever, copying on `threads` threads; what producers send is forced to a
/// file in `log` first, where one is named. `started` hears the address when it is open.
pub(crate) fn serve(
    listen: SocketAddr,
    threads: usize,
    log: Option<&Path>,
    started: impl FnOnce(SocketAddr) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if !listen.ip().is_loopback() {
        return Err(Failure::new(format!("{listen}: a relay asks nobody for a password and listens on loopback only")));
    }
    let listener = TcpListener::bind(listen).context(format!("listening on {listen}"))?;
    let mut copiers: Vec<Sender<Pair>> = Vec::new();
    for number in 0..threads.max(1) {
        let (sender, receiver) = channel();
        let thread = std::thread::Builder::new().name(format!("relay-{number}"));
        let log = log.map(Log::create).transpose()?;
        thread.spawn(move || copy_pairs(&receiver, log)).context("starting a relay thread")?;
        copiers.push(sender);
    }
    started(listener.local_addr().context("the relay's own address")?)?;
    let mut waiting = HashMap::new();
    for (number, pair) in listener.incoming().filter_map(|stream| meet(stream.ok()?, &mut waiting)).enumerate() {
        copiers[number % copiers.len()].send(pair).context("a relay thread has ended")?;
    }
    Ok(())
}

/// Reads who a connection is; returns a pair when both ends are there.
fn meet(mut stream: TcpStream, waiting: &mut HashMap<Hello, TcpStream>) -> Option<Pair> {
    let hello = greet(&mut stream)?;
    match hello.role {
        Role::Consumer => {
            if waiting.len() >= MOST_WAITING {
                waiting.clear();
            }
            stream.write_all(&[PAIRED]).ok()?;
            waiting.insert(hello, stream);
            None
        }
        Role::Producer => {
            // Without its consumer the producer is closed, which it reports.
            let consumer = waiting.remove(&Hello { role: Role::Consumer, ..hello })?;
            stream.write_all(&[PAIRED]).ok()?;
            Some((stream, consumer))
        }
    }
}

fn greet(stream: &mut TcpStream) -> Option<Hello> {
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut bytes = [0; Hello::LENGTH];
    stream.read_exact(&mut bytes).ok()?;
    Hello::decode(&bytes)
}

/// True when a socket has nothing more for now, as against for ever.
fn is_pause(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
