//! One socket to a broker: what was read and not yet understood, and writing what a conversation
//! wants to say.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use wire::Output;

use bench_record::failure::{Context, Failure};
use bench_record::scenario::Scenario;
use machine::wait::{Ready, wait_any};

/// Bytes read at once, and where the buffer starts.
const READ: usize = 256 * 1024;
/// Where the buffer of an idle connection starts: there may be tens of thousands.
const SMALL_READ: usize = 512;
/// An incomplete frame larger than this is refused.
const LARGEST: usize = 256 * 1024 * 1024;
/// A broker that takes or gives nothing for this long ends the run.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pieces written with one call.
const PIECES: usize = 16;

/// A connected socket with its input buffer.
#[derive(Debug)]
pub(crate) struct Link {
    stream: TcpStream,
    input: Vec<u8>,
    start: usize,
    end: usize,
    ready: Vec<Ready>,
}

impl Link {
    /// Connects to `address` (`host:port`) with Nagle's delay off.
    pub(crate) fn open(address: &str) -> Result<Self, Failure> {
        Self::connect(address, READ, &|place| TcpStream::connect_timeout(place, PATIENCE))
    }

    /// Connects with a buffer for a connection that is idle, from the local address `source` where
    /// one is given.
    pub(crate) fn open_idle(address: &str, source: Option<IpAddr>) -> Result<Self, Failure> {
        Self::connect(address, SMALL_READ, &|place| {
            let Some(source) = source else { return TcpStream::connect_timeout(place, PATIENCE) };
            let socket = Socket::new(Domain::for_address(*place), Type::STREAM, Some(Protocol::TCP))?;
            socket.bind(&SocketAddr::new(source, 0).into())?;
            socket.connect_timeout(&(*place).into(), PATIENCE)?;
            Ok(socket.into())
        })
    }

    fn connect(
        address: &str,
        buffer: usize,
        to: &dyn Fn(&SocketAddr) -> std::io::Result<TcpStream>,
    ) -> Result<Self, Failure> {
        let places = address.to_socket_addrs().context(address)?;
        let mut last = Failure::new(format!("{address}: no such host"));
        for place in places {
            match to(&place) {
                Ok(stream) => return Self::of(stream, buffer).context(address),
                Err(error) => {
                    last = Failure::new(format!("{address}: {error}; is the broker running and listening there?"))
                }
            }
        }
        Err(last)
    }

    fn of(stream: TcpStream, buffer: usize) -> Result<Self, Failure> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream, input: vec![0; buffer], start: 0, end: 0, ready: Vec::new() })
    }

    /// Fails when the broker has closed the connection. Waits for nothing; what it sent meanwhile
    /// is kept.
    pub(crate) fn check(&mut self) -> Result<(), Failure> {
        self.stream.set_nonblocking(true)?;
        let seen = self.read();
        self.stream.set_nonblocking(false)?;
        seen.map(|_| ())
    }

    /// Makes reads and writes return at once when they can't go on.
    pub(crate) fn set_nonblocking(&self) -> Result<(), Failure> {
        self.stream.set_nonblocking(true).context("making a socket non-blocking")
    }

    /// The port of this end.
    pub(crate) fn local_port(&self) -> Result<u16, Failure> {
        Ok(self.stream.local_addr().context("asking for a local port")?.port())
    }

    /// Lets the system hold small segments back while others are unacknowledged (Nagle's delay), or
    /// not, as `scenario` has it.
    pub(crate) fn set_delay(&self, scenario: &Scenario) -> Result<(), Failure> {
        self.stream.set_nodelay(scenario.clients.nodelay).context("setting TCP_NODELAY")
    }

    /// Makes reads give up after `time`.
    pub(crate) fn set_read_timeout(&self, time: Duration) -> Result<(), Failure> {
        self.stream.set_read_timeout(Some(time)).context("setting a read timeout")
    }

    /// What was read and not yet consumed.
    pub(crate) fn input(&self) -> &[u8] {
        &self.input[self.start..self.end]
    }

    /// Forgets the first `count` bytes of the input.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Reads once. False: nothing was there in time.
    pub(crate) fn read(&mut self) -> Result<bool, Failure> {
        self.make_room()?;
        match uninterrupted(|| self.stream.read(&mut self.input[self.end..])) {
            Ok(0) => Err(Failure::new("the broker closed the connection")),
            Ok(count) => {
                self.end += count;
                Ok(true)
            }
            Err(error) if is_pause(error.kind()) => Ok(false),
            Err(error) => Err(Failure::new(format!("reading from the broker: {error}"))),
        }
    }

    /// The input of one message must fit; the buffer grows with what has arrived, not with what was
    /// announced.
    fn make_room(&mut self) -> Result<(), Failure> {
        if self.start > 0 {
            self.input.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.input.len() {
            if self.end >= LARGEST {
                return Err(Failure::new(format!("the broker sent a frame of more than {LARGEST} bytes")));
            }
            self.input.resize(self.end * 2, 0);
        }
        Ok(())
    }

    /// Writes what the socket takes. True: nothing is left.
    pub(crate) fn write(&mut self, output: &mut Output) -> Result<bool, Failure> {
        while !output.is_empty() {
            let mut pieces = [IoSlice::new(&[]); PIECES];
            let filled = output.chunks(&mut pieces);
            let stream = &mut self.stream;
            let written = uninterrupted(|| match filled {
                1 => stream.write(&pieces[0]),
                _ => stream.write_vectored(&pieces[..filled]),
            });
            match written {
                Ok(0) => return Err(Failure::new("the broker closed the connection")),
                Ok(count) => output.advance(count),
                Err(error) if is_pause(error.kind()) => return Ok(false),
                Err(error) => return Err(Failure::new(format!("writing to the broker: {error}"))),
            }
        }
        Ok(true)
    }

    /// Writes everything, waiting for the socket as long as a broker's patience allows.
    pub(crate) fn write_all(&mut self, output: &mut Output) -> Result<(), Failure> {
        if self.write(output)? {
            return Ok(());
        }
        Err(Failure::new(format!("the broker took nothing for {} s", PATIENCE.as_secs())))
    }

    /// Waits for what is of interest, or until `time` is over.
    pub(crate) fn wait(&mut self, interest: Interest, time: Duration) -> Result<Ready, Failure> {
        let write = interest == Interest::ReadAndWrite;
        wait_any(&[(&self.stream, true, write)], Some(time), &mut self.ready).context("waiting for a socket")?;
        Ok(self.ready.first().copied().unwrap_or_default())
    }
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Something to read.
    Read,
    /// Something to read, or room to write.
    ReadAndWrite,
}

fn is_pause(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// A signal that this program handles is no answer of the broker's: the call is made again.
fn uninterrupted(mut call: impl FnMut() -> std::io::Result<usize>) -> std::io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn pair() -> (Link, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let link = Link::open(&listener.local_addr().unwrap().to_string()).unwrap();
        (link, listener.accept().unwrap().0)
    }

    #[test]
    fn what_is_not_consumed_stays_in_front() {
        let (mut link, mut far) = pair();
        far.write_all(b"abcdef").unwrap();
        while link.input().len() < 6 {
            link.read().unwrap();
        }
        link.consume(4);
        far.write_all(b"gh").unwrap();
        link.read().unwrap();
        assert_eq!(link.input(), b"efgh");
        drop(far);
        assert!(link.read().unwrap_err().to_string().contains("closed"));
    }

    #[test]
    fn the_buffer_grows_for_a_frame_that_does_not_fit() {
        let (mut link, mut far) = pair();
        let sender = std::thread::spawn(move || far.write_all(&vec![7; READ * 2]).map(|()| far));
        while link.input().len() < READ * 2 {
            link.read().unwrap();
        }
        sender.join().unwrap().unwrap();
        assert!(link.input().iter().all(|byte| *byte == 7));
    }

    #[test]
    fn an_idle_connection_is_checked_without_waiting_and_without_loss() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let source = "127.0.0.1".parse().ok();
        let mut link = Link::open_idle(&listener.local_addr().unwrap().to_string(), source).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        link.check().unwrap();
        far.write_all(&vec![3; SMALL_READ * 3]).unwrap();
        while link.input().len() < SMALL_READ * 3 {
            link.check().unwrap();
        }
        drop(far);
        while link.check().is_ok() {}
        assert!(link.input().iter().all(|byte| *byte == 3));
    }

    #[test]
    fn a_missing_broker_is_named() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let failure = Link::open(&port.to_string()).unwrap_err();
        assert!(failure.to_string().contains(&port.to_string()), "{failure}");
    }
}
