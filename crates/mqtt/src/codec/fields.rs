//! The fields of packets: numbers, strings and binary data (section 1.5 of MQTT 5).
//!
//! Every read is checked against the bytes that are there; nothing is allocated.

use std::num::NonZeroU16;

use memchr::memchr;
use wire::{DecodeError, Reader};

use super::violation::Violation;

/// The largest number of variable length.
pub const VARIABLE_MAX: u32 = 268_435_455;
/// The most bytes of a string or of binary data.
pub const TEXT_MAX: usize = u16::MAX as usize;

/// The identifier of a packet that is answered; never 0 [MQTT-2.2.1-3].
pub type PacketId = NonZeroU16;

impl From<DecodeError> for Violation {
    fn from(_: DecodeError) -> Self {
        // Only the end of the input stops these reads.
        Self::Truncated
    }
}

/// Reads a number of variable length at the front of `bytes`; `None` if it is not complete. Returns
/// it with its length.
pub(super) fn variable(bytes: &[u8]) -> Result<Option<(u32, usize)>, Violation> {
    let mut value = 0;
    for at in 0..4 {
        let Some(byte) = bytes.get(at) else { return Ok(None) };
        value |= u32::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            let is_shortest = at == 0 || *byte != 0;
            return if is_shortest { Ok(Some((value, at + 1))) } else { Err(Violation::VariableNumber) };
        }
    }
    Err(Violation::VariableNumber)
}

/// A number of variable length within a packet.
pub(super) fn read_variable(reader: &mut Reader<'_>) -> Result<u32, Violation> {
    let (value, length) = variable(reader.rest())?.ok_or(Violation::Truncated)?;
    reader.bytes(length)?;
    Ok(value)
}

/// Binary data.
#[inline]
pub(super) fn read_binary<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Violation> {
    let length = reader.u16()?;
    Ok(reader.bytes(usize::from(length))?)
}

/// A string: UTF-8 without U+0000.
#[inline]
pub(super) fn read_text<'a>(reader: &mut Reader<'a>) -> Result<&'a str, Violation> {
    let bytes = read_binary(reader)?;
    let text = std::str::from_utf8(bytes).map_err(|_| Violation::NotUtf8)?;
    if memchr(0, bytes).is_some() { Err(Violation::NulInText) } else { Ok(text) }
}

/// A packet identifier.
#[inline]
pub(super) fn read_id(reader: &mut Reader<'_>) -> Result<PacketId, Violation> {
    PacketId::new(reader.u16()?).ok_or(Violation::PacketIdZero)
}

/// Appends a number of variable length, at most [`VARIABLE_MAX`].
pub(super) fn put_variable(out: &mut Vec<u8>, mut value: u32) {
    debug_assert!(value <= VARIABLE_MAX);
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            return out.push(byte);
        }
        out.push(byte | 0x80);
    }
}

/// The bytes that a number of variable length takes.
pub(super) fn variable_length(value: usize) -> usize {
    match value {
        0..=127 => 1,
        128..=16_383 => 2,
        16_384..=2_097_151 => 3,
        _ => 4,
    }
}

/// Appends binary data, at most [`TEXT_MAX`] bytes of it.
pub(super) fn put_binary(out: &mut Vec<u8>, bytes: &[u8]) {
    debug_assert!(bytes.len() <= TEXT_MAX);
    let bytes = &bytes[..bytes.len().min(TEXT_MAX)];
    out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Appends a string, at most [`TEXT_MAX`] bytes of it.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    let end = text.floor_char_boundary(TEXT_MAX);
    put_binary(out, &text.as_bytes()[..end]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_variable_length_have_one_form() {
        for (value, bytes) in [
            (0, &[0][..]),
            (127, &[0x7f]),
            (128, &[0x80, 1]),
            (16_383, &[0xff, 0x7f]),
            (16_384, &[0x80, 0x80, 1]),
            (2_097_152, &[0x80, 0x80, 0x80, 1]),
            (VARIABLE_MAX, &[0xff, 0xff, 0xff, 0x7f]),
        ] {
            let mut out = Vec::new();
            put_variable(&mut out, value);
            assert_eq!((out.as_slice(), variable_length(value as usize)), (bytes, bytes.len()));
            assert_eq!(variable(bytes), Ok(Some((value, bytes.len()))));
            (0..bytes.len()).for_each(|end| assert_eq!(variable(&bytes[..end]), Ok(None)));
        }
        for bad in [&[0x80, 0][..], &[0xff, 0x80, 0], &[0x80, 0x80, 0x80, 0], &[0xff, 0xff, 0xff, 0xff]] {
            assert_eq!(variable(bad), Err(Violation::VariableNumber), "{bad:?}");
        }
    }

    #[test]
    fn strings_are_strict() {
        let read = |bytes: &[u8]| read_text(&mut Reader::new(bytes)).map(str::to_owned);
        assert_eq!(read(b"\0\x03\xef\xbb\xbf").as_deref(), Ok("\u{feff}"));
        assert_eq!(read(b"\0\x01\0"), Err(Violation::NulInText));
        for bad in [&b"\0\x01\xff"[..], b"\0\x03\xed\xa0\x80", b"\0\x02\xc0\x80", b"\0\x01\xc3"] {
            assert_eq!(read(bad), Err(Violation::NotUtf8), "{bad:?}");
        }
        assert_eq!(read(b"\0\x02a"), Err(Violation::Truncated));
    }

    #[test]
    fn a_text_that_is_too_long_is_cut_between_characters() {
        let mut out = Vec::new();
        put_text(&mut out, &"\u{e9}".repeat(TEXT_MAX).as_str()[..TEXT_MAX - 1]);
        assert_eq!(out.len(), 2 + TEXT_MAX - 1);
    }
}
