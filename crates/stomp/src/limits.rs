//! How much a peer may make this side hold: all limits of the codec.
//!
//! Each limit is checked before memory grows. Buffers grow with the bytes received, never with an
//! announced length.

/// Longest command line in bytes. The longest command of any version, `UNSUBSCRIBE`, has 11.
pub const COMMAND: usize = 32;
/// How many header lines a frame may have, including repeated ones (STOMP 1.2, "Size Limits").
pub const HEADERS: usize = 128;
/// Longest header line in bytes, with escapes as written.
pub const HEADER_LINE: usize = 8 * 1024;
/// Command line and header lines together, in bytes.
pub const HEAD: usize = 64 * 1024;
/// The limit of command line and headers before the log-in. A CONNECT with a token as password
/// fits, and a stranger can't hold more.
pub const STRANGERS_HEAD: usize = 12 * 1024;
/// Longest body in bytes.
pub const BODY: usize = 16 * 1024 * 1024;
/// An incomplete frame of at least this length moves into a buffer of its own, so that the buffer
/// of the socket stays small.
pub const GATHER_FROM: usize = 32 * 1024;
/// How many open transactions a connection may have (RabbitMQ's number).
pub const TRANSACTIONS: usize = 16;
/// How many receipts may wait for the journal. Beyond that the connection is not read.
pub const RECEIPTS: usize = 16 * 1024;
/// Bodies of at least this many bytes are sent by reference, without a copy.
pub const SHARED_BODY: usize = 4096;
/// Bytes of an error that are logged; what a client wrote may be a whole header.
pub const TOLD: usize = 512;
/// How many destinations a connection remembers as declared. Beyond that it forgets all and begins
/// again.
pub const KNOWN_QUEUES: usize = 1024;

/// How many temporary queues a connection may have.
pub const TEMPORARY_QUEUES: usize = 256;

/// The limits that are settings; the other numbers of this file are fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Header lines in one frame.
    pub headers: usize,
    /// Bytes in one header line.
    pub header_line: usize,
    /// Bytes of command line and header lines together.
    pub head: usize,
    /// Bytes in one body.
    pub body: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { headers: HEADERS, header_line: HEADER_LINE, head: HEAD, body: BODY }
    }
}
