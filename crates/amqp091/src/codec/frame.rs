//! One frame in place: type, channel and payload, borrowed from the input (specification §4.2.3).
//!
//! A frame's announced size is checked before the frame is waited for. So a peer can't make us
//! buffer more than one frame of the negotiated size.

use crate::limits::{BASIC_CLASS, FRAME_END, FRAME_HEADER, FRAME_OVERHEAD, FRAME_SIZE_FUDGE};

/// The type of a frame. The discriminants are the octets on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// A method: class, method and arguments.
    Method = 1,
    /// A content header: class, body size and properties.
    Header = 2,
    /// A part of a body.
    Body = 3,
    /// A sign of life.
    Heartbeat = 8,
}

/// One whole frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its type.
    pub kind: FrameKind,
    /// Its channel; 0 is the connection itself.
    pub channel: u16,
    /// Everything between the frame's header and its end octet.
    pub payload: &'a [u8],
}

impl Frame<'_> {
    /// How many bytes the frame takes on the wire.
    #[inline]
    pub fn wire_len(&self) -> usize {
        self.payload.len() + FRAME_OVERHEAD
    }
}

/// Bytes that are not a frame. The texts are RabbitMQ's, because people search for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// The announced payload is larger than the negotiated frame size allows.
    TooLarge {
        /// The frame's type octet.
        kind: u8,
        /// The frame's channel.
        channel: u16,
        /// Announced payload size in bytes.
        size: u32,
        /// Largest allowed payload in bytes, without the tolerance.
        max: u32,
    },
    /// The octet after the payload is not the frame end.
    BadEnd {
        /// The frame's type octet.
        kind: u8,
        /// The frame's channel.
        channel: u16,
        /// The octet found.
        found: u8,
    },
    /// A type octet that no specification knows.
    UnknownType {
        /// The frame's type octet.
        kind: u8,
        /// The frame's channel.
        channel: u16,
    },
}

impl FrameError {
    /// The channel that the broken frame names.
    pub fn channel(&self) -> u16 {
        match *self {
            Self::TooLarge { channel, .. } | Self::BadEnd { channel, .. } | Self::UnknownType { channel, .. } => {
                channel
            }
        }
    }
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLarge { kind, size, max, .. } => {
                write!(f, "type {kind}, all octets = <<>>: {{frame_too_large,{size},{max}}}")
            }
            Self::BadEnd { kind, found, .. } => {
                write!(f, "type {kind}, all octets = <<>>: {{invalid_frame_end_marker,{found}}}")
            }
            Self::UnknownType { kind, .. } => write!(f, "type {kind}, all octets = <<>>: unknown_frame"),
        }
    }
}

impl std::error::Error for FrameError {}

/// Reads the frame at the start of `input`. `None` if more bytes are needed.
///
/// `frame_max` is the negotiated size of a whole frame in bytes; 0 means no limit, which a server
/// should not agree to.
///
/// # Errors
/// If the bytes can't be, or become, a frame of the allowed size.
#[inline]
pub fn decode_frame(input: &[u8], frame_max: u32) -> Result<Option<Frame<'_>>, FrameError> {
    let Some((&[kind, c0, c1, s0, s1, s2, s3], rest)) = input.split_first_chunk::<FRAME_HEADER>() else {
        return Ok(None);
    };
    let channel = u16::from_be_bytes([c0, c1]);
    let size = u32::from_be_bytes([s0, s1, s2, s3]);
    let max = frame_max.wrapping_sub(FRAME_OVERHEAD as u32);
    if frame_max != 0 && size as usize > max as usize + FRAME_SIZE_FUDGE {
        return Err(FrameError::TooLarge { kind, channel, size, max });
    }
    let Some((payload, after)) = rest.split_at_checked(size as usize) else {
        return Ok(None);
    };
    let Some(&end) = after.first() else {
        return Ok(None);
    };
    if end != FRAME_END {
        return Err(FrameError::BadEnd { kind, channel, found: end });
    }
    let kind = match kind {
        1 => FrameKind::Method,
        2 => FrameKind::Header,
        3 => FrameKind::Body,
        8 => FrameKind::Heartbeat,
        _ => return Err(FrameError::UnknownType { kind, channel }),
    };
    Ok(Some(Frame { kind, channel, payload }))
}

/// A content header (§4.2.6.1): how long the body is, and the properties as they were encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentHeader<'a> {
    /// The class of the method before it; always [`BASIC_CLASS`] where the protocol was followed.
    pub class: u16,
    /// Bytes of body that follow.
    pub body_size: u64,
    /// Property flags and values, verbatim.
    pub properties: &'a [u8],
}

impl<'a> ContentHeader<'a> {
    /// Reads the payload of a header frame. `None` if it is too short, or if its reserved weight is
    /// not zero.
    #[inline]
    pub fn decode(payload: &'a [u8]) -> Option<Self> {
        let (&[c0, c1, 0, 0], rest) = payload.split_first_chunk::<4>()? else {
            return None;
        };
        let (size, properties) = rest.split_first_chunk::<8>()?;
        Some(Self { class: u16::from_be_bytes([c0, c1]), body_size: u64::from_be_bytes(*size), properties })
    }
}

/// Opens a frame at the end of `out`; [`finish_frame`] with the returned position closes it.
#[inline]
pub(crate) fn begin_frame(out: &mut Vec<u8>, kind: FrameKind, channel: u16) -> usize {
    let start = out.len();
    let [c0, c1] = channel.to_be_bytes();
    out.extend_from_slice(&[kind as u8, c0, c1, 0, 0, 0, 0]);
    start
}

/// Fills in the size of the frame that begins at `start`, and appends its end.
#[inline]
pub(crate) fn finish_frame(out: &mut Vec<u8>, start: usize) {
    let size = (out.len() - start - FRAME_HEADER) as u32;
    out[start + 3..start + FRAME_HEADER].copy_from_slice(&size.to_be_bytes());
    out.push(FRAME_END);
}

/// The octets in front of a payload of `size` bytes.
#[inline]
pub(crate) fn frame_header(kind: FrameKind, channel: u16, size: usize) -> [u8; FRAME_HEADER] {
    let [c0, c1] = channel.to_be_bytes();
    let [s0, s1, s2, s3] = (size as u32).to_be_bytes();
    [kind as u8, c0, c1, s0, s1, s2, s3]
}

/// Appends a content header frame.
#[inline]
pub fn encode_header(out: &mut Vec<u8>, channel: u16, body_size: u64, properties: &[u8]) {
    out.extend_from_slice(&frame_header(FrameKind::Header, channel, 12 + properties.len()));
    let [c0, c1] = BASIC_CLASS.to_be_bytes();
    out.extend_from_slice(&[c0, c1, 0, 0]);
    out.extend_from_slice(&body_size.to_be_bytes());
    out.extend_from_slice(properties);
    out.push(FRAME_END);
}

/// Appends body frames: `body` cut at `frame_max - 8` bytes. An empty body needs no frame.
#[inline]
pub fn encode_body(out: &mut Vec<u8>, channel: u16, frame_max: u32, body: &[u8]) {
    for part in body.chunks(max_body_payload(frame_max)) {
        out.extend_from_slice(&frame_header(FrameKind::Body, channel, part.len()));
        out.extend_from_slice(part);
        out.push(FRAME_END);
    }
}

/// A heartbeat.
pub const HEARTBEAT: [u8; 8] = [FrameKind::Heartbeat as u8, 0, 0, 0, 0, 0, 0, FRAME_END];

/// The largest payload of a body frame, at least 1; a `frame_max` of 0 means no limit.
#[inline]
pub(crate) fn max_body_payload(frame_max: u32) -> usize {
    match frame_max {
        0 => u32::MAX as usize,
        limit => (limit as usize).saturating_sub(FRAME_OVERHEAD).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEARTBEAT: &[u8] = &[8, 0, 0, 0, 0, 0, 0, 0xCE];
    const BODY: &[u8] = &[3, 0, 7, 0, 0, 0, 3, b'a', b'b', b'c', 0xCE];

    #[test]
    fn frames_are_read_in_place_and_every_prefix_is_incomplete() {
        let table: &[(&[u8], FrameKind, u16, &[u8])] = &[
            (HEARTBEAT, FrameKind::Heartbeat, 0, b""),
            (BODY, FrameKind::Body, 7, b"abc"),
            (&[1, 1, 0, 0, 0, 0, 4, 0, 20, 0, 11, 0xCE], FrameKind::Method, 256, &[0, 20, 0, 11]),
            (&[2, 0, 1, 0, 0, 0, 0, 0xCE], FrameKind::Header, 1, b""),
        ];
        for &(bytes, kind, channel, payload) in table {
            let frame = Frame { kind, channel, payload };
            assert_eq!(decode_frame(bytes, 4096), Ok(Some(frame)));
            assert_eq!(frame.wire_len(), bytes.len());
            for cut in 0..bytes.len() {
                assert_eq!(decode_frame(&bytes[..cut], 4096), Ok(None), "{bytes:?} cut at {cut}");
            }
            let followed = [bytes, BODY].concat();
            assert_eq!(decode_frame(&followed, 4096), Ok(Some(frame)));
        }
    }

    #[test]
    fn a_size_past_the_limit_is_refused_from_the_header_alone() {
        let header = |size: u32| frame_header(FrameKind::Body, 1, size as usize);
        for (size, frame_max, allowed) in [
            (4096 - 8, 4096, true),
            (4096, 4096, true),
            (4097, 4096, false),
            (u32::MAX, 4096, false),
            (u32::MAX, 0, true),
        ] {
            let bytes = header(size);
            let answer = decode_frame(&bytes, frame_max);
            if allowed {
                assert_eq!(answer, Ok(None), "{size}");
            } else {
                let error = FrameError::TooLarge { kind: 3, channel: 1, size, max: 4088 };
                assert_eq!(answer, Err(error));
                assert_eq!(error.to_string(), format!("type 3, all octets = <<>>: {{frame_too_large,{size},4088}}"));
            }
        }
    }

    #[test]
    fn broken_frames_are_named() {
        let table: &[(&[u8], &str)] = &[
            (&[8, 0, 0, 0, 0, 0, 0, 0xCD], "type 8, all octets = <<>>: {invalid_frame_end_marker,205}"),
            (&[4, 0, 0, 0, 0, 0, 0, 0xCE], "type 4, all octets = <<>>: unknown_frame"),
            (&[0, 0, 0, 0, 0, 0, 0, 0xCE], "type 0, all octets = <<>>: unknown_frame"),
        ];
        for (bytes, text) in table {
            assert_eq!(decode_frame(bytes, 4096).map_err(|error| error.to_string()), Err((*text).to_owned()));
        }
    }

    #[test]
    fn bodies_are_cut_at_the_frame_size_and_come_back_whole() {
        for length in [0, 1, 4088, 4089, 10_000] {
            let body: Vec<u8> = (0..length).map(|i| i as u8).collect();
            let mut wire = Vec::new();
            encode_header(&mut wire, 3, length as u64, &[0, 0]);
            encode_body(&mut wire, 3, 4096, &body);
            let frame = decode_frame(&wire, 4096).unwrap().unwrap();
            let header = ContentHeader::decode(frame.payload).unwrap();
            assert_eq!(header, ContentHeader { class: 60, body_size: length as u64, properties: &[0, 0] });
            let mut rest = &wire[frame.wire_len()..];
            let mut whole = Vec::new();
            while !rest.is_empty() {
                let part = decode_frame(rest, 4096).unwrap().unwrap();
                assert_eq!((part.kind, part.channel), (FrameKind::Body, 3));
                assert!(part.wire_len() <= 4096);
                whole.extend_from_slice(part.payload);
                rest = &rest[part.wire_len()..];
            }
            assert_eq!(whole, body);
        }
    }

    #[test]
    fn content_headers_need_all_their_fields_and_no_weight() {
        let whole = [0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0];
        assert_eq!(ContentHeader::decode(&whole).map(|header| header.body_size), Some(5));
        for cut in 0..12 {
            assert_eq!(ContentHeader::decode(&whole[..cut]), None);
        }
        let mut weighted = whole;
        weighted[3] = 1;
        assert_eq!(ContentHeader::decode(&weighted), None);
    }
}
