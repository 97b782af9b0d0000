//! The field types that all protocols can express: header values, declaration arguments.
//!
//! A [`Table`] keeps its fields in their original order. The decoders that build it bound the
//! nesting.

mod ieee;

/// One field.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// True or false.
    Bool(bool),
    /// Signed 8-bit integer.
    I8(i8),
    /// Unsigned 8-bit integer.
    U8(u8),
    /// Signed 16-bit integer.
    I16(i16),
    /// Unsigned 16-bit integer.
    U16(u16),
    /// Signed 32-bit integer.
    I32(i32),
    /// Unsigned 32-bit integer.
    U32(u32),
    /// Signed 64-bit integer.
    I64(i64),
    /// 32-bit floating point.
    F32(f32),
    /// 64-bit floating point.
    F64(f64),
    /// `value` divided by ten to the power of `scale`.
    Decimal {
        /// Decimal places.
        scale: u8,
        /// Unscaled number.
        value: u32,
    },
    /// Text.
    Text(String),
    /// Bytes without a known meaning, and text that is not valid UTF-8.
    Bytes(Vec<u8>),
    /// Milliseconds since 1970-01-01T00:00:00Z.
    Timestamp(i64),
    /// Unsigned 64-bit integer.
    U64(u64),
    /// A UUID, its first byte first.
    Uuid([u8; 16]),
    /// A name from a closed set, as AMQP 1.0's symbols.
    Symbol(String),
    /// One character.
    Char(char),
    /// A decimal number of IEEE 754 with 32 bits, as AMQP 1.0 writes it.
    Decimal32([u8; 4]),
    /// The same with 64 bits.
    Decimal64([u8; 8]),
    /// The same with 128 bits.
    Decimal128([u8; 16]),
    /// A list.
    Array(Vec<Value>),
    /// Named fields.
    Table(Table),
}

impl Value {
    /// The number, if this is an integer of any width.
    pub fn as_integer(&self) -> Option<i64> {
        match *self {
            Self::I8(n) => Some(n.into()),
            Self::U8(n) => Some(n.into()),
            Self::I16(n) => Some(n.into()),
            Self::U16(n) => Some(n.into()),
            Self::I32(n) => Some(n.into()),
            Self::U32(n) => Some(n.into()),
            Self::I64(n) => Some(n),
            Self::U64(n) => i64::try_from(n).ok(),
            _ => None,
        }
    }

    /// For a type that AMQP 0-9-1 lacks, the nearest value of one that it has: a signed integer or
    /// its digits, its decimal or text. Every protocol without the type shows that.
    pub fn nearest(&self) -> Option<Self> {
        Some(match self {
            Self::U64(n) => i64::try_from(*n).map_or_else(|_| Self::Text(n.to_string()), Self::I64),
            Self::Uuid(bytes) => Self::Text(uuid_text("urn:uuid:", *bytes)),
            Self::Symbol(text) => Self::Text(text.clone()),
            Self::Char(char) => Self::Text(char.to_string()),
            Self::Decimal32(bytes) => ieee::nearest(bytes),
            Self::Decimal64(bytes) => ieee::nearest(bytes),
            Self::Decimal128(bytes) => ieee::nearest(bytes),
            _ => return None,
        })
    }

    /// The name of its type in errors, which is RabbitMQ's.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "void",
            Self::Bool(_) => "bool",
            Self::I8(_) => "byte",
            Self::U8(_) => "unsignedbyte",
            Self::I16(_) => "short",
            Self::U16(_) => "unsignedshort",
            Self::I32(_) => "signedint",
            Self::U32(_) => "unsignedint",
            Self::I64(_) => "long",
            Self::F32(_) => "float",
            Self::F64(_) => "double",
            Self::Decimal { .. } => "decimal",
            Self::Text(_) => "longstr",
            Self::Bytes(_) => "binary",
            Self::Timestamp(_) => "timestamp",
            Self::U64(_) => "unsignedlong",
            Self::Uuid(_) => "uuid",
            Self::Symbol(_) => "symbol",
            Self::Char(_) => "char",
            Self::Decimal32(_) => "decimal32",
            Self::Decimal64(_) => "decimal64",
            Self::Decimal128(_) => "decimal128",
            Self::Array(_) => "array",
            Self::Table(_) => "table",
        }
    }

    /// The text, if this is text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Value {
    /// Bytes of memory besides its own.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Symbol(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Array(values) => values.iter().map(|value| size_of::<Self>() + value.heap_bytes()).sum(),
            Self::Table(table) => table.heap_bytes(),
            _ => 0,
        }
    }
}

/// Seconds since 1970 in milliseconds.
pub fn ms_of_seconds(seconds: u64) -> i64 {
    i64::try_from(seconds).map_or(i64::MAX, |seconds| seconds.saturating_mul(1000))
}

/// Milliseconds since 1970 in whole seconds. Protocols that count seconds have none before 1970.
pub fn seconds_of_ms(milliseconds: i64) -> u64 {
    u64::try_from(milliseconds).unwrap_or(0) / 1000
}

/// A decimal as text.
pub fn decimal_text(scale: u8, value: u32) -> String {
    let scale = usize::from(scale);
    let mut digits = format!("{value:0>width$}", width = scale + 1);
    if scale > 0 {
        digits.insert(digits.len() - scale, '.');
    }
    digits
}

/// A UUID as text (RFC 9562), behind `prefix`.
pub(crate) fn uuid_text(prefix: &str, bytes: [u8; 16]) -> String {
    let mut text = prefix.to_owned();
    for (at, byte) in bytes.iter().enumerate() {
        let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
        text.push_str(&format!("{dash}{byte:02x}"));
    }
    text
}

/// Named fields, in their original order. Names may repeat; the first one counts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table(pub Vec<(String, Value)>);

impl Table {
    /// The first field of this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Replaces all fields of this name, or appends one.
    pub fn set(&mut self, name: &str, value: Value) {
        self.0.retain(|(key, _)| key != name);
        self.0.push((name.to_owned(), value));
    }

    /// Bytes of memory of its fields. Short names count as the blocks of the heap that they take.
    pub(crate) fn heap_bytes(&self) -> usize {
        let one =
            |(name, value): &(String, Value)| size_of::<(String, Value)>() + block(name.len()) + value.heap_bytes();
        self.0.iter().map(one).sum()
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True without fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Bytes of the heap that a name of so many bytes takes. The smallest block has 32.
fn block(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { (bytes + size_of::<usize>()).next_multiple_of(16).max(32) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_some_protocols_have_is_near_to_what_all_have() {
        let text = |text: &str| Some(Value::Text(text.to_owned()));
        let uuid = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0, 1, 2, 3, 4, 5, 6, 0xff];
        for (value, expected) in [
            (Value::U64(7), Some(Value::I64(7))),
            (Value::U64(u64::MAX), text("18446744073709551615")),
            (Value::Uuid(uuid), text("urn:uuid:01234567-89ab-cdef-0001-0203040506ff")),
            (Value::Symbol("queue".to_owned()), text("queue")),
            (Value::Char('\u{e9}'), text("\u{e9}")),
            (Value::Decimal64([0x31, 0x80, 0, 0, 0, 0, 0x02, 0xee]), Some(Value::Decimal { scale: 2, value: 750 })),
            (Value::Decimal32([0x7c, 0, 0, 0]), text("NaN")),
            (Value::I8(1), None),
            (Value::Null, None),
        ] {
            assert_eq!(value.nearest(), expected, "{value:?}");
        }
    }

    #[test]
    fn decimals_and_times_as_protocols_show_them() {
        let decimals = [(0, 0), (0, 12), (2, 1250), (2, 5), (5, 1)].map(|(scale, value)| decimal_text(scale, value));
        assert_eq!(decimals, ["0", "12", "12.50", "0.05", "0.00001"]);
        let times = [0, 1, u64::MAX / 1000, u64::MAX].map(ms_of_seconds);
        assert_eq!(times, [0, 1000, i64::MAX, i64::MAX]);
        assert_eq!([-1, 0, 999, 1000, i64::MAX].map(seconds_of_ms), [0, 0, 0, 1, 9_223_372_036_854_775]);
    }
}
