//! What `net` does for a connection, without sockets: input is offered, wake-ups are passed on,
//! output is taken.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use wire::{Connection, Peer, Protocol, ReadState};

/// How long a test waits for another thread before it fails.
const PATIENCE: Duration = Duration::from_secs(20);
/// Output of this size makes the driver ask for more when it is written.
const ENOUGH_OUTPUT: usize = 256 * 1024;

/// A waker that records its calls, and lets a thread wait for one.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn take(&self) -> bool {
        std::mem::take(&mut *self.rung.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}

/// One connection, and the bytes on both sides of it.
pub struct Driver {
    /// The server side.
    pub connection: Box<dyn Connection>,
    /// The present of this connection.
    pub now: Instant,
    /// What the server has not taken yet.
    pub input: Vec<u8>,
    /// What the peer has received.
    pub output: Vec<u8>,
    /// Whether the peer reads from its socket.
    pub reading: Reading,
    bell: Arc<Bell>,
}

/// Whether a peer reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// It does.
    Everything,
    /// It does not.
    Nothing,
}

impl Driver {
    /// A connection from this machine that has received nothing.
    ///
    /// # Panics
    /// Never: the address is one.
    pub fn accept(protocol: &dyn Protocol, now: Instant) -> Self {
        let address = "127.0.0.1:4711".parse().expect("an address");
        Self::accept_from(
            protocol,
            Peer { remote: address, local: address, encrypted: false, certified_user: None },
            now,
        )
    }

    /// A connection from this peer that has received nothing.
    pub fn accept_from(protocol: &dyn Protocol, peer: Peer, now: Instant) -> Self {
        let bell = Arc::new(Bell::default());
        let connection = protocol.accept(peer, Waker::from(bell.clone()), now);
        Self { connection, now, input: Vec::new(), output: Vec::new(), reading: Reading::Everything, bell }
    }

    /// Nothing has moved for a while: the connection gives back what it can do without.
    pub fn rest(&mut self) {
        self.connection.rest();
    }

    /// Sends bytes, and runs.
    pub fn say(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        self.run();
    }

    /// Takes turns until nothing more happens. True if anything has happened.
    pub fn run(&mut self) -> bool {
        let mut offered = false;
        let mut turns = 0;
        loop {
            let woken = self.bell.take();
            if woken {
                self.connection.wake(self.now);
                offered = false;
            }
            let mut taken = 0;
            if self.reads() && !self.input.is_empty() && !offered {
                taken = self.connection.receive(&self.input, self.now);
                self.input.drain(..taken);
                offered = taken == 0;
            }
            let written = match self.reading {
                Reading::Everything => self.connection.output().take(),
                Reading::Nothing => Vec::new(),
            };
            self.output.extend_from_slice(&written);
            if written.len() >= ENOUGH_OUTPUT {
                self.bell.clone().wake();
            }
            if !woken && taken == 0 && written.is_empty() {
                return turns > 0;
            }
            turns += 1;
        }
    }

    /// Waits until another thread wakes the connection, and runs.
    ///
    /// # Panics
    /// If none does.
    pub fn wait(&mut self) {
        let rung = self.bell.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.bell.changed.wait_timeout_while(rung, PATIENCE, |rung| !*rung);
        let (rung, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!waited.timed_out(), "nothing woke the connection");
        drop(rung);
        self.run();
    }

    /// Lets time pass, with a `tick` at each deadline.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(deadline) = self.connection.deadline().filter(|deadline| *deadline <= end) {
            self.now = self.now.max(deadline);
            self.connection.tick(self.now);
            self.run();
            if self.connection.deadline().is_some_and(|next| next <= self.now) {
                break;
            }
        }
        self.now = end;
    }

    /// What the connection wants of its socket.
    pub fn state(&self) -> ReadState {
        self.connection.read_state()
    }

    /// Whether it takes input.
    pub fn reads(&self) -> bool {
        matches!(self.state(), ReadState::Read | ReadState::Handshake)
    }
}
