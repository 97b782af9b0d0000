//! The numbers of the protocol, each with the section of the AMQP 0-9-1 specification that it comes
//! from.
//!
//! Limits are checked before anything is allocated or waited for: no peer makes us hold more than
//! these say.

/// Bytes of a frame around its payload: type, channel, size and end octet (§4.2.3).
pub const FRAME_OVERHEAD: usize = 8;

/// Bytes of a frame in front of its payload (§4.2.3).
pub const FRAME_HEADER: usize = 7;

/// The octet that ends each frame (§4.2.3).
pub const FRAME_END: u8 = 0xCE;

/// The smallest `frame_max` a peer may ask for (§4.9, `frame-min-size`). RabbitMQ since 4.1 insists
/// on 8192 for itself.
pub const FRAME_MIN_SIZE: u32 = 4096;

/// The `frame_max` a server offers unless told otherwise.
pub const DEFAULT_FRAME_MAX: u32 = 131_072;

/// By how much a payload may exceed `frame_max - 8`: some clients take `frame_max` for the size of
/// the payload alone, and RabbitMQ tolerates it.
pub const FRAME_SIZE_FUDGE: usize = 8;

/// The `channel_max` a server offers unless told otherwise.
pub const DEFAULT_CHANNEL_MAX: u16 = 2047;

/// The heartbeat interval a server offers unless told otherwise, in seconds.
pub const DEFAULT_HEARTBEAT: u16 = 60;

/// The longest short string: names, routing keys, consumer tags, reply texts (§4.2.5.3).
pub const SHORT_STRING_MAX: usize = 255;

/// How deep field tables and arrays may nest (§4.2.5.5 sets no bound).
pub const TABLE_DEPTH: usize = 32;

/// How many values, nested ones included, the field tables of one frame may hold (§4.2.5.5 sets no
/// bound).
pub const TABLE_ELEMENTS: usize = 65_536;

/// The class of all methods that carry content, and of every content header (§1.8, class `basic`).
pub const BASIC_CLASS: u16 = 60;

/// The bytes that open an AMQP 0-9-1 connection (§4.2.2).
pub const PROTOCOL_HEADER: [u8; 8] = *b"AMQP\x00\x00\x09\x01";

/// Bodies of at least this many bytes are written by reference to the message instead of being
/// copied into the output. Below it, a copy is cheaper than a reference count and an entry of a
/// gathering write.
pub const SHARED_BODY: usize = 4096;
