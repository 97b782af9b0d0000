//! The stored form of a message: all of it but the bytes of its body.
//!
//! The message is its head, then each piece with as many bytes of the body as it says, then its
//! tail. Nothing of the bare message is lost, whatever widths its sender chose.

use broker::Error;
use wire::{DecodeError, Reader};

use crate::codec::Sections;

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

pub(super) fn unreadable(error: impl std::fmt::Display) -> Error {
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
    #[inline]
    pub(super) fn sections(&self) -> Result<Sections<'a>, Error> {
        Sections::find(self.head).map_err(unreadable)
    }

    /// Appends the body's sections but for the bytes of the last one, which are returned.
    #[inline]
    pub(super) fn write_pieces<'b>(&self, body: &'b [u8], out: &mut Vec<u8>) -> Result<Rest<'b>, Error>
    where
        'a: 'b,
    {
        let mut pieces = Reader::new(self.pieces);
        let mut body = Reader::new(body);
        let mut last: &[u8] = &[];
        while !pieces.is_empty() {
            let (before, part) = piece(&mut pieces, &mut body).map_err(unreadable)?;
            out.extend_from_slice(last);
            out.extend_from_slice(before);
            last = part;
        }
        Ok(Rest { body: last, tail: self.tail })
    }
}

/// What stands before a part of the body, and that part.
fn piece<'a, 'b>(pieces: &mut Reader<'a>, body: &mut Reader<'b>) -> Result<(&'a [u8], &'b [u8]), DecodeError> {
    let before = length(pieces)?;
    let before = pieces.bytes(before)?;
    let count = length(pieces)?;
    Ok((before, body.bytes(count)?))
}

/// The end of a message of which the rest is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rest<'a> {
    /// The last bytes of its body.
    pub(crate) body: &'a [u8],
    /// What stands behind the body.
    pub(crate) tail: &'a [u8],
}

impl Rest<'_> {
    /// How many bytes it has.
    #[inline]
    pub(crate) fn length(&self) -> usize {
        self.body.len() + self.tail.len()
    }

    /// Appends it.
    #[inline]
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.body);
        out.extend_from_slice(self.tail);
    }
}

/// Appends the parts of a stored message. `pieces` are what stands before bytes of the body, and
/// how many these are.
pub(super) fn write<'m>(
    kind: BodyKind,
    head: &[&[u8]],
    pieces: impl Iterator<Item = (&'m [u8], usize)> + Clone,
    tail: &[u8],
    out: &mut Vec<u8>,
) {
    out.push(kind as u8);
    put_length(out, head.iter().map(|part| part.len()).sum());
    head.iter().for_each(|part| out.extend_from_slice(part));
    let size = |(before, count): (&[u8], usize)| width(before.len()) + before.len() + width(count);
    put_length(out, pieces.clone().map(size).sum());
    for (before, count) in pieces {
        put_length(out, before.len());
        out.extend_from_slice(before);
        put_length(out, count);
    }
    out.extend_from_slice(tail);
}

/// How many bytes a length takes.
#[inline]
fn width(length: usize) -> usize {
    (usize::BITS - (length | 1).leading_zeros()).div_ceil(7) as usize
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
            assert_eq!(out.len(), width(value));
            assert_eq!(length(&mut Reader::new(&out)), Ok(value));
            assert_eq!(length(&mut Reader::new(&out[..out.len() - 1])), Err(DecodeError::Truncated));
        }
        assert!(length(&mut Reader::new(&[0xff; 20])).is_err());
    }
}
