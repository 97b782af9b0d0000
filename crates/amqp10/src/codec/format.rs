//! Format codes (part 1, §1.2 and §1.6): the octet before a value, which says its type and how many
//! bytes follow.
//!
//! The upper four bits of a code are the width of what follows, also for types that are not known.

use wire::{DecodeError, Reader};

pub(crate) const DESCRIBED: u8 = 0x00;
pub(crate) const NULL: u8 = 0x40;
pub(crate) const TRUE: u8 = 0x41;
pub(crate) const FALSE: u8 = 0x42;
pub(crate) const UINT_0: u8 = 0x43;
pub(crate) const ULONG_0: u8 = 0x44;
pub(crate) const LIST_0: u8 = 0x45;
pub(crate) const UBYTE: u8 = 0x50;
pub(crate) const BYTE: u8 = 0x51;
pub(crate) const UINT_8: u8 = 0x52;
pub(crate) const ULONG_8: u8 = 0x53;
pub(crate) const INT_8: u8 = 0x54;
pub(crate) const LONG_8: u8 = 0x55;
pub(crate) const BOOLEAN: u8 = 0x56;
pub(crate) const USHORT: u8 = 0x60;
pub(crate) const SHORT: u8 = 0x61;
pub(crate) const UINT: u8 = 0x70;
pub(crate) const INT: u8 = 0x71;
pub(crate) const FLOAT: u8 = 0x72;
pub(crate) const CHAR: u8 = 0x73;
pub(crate) const DECIMAL_32: u8 = 0x74;
pub(crate) const ULONG: u8 = 0x80;
pub(crate) const LONG: u8 = 0x81;
pub(crate) const DOUBLE: u8 = 0x82;
pub(crate) const TIMESTAMP: u8 = 0x83;
pub(crate) const DECIMAL_64: u8 = 0x84;
pub(crate) const DECIMAL_128: u8 = 0x94;
pub(crate) const UUID: u8 = 0x98;
pub(crate) const BINARY_8: u8 = 0xa0;
pub(crate) const STRING_8: u8 = 0xa1;
pub(crate) const SYMBOL_8: u8 = 0xa3;
pub(crate) const BINARY_32: u8 = 0xb0;
pub(crate) const STRING_32: u8 = 0xb1;
pub(crate) const SYMBOL_32: u8 = 0xb3;
pub(crate) const LIST_8: u8 = 0xc0;
pub(crate) const MAP_8: u8 = 0xc1;
pub(crate) const LIST_32: u8 = 0xd0;
pub(crate) const MAP_32: u8 = 0xd1;
pub(crate) const ARRAY_8: u8 = 0xe0;
pub(crate) const ARRAY_32: u8 = 0xf0;

/// The bytes that belong to a value behind its code, without the size before them.
#[inline]
pub(crate) fn body<'a>(code: u8, reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    match code >> 4 {
        0x4 => Ok(&[]),
        0x5 => reader.bytes(1),
        0x6 => reader.bytes(2),
        0x7 => reader.bytes(4),
        0x8 => reader.bytes(8),
        0x9 => reader.bytes(16),
        0xa | 0xc | 0xe => reader.short_bytes(),
        0xb | 0xd | 0xf => reader.long_bytes(),
        _ => Err(DecodeError::Malformed("no type has this format code")),
    }
}

/// Passes one value without a look into it, and returns its bytes. It needs no stack: a peer could
/// write descriptors of descriptors.
#[inline]
pub(crate) fn skip<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    let whole = reader.rest();
    let mut open = 1usize;
    while open > 0 {
        match reader.u8()? {
            // A descriptor and a value stand for one value.
            DESCRIBED => open += 1,
            code => {
                body(code, reader)?;
                open -= 1;
            }
        }
    }
    Ok(&whole[..whole.len() - reader.rest().len()])
}
