//! Protocol headers (part 2, §2.2) and frames (§2.3) in place, borrowed from the input.
//!
//! A frame's size is checked before the frame is waited for. So a peer can't make us buffer more
//! than one frame of the agreed size.

use crate::codec::encode::Encode;
use crate::limits::FRAME_HEADER;

/// What follows a protocol header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ProtocolId {
    /// The connection itself.
    Amqp = 0,
    /// TLS.
    Tls = 2,
    /// SASL, and another header behind it.
    Sasl = 3,
}

/// The length of a protocol header.
pub const PROTOCOL_HEADER: usize = 8;

/// A header of another protocol, or of another version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownProtocol;

impl ProtocolId {
    /// The header of version 1.0.0.
    pub const fn header(self) -> [u8; PROTOCOL_HEADER] {
        [b'A', b'M', b'Q', b'P', self as u8, 1, 0, 0]
    }

    /// Reads the header at the start of `input`. `None` if more bytes are needed.
    ///
    /// # Errors
    /// As soon as the bytes can't become a header of AMQP 1.0.
    pub fn decode(input: &[u8]) -> Result<Option<Self>, UnknownProtocol> {
        let head = &input[..input.len().min(PROTOCOL_HEADER)];
        let known = [Self::Amqp, Self::Tls, Self::Sasl].into_iter().find(|id| id.header().starts_with(head));
        match known {
            Some(id) => Ok((head.len() == PROTOCOL_HEADER).then_some(id)),
            None => Err(UnknownProtocol),
        }
    }
}

/// The type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// A performative, or a sign of life.
    Amqp = 0,
    /// A part of a log-in.
    Sasl = 1,
}

/// One whole frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its type.
    pub kind: FrameKind,
    /// Its channel; without a meaning in SASL frames.
    pub channel: u16,
    /// All that follows its header and its extended header. If it is empty, the frame is a sign of
    /// life.
    pub body: &'a [u8],
    /// How many bytes the frame takes on the wire.
    pub size: u32,
}

/// Bytes that are not a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// The frame is larger than agreed.
    TooLarge {
        /// Its size in bytes.
        size: u32,
        /// The largest size that was agreed.
        max: u32,
    },
    /// The size is smaller than a frame's header.
    TooSmall(u32),
    /// The body begins within the header, or behind the frame.
    DataOffset {
        /// Where the body begins, in words of four bytes.
        offset: u8,
        /// The frame's size in bytes.
        size: u32,
    },
    /// A type that the specification does not know.
    UnknownType(u8),
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLarge { size, max } => write!(f, "a frame of {size} bytes; at most {max} were agreed"),
            Self::TooSmall(size) => write!(f, "a frame of {size} bytes is shorter than its header"),
            Self::DataOffset { offset, size } => {
                write!(f, "the data offset {offset} is not within the frame of {size} bytes")
            }
            Self::UnknownType(kind) => write!(f, "no frame has the type {kind}"),
        }
    }
}

impl std::error::Error for FrameError {}

/// Reads the frame at the start of `input`. `None` if more bytes are needed.
///
/// # Errors
/// If the bytes can't be, or become, a frame of at most `max_frame_size` bytes.
#[inline]
pub fn decode_frame(input: &[u8], max_frame_size: u32) -> Result<Option<Frame<'_>>, FrameError> {
    let Some((&[s0, s1, s2, s3, offset, kind, c0, c1], _)) = input.split_first_chunk::<FRAME_HEADER>() else {
        return Ok(None);
    };
    let size = u32::from_be_bytes([s0, s1, s2, s3]);
    if size < FRAME_HEADER as u32 {
        return Err(FrameError::TooSmall(size));
    }
    if size > max_frame_size {
        return Err(FrameError::TooLarge { size, max: max_frame_size });
    }
    let begin = usize::from(offset) * 4;
    if begin < FRAME_HEADER || begin > size as usize {
        return Err(FrameError::DataOffset { offset, size });
    }
    let kind = match kind {
        0 => FrameKind::Amqp,
        1 => FrameKind::Sasl,
        other => return Err(FrameError::UnknownType(other)),
    };
    let channel = u16::from_be_bytes([c0, c1]);
    Ok(input.get(begin..size as usize).map(|body| Frame { kind, channel, body, size }))
}

/// Leaves room for the header of a frame, and returns where it begins.
#[inline]
pub(crate) fn begin_frame(out: &mut Vec<u8>, kind: FrameKind, channel: u16) -> usize {
    let start = out.len();
    let [c0, c1] = channel.to_be_bytes();
    out.extend_from_slice(&[0, 0, 0, 0, 2, kind as u8, c0, c1]);
    start
}

/// Ends the frame that began at `start`. `behind` more bytes belong to it, which follow elsewhere.
#[inline]
pub(crate) fn end_frame(out: &mut [u8], start: usize, behind: usize) {
    let size = (out.len() - start + behind) as u32;
    out[start..start + 4].copy_from_slice(&size.to_be_bytes());
}

/// Appends a frame with `body` and nothing behind it.
pub fn encode_frame(out: &mut Vec<u8>, kind: FrameKind, channel: u16, body: &impl Encode) {
    let start = begin_frame(out, kind, channel);
    body.encode(out);
    end_frame(out, start, 0);
}

/// A sign of life: a frame without a body (§2.4.5).
pub const HEARTBEAT: [u8; FRAME_HEADER] = [0, 0, 0, FRAME_HEADER as u8, 2, FrameKind::Amqp as u8, 0, 0];
