//! The limits of the protocol, each with its section of the AMQP 0-9-1 specification.
//!
//! Limits are checked before anything is allocated or waited for, so that a peer can't make us hold
//! more than they allow.

/// Bytes of a frame around its payload: type, channel, size and end octet (§4.2.3).
pub const FRAME_OVERHEAD: usize = 8;

/// Bytes of a frame before its payload (§4.2.3).
pub const FRAME_HEADER: usize = 7;

/// The octet that ends each frame (§4.2.3).
pub const FRAME_END: u8 = 0xCE;

/// The smallest `frame_max` that a peer may ask for (§4.9, `frame-min-size`). RabbitMQ since 4.1
/// requires 8192.
pub const FRAME_MIN_SIZE: u32 = 4096;

/// The `frame_max` that a server offers by default.
pub const DEFAULT_FRAME_MAX: u32 = 131_072;

/// By how much a payload may exceed `frame_max - 8`. Some clients take `frame_max` for the size of
/// the payload alone, and RabbitMQ tolerates that.
pub const FRAME_SIZE_FUDGE: usize = 8;

/// The `channel_max` that a server offers by default.
pub const DEFAULT_CHANNEL_MAX: u16 = 2047;

/// The heartbeat interval that a server offers by default, in seconds.
pub const DEFAULT_HEARTBEAT: u16 = 60;

/// The longest short string: names, routing keys, consumer tags, reply texts (§4.2.5.3).
pub const SHORT_STRING_MAX: usize = 255;

/// How deep field tables and arrays may nest (§4.2.5.5 sets no bound).
pub const TABLE_DEPTH: usize = 32;

/// How many values the field tables of one frame may hold, including nested ones (§4.2.5.5 sets no
/// bound).
pub const TABLE_ELEMENTS: usize = 65_536;

/// The class of all methods that carry content, and of every content header (§1.8, class `basic`).
pub const BASIC_CLASS: u16 = 60;

/// The bytes that open an AMQP 0-9-1 connection (§4.2.2).
pub const PROTOCOL_HEADER: [u8; 8] = *b"AMQP\x00\x00\x09\x01";

/// Bodies of at least this many bytes are written by reference, without a copy into the output. For
/// smaller ones a copy is cheaper than a reference count and an entry of a gathering write.
pub const SHARED_BODY: usize = 4096;
