//! How much a peer may make this side hold: the limits that are no settings.
//!
//! Each is checked before memory grows.

/// Largest packet before the log-in, in bytes: what the socket keeps of a stranger.
pub const STRANGERS_PACKET: u32 = 16 * 1024;
/// Bytes of a packet beside the payload: its topic, its properties, its header.
pub const PACKET_BESIDES: u32 = 128 * 1024;
/// Largest packet without a payload, in bytes: less than the buffer of a socket holds.
pub const CONTROL_PACKET: u32 = 128 * 1024;
/// An incomplete message of at least this length moves into a buffer of its own, so that the buffer
/// of the socket stays small.
pub const GATHER_FROM: usize = 32 * 1024;
/// Payloads of at least this many bytes are sent by reference, without a copy.
pub const SHARED_PAYLOAD: usize = 4096;
/// Levels of a topic filter.
pub const LEVELS: usize = 128;
/// Subscriptions of a session, shared ones included.
pub const SUBSCRIPTIONS: usize = 10_000;
/// Filters of `$SYS` topics of a session: rights on each are asked for at each publication.
pub const SYS_FILTERS: usize = 64;
/// The largest topic alias that a client may use.
pub const ALIASES: u16 = 16;
/// Bytes of the topics that a client has given aliases.
pub const ALIAS_BYTES: usize = 64 * 1024;
/// The largest topic alias that this side uses.
pub const ALIASES_OUT: u16 = 64;
/// Messages that a client may leave unanswered: the Receive Maximum that it is told.
pub const RECEIVE_MAXIMUM: u16 = 256;
/// Clients in use send more than they are told, so that is refused only beyond so many.
pub const UNANSWERED: usize = 4 * RECEIVE_MAXIMUM as usize;
/// Messages of quality 2 that may wait for PUBCOMP: a part of the identifiers that there are.
pub const UNCOMPLETED: usize = 8192;
/// Bytes of an error that are logged.
pub const TOLD: usize = 512;
/// The longest name of a queue, which a session's is made of.
pub const QUEUE_NAME: usize = 255;
