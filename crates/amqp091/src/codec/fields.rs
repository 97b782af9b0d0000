//! How each type of method argument is read and written, including bits (specification §4.2.5).
//!
//! Neighbouring bits share octets, lowest bit first; any other argument ends the octet. Only this
//! file knows that rule.

use wire::{DecodeError, Reader};

use crate::codec::Table;
use crate::limits::{SHORT_STRING_MAX, TABLE_ELEMENTS};

/// Reads arguments in order.
pub(crate) struct FieldReader<'a> {
    reader: Reader<'a>,
    /// The octet of bits that is being read, and how many of its bits were read.
    bits: u8,
    bits_read: u8,
    /// How many table values this method may still contain.
    budget: usize,
}

impl<'a> FieldReader<'a> {
    #[inline]
    pub(crate) fn new(arguments: &'a [u8]) -> Self {
        Self { reader: Reader::new(arguments), bits: 0, bits_read: 0, budget: TABLE_ELEMENTS }
    }

    #[inline]
    fn aligned(&mut self) -> &mut Reader<'a> {
        self.bits_read = 0;
        &mut self.reader
    }

    /// Succeeds if nothing follows the last argument.
    #[inline]
    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        if self.reader.is_empty() { Ok(()) } else { Err(DecodeError::Malformed("bytes follow the last argument")) }
    }
}

/// Writes arguments in order.
pub(crate) struct FieldWriter<'o> {
    out: &'o mut Vec<u8>,
    bits_written: u8,
}

impl<'o> FieldWriter<'o> {
    #[inline]
    pub(crate) fn new(out: &'o mut Vec<u8>) -> Self {
        Self { out, bits_written: 0 }
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.bits_written = 0;
        self.out.extend_from_slice(bytes);
    }
}

/// A type of argument.
pub(crate) trait Field<'a>: Sized {
    fn read(reader: &mut FieldReader<'a>) -> Result<Self, DecodeError>;
    fn write(&self, writer: &mut FieldWriter<'_>);
}

impl Field<'_> for bool {
    #[inline]
    fn read(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        if reader.bits_read.is_multiple_of(8) {
            reader.bits = reader.reader.u8()?;
            reader.bits_read = 0;
        }
        let bit = reader.bits >> reader.bits_read & 1;
        reader.bits_read += 1;
        Ok(bit != 0)
    }

    #[inline]
    fn write(&self, writer: &mut FieldWriter<'_>) {
        let place = writer.bits_written % 8;
        if place == 0 {
            writer.out.push(0);
        }
        if let Some(octet) = writer.out.last_mut() {
            *octet |= u8::from(*self) << place;
        }
        writer.bits_written = place + 1;
    }
}

impl Field<'_> for u8 {
    #[inline]
    fn read(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        reader.aligned().u8()
    }

    #[inline]
    fn write(&self, writer: &mut FieldWriter<'_>) {
        writer.put(&[*self]);
    }
}

impl Field<'_> for u16 {
    #[inline]
    fn read(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        reader.aligned().u16()
    }

    #[inline]
    fn write(&self, writer: &mut FieldWriter<'_>) {
        writer.put(&self.to_be_bytes());
    }
}

impl Field<'_> for u32 {
    #[inline]
    fn read(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        reader.aligned().u32()
    }

    #[inline]
    fn write(&self, writer: &mut FieldWriter<'_>) {
        writer.put(&self.to_be_bytes());
    }
}

impl Field<'_> for u64 {
    #[inline]
    fn read(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        reader.aligned().u64()
    }

    #[inline]
    fn write(&self, writer: &mut FieldWriter<'_>) {
        writer.put(&self.to_be_bytes());
    }
}

/// A short string: names and texts. The specification requires UTF-8, and every display of a name
/// needs it.
impl<'a> Field<'a> for &'a str {
    #[inline]
    fn read(reader: &mut FieldReader<'a>) -> Result<Self, DecodeError> {
        let bytes = reader.aligned().short_bytes()?;
        // An empty exchange name is the most frequent string of all.
        if bytes.is_empty() {
            return Ok("");
        }
        str::from_utf8(bytes).map_err(|_| DecodeError::Malformed("a short string is not UTF-8"))
    }

    #[inline]
    fn write(&self, writer: &mut FieldWriter<'_>) {
        let text = &self[..self.floor_char_boundary(SHORT_STRING_MAX)];
        writer.put(&[text.len() as u8]);
        writer.out.extend_from_slice(text.as_bytes());
    }
}

/// A long string: opaque bytes.
impl<'a> Field<'a> for &'a [u8] {
    #[inline]
    fn read(reader: &mut FieldReader<'a>) -> Result<Self, DecodeError> {
        reader.aligned().long_bytes()
    }

    #[inline]
    fn write(&self, writer: &mut FieldWriter<'_>) {
        writer.put(&(self.len() as u32).to_be_bytes());
        writer.out.extend_from_slice(self);
    }
}

impl<'a> Field<'a> for Table<'a> {
    #[inline]
    fn read(reader: &mut FieldReader<'a>) -> Result<Self, DecodeError> {
        let bytes = reader.aligned().long_bytes()?;
        Table::new_within(bytes, &mut reader.budget)
    }

    #[inline]
    fn write(&self, writer: &mut FieldWriter<'_>) {
        self.as_bytes().write(writer);
    }
}
