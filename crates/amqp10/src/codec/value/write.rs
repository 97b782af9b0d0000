//! Writing borrowed values. Lists, maps and arrays are copied: their elements stay as they are.

use super::{Described, ValueRef};
use crate::codec::encode::{Compound, Encode, Symbol, Timestamp, put, put_compound};
use crate::codec::format as code;

impl Encode for ValueRef<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.push(code::NULL),
            Self::Bool(value) => value.encode(out),
            Self::U8(value) => value.encode(out),
            Self::U16(value) => value.encode(out),
            Self::U32(value) => value.encode(out),
            Self::U64(value) => value.encode(out),
            Self::I8(value) => put(out, code::BYTE, value.to_be_bytes()),
            Self::I16(value) => put(out, code::SHORT, value.to_be_bytes()),
            Self::I32(value) => value.encode(out),
            Self::I64(value) => value.encode(out),
            Self::F32(value) => put(out, code::FLOAT, value.to_be_bytes()),
            Self::F64(value) => put(out, code::DOUBLE, value.to_be_bytes()),
            Self::Decimal32(bits) => put(out, code::DECIMAL_32, *bits),
            Self::Decimal64(bits) => put(out, code::DECIMAL_64, *bits),
            Self::Decimal128(bits) => put(out, code::DECIMAL_128, *bits),
            Self::Char(value) => put(out, code::CHAR, value.to_be_bytes()),
            Self::Timestamp(value) => Timestamp(*value).encode(out),
            Self::Uuid(bits) => put(out, code::UUID, *bits),
            Self::Binary(bytes) => bytes.encode(out),
            Self::Str(text) => text.encode(out),
            Self::Symbol(symbol) => Symbol(symbol).encode(out),
            Self::List(list) => put_compound(out, Compound::List, list.len(), list.as_bytes()),
            Self::Map(map) => put_compound(out, Compound::Map, map.len() * 2, map.as_bytes()),
            Self::Array(array) => put_compound(out, Compound::Array, array.len(), array.as_bytes()),
            Self::Described(described) => put_described(out, described),
        }
    }
}

fn put_described(out: &mut Vec<u8>, described: &Described<'_>) {
    out.push(code::DESCRIBED);
    described.descriptor().encode(out);
    described.value().encode(out);
}
