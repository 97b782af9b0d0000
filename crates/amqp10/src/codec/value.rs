//! Values of any type (part 1), in place.
//!
//! [`read_value`] checks a value to its innermost element: depth, number, sizes and texts. So what
//! it returns can be walked without an error.

mod compound;
mod show;
mod write;

pub use compound::{Array, Described, Items, List, Map, Pairs};

use wire::{DecodeError, Reader};

use crate::codec::format as code;
use crate::limits::{DEPTH, VALUES};

/// One value, borrowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueRef<'a> {
    /// No value (§1.6.1).
    Null,
    /// A boolean (§1.6.2).
    Bool(bool),
    /// `ubyte`: unsigned, 8 bits (§1.6.3).
    U8(u8),
    /// `ushort`: unsigned, 16 bits (§1.6.4).
    U16(u16),
    /// `uint`: unsigned, 32 bits (§1.6.5).
    U32(u32),
    /// `ulong`: unsigned, 64 bits (§1.6.6).
    U64(u64),
    /// `byte`: signed, 8 bits (§1.6.7).
    I8(i8),
    /// `short`: signed, 16 bits (§1.6.8).
    I16(i16),
    /// `int`: signed, 32 bits (§1.6.9).
    I32(i32),
    /// `long`: signed, 64 bits (§1.6.10).
    I64(i64),
    /// `float` (§1.6.11).
    F32(f32),
    /// `double` (§1.6.12).
    F64(f64),
    /// `decimal32`: the bits of IEEE 754-2008, decimal32 with binary integer encoding (§1.6.13).
    Decimal32([u8; 4]),
    /// `decimal64`, likewise (§1.6.14).
    Decimal64([u8; 8]),
    /// `decimal128`, likewise (§1.6.15).
    Decimal128([u8; 16]),
    /// `char`, UTF-32 (§1.6.16). Any 32 bits: Java's clients write halves of surrogate pairs.
    Char(u32),
    /// Milliseconds since 1970-01-01T00:00:00Z (§1.6.17).
    Timestamp(i64),
    /// A UUID as in RFC 4122 (§1.6.18).
    Uuid([u8; 16]),
    /// Bytes (§1.6.19).
    Binary(&'a [u8]),
    /// A text (§1.6.20).
    Str(&'a str),
    /// A name of a constrained domain, in ASCII (§1.6.21).
    Symbol(&'a str),
    /// Values of any types (§1.6.22).
    List(List<'a>),
    /// Pairs of values (§1.6.23).
    Map(Map<'a>),
    /// Values of one type (§1.6.24).
    Array(Array<'a>),
    /// A value with a descriptor, which gives it a meaning (§1.3).
    Described(Described<'a>),
}

/// How many values may still be read.
#[derive(Debug)]
pub struct Budget {
    values: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { values: VALUES }
    }
}

impl Budget {
    #[inline]
    fn take(&mut self) -> Result<(), DecodeError> {
        self.values = self.values.checked_sub(1).ok_or(DecodeError::Limit("more values than one frame may hold"))?;
        Ok(())
    }
}

/// Reads the value at the front, and checks all that is in it.
///
/// # Errors
/// If the bytes are no value, or exceed a limit.
#[inline]
pub fn read_value<'a>(reader: &mut Reader<'a>, budget: &mut Budget) -> Result<ValueRef<'a>, DecodeError> {
    let value = shallow(reader)?;
    check(&value, DEPTH, budget)?;
    Ok(value)
}

/// Reads the value at the front; what is in it is not checked.
#[inline]
pub(crate) fn shallow<'a>(reader: &mut Reader<'a>) -> Result<ValueRef<'a>, DecodeError> {
    let code = reader.u8()?;
    of_code(code, reader)
}

fn fixed<const N: usize>(body: &[u8]) -> [u8; N] {
    // The width of a code is the length of its body, so the bytes are there.
    body.first_chunk().copied().unwrap_or([0; N])
}

fn text(body: &[u8]) -> Result<&str, DecodeError> {
    str::from_utf8(body).map_err(|_| DecodeError::Malformed("a string is not UTF-8"))
}

fn ascii(body: &[u8]) -> Result<&str, DecodeError> {
    match str::from_utf8(body) {
        Ok(symbol) if symbol.is_ascii() => Ok(symbol),
        _ => Err(DecodeError::Malformed("a symbol is not ASCII")),
    }
}

/// Reads what follows the format code `code`.
fn of_code<'a>(code: u8, reader: &mut Reader<'a>) -> Result<ValueRef<'a>, DecodeError> {
    if code == code::DESCRIBED {
        return Described::read(reader).map(ValueRef::Described);
    }
    let body = code::body(code, reader)?;
    Ok(match code {
        code::NULL => ValueRef::Null,
        code::TRUE => ValueRef::Bool(true),
        code::FALSE => ValueRef::Bool(false),
        code::BOOLEAN => match body {
            [0] => ValueRef::Bool(false),
            [1] => ValueRef::Bool(true),
            _ => return Err(DecodeError::Malformed("a boolean is neither 0 nor 1")),
        },
        code::UINT_0 => ValueRef::U32(0),
        code::UINT_8 => ValueRef::U32(body[0].into()),
        code::UINT => ValueRef::U32(u32::from_be_bytes(fixed(body))),
        code::ULONG_0 => ValueRef::U64(0),
        code::ULONG_8 => ValueRef::U64(body[0].into()),
        code::ULONG => ValueRef::U64(u64::from_be_bytes(fixed(body))),
        code::UBYTE => ValueRef::U8(body[0]),
        code::USHORT => ValueRef::U16(u16::from_be_bytes(fixed(body))),
        code::BYTE => ValueRef::I8(body[0] as i8),
        code::SHORT => ValueRef::I16(i16::from_be_bytes(fixed(body))),
        code::INT_8 => ValueRef::I32((body[0] as i8).into()),
        code::INT => ValueRef::I32(i32::from_be_bytes(fixed(body))),
        code::LONG_8 => ValueRef::I64((body[0] as i8).into()),
        code::LONG => ValueRef::I64(i64::from_be_bytes(fixed(body))),
        code::FLOAT => ValueRef::F32(f32::from_be_bytes(fixed(body))),
        code::DOUBLE => ValueRef::F64(f64::from_be_bytes(fixed(body))),
        code::DECIMAL_32 => ValueRef::Decimal32(fixed(body)),
        code::DECIMAL_64 => ValueRef::Decimal64(fixed(body)),
        code::DECIMAL_128 => ValueRef::Decimal128(fixed(body)),
        code::CHAR => ValueRef::Char(u32::from_be_bytes(fixed(body))),
        code::TIMESTAMP => ValueRef::Timestamp(i64::from_be_bytes(fixed(body))),
        code::UUID => ValueRef::Uuid(fixed(body)),
        code::BINARY_8 | code::BINARY_32 => ValueRef::Binary(body),
        code::STRING_8 | code::STRING_32 => ValueRef::Str(text(body)?),
        code::SYMBOL_8 | code::SYMBOL_32 => ValueRef::Symbol(ascii(body)?),
        code::LIST_0 => ValueRef::List(List::default()),
        code::LIST_8 | code::LIST_32 => ValueRef::List(List::of_body(code, body)?),
        code::MAP_8 | code::MAP_32 => ValueRef::Map(Map::of_body(code, body)?),
        code::ARRAY_8 | code::ARRAY_32 => ValueRef::Array(Array::of_body(code, body)?),
        _ => return Err(DecodeError::Malformed("no type has this format code")),
    })
}

/// Checks what is in a value; `depth` levels may still be entered.
fn check(value: &ValueRef<'_>, depth: usize, budget: &mut Budget) -> Result<(), DecodeError> {
    budget.take()?;
    let (count, mut reader) = match value {
        ValueRef::List(list) => list.parts(),
        ValueRef::Map(map) => map.parts(),
        ValueRef::Array(array) => return check_array(array, inner(depth)?, budget),
        ValueRef::Described(described) => {
            let depth = inner(depth)?;
            check(&shallow(&mut described.descriptor_bytes())?, depth, budget)?;
            return check(&described.parse_value()?, depth, budget);
        }
        _ => return Ok(()),
    };
    let depth = inner(depth)?;
    for _ in 0..count {
        check(&shallow(&mut reader)?, depth, budget)?;
    }
    at_end(&reader)
}

fn check_array(array: &Array<'_>, depth: usize, budget: &mut Budget) -> Result<(), DecodeError> {
    let (constructor, mut reader) = array.constructor()?;
    if let Some(mut descriptor) = constructor.descriptor_bytes() {
        check(&shallow(&mut descriptor)?, depth, budget)?;
    }
    for _ in 0..array.len() {
        check(&constructor.element(&mut reader)?, depth, budget)?;
    }
    at_end(&reader)
}

fn inner(depth: usize) -> Result<usize, DecodeError> {
    depth.checked_sub(1).ok_or(DecodeError::Limit("values nest too deep"))
}

fn at_end(reader: &Reader<'_>) -> Result<(), DecodeError> {
    if reader.is_empty() { Ok(()) } else { Err(DecodeError::Malformed("bytes follow the last element")) }
}

impl<'a> ValueRef<'a> {
    /// The text of a string or a symbol: clients take one for the other.
    pub fn as_text(&self) -> Option<&'a str> {
        match self {
            Self::Str(text) | Self::Symbol(text) => Some(text),
            _ => None,
        }
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The number, if it is of any integer type: clients choose different widths.
    pub fn as_integer(&self) -> Option<i128> {
        Some(match *self {
            Self::U8(n) => n.into(),
            Self::U16(n) => n.into(),
            Self::U32(n) => n.into(),
            Self::U64(n) => n.into(),
            Self::I8(n) => n.into(),
            Self::I16(n) => n.into(),
            Self::I32(n) => n.into(),
            Self::I64(n) => n.into(),
            _ => return None,
        })
    }
}
