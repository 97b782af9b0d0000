//! The stored form of a message: all of it but the bytes of its body.
//!
//! The message is its head, then each piece with as many bytes of the body as it says, then its
//! tail. Nothing of the bare message is lost, whatever widths its sender chose.

use broker::Error;
use wire::{DecodeError, Reader};

use crate::codec::{FieldError, Message};

/// What the body is for other protocols. The discriminants are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum BodyKind {
    /// Bytes: of data sections, of a binary, of a string; or nothing at all.
    Bytes = 0,
    /// Values of this protocol, encoded: a value of another type, or sequences.
    Encoded = 1,
}

/// The parts of a stored message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stored<'a> {
    pub(super) kind: BodyKind,
    /// Header, message annotations, properties and application properties.
    pub(super) head: &'a [u8],
    pieces: &'a [u8],
    /// The footer.
    tail: &'a [u8],
}

fn unreadable(error: impl std::fmt::Display) -> Error {
    Error::internal(format!("a stored AMQP 1.0 message cannot be read: {error}"))
}

impl<'a> Stored<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, Error> {
        Self::parse(bytes).map_err(unreadable)
    }

    fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let kind = match reader.u8()? {
            0 => BodyKind::Bytes,
            1 => BodyKind::Encoded,
            _ => return Err(DecodeError::Malformed("its body is of no known kind")),
        };
        let head = length(&mut reader)?;
        let head = reader.bytes(head)?;
        let pieces = length(&mut reader)?;
        Ok(Self { kind, head, pieces: reader.bytes(pieces)?, tail: reader.rest() })
    }

    /// The sections before the body.
    pub(super) fn sections(&self) -> Result<Message<'a>, Error> {
        Message::decode(self.head).map_err(|error: FieldError| unreadable(error))
    }

    /// Appends the bare message with its footer. `bare_head` is what it begins with, before the
    /// body.
    pub(super) fn write_rest(&self, bare_head: &[u8], body: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        out.extend_from_slice(bare_head);
        let mut pieces = Reader::new(self.pieces);
        let mut body = Reader::new(body);
        while !pieces.is_empty() {
            let mut piece = || {
                let before = length(&mut pieces)?;
                let before = pieces.bytes(before)?;
                let count = length(&mut pieces)?;
                Ok((before, body.bytes(count)?))
            };
            let (before, part) = piece().map_err(|error: DecodeError| unreadable(error))?;
            out.extend_from_slice(before);
            out.extend_from_slice(part);
        }
        out.extend_from_slice(self.tail);
        Ok(())
    }
}

/// Appends the parts of a stored message. `pieces` are what stands before bytes of the body, and
/// how many these are.
pub(super) fn write(
    kind: BodyKind,
    head: &[&[u8]],
    pieces: impl Iterator<Item = (impl AsRef<[u8]>, usize)>,
    tail: &[u8],
    out: &mut Vec<u8>,
) {
    out.push(kind as u8);
    put_length(out, head.iter().map(|part| part.len()).sum());
    head.iter().for_each(|part| out.extend_from_slice(part));
    let mut encoded = Vec::new();
    for (before, count) in pieces {
        put_length(&mut encoded, before.as_ref().len());
        encoded.extend_from_slice(before.as_ref());
        put_length(&mut encoded, count);
    }
    put_length(out, encoded.len());
    out.extend_from_slice(&encoded);
    out.extend_from_slice(tail);
}

/// A length as in all of the broker's records: seven bits a byte, the lowest first.
fn put_length(out: &mut Vec<u8>, mut length: usize) {
    while length > 0x7f {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

fn length(reader: &mut Reader<'_>) -> Result<usize, DecodeError> {
    let mut length = 0u64;
    for shift in (0..63).step_by(7) {
        let byte = reader.u8()?;
        length |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return usize::try_from(length).map_err(|_| DecodeError::Limit("a length is too large"));
        }
    }
    Err(DecodeError::Limit("a length is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_as_written() {
        for value in [0, 1, 127, 128, 300, 65_535, u32::MAX as usize, usize::MAX >> 2] {
            let mut out = Vec::new();
            put_length(&mut out, value);
            assert_eq!(length(&mut Reader::new(&out)), Ok(value));
            assert_eq!(length(&mut Reader::new(&out[..out.len() - 1])), Err(DecodeError::Truncated));
        }
        assert!(length(&mut Reader::new(&[0xff; 20])).is_err());
    }
}
