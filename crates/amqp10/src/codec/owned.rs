//! Values that own their parts, for building and keeping them.

use std::borrow::Cow;

use crate::codec::encode::{Compound, Encode, begin_compound, end_compound};
use crate::codec::format as code;
use crate::codec::value::{ValueRef, shallow};

/// One value. The variants are those of [`ValueRef`].
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "each variant is documented at ValueRef")]
pub enum Value {
    Null,
    Bool(bool),
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    F32(f32),
    F64(f64),
    Decimal32([u8; 4]),
    Decimal64([u8; 8]),
    Decimal128([u8; 16]),
    Char(u32),
    Timestamp(i64),
    Uuid([u8; 16]),
    Binary(Vec<u8>),
    Str(String),
    /// In ASCII; anything else is written as `?`.
    Symbol(String),
    List(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Array(Elements),
    /// A descriptor, and the value that it describes.
    Described(Box<(Value, Value)>),
}

/// The elements of an array, all of one type. Without elements there is no type: such an array is
/// written as one of nulls.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Elements(Vec<Value>);

impl Elements {
    /// `None` if the values are not of one type, or have more than one descriptor each.
    pub fn new(values: Vec<Value>) -> Option<Self> {
        let alike = values.iter().all(|value| same_type(&values[0], value));
        alike.then_some(Self(values))
    }

    /// The elements in order.
    pub fn values(&self) -> &[Value] {
        &self.0
    }
}

/// Whether one constructor can stand before both.
fn same_type(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Described(one), Value::Described(other)) => {
            one.0 == other.0 && !matches!(one.1, Value::Described(_)) && same_type(&one.1, &other.1)
        }
        _ => std::mem::discriminant(one) == std::mem::discriminant(other),
    }
}

/// An owned copy.
impl From<ValueRef<'_>> for Value {
    fn from(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Value::Null,
            ValueRef::Bool(value) => Value::Bool(value),
            ValueRef::U8(value) => Value::U8(value),
            ValueRef::U16(value) => Value::U16(value),
            ValueRef::U32(value) => Value::U32(value),
            ValueRef::U64(value) => Value::U64(value),
            ValueRef::I8(value) => Value::I8(value),
            ValueRef::I16(value) => Value::I16(value),
            ValueRef::I32(value) => Value::I32(value),
            ValueRef::I64(value) => Value::I64(value),
            ValueRef::F32(value) => Value::F32(value),
            ValueRef::F64(value) => Value::F64(value),
            ValueRef::Decimal32(bits) => Value::Decimal32(bits),
            ValueRef::Decimal64(bits) => Value::Decimal64(bits),
            ValueRef::Decimal128(bits) => Value::Decimal128(bits),
            ValueRef::Char(value) => Value::Char(value),
            ValueRef::Timestamp(value) => Value::Timestamp(value),
            ValueRef::Uuid(value) => Value::Uuid(value),
            ValueRef::Binary(bytes) => Value::Binary(bytes.to_vec()),
            ValueRef::Str(text) => Value::Str(text.to_owned()),
            ValueRef::Symbol(symbol) => Value::Symbol(symbol.to_owned()),
            ValueRef::List(list) => Value::List(list.iter().map(Value::from).collect()),
            ValueRef::Map(map) => Value::Map(map.iter().map(|(key, value)| (key.into(), value.into())).collect()),
            ValueRef::Array(array) => Value::Array(Elements(array.iter().map(Value::from).collect())),
            ValueRef::Described(described) => {
                Value::Described(Box::new((described.descriptor().into(), described.value().into())))
            }
        }
    }
}

impl Value {
    /// The value if nothing has to be owned for it: all but lists, maps, arrays and described ones.
    fn as_simple(&self) -> Option<ValueRef<'_>> {
        Some(match self {
            Self::Null => ValueRef::Null,
            Self::Bool(value) => ValueRef::Bool(*value),
            Self::U8(value) => ValueRef::U8(*value),
            Self::U16(value) => ValueRef::U16(*value),
            Self::U32(value) => ValueRef::U32(*value),
            Self::U64(value) => ValueRef::U64(*value),
            Self::I8(value) => ValueRef::I8(*value),
            Self::I16(value) => ValueRef::I16(*value),
            Self::I32(value) => ValueRef::I32(*value),
            Self::I64(value) => ValueRef::I64(*value),
            Self::F32(value) => ValueRef::F32(*value),
            Self::F64(value) => ValueRef::F64(*value),
            Self::Decimal32(bits) => ValueRef::Decimal32(*bits),
            Self::Decimal64(bits) => ValueRef::Decimal64(*bits),
            Self::Decimal128(bits) => ValueRef::Decimal128(*bits),
            Self::Char(value) => ValueRef::Char(*value),
            Self::Timestamp(value) => ValueRef::Timestamp(*value),
            Self::Uuid(bits) => ValueRef::Uuid(*bits),
            Self::Binary(bytes) => ValueRef::Binary(bytes),
            Self::Str(text) => ValueRef::Str(text),
            Self::Symbol(symbol) => ValueRef::Symbol(symbol),
            Self::List(_) | Self::Map(_) | Self::Array(_) | Self::Described(_) => return None,
        })
    }

    /// The encoded value alone.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }
}

impl Encode for Value {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Symbol(symbol) => ValueRef::Symbol(&ascii(symbol)).encode(out),
            Self::List(values) => {
                let start = begin_compound(out);
                values.iter().for_each(|value| value.encode(out));
                end_compound(out, Compound::List, start, values.len() as u32);
            }
            Self::Map(pairs) => {
                let start = begin_compound(out);
                for (key, value) in pairs {
                    key.encode(out);
                    value.encode(out);
                }
                end_compound(out, Compound::Map, start, pairs.len() as u32 * 2);
            }
            Self::Array(elements) => encode_array(elements.values(), out),
            Self::Described(parts) => {
                out.push(code::DESCRIBED);
                parts.0.encode(out);
                parts.1.encode(out);
            }
            simple => simple.as_simple().unwrap_or(ValueRef::Null).encode(out),
        }
    }
}

/// Writes an array. Its elements have one constructor, so all have the width of the widest; that of
/// booleans, numbers and lists is never zero, because several clients refuse such arrays.
fn encode_array(values: &[Value], out: &mut Vec<u8>) {
    let start = begin_compound(out);
    let described = match values.first() {
        Some(Value::Described(parts)) => Some(&parts.0),
        _ => None,
    };
    if let Some(descriptor) = described {
        out.push(code::DESCRIBED);
        descriptor.encode(out);
    }
    let code = values.iter().map(|value| element_code(inner(value))).max().unwrap_or(code::NULL);
    out.push(code);
    values.iter().for_each(|value| encode_element(inner(value), code, out));
    end_compound(out, Compound::Array, start, values.len() as u32);
}

/// What stands behind the descriptor, if there is one.
fn inner(value: &Value) -> &Value {
    match value {
        Value::Described(parts) => &parts.1,
        value => value,
    }
}

/// The smallest format code with which `value` may stand in an array. Wider codes of one type are
/// greater.
fn element_code(value: &Value) -> u8 {
    let of_length = |length: usize, narrow, wide| if length <= 255 { narrow } else { wide };
    match value {
        Value::Bool(_) => code::BOOLEAN,
        Value::U32(n) => of_length(*n as usize, code::UINT_8, code::UINT),
        Value::U64(n) if *n <= 255 => code::ULONG_8,
        Value::U64(_) => code::ULONG,
        Value::I32(n) if i8::try_from(*n).is_ok() => code::INT_8,
        Value::I32(_) => code::INT,
        Value::I64(n) if i8::try_from(*n).is_ok() => code::LONG_8,
        Value::I64(_) => code::LONG,
        Value::Binary(bytes) => of_length(bytes.len(), code::BINARY_8, code::BINARY_32),
        Value::Str(text) => of_length(text.len(), code::STRING_8, code::STRING_32),
        Value::Symbol(symbol) => of_length(symbol.len(), code::SYMBOL_8, code::SYMBOL_32),
        Value::List(_) => code::LIST_32,
        Value::Map(_) => code::MAP_32,
        Value::Array(_) => code::ARRAY_32,
        // The others have one encoding each.
        other => other.to_bytes()[0],
    }
}

/// Writes `value` without its constructor, as `code` wants it.
fn encode_element(value: &Value, code: u8, out: &mut Vec<u8>) {
    match (code, value) {
        (code::BOOLEAN, Value::Bool(value)) => out.push((*value).into()),
        (code::UINT_8, Value::U32(n)) => out.push(*n as u8),
        (code::UINT, Value::U32(n)) => out.extend_from_slice(&n.to_be_bytes()),
        (code::ULONG_8, Value::U64(n)) => out.push(*n as u8),
        (code::ULONG, Value::U64(n)) => out.extend_from_slice(&n.to_be_bytes()),
        (code::INT_8, Value::I32(n)) => out.push(*n as u8),
        (code::INT, Value::I32(n)) => out.extend_from_slice(&n.to_be_bytes()),
        (code::LONG_8, Value::I64(n)) => out.push(*n as u8),
        (code::LONG, Value::I64(n)) => out.extend_from_slice(&n.to_be_bytes()),
        (code::BINARY_32 | code::STRING_32 | code::SYMBOL_32, _) => {
            let bytes = variable_bytes(value);
            out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
            out.extend_from_slice(&bytes);
        }
        (code::LIST_32 | code::MAP_32 | code::ARRAY_32, _) => {
            let bytes = value.to_bytes();
            let (count, elements) = compound_parts(&bytes);
            out.extend_from_slice(&(elements.len() as u32 + 4).to_be_bytes());
            out.extend_from_slice(&count.to_be_bytes());
            out.extend_from_slice(elements);
        }
        // The only encoding, or the narrow one: what follows its constructor.
        _ => out.extend_from_slice(&value.to_bytes()[1..]),
    }
}

/// The bytes of a binary, a string or a symbol.
fn variable_bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::Binary(bytes) => bytes.clone(),
        Value::Str(text) => text.clone().into_bytes(),
        Value::Symbol(symbol) => ascii(symbol).into_owned().into_bytes(),
        _ => Vec::new(),
    }
}

/// The symbol, with `?` for what no symbol may have.
fn ascii(symbol: &str) -> Cow<'_, str> {
    if symbol.is_ascii() {
        return Cow::Borrowed(symbol);
    }
    Cow::Owned(symbol.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect())
}

/// Count and elements of an encoded list, map or array.
fn compound_parts(bytes: &[u8]) -> (u32, &[u8]) {
    let mut reader = wire::Reader::new(bytes);
    match shallow(&mut reader) {
        Ok(ValueRef::List(list)) => (list.len(), list.as_bytes()),
        Ok(ValueRef::Map(map)) => (map.len() * 2, map.as_bytes()),
        Ok(ValueRef::Array(array)) => (array.len(), array.as_bytes()),
        _ => (0, &[]),
    }
}
