//! The contract between a protocol and whatever moves its bytes.
//!
//! The driver owns the read buffer and the socket; the protocol owns all state. The driver calls
//! one method at a time, then writes what [`Connection::output`] holds, then asks
//! [`Connection::read_state`] what to do next.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use crate::Output;

/// Who is at the other end of a connection, as the socket knows it.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Address of the peer, with IPv4-mapped IPv6 addresses already turned into IPv4.
    pub remote: SocketAddr,
    /// The local address that it reached.
    pub local: SocketAddr,
    /// True when the bytes arrive through TLS.
    pub encrypted: bool,
    /// The user that the peer's certificate stands for, if it has shown one that was verified.
    pub certified_user: Option<Arc<str>>,
}

impl Peer {
    /// True when the peer's own address is a loopback address: the rule for the `guest` user.
    pub fn is_loopback(&self) -> bool {
        self.remote.ip().to_canonical().is_loopback()
    }
}

/// What the first bytes of a connection say about its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recognition {
    /// These bytes open this protocol.
    Yes,
    /// They do not.
    No,
    /// More bytes are needed to tell.
    Incomplete,
}

/// A protocol that a listener can serve.
pub trait Protocol: Send + Sync {
    /// Short lower-case name, as listeners, logs and metrics show it: `amqp`, `stomp`.
    fn name(&self) -> &'static str;
    /// Tells from its first bytes whether a connection speaks this protocol.
    fn recognise(&self, first: &[u8]) -> Recognition;
    /// Starts the server side of a connection. Waking `waker` schedules one [`Connection::wake`];
    /// it is cheap, never blocks and may be woken from any thread and under any lock.
    fn accept(&self, peer: Peer, waker: Waker, now: Instant) -> Box<dyn Connection>;
}

/// Whether the driver should read from the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadState {
    /// Read and hand over what arrives; the peer has not authenticated yet.
    Handshake,
    /// Read and hand over what arrives.
    Read,
    /// Do not read for now; `receive` would take nothing. The connection calls its waker when that
    /// changes. A paused peer is not dead: its silence does not count against its heartbeat.
    Pause,
    /// Write what is left in the output, the last word of this connection. Leave the socket for the
    /// peer to close, and discard what still comes. Nothing more is read.
    Closed,
    /// Write what is left in the output, the last word of this connection, and leave the socket for
    /// the peer to close; what still comes is discarded. A peer that does not close it in time is
    /// closed.
    Answered,
    /// The peer is taken for dead: drop what is left and reset the socket, so that a peer that
    /// lives after all notices.
    GivenUp,
}

/// Why the server side ends a connection that did nothing wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloseReason {
    /// The server is going down: say so in the protocol's words, requeue, and finish.
    Shutdown,
    /// An operator closed it, with this explanation.
    Forced(String),
    /// The socket is gone or the peer closed its side: no output can be delivered any more.
    Gone,
}

/// What a connection is at, for the log of what takes long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Doing<'c> {
    /// The user; empty before the log-in.
    pub user: &'c str,
    /// The vhost; empty before there is one.
    pub vhost: &'c str,
    /// The method, command or kind of frame that was handled last, by its name in the protocol;
    /// empty before the first.
    pub last: &'static str,
}

/// The server side of one connection: a deterministic function of the bytes and times it is given.
pub trait Connection: Send {
    /// Takes bytes from the peer: one turn. Returns how many were consumed; the driver keeps the
    /// rest and hands it over again, with what arrived since, at the next call. Taking nothing is
    /// no error: the frame is incomplete, or the connection is paused. Must process at most one
    /// turn's budget (256 KiB or 10 000 entries).
    fn receive(&mut self, input: &[u8], now: Instant) -> usize;
    /// Drains the mailbox into the output, while the output is short. Called when the waker was
    /// woken, and when output that the socket refused has been written at last. It is called again
    /// as long as the last call produced output that was written.
    fn wake(&mut self, now: Instant);
    /// The deadline passed (heartbeats, handshake timeout).
    fn tick(&mut self, now: Instant);
    /// When `tick` should be called next, if ever.
    fn deadline(&self) -> Option<Instant>;
    /// Bytes for the peer, in order. The driver removes what it has written.
    fn output(&mut self) -> &mut Output;
    /// What the driver should do with the socket.
    fn read_state(&self) -> ReadState;
    /// Whether what it does next may wait for a program elsewhere. Then the driver calls it where
    /// it may ([`crate::waiting`]), and not on the thread of the sockets.
    fn may_wait(&self) -> bool {
        false
    }
    /// Whose it is and what it is at, also once it has ended.
    fn doing(&self) -> Doing<'_>;
    /// Nothing has moved for a while. Gives back the memory that it can do without until something
    /// does.
    fn rest(&mut self) {
        self.output().shrink();
    }
    /// Ends the connection from the server side. Idempotent; after `Gone` the connection is
    /// dropped.
    fn close(&mut self, reason: CloseReason, now: Instant);
}
