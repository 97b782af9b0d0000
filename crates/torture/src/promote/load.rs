//! The load of promotions: one publisher that waits for each receipt, and one consumer that drains.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
const QUEUE: &str = "/queue/promotions";
/// What is no message of the load.
const LAST: &str = "the last";

/// A session over STOMP.
pub(super) struct Client {
    socket: TcpStream,
    received: Vec<u8>,
}

impl Client {
    pub(super) fn connect(socket: TcpStream) -> std::io::Result<Self> {
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut client = Self { socket, received: Vec::new() };
        client.send("CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n")?;
        match client.frame()? {
            frame if frame.starts_with("CONNECTED\n") => Ok(client),
            frame => Err(std::io::Error::other(frame)),
        }
    }

    fn send(&mut self, frame: &str) -> std::io::Result<()> {
        self.socket.write_all(format!("{frame}\0").as_bytes())
    }

    /// Sends a frame, or some of which the last one asks for a receipt, and waits for that.
    pub(super) fn ask(&mut self, frame: &str) -> std::io::Result<()> {
        self.send(frame)?;
        match self.frame()? {
            frame if frame.starts_with("RECEIPT\n") => Ok(()),
            frame => Err(std::io::Error::other(frame)),
        }
    }

    fn frame(&mut self) -> std::io::Result<String> {
        loop {
            let blank = self.received.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
            self.received.drain(..blank);
            if let Some(end) = self.received.iter().position(|byte| *byte == 0) {
                let frame: Vec<u8> = self.received.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&frame[..end]).into_owned());
            }
            let mut piece = [0; 16 * 1024];
            match self.socket.read(&mut piece)? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                count => self.received.extend_from_slice(&piece[..count]),
            }
        }
    }
}

/// The publisher while it runs. It ends with its connection.
pub(super) struct Load {
    thread: JoinHandle<Result<Vec<(u64, Instant)>, String>>,
    ends: Arc<AtomicBool>,
}

impl Load {
    /// Publishes numbers from `first` on, over a connection that is open. Returns once one of them
    /// is confirmed: what comes next must find a publisher at work.
    pub(super) fn start(socket: TcpStream, first: u64) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let (begins, begun) = std::sync::mpsc::channel();
        let ended = Arc::clone(&ends);
        let thread = std::thread::spawn(move || {
            let mut client =
                Client::connect(socket).map_err(|error| format!("the publisher is not let in: {error}"))?;
            let mut confirmed = Vec::new();
            for number in first.. {
                let pad = "x".repeat((number % 7) as usize * 400);
                let frame = format!("SEND\ndestination:{QUEUE}\npersistent:true\nreceipt:r\n\n{number} {pad}");
                let receipt = client.send(&frame).and_then(|()| client.frame());
                match receipt {
                    Ok(frame) if frame.starts_with("RECEIPT\n") => {
                        confirmed.push((number, Instant::now()));
                        let _ = begins.send(());
                    }
                    // The broker ends, and with it the connection.
                    _ => return Ok(confirmed),
                }
                if ended.load(Ordering::Relaxed) {
                    return Ok(confirmed);
                }
            }
            Ok(confirmed)
        });
        // It fails where the publisher has ended, and `end` says why.
        let _ = begun.recv();
        Self { thread, ends }
    }

    /// The numbers that were confirmed, and when.
    pub(super) fn end(self) -> Result<Vec<(u64, Instant)>, String> {
        self.ends.store(true, Ordering::Relaxed);
        let confirmed = self.thread.join().map_err(|_| "the publisher has panicked".to_owned())??;
        if confirmed.is_empty() { Err("nothing was confirmed".to_owned()) } else { Ok(confirmed) }
    }
}

/// Takes everything out of the queue, and gives the numbers in their order. A message of its own
/// comes last: a silence says nothing on a machine that is busy.
pub(super) fn drain(socket: TcpStream) -> Result<Vec<u64>, String> {
    let failed = |error: std::io::Error| format!("draining: {error}");
    let mut client = Client::connect(socket).map_err(failed)?;
    client.send(&format!("SEND\ndestination:{QUEUE}\npersistent:true\n\n{LAST}")).map_err(failed)?;
    client.send(&format!("SUBSCRIBE\nid:0\ndestination:{QUEUE}\nack:client\n\n")).map_err(failed)?;
    let mut found = Vec::new();
    loop {
        let frame = client.frame().map_err(failed)?;
        let (head, text) = frame.split_once("\n\n").ok_or("a frame without an end of its head")?;
        if text == LAST {
            let last = head.lines().find_map(|line| line.strip_prefix("ack:"));
            let last = last.ok_or("a message that can't be acknowledged")?;
            client.send(&format!("ACK\nid:{last}\nreceipt:a\n\n")).map_err(failed)?;
            client.frame().map_err(failed)?;
            return Ok(found);
        }
        let number = text.split(' ').next().and_then(|number| number.parse().ok());
        found.push(number.ok_or_else(|| format!("what comes is no message of the load: {frame}"))?);
    }
}
