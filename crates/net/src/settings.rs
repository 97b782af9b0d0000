//! What an operator can set about sockets. The values arrive checked; this crate reads no
//! configuration.

use std::time::Duration;

/// Limits and timeouts of every connection of a [`crate::Net`].
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a peer may take none of the bytes that wait for it before its connection is closed.
    pub write_timeout: Duration,
    /// How long a peer may take to send the bytes that tell its protocol, on a listener that serves
    /// several, or for the handshake of a WebSocket.
    pub detect_timeout: Duration,
    /// How long a TLS handshake may take.
    pub tls_timeout: Duration,
    /// How long a peer that was told the last word of its connection may take to end it.
    pub linger: Duration,
    /// Idle time after which the kernel probes a silent peer; `None` leaves probing off.
    pub keepalive: Option<Duration>,
    /// Most connections at one time, over all listeners.
    pub connections: usize,
    /// Most connections that have not authenticated yet.
    pub pending: usize,
    /// Most new connections from one address within a second, but for this machine's own; 0 for any
    /// number.
    pub connects_per_address: u32,
    /// Most connections from one address that have not authenticated yet.
    pub pending_per_address: usize,
    /// Most bytes that may wait for a protocol that takes none of them: the largest unit it may
    /// insist on seeing whole.
    pub input_limit: usize,
    /// How long a single I/O thread looks for more work before it sleeps; zero: not at all. Several
    /// threads never do.
    pub spin: Duration,
    /// Threads for turns of connections that may wait for a program elsewhere; 0 if there are no
    /// such connections.
    pub aside_threads: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            write_timeout: Duration::from_secs(30),
            detect_timeout: Duration::from_secs(10),
            tls_timeout: Duration::from_secs(5),
            linger: Duration::from_secs(5),
            keepalive: Some(Duration::from_secs(60)),
            connections: 10_000,
            pending: 1000,
            connects_per_address: 500,
            pending_per_address: 64,
            input_limit: 32 * 1024 * 1024,
            spin: Duration::from_micros(25),
            aside_threads: 0,
        }
    }
}
