//! What a peer may make this side hold: every limit of the codec, named once.
//!
//! Each is checked before memory grows; buffers grow with the bytes received and never with a
//! length announced.

/// Longest command line in bytes. The longest command of any version, `UNSUBSCRIBE`, has 11.
pub const COMMAND: usize = 32;
/// How many header lines a frame may have, repeated ones included (STOMP 1.2, "Size Limits").
pub const HEADERS: usize = 128;
/// Longest header line in bytes, escapes counted as written.
pub const HEADER_LINE: usize = 8 * 1024;
/// Command line and header lines together, in bytes.
pub const HEAD: usize = 64 * 1024;
/// The same before the log-in: a CONNECT with a token for a password fits, and a stranger holds no
/// more.
pub const STRANGERS_HEAD: usize = 12 * 1024;
/// Longest body in bytes.
pub const BODY: usize = 16 * 1024 * 1024;
/// An incomplete frame at least this long moves into a buffer of its own, so that the buffer of the
/// socket stays small.
pub const GATHER_FROM: usize = 32 * 1024;
/// How many transactions a connection may have open (RabbitMQ's number).
pub const TRANSACTIONS: usize = 16;
/// How many receipts may wait for the journal before the connection is read no further.
pub const RECEIPTS: usize = 16 * 1024;
/// Bytes of RECEIPT frames that a peer may leave unread before it is read no further.
pub const UNREAD_RECEIPTS: usize = 256 * 1024;
/// Deliveries are taken from the broker while less than this many bytes wait for the peer.
pub const OUTPUT: usize = 256 * 1024;
/// Bodies of at least this many bytes are sent from where they lie instead of being copied.
pub const SHARED_BODY: usize = 4096;
/// How many bytes of input one turn takes at most.
pub const TURN: usize = 256 * 1024;
/// Bytes of an error that the log has; what a client wrote may be all of a header.
pub const TOLD: usize = 512;
/// How many destinations a connection remembers as declared. Past it the memory starts anew.
pub const KNOWN_QUEUES: usize = 1024;

/// How many temporary queues a connection may have.
pub const TEMPORARY_QUEUES: usize = 256;

/// The limits that are settings; the other numbers of this file are not.
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
