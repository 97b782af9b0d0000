//! Values as text, for logs, traces and tests. Types that differ look different.

use std::fmt::{Debug, Display, Formatter, Result, Write};

use super::{Map, ValueRef};

impl Display for ValueRef<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::U8(value) => write!(f, "ubyte({value})"),
            Self::U16(value) => write!(f, "ushort({value})"),
            Self::U32(value) => write!(f, "uint({value})"),
            Self::U64(value) => write!(f, "ulong({value})"),
            Self::I8(value) => write!(f, "byte({value})"),
            Self::I16(value) => write!(f, "short({value})"),
            Self::I32(value) => write!(f, "int({value})"),
            Self::I64(value) => write!(f, "long({value})"),
            Self::F32(value) => write!(f, "float({value:?})"),
            Self::F64(value) => write!(f, "double({value:?})"),
            Self::Decimal32(bits) => bytes(f, "decimal32", bits),
            Self::Decimal64(bits) => bytes(f, "decimal64", bits),
            Self::Decimal128(bits) => bytes(f, "decimal128", bits),
            Self::Char(value) => write!(f, "char(U+{value:04X})"),
            Self::Timestamp(value) => write!(f, "timestamp({value})"),
            Self::Uuid(bits) => bytes(f, "uuid", bits),
            Self::Binary(bits) => bytes(f, "binary", bits),
            Self::Str(text) => write!(f, "{text:?}"),
            Self::Symbol(symbol) => write!(f, ":{symbol:?}"),
            Self::List(list) => sequence(f, "[", list.iter()),
            Self::Array(array) => sequence(f, "array[", array.iter()),
            Self::Map(map) => {
                f.write_char('{')?;
                for (at, (key, value)) in map.iter().enumerate() {
                    write!(f, "{}{key}: {value}", if at == 0 { "" } else { ", " })?;
                }
                f.write_char('}')
            }
            Self::Described(described) => write!(f, "@{} {}", described.descriptor(), described.value()),
        }
    }
}

impl Debug for Map<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        Display::fmt(&ValueRef::Map(*self), f)
    }
}

fn bytes(f: &mut Formatter<'_>, name: &str, bytes: &[u8]) -> Result {
    write!(f, "{name}(")?;
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
    f.write_char(')')
}

fn sequence<'a>(f: &mut Formatter<'_>, open: &str, values: impl Iterator<Item = ValueRef<'a>>) -> Result {
    f.write_str(open)?;
    for (at, value) in values.enumerate() {
        write!(f, "{}{value}", if at == 0 { "" } else { ", " })?;
    }
    f.write_char(']')
}
