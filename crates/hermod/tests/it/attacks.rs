//! Attacks on the real program: what a peer can send to it, before and after its log-in, and the
//! required outcome. The list of attacks is in docs/attacks.md; each row names its test.
//!
//! During an attack another client does its work. Afterwards the server is as large as before.

mod after_login;
mod amqp10;
mod before_login;
mod documents;
mod names;
mod pressure;
mod tenants;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use amqp091::codec::methods::*;
use amqp091::codec::table::{Value, encode_fields};
use amqp091::codec::{FrameKind, Method, Table, decode_frame, decode_method, frame};
use amqp091::limits::PROTOCOL_HEADER;

use crate::server::{HANG, Server};
use crate::stomp::Stomp;

/// A client that publishes, and waits for the receipt and the message, during an attack. It takes
/// what it has published, so that a fast disk leaves no backlog to be counted as the attack's.
struct Canary {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Canary {
    fn start(server: &Server) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, mut client) = (stop.clone(), Stomp::connect(server));
        let thread = std::thread::spawn(move || {
            client.send("SUBSCRIBE\nid:0\ndestination:/queue/canary\nack:auto\n\n");
            let mut rounds = 0;
            while !stopped.load(Ordering::Relaxed) || rounds == 0 {
                client.send("SEND\ndestination:/queue/canary\npersistent:true\nreceipt:p\n\nsings");
                let mut frames = [client.frame(), client.frame()];
                frames.sort();
                assert!(frames[0].starts_with("MESSAGE\n"), "{frames:?}");
                assert!(frames[1].starts_with("RECEIPT\n"), "{frames:?}");
                rounds += 1;
            }
            rounds
        });
        Self { stop, thread }
    }

    /// Stops the client; a round that failed or hung fails the test.
    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        assert!(self.thread.join().unwrap() > 0);
    }
}

/// Kibibytes of memory that the server has resident.
pub(crate) fn resident(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// How many files the server has open.
fn open_files(server: &Server) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count()
}

/// The value of a metric.
fn metric(server: &Server, name: &str) -> u64 {
    let (_, text) = server.get("/metrics");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name} in {text}"));
    line.trim().parse().unwrap()
}

fn socket(port: u16) -> TcpStream {
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    // Otherwise two small frames in a row would wait 40 ms for an acknowledgement between them.
    socket.set_nodelay(true).unwrap();
    socket.set_read_timeout(Some(HANG)).unwrap();
    socket.set_write_timeout(Some(HANG)).unwrap();
    socket
}

/// Sends bytes, of which the server may refuse the end.
fn shove(socket: &mut TcpStream, bytes: &[u8]) {
    match socket.write_all(bytes) {
        Err(error) if !matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => panic!("{error}"),
        _ => {}
    }
}

/// What the server sends until it closes, which it must.
fn last_words(socket: &mut TcpStream) -> Vec<u8> {
    let mut said = Vec::new();
    match socket.read_to_end(&mut said) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("not closed, after {said:?}: {error}"),
        _ => said,
    }
}

/// The same for a peer that sends nothing more, so that the server need not wait for it.
fn answer(socket: &mut TcpStream) -> Vec<u8> {
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    last_words(socket)
}

/// A client of AMQP that can send any bytes.
pub(crate) struct Amqp {
    socket: TcpStream,
    received: Vec<u8>,
}

impl Amqp {
    /// A client that has received start, and has sent only the protocol header.
    pub(crate) fn started(port: u16) -> Self {
        let mut client = Self { socket: socket(port), received: Vec::new() };
        client.socket.write_all(&PROTOCOL_HEADER).unwrap();
        let start = client.method();
        assert!(start.starts_with("ConnectionStart"), "{start}");
        client
    }

    /// A client that has logged in as guest, with channel 1 open.
    fn open(port: u16) -> Self {
        let mut client = Self::started(port);
        client.start_ok("PLAIN", b"\0guest\0guest");
        assert!(client.method().starts_with("ConnectionTune"));
        client.send(0, ConnectionTuneOk { channel_max: 10, frame_max: 131_072, heartbeat: 0 });
        client.send(0, ConnectionOpen { virtual_host: "/", ..Default::default() });
        client.expect("ConnectionOpenOk");
        client.send(1, ChannelOpen::default());
        client.expect("ChannelOpenOk");
        client
    }

    pub(crate) fn start_ok(&mut self, mechanism: &str, response: &[u8]) {
        let capabilities = Value::Table(vec![("authentication_failure_close".to_owned(), Value::Bool(true))]);
        let fields = encode_fields(&[("capabilities".to_owned(), capabilities)]);
        let client_properties = Table::new(&fields).unwrap();
        self.send(0, ConnectionStartOk { client_properties, mechanism, response, locale: "en_US" });
    }

    pub(crate) fn send<'m>(&mut self, channel: u16, method: impl Into<Method<'m>>) {
        let mut bytes = Vec::new();
        method.into().encode(channel, &mut bytes);
        shove(&mut self.socket, &bytes);
    }

    /// Publishes to the default exchange.
    fn publish(&mut self, queue: &str, properties: &[u8], body: &[u8]) {
        let mut bytes = Vec::new();
        Method::from(BasicPublish { routing_key: queue, ..Default::default() }).encode(1, &mut bytes);
        frame::encode_header(&mut bytes, 1, body.len() as u64, properties);
        frame::encode_body(&mut bytes, 1, 131_072, body);
        shove(&mut self.socket, &bytes);
    }

    /// The next method, as text; `closed` if there is none.
    pub(crate) fn method(&mut self) -> String {
        loop {
            if let Some(frame) = decode_frame(&self.received, 0).unwrap() {
                let length = frame.wire_len();
                let shown = match frame.kind {
                    FrameKind::Method => Some(format!("{:?}", decode_method(frame.payload).unwrap())),
                    _ => None,
                };
                self.received.drain(..length);
                match shown {
                    Some(shown) => return shown.split_once('(').unwrap().1.to_owned(),
                    None => continue,
                }
            }
            let mut buffer = [0; 4096];
            match self.socket.read(&mut buffer) {
                Ok(0) => return "closed".to_owned(),
                Ok(count) => self.received.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return "closed".to_owned(),
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[track_caller]
    pub(crate) fn expect(&mut self, beginning: &str) {
        let method = self.method();
        assert!(method.starts_with(beginning), "{method}");
    }

    /// Expects a close with this code, answers it, and expects the end.
    #[track_caller]
    pub(crate) fn expect_close(&mut self, code: u16) {
        let method = self.method();
        assert!(method.starts_with(&format!("ConnectionClose {{ reply_code: {code},")), "{method}");
        self.send(0, ConnectionCloseOk {});
        last_words(&mut self.socket);
    }
}
