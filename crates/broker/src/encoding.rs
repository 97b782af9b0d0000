//! The binary encoding in the journal: varints, texts and field tables.
//!
//! Writers append to a buffer. A [`Reader`] returns exactly what was written, or says where the
//! bytes are [`Malformed`]. No input makes it panic, recurse deeper than [`DEPTH_LIMIT`], or
//! allocate by a length in the input. Tags are in journals and are never reused or renumbered.

use crate::error::Error;
use crate::value::{Table, Value, ms_of_seconds};

/// How deep lists and tables may be nested, the outermost one included.
pub(crate) const DEPTH_LIMIT: usize = 32;

/// A varint carries 7 bits a byte, so that 64 bits need at most ten bytes.
const VARINT_BYTES: usize = 10;

mod tag {
    pub(super) const NULL: u8 = 0;
    pub(super) const FALSE: u8 = 1;
    pub(super) const TRUE: u8 = 2;
    pub(super) const I8: u8 = 3;
    pub(super) const U8: u8 = 4;
    pub(super) const I16: u8 = 5;
    pub(super) const U16: u8 = 6;
    pub(super) const I32: u8 = 7;
    pub(super) const U32: u8 = 8;
    pub(super) const I64: u8 = 9;
    pub(super) const F32: u8 = 10;
    pub(super) const F64: u8 = 11;
    pub(super) const DECIMAL: u8 = 12;
    pub(super) const TEXT: u8 = 13;
    pub(super) const BYTES: u8 = 14;
    /// In seconds; earlier versions wrote it.
    pub(super) const TIMESTAMP: u8 = 15;
    pub(super) const ARRAY: u8 = 16;
    pub(super) const TABLE: u8 = 17;
    pub(super) const U64: u8 = 18;
    pub(super) const UUID: u8 = 19;
    pub(super) const SYMBOL: u8 = 20;
    pub(super) const CHAR: u8 = 21;
    pub(super) const TIME: u8 = 22;
    pub(super) const DECIMAL32: u8 = 23;
    pub(super) const DECIMAL64: u8 = 24;
    pub(super) const DECIMAL128: u8 = 25;
}

/// Appends an unsigned integer as LEB128: seven bits a byte, the lowest first, the top bit set on
/// all except the last.
pub(crate) fn write_varint(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// Appends a length and the bytes.
pub(crate) fn write_bytes(into: &mut Vec<u8>, bytes: &[u8]) {
    write_varint(into, bytes.len() as u64);
    into.extend_from_slice(bytes);
}

/// Appends a length in bytes and the text as UTF-8.
pub(crate) fn write_text(into: &mut Vec<u8>, text: &str) {
    write_bytes(into, text.as_bytes());
}

/// Appends 0 for `None`, or 1 and the number.
pub(crate) fn write_optional_varint(into: &mut Vec<u8>, number: Option<u64>) {
    into.push(number.is_some().into());
    if let Some(number) = number {
        write_varint(into, number);
    }
}

/// Appends the number of fields and each name and value. When fields are nested deeper than
/// [`DEPTH_LIMIT`] this is an error of kind `Precondition`, and the buffer is as it was.
pub(crate) fn write_table(into: &mut Vec<u8>, table: &Table) -> Result<(), Error> {
    let before = into.len();
    let written = write_fields(into, table, 1);
    if written.is_err() {
        into.truncate(before);
    }
    written
}

/// Bytes of a stored table.
pub(crate) fn table_bytes(table: &Table) -> usize {
    let mut bytes = Vec::new();
    // A table that can't be stored was refused before.
    let _ = write_table(&mut bytes, table);
    bytes.len()
}

/// Refuses any table that [`write_table`] would refuse, so that none is accepted that can't be
/// stored.
pub(crate) fn check_depth(table: &Table) -> Result<(), Error> {
    write_table(&mut Vec::new(), table)
}

fn write_fields(into: &mut Vec<u8>, table: &Table, depth: usize) -> Result<(), Error> {
    check_nesting(depth)?;
    write_varint(into, table.len() as u64);
    for (name, value) in &table.0 {
        write_text(into, name);
        write_value(into, value, depth)?;
    }
    Ok(())
}

fn check_nesting(depth: usize) -> Result<(), Error> {
    if depth > DEPTH_LIMIT {
        return Err(Error::precondition(format!(
            "the arguments nest lists or tables deeper than {DEPTH_LIMIT} levels; flatten them"
        )));
    }
    Ok(())
}

/// Appends a tag and the value's bytes; `depth` is that of the list or table with the value.
fn write_value(into: &mut Vec<u8>, value: &Value, depth: usize) -> Result<(), Error> {
    match value {
        Value::Null => into.push(tag::NULL),
        Value::Bool(truth) => into.push(if *truth { tag::TRUE } else { tag::FALSE }),
        Value::I8(n) => write_fixed(into, tag::I8, &n.to_le_bytes()),
        Value::U8(n) => write_fixed(into, tag::U8, &[*n]),
        Value::I16(n) => write_fixed(into, tag::I16, &n.to_le_bytes()),
        Value::U16(n) => write_fixed(into, tag::U16, &n.to_le_bytes()),
        Value::I32(n) => write_fixed(into, tag::I32, &n.to_le_bytes()),
        Value::U32(n) => write_fixed(into, tag::U32, &n.to_le_bytes()),
        Value::I64(n) => write_fixed(into, tag::I64, &n.to_le_bytes()),
        Value::F32(n) => write_fixed(into, tag::F32, &n.to_bits().to_le_bytes()),
        Value::F64(n) => write_fixed(into, tag::F64, &n.to_bits().to_le_bytes()),
        Value::Decimal { scale, value } => {
            write_fixed(into, tag::DECIMAL, &[*scale]);
            into.extend_from_slice(&value.to_le_bytes());
        }
        Value::Text(text) => {
            into.push(tag::TEXT);
            write_text(into, text);
        }
        Value::Bytes(bytes) => {
            into.push(tag::BYTES);
            write_bytes(into, bytes);
        }
        Value::Timestamp(time) => write_fixed(into, tag::TIME, &time.to_le_bytes()),
        Value::U64(n) => write_fixed(into, tag::U64, &n.to_le_bytes()),
        Value::Uuid(bytes) => write_fixed(into, tag::UUID, bytes),
        Value::Symbol(text) => {
            into.push(tag::SYMBOL);
            write_text(into, text);
        }
        Value::Decimal32(bytes) => write_fixed(into, tag::DECIMAL32, bytes),
        Value::Decimal64(bytes) => write_fixed(into, tag::DECIMAL64, bytes),
        Value::Decimal128(bytes) => write_fixed(into, tag::DECIMAL128, bytes),
        Value::Char(char) => write_fixed(into, tag::CHAR, &u32::from(*char).to_le_bytes()),
        Value::Array(values) => {
            check_nesting(depth + 1)?;
            into.push(tag::ARRAY);
            write_varint(into, values.len() as u64);
            for value in values {
                write_value(into, value, depth + 1)?;
            }
        }
        Value::Table(table) => {
            into.push(tag::TABLE);
            write_fields(into, table, depth + 1)?;
        }
    }
    Ok(())
}

fn write_fixed(into: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    into.push(tag);
    into.extend_from_slice(bytes);
}

/// Bytes that no writer of this module wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// Offset of the invalid byte.
    pub(crate) at: usize,
    /// The fault, in words.
    pub(crate) what: &'static str,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stored bytes can't be read: {} at offset {}", self.what, self.at)
    }
}

impl std::error::Error for Malformed {}

impl From<Malformed> for Error {
    fn from(malformed: Malformed) -> Self {
        Self::internal(malformed.to_string())
    }
}

/// Reads the output of this module's writers, front to back.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads `bytes` from the first one on.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Asserts that all bytes have been read.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.malformed("bytes after the end")) }
    }

    /// True when all bytes have been read.
    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// One byte.
    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let [byte] = self.fixed()?;
        Ok(byte)
    }

    /// A truth value.
    pub(crate) fn bool(&mut self) -> Result<bool, Malformed> {
        let start = self.at;
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed { at: start, what: "a truth value that is neither 0 nor 1" }),
        }
    }

    /// An unsigned integer.
    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        let start = self.at;
        let mut number = 0u64;
        for place in 0..VARINT_BYTES {
            let byte = self.byte()?;
            // The tenth byte has room for one bit.
            if place == VARINT_BYTES - 1 && byte > 1 {
                break;
            }
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed { at: start, what: "an integer of more than 64 bits" })
    }

    /// None or a number.
    pub(crate) fn optional_varint(&mut self) -> Result<Option<u64>, Malformed> {
        if self.bool()? { self.varint().map(Some) } else { Ok(None) }
    }

    /// Bytes with a length before them.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let start = self.at;
        let length = self.varint()?;
        let rest = &self.bytes[self.at..];
        match usize::try_from(length).ok().and_then(|length| rest.get(..length)) {
            Some(bytes) => {
                self.at += bytes.len();
                Ok(bytes)
            }
            None => Err(Malformed { at: start, what: "a length past the end" }),
        }
    }

    /// Text with a length before it.
    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        let start = self.at;
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| Malformed { at: start, what: "text that is not UTF-8" })
    }

    /// Named fields.
    pub(crate) fn table(&mut self) -> Result<Table, Malformed> {
        self.fields(1)
    }

    fn fields(&mut self, depth: usize) -> Result<Table, Malformed> {
        self.check_depth(depth)?;
        let count = self.varint()?;
        let mut table = Table::default();
        for _ in 0..count {
            let name = self.text()?.to_owned();
            let value = self.value(depth)?;
            table.0.push((name, value));
        }
        Ok(table)
    }

    fn array(&mut self, depth: usize) -> Result<Vec<Value>, Malformed> {
        self.check_depth(depth)?;
        let count = self.varint()?;
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(self.value(depth)?);
        }
        Ok(values)
    }

    fn check_depth(&self, depth: usize) -> Result<(), Malformed> {
        if depth > DEPTH_LIMIT { Err(self.malformed("fields nested too deep")) } else { Ok(()) }
    }

    fn value(&mut self, depth: usize) -> Result<Value, Malformed> {
        let start = self.at;
        Ok(match self.byte()? {
            tag::NULL => Value::Null,
            tag::FALSE => Value::Bool(false),
            tag::TRUE => Value::Bool(true),
            tag::I8 => Value::I8(i8::from_le_bytes(self.fixed()?)),
            tag::U8 => Value::U8(self.byte()?),
            tag::I16 => Value::I16(i16::from_le_bytes(self.fixed()?)),
            tag::U16 => Value::U16(u16::from_le_bytes(self.fixed()?)),
            tag::I32 => Value::I32(i32::from_le_bytes(self.fixed()?)),
            tag::U32 => Value::U32(u32::from_le_bytes(self.fixed()?)),
            tag::I64 => Value::I64(i64::from_le_bytes(self.fixed()?)),
            tag::F32 => Value::F32(f32::from_bits(u32::from_le_bytes(self.fixed()?))),
            tag::F64 => Value::F64(f64::from_bits(u64::from_le_bytes(self.fixed()?))),
            tag::DECIMAL => Value::Decimal { scale: self.byte()?, value: u32::from_le_bytes(self.fixed()?) },
            tag::TEXT => Value::Text(self.text()?.to_owned()),
            tag::BYTES => Value::Bytes(self.bytes()?.to_owned()),
            tag::TIMESTAMP => Value::Timestamp(ms_of_seconds(u64::from_le_bytes(self.fixed()?))),
            tag::TIME => Value::Timestamp(i64::from_le_bytes(self.fixed()?)),
            tag::DECIMAL32 => Value::Decimal32(self.fixed()?),
            tag::DECIMAL64 => Value::Decimal64(self.fixed()?),
            tag::DECIMAL128 => Value::Decimal128(self.fixed()?),
            tag::U64 => Value::U64(u64::from_le_bytes(self.fixed()?)),
            tag::UUID => Value::Uuid(self.fixed()?),
            tag::SYMBOL => Value::Symbol(self.text()?.to_owned()),
            tag::CHAR => {
                let char = char::from_u32(u32::from_le_bytes(self.fixed()?));
                Value::Char(char.ok_or(Malformed { at: start, what: "a number that is no character" })?)
            }
            tag::ARRAY => Value::Array(self.array(depth + 1)?),
            tag::TABLE => Value::Table(self.fields(depth + 1)?),
            _ => return Err(Malformed { at: start, what: "an unknown kind of field" }),
        })
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        match self.bytes[self.at..].first_chunk::<N>() {
            Some(bytes) => {
                self.at += N;
                Ok(*bytes)
            }
            None => Err(self.malformed("the end where a number goes on")),
        }
    }

    /// All bytes that have not been read.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        self.at = self.bytes.len();
        rest
    }

    /// The error for the bytes that were read last.
    pub(crate) fn malformed(&self, what: &'static str) -> Malformed {
        Malformed { at: self.at, what }
    }
}

#[cfg(test)]
mod tests;
