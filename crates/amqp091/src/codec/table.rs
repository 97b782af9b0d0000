//! Field tables and arrays (specification §4.2.5.5, with the type octets that RabbitMQ and all
//! clients really use).
//!
//! [`Table`] and [`Array`] are bytes that were validated once, including depth and number of
//! values, so iterating them can't fail. [`Value`] is the owned form, for building and keeping
//! values.

use wire::{DecodeError, Reader};

use crate::limits::{SHORT_STRING_MAX, TABLE_DEPTH, TABLE_ELEMENTS};

/// One field value, borrowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueRef<'a> {
    /// `t`: a boolean.
    Bool(bool),
    /// `b`: signed, 8 bits.
    I8(i8),
    /// `B`: unsigned, 8 bits.
    U8(u8),
    /// `s`: signed, 16 bits. (The specification's text calls `s` a short string; no implementation
    /// follows it.)
    I16(i16),
    /// `u`: unsigned, 16 bits.
    U16(u16),
    /// `I`: signed, 32 bits.
    I32(i32),
    /// `i`: unsigned, 32 bits.
    U32(u32),
    /// `l` or `L`: signed, 64 bits.
    I64(i64),
    /// `f`: a 32-bit float.
    F32(f32),
    /// `d`: a 64-bit float.
    F64(f64),
    /// `D`: a decimal, `value / 10^scale`.
    Decimal {
        /// Digits after the decimal point.
        scale: u8,
        /// All digits as one number.
        value: u32,
    },
    /// `S`: a long string; usually text, and possibly any bytes.
    Str(&'a [u8]),
    /// `x`: bytes.
    Bytes(&'a [u8]),
    /// `A`: an array.
    Array(Array<'a>),
    /// `T`: seconds since 1970.
    Timestamp(u64),
    /// `F`: a table.
    Table(Table<'a>),
    /// `V`: no value.
    Void,
}

impl<'a> ValueRef<'a> {
    /// The number, if it is of any integer type: clients choose different widths.
    pub fn as_integer(&self) -> Option<i64> {
        match *self {
            Self::I8(n) => Some(n.into()),
            Self::U8(n) => Some(n.into()),
            Self::I16(n) => Some(n.into()),
            Self::U16(n) => Some(n.into()),
            Self::I32(n) => Some(n.into()),
            Self::U32(n) => Some(n.into()),
            Self::I64(n) => Some(n),
            _ => None,
        }
    }

    /// The text, if it is a long string of valid UTF-8.
    pub fn as_str(&self) -> Option<&'a str> {
        match self {
            Self::Str(bytes) => str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Self::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// An owned copy.
    pub fn to_value(&self) -> Value {
        match *self {
            Self::Bool(v) => Value::Bool(v),
            Self::I8(v) => Value::I8(v),
            Self::U8(v) => Value::U8(v),
            Self::I16(v) => Value::I16(v),
            Self::U16(v) => Value::U16(v),
            Self::I32(v) => Value::I32(v),
            Self::U32(v) => Value::U32(v),
            Self::I64(v) => Value::I64(v),
            Self::F32(v) => Value::F32(v),
            Self::F64(v) => Value::F64(v),
            Self::Decimal { scale, value } => Value::Decimal { scale, value },
            Self::Str(v) => Value::Str(v.to_vec()),
            Self::Bytes(v) => Value::Bytes(v.to_vec()),
            Self::Array(v) => Value::Array(v.iter().map(|item| item.to_value()).collect()),
            Self::Timestamp(v) => Value::Timestamp(v),
            Self::Table(v) => Value::Table(v.to_fields()),
            Self::Void => Value::Void,
        }
    }
}

/// A validated field table: the bytes of its fields without the length before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Table<'a> {
    fields: &'a [u8],
}

impl<'a> Table<'a> {
    /// Validates the bytes of a table, without their length.
    ///
    /// # Errors
    /// If they are not a table, nest deeper than [`TABLE_DEPTH`], or hold more than
    /// [`TABLE_ELEMENTS`] values.
    pub fn new(fields: &'a [u8]) -> Result<Self, DecodeError> {
        Self::new_within(fields, &mut { TABLE_ELEMENTS })
    }

    /// Like [`Table::new`], with a limit of values that several tables of one frame share.
    pub(crate) fn new_within(fields: &'a [u8], budget: &mut usize) -> Result<Self, DecodeError> {
        check_table(fields, TABLE_DEPTH, budget)?;
        Ok(Self { fields })
    }

    /// The bytes of the fields, without a length before them.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.fields
    }

    /// Whether the table has no fields.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Names and values in the order in which they were written. A name may be there twice; the
    /// first counts.
    pub fn iter(&self) -> Fields<'a> {
        Fields { reader: Reader::new(self.fields) }
    }

    /// The value of the first field called `name`.
    pub fn get(&self, name: &str) -> Option<ValueRef<'a>> {
        self.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// An owned copy of all fields.
    pub fn to_fields(&self) -> Vec<(String, Value)> {
        self.iter().map(|(name, value)| (name.to_owned(), value.to_value())).collect()
    }
}

/// The fields of a [`Table`].
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    reader: Reader<'a>,
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a str, ValueRef<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        // The bytes were validated when the table was made, so an error here can only be their end.
        let name = read_name(&mut self.reader).ok()?;
        let value = read_value(&mut self.reader).ok()?;
        Some((name, value))
    }
}

/// A validated field array: the bytes of its values without the length before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Array<'a> {
    values: &'a [u8],
}

impl<'a> Array<'a> {
    /// The values in order.
    pub fn iter(&self) -> Values<'a> {
        Values { reader: Reader::new(self.values) }
    }
}

/// The values of an [`Array`].
#[derive(Debug, Clone)]
pub struct Values<'a> {
    reader: Reader<'a>,
}

impl<'a> Iterator for Values<'a> {
    type Item = ValueRef<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        read_value(&mut self.reader).ok()
    }
}

/// Reads and validates a table with its four length bytes at the start of `bytes`.
///
/// # Errors
/// As [`Table::new`]; also if the length goes past the end.
pub fn decode_table(bytes: &[u8]) -> Result<Table<'_>, DecodeError> {
    Table::new(Reader::new(bytes).long_bytes()?)
}

fn read_name<'a>(reader: &mut Reader<'a>) -> Result<&'a str, DecodeError> {
    str::from_utf8(reader.short_bytes()?).map_err(|_| DecodeError::Malformed("a field name is not UTF-8"))
}

/// Reads one value; the contents of tables and arrays are not read.
fn read_value<'a>(reader: &mut Reader<'a>) -> Result<ValueRef<'a>, DecodeError> {
    Ok(match reader.u8()? {
        b't' => ValueRef::Bool(reader.u8()? != 0),
        b'b' => ValueRef::I8(reader.u8()? as i8),
        b'B' => ValueRef::U8(reader.u8()?),
        b's' => ValueRef::I16(reader.u16()? as i16),
        b'u' => ValueRef::U16(reader.u16()?),
        b'I' => ValueRef::I32(reader.u32()? as i32),
        b'i' => ValueRef::U32(reader.u32()?),
        b'l' | b'L' => ValueRef::I64(reader.u64()? as i64),
        b'f' => ValueRef::F32(f32::from_bits(reader.u32()?)),
        b'd' => ValueRef::F64(f64::from_bits(reader.u64()?)),
        b'D' => ValueRef::Decimal { scale: reader.u8()?, value: reader.u32()? },
        b'S' => ValueRef::Str(reader.long_bytes()?),
        b'x' => ValueRef::Bytes(reader.long_bytes()?),
        b'A' => ValueRef::Array(Array { values: reader.long_bytes()? }),
        b'T' => ValueRef::Timestamp(reader.u64()?),
        b'F' => ValueRef::Table(Table { fields: reader.long_bytes()? }),
        b'V' => ValueRef::Void,
        _ => return Err(DecodeError::Malformed("unknown type octet of a field value")),
    })
}

fn check_table(fields: &[u8], depth: usize, budget: &mut usize) -> Result<(), DecodeError> {
    let mut reader = Reader::new(fields);
    while !reader.is_empty() {
        read_name(&mut reader)?;
        check_value(&mut reader, depth, budget)?;
    }
    Ok(())
}

fn check_value(reader: &mut Reader<'_>, depth: usize, budget: &mut usize) -> Result<(), DecodeError> {
    *budget = budget.checked_sub(1).ok_or(DecodeError::Limit("a frame's field tables hold too many values"))?;
    let deeper = || depth.checked_sub(1).ok_or(DecodeError::Limit("field tables nest too deep"));
    match read_value(reader)? {
        ValueRef::Table(table) => check_table(table.fields, deeper()?, budget),
        ValueRef::Array(array) => {
            let depth = deeper()?;
            let mut values = Reader::new(array.values);
            while !values.is_empty() {
                check_value(&mut values, depth, budget)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// One field value, owned. Compared and encoded in one canonical way: 64-bit integers as `l`.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A boolean.
    Bool(bool),
    /// Signed, 8 bits.
    I8(i8),
    /// Unsigned, 8 bits.
    U8(u8),
    /// Signed, 16 bits.
    I16(i16),
    /// Unsigned, 16 bits.
    U16(u16),
    /// Signed, 32 bits.
    I32(i32),
    /// Unsigned, 32 bits.
    U32(u32),
    /// Signed, 64 bits.
    I64(i64),
    /// A 32-bit float.
    F32(f32),
    /// A 64-bit float.
    F64(f64),
    /// A decimal, `value / 10^scale`.
    Decimal {
        /// Digits after the decimal point.
        scale: u8,
        /// All digits as one number.
        value: u32,
    },
    /// A long string.
    Str(Vec<u8>),
    /// Bytes.
    Bytes(Vec<u8>),
    /// An array.
    Array(Vec<Value>),
    /// Seconds since 1970.
    Timestamp(u64),
    /// A table.
    Table(Vec<(String, Value)>),
    /// No value.
    Void,
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Str(text.as_bytes().to_vec())
    }
}

/// The bytes of a table with these fields, without a length before them, as [`Table::new`] takes
/// them. A name longer than 255 bytes is cut at a character boundary.
pub fn encode_fields(fields: &[(String, Value)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        encode_field(&mut out, name, value);
    }
    out
}

/// Appends one name and value to the bytes of a table. A name longer than 255 bytes is cut at a
/// character boundary.
pub fn encode_field(out: &mut Vec<u8>, name: &str, value: &Value) {
    let name = &name[..name.floor_char_boundary(SHORT_STRING_MAX)];
    out.push(name.len() as u8);
    out.extend_from_slice(name.as_bytes());
    encode_value(out, value);
}

fn encode_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Bool(v) => out.extend_from_slice(&[b't', u8::from(*v)]),
        Value::I8(v) => out.extend_from_slice(&[b'b', *v as u8]),
        Value::U8(v) => out.extend_from_slice(&[b'B', *v]),
        Value::I16(v) => put(out, b's', &v.to_be_bytes()),
        Value::U16(v) => put(out, b'u', &v.to_be_bytes()),
        Value::I32(v) => put(out, b'I', &v.to_be_bytes()),
        Value::U32(v) => put(out, b'i', &v.to_be_bytes()),
        Value::I64(v) => put(out, b'l', &v.to_be_bytes()),
        Value::F32(v) => put(out, b'f', &v.to_be_bytes()),
        Value::F64(v) => put(out, b'd', &v.to_be_bytes()),
        Value::Decimal { scale, value } => {
            out.extend_from_slice(&[b'D', *scale]);
            out.extend_from_slice(&value.to_be_bytes());
        }
        Value::Str(v) => put_long(out, b'S', v),
        Value::Bytes(v) => put_long(out, b'x', v),
        Value::Array(values) => encode_nested(out, b'A', |out| {
            values.iter().for_each(|value| encode_value(out, value));
        }),
        Value::Timestamp(v) => put(out, b'T', &v.to_be_bytes()),
        Value::Table(fields) => encode_nested(out, b'F', |out| {
            fields.iter().for_each(|(name, value)| encode_field(out, name, value));
        }),
        Value::Void => out.push(b'V'),
    }
}

fn put(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    out.push(kind);
    out.extend_from_slice(bytes);
}

fn put_long(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    out.push(kind);
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

fn encode_nested(out: &mut Vec<u8>, kind: u8, inside: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&[kind, 0, 0, 0, 0]);
    let start = out.len();
    inside(out);
    let length = (out.len() - start) as u32;
    out[start - 4..start].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests;
