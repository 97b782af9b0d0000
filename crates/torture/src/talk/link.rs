//! One socket to the broker: what was read and not yet understood, and writing what a conversation
//! wants to say.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use super::Broken;

/// Bytes read at once.
const READ: usize = 64 * 1024;
/// An incomplete frame larger than this is refused.
const LARGEST: usize = 16 * 1024 * 1024;
/// How long a connection may take to be accepted.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a write waits for a broker that does not read, which is its right while an alarm lasts.
const WRITE: Duration = Duration::from_millis(20);

/// A connected socket with its buffers.
#[derive(Debug)]
pub(crate) struct Link {
    stream: TcpStream,
    input: Vec<u8>,
    written: usize,
}

impl Link {
    /// Connects to a port on loopback.
    pub(crate) fn open(port: u16) -> Result<Self, Broken> {
        let stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), CONNECT);
        let stream = stream.map_err(|error| Broken::Lost(format!("connecting to port {port}: {error}")))?;
        let prepared = stream.set_nodelay(true).and_then(|()| stream.set_write_timeout(Some(WRITE)));
        prepared.map_err(|error| Broken::Lost(format!("preparing a socket: {error}")))?;
        Ok(Self { stream, input: Vec::new(), written: 0 })
    }

    /// The same socket, for a thread that only writes.
    pub(crate) fn writer(&self) -> Result<TcpStream, Broken> {
        self.stream.try_clone().map_err(|error| Broken::Lost(format!("sharing a socket: {error}")))
    }

    /// What was read and not yet consumed.
    pub(crate) fn input(&self) -> &[u8] {
        &self.input
    }

    /// Forgets the first `count` bytes of the input.
    pub(crate) fn consume(&mut self, count: usize) {
        self.input.drain(..count);
    }

    /// Writes `output`, then reads once, waiting at most `wait`. When the broker is gone,
    /// everything that it said before is read first: a confirm that has left a dying broker counts.
    pub(crate) fn turn(&mut self, output: &mut Vec<u8>, wait: Duration) -> Result<(), Broken> {
        let written = self.write(output);
        self.read(wait)?;
        if written.is_err() {
            while self.read(wait)? {}
        }
        written
    }

    /// Reads once, waiting at most `wait`. False: nothing was there in time.
    pub(crate) fn read(&mut self, wait: Duration) -> Result<bool, Broken> {
        let lost = |error: std::io::Error| Broken::Lost(format!("reading: {error}"));
        self.stream.set_read_timeout(Some(wait.max(Duration::from_millis(1)))).map_err(lost)?;
        if self.input.len() > LARGEST {
            return Err(Broken::Refused(format!("the broker sent a frame of more than {LARGEST} bytes")));
        }
        let before = self.input.len();
        self.input.resize(before + READ, 0);
        let outcome = self.stream.read(&mut self.input[before..]);
        self.input.truncate(before + outcome.as_ref().map_or(0, |count| *count));
        match outcome {
            Ok(0) => Err(Broken::Lost("the broker closed the connection".to_owned())),
            Ok(_) => Ok(true),
            Err(error) if is_pause(error.kind()) => Ok(false),
            Err(error) => Err(lost(error)),
        }
    }

    /// Writes as much of `output` as the broker takes in a moment, and empties it when that was
    /// everything.
    pub(crate) fn write(&mut self, output: &mut Vec<u8>) -> Result<(), Broken> {
        while self.written < output.len() {
            match self.stream.write(&output[self.written..]) {
                Ok(0) => return Err(Broken::Lost("the broker closed the connection".to_owned())),
                Ok(count) => self.written += count,
                Err(error) if is_pause(error.kind()) => return Ok(()),
                Err(error) => return Err(Broken::Lost(format!("writing: {error}"))),
            }
        }
        output.clear();
        self.written = 0;
        Ok(())
    }
}

fn is_pause(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
