//! Values of this protocol and the broker's, in both directions, and as selectors see them.

use broker::{Selected, Table, seconds_of_ms};

use crate::codec::{Elements, Map, Value, ValueRef};

/// The value in the broker's types. A description is lost; keys of maps become texts.
pub(super) fn to_neutral(value: ValueRef<'_>) -> broker::Value {
    match value {
        ValueRef::Null => broker::Value::Null,
        ValueRef::Bool(v) => broker::Value::Bool(v),
        ValueRef::U8(v) => broker::Value::U8(v),
        ValueRef::U16(v) => broker::Value::U16(v),
        ValueRef::U32(v) => broker::Value::U32(v),
        ValueRef::U64(v) => broker::Value::U64(v),
        ValueRef::I8(v) => broker::Value::I8(v),
        ValueRef::I16(v) => broker::Value::I16(v),
        ValueRef::I32(v) => broker::Value::I32(v),
        ValueRef::I64(v) => broker::Value::I64(v),
        ValueRef::F32(v) => broker::Value::F32(v),
        ValueRef::F64(v) => broker::Value::F64(v),
        ValueRef::Decimal32(bits) => broker::Value::Decimal32(bits),
        ValueRef::Decimal64(bits) => broker::Value::Decimal64(bits),
        ValueRef::Decimal128(bits) => broker::Value::Decimal128(bits),
        // Half of a surrogate pair is no character.
        ValueRef::Char(v) => broker::Value::Char(char::from_u32(v).unwrap_or(char::REPLACEMENT_CHARACTER)),
        ValueRef::Timestamp(v) => broker::Value::Timestamp(v),
        ValueRef::Uuid(bits) => broker::Value::Uuid(bits),
        ValueRef::Binary(bytes) => broker::Value::Bytes(bytes.to_vec()),
        ValueRef::Str(text) => broker::Value::Text(text.to_owned()),
        ValueRef::Symbol(symbol) => broker::Value::Symbol(symbol.to_owned()),
        ValueRef::List(list) => broker::Value::Array(list.iter().map(to_neutral).collect()),
        ValueRef::Array(array) => broker::Value::Array(array.iter().map(to_neutral).collect()),
        ValueRef::Map(map) => {
            let key = |key: ValueRef<'_>| key.as_text().map_or_else(|| key.to_string(), str::to_owned);
            broker::Value::Table(Table(map.iter().map(|(name, value)| (key(name), to_neutral(value))).collect()))
        }
        ValueRef::Described(described) => to_neutral(described.value()),
    }
}

/// A map in the broker's types.
pub(crate) fn to_table(map: Map<'_>) -> Table {
    match to_neutral(ValueRef::Map(map)) {
        broker::Value::Table(table) => table,
        _ => Table::default(),
    }
}

/// The broker's value in this protocol's types.
pub(crate) fn from_neutral(value: &broker::Value) -> Value {
    match value {
        broker::Value::Null => Value::Null,
        broker::Value::Bool(v) => Value::Bool(*v),
        broker::Value::I8(v) => Value::I8(*v),
        broker::Value::U8(v) => Value::U8(*v),
        broker::Value::I16(v) => Value::I16(*v),
        broker::Value::U16(v) => Value::U16(*v),
        broker::Value::I32(v) => Value::I32(*v),
        broker::Value::U32(v) => Value::U32(*v),
        broker::Value::I64(v) => Value::I64(*v),
        broker::Value::F32(v) => Value::F32(*v),
        broker::Value::F64(v) => Value::F64(*v),
        broker::Value::Decimal { scale, value } => Value::Decimal64(decimal64(*scale, *value)),
        broker::Value::Text(text) => Value::Str(text.clone()),
        broker::Value::Bytes(bytes) => Value::Binary(bytes.clone()),
        broker::Value::Timestamp(v) => Value::Timestamp(*v),
        broker::Value::U64(v) => Value::U64(*v),
        broker::Value::Uuid(bits) => Value::Uuid(*bits),
        broker::Value::Symbol(symbol) => Value::Symbol(symbol.clone()),
        broker::Value::Char(v) => Value::Char((*v).into()),
        broker::Value::Decimal32(bits) => Value::Decimal32(*bits),
        broker::Value::Decimal64(bits) => Value::Decimal64(*bits),
        broker::Value::Decimal128(bits) => Value::Decimal128(*bits),
        broker::Value::Array(values) => {
            let values: Vec<Value> = values.iter().map(from_neutral).collect();
            match Elements::new(values.clone()) {
                Some(elements) if !values.is_empty() => Value::Array(elements),
                _ => Value::List(values),
            }
        }
        broker::Value::Table(table) => {
            Value::Map(table.0.iter().map(|(name, value)| (Value::Str(name.clone()), from_neutral(value))).collect())
        }
    }
}

/// The bias of the exponent of a decimal64 (IEEE 754-2008, §3.5.2).
const EXPONENT_BIAS: u64 = 398;

/// `value` divided by ten to the power of `scale`. Every value fits: the exponent may be much
/// smaller, and the coefficient may have 53 bits.
fn decimal64(scale: u8, value: u32) -> [u8; 8] {
    ((EXPONENT_BIAS - u64::from(scale)) << 53 | u64::from(value)).to_be_bytes()
}

/// A value as selectors see it: numbers, booleans and texts. Other types are unknown to them.
pub(super) fn select(value: ValueRef<'_>) -> Selected<'_> {
    match value {
        ValueRef::Bool(truth) => Selected::Bool(truth),
        ValueRef::F32(number) => Selected::Float(number.into()),
        ValueRef::F64(number) => Selected::Float(number),
        ValueRef::Str(text) | ValueRef::Symbol(text) => Selected::Text(text.into()),
        ValueRef::Timestamp(time) => Selected::Int(seconds_of_ms(time) as i64),
        ValueRef::Null | ValueRef::Binary(_) | ValueRef::List(_) | ValueRef::Map(_) | ValueRef::Array(_) => {
            Selected::Null
        }
        ValueRef::Described(described) => select(described.value()),
        other => match other.as_integer().map(i64::try_from) {
            Some(Ok(number)) => Selected::Int(number),
            _ => select_nearest(&to_neutral(other)),
        },
    }
}

/// One of the types that AMQP 0-9-1 lacks, as all protocols without it show it.
fn select_nearest(value: &broker::Value) -> Selected<'static> {
    let decimal = !matches!(value, broker::Value::Uuid(_) | broker::Value::Char(_) | broker::Value::U64(_));
    match value.nearest() {
        Some(broker::Value::Text(text)) if decimal => {
            text.parse().ok().filter(|number: &f64| number.is_finite()).map_or(Selected::Null, Selected::Float)
        }
        Some(broker::Value::Text(text)) => Selected::Text(text.into()),
        Some(broker::Value::I64(number)) => Selected::Int(number),
        Some(broker::Value::Decimal { scale, value }) => Selected::Float(f64::from(value) / 10f64.powi(scale.into())),
        _ => Selected::Null,
    }
}
