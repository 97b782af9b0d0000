//! Composite types (part 1, §1.4): a described list whose fields have names, types and defaults.
//!
//! Fields at the end may be missing, and a null is a missing field. More fields than the type has
//! are an error.

use wire::{DecodeError, Reader};

use crate::codec::descriptor::read_descriptor;
use crate::codec::encode::{Compound, Encode, Symbol, Timestamp, begin_compound, end_compound};
use crate::codec::format as code;
use crate::codec::value::{Budget, Map, ValueRef, read_value};

/// Why a composite value could not be read, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldError {
    /// The type, as the specification calls it; empty outside of types.
    pub composite: &'static str,
    /// The field, with underscores; empty if no field is to blame.
    pub field: &'static str,
    /// What is wrong with it.
    pub error: DecodeError,
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { composite, field, error } = self;
        match (composite.is_empty(), field.is_empty()) {
            (true, _) => write!(f, "{error}"),
            (false, true) => write!(f, "{composite}: {error}"),
            (false, false) => write!(f, "{composite}, {}: {error}", field.replace('_', "-")),
        }
    }
}

impl std::error::Error for FieldError {}

impl From<DecodeError> for FieldError {
    fn from(error: DecodeError) -> Self {
        Self { composite: "", field: "", error }
    }
}

impl FieldError {
    /// The error with a place, unless a type inside has given it one.
    fn within(self, composite: &'static str, field: &'static str) -> Self {
        if self.composite.is_empty() { Self { composite, field, ..self } } else { self }
    }
}

/// Reads fields in order.
pub(crate) struct FieldReader<'a, 'b> {
    reader: Reader<'a>,
    left: u32,
    budget: &'b mut Budget,
}

impl<'a, 'b> FieldReader<'a, 'b> {
    /// Reads the head of the list at the front of `reader`, which stands behind the list then.
    #[inline]
    fn open(reader: &mut Reader<'a>, budget: &'b mut Budget) -> Result<Self, DecodeError> {
        let (left, fields) = match reader.u8()? {
            code::LIST_0 => (0, Reader::new(&[])),
            code::LIST_8 => {
                let mut list = Reader::new(reader.short_bytes()?);
                (list.u8()?.into(), list)
            }
            code::LIST_32 => {
                let mut list = Reader::new(reader.long_bytes()?);
                (list.u32()?, list)
            }
            _ => return Err(DecodeError::Malformed("a described type is no list")),
        };
        Ok(Self { reader: fields, left, budget })
    }

    /// The next field, if it is there and no null.
    #[inline]
    pub(crate) fn next<T: Field<'a>>(
        &mut self,
        composite: &'static str,
        field: &'static str,
    ) -> Result<Option<T>, FieldError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        if self.reader.rest().first() == Some(&code::NULL) {
            self.reader.bytes(1)?;
            return Ok(None);
        }
        T::read(&mut self.reader, self.budget).map(Some).map_err(|error| error.within(composite, field))
    }

    #[inline]
    fn close(self) -> Result<(), DecodeError> {
        match (self.left, self.reader.is_empty()) {
            (0, true) => Ok(()),
            (0, false) => Err(DecodeError::Malformed("bytes follow the last element")),
            _ => Err(DecodeError::Malformed("there are more fields than the type has")),
        }
    }
}

/// Writes fields in order; those that are missing at the end take no bytes.
pub(crate) struct FieldWriter<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    count: u32,
    /// Where the last field that is there ends, and its number.
    end: (usize, u32),
}

impl<'o> FieldWriter<'o> {
    #[inline]
    fn open(out: &'o mut Vec<u8>) -> Self {
        let start = begin_compound(out);
        let end = (out.len(), 0);
        Self { out, start, count: 0, end }
    }

    /// Writes a field.
    #[inline]
    pub(crate) fn put<'a>(&mut self, field: &impl Field<'a>) {
        field.write(self.out);
        self.count += 1;
        self.end = (self.out.len(), self.count);
    }

    /// Leaves a field out.
    #[inline]
    pub(crate) fn skip(&mut self) {
        self.out.push(code::NULL);
        self.count += 1;
    }

    /// Writes a field unless it has the value that a missing one has.
    #[inline]
    pub(crate) fn put_unless<'a, T: Field<'a> + PartialEq>(&mut self, field: &T, default: &T) {
        if field == default { self.skip() } else { self.put(field) }
    }

    #[inline]
    fn close(self) {
        self.out.truncate(self.end.0);
        end_compound(self.out, Compound::List, self.start, self.end.1);
    }
}

/// A type that a field can have.
pub(crate) trait Field<'a>: Sized {
    /// Reads a field that is no null.
    fn read(reader: &mut Reader<'a>, budget: &mut Budget) -> Result<Self, FieldError>;
    /// Appends it.
    fn write(&self, out: &mut Vec<u8>);
}

/// How a field stands in its type: as it is, it must be there; as an option, it may be missing.
pub(crate) trait Slot<'a>: Sized {
    fn take(fields: &mut FieldReader<'a, '_>, composite: &'static str, field: &'static str)
    -> Result<Self, FieldError>;
    fn give(&self, fields: &mut FieldWriter<'_>);
}

impl<'a, T: Field<'a>> Slot<'a> for T {
    #[inline]
    fn take(
        fields: &mut FieldReader<'a, '_>,
        composite: &'static str,
        field: &'static str,
    ) -> Result<Self, FieldError> {
        let error = DecodeError::Malformed("a mandatory field is missing");
        fields.next(composite, field)?.ok_or(FieldError { composite, field, error })
    }

    #[inline]
    fn give(&self, fields: &mut FieldWriter<'_>) {
        fields.put(self);
    }
}

impl<'a, T: Field<'a>> Slot<'a> for Option<T> {
    #[inline]
    fn take(
        fields: &mut FieldReader<'a, '_>,
        composite: &'static str,
        field: &'static str,
    ) -> Result<Self, FieldError> {
        fields.next(composite, field)
    }

    #[inline]
    fn give(&self, fields: &mut FieldWriter<'_>) {
        match self {
            Some(field) => fields.put(field),
            None => fields.skip(),
        }
    }
}

/// A composite type.
pub(crate) trait Composite<'a>: Default {
    const CODE: u64;
    const NAME: &'static str;
    fn read_fields(fields: &mut FieldReader<'a, '_>) -> Result<Self, FieldError>;
    fn write_fields(&self, fields: &mut FieldWriter<'_>);
}

/// Reads the list of the fields, behind the descriptor.
#[inline]
pub(crate) fn read_list<'a, T: Composite<'a>>(reader: &mut Reader<'a>, budget: &mut Budget) -> Result<T, FieldError> {
    let mut value = None;
    read_list_into(&mut value, reader, budget)?;
    Ok(value.unwrap_or_default())
}

/// The same, right into its place: what is returned is copied once more.
#[inline]
pub(crate) fn read_list_into<'a, T: Composite<'a>>(
    place: &mut Option<T>,
    reader: &mut Reader<'a>,
    budget: &mut Budget,
) -> Result<(), FieldError> {
    let outside = |error: DecodeError| FieldError::from(error).within(T::NAME, "");
    let mut fields = FieldReader::open(reader, budget).map_err(outside)?;
    *place = Some(T::read_fields(&mut fields)?);
    fields.close().map_err(outside)
}

/// Appends descriptor and list.
#[inline]
pub(crate) fn write_composite<'a, T: Composite<'a>>(value: &T, out: &mut Vec<u8>) {
    out.push(code::DESCRIBED);
    T::CODE.encode(out);
    let mut fields = FieldWriter::open(out);
    value.write_fields(&mut fields);
    fields.close();
}

/// A composite type as a field: its descriptor must be there, and be its own.
impl<'a, T: Composite<'a>> Field<'a> for T {
    fn read(reader: &mut Reader<'a>, budget: &mut Budget) -> Result<Self, FieldError> {
        if read_descriptor(reader)? != T::CODE {
            return Err(DecodeError::Malformed("a field is of another type").into());
        }
        read_list(reader, budget)
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_composite(self, out);
    }
}

/// Turns a list of composite types into structures with their defaults, readers and writers. It is
/// a macro because each entry of the list becomes a type of its own.
macro_rules! composites {
    ($( $(#[$doc:meta])* $code:literal $wire:literal $name:ident $(<$life:lifetime>)? {
        $($field:ident : $kind:ty $(= $default:expr)?),* $(,)?
    } )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, PartialEq)]
            #[allow(missing_docs, reason = "the fields are those of the specification, by its names")]
            pub struct $name $(<$life>)? { $(pub $field: $kind),* }

            /// What is read where all fields are missing. Mandatory ones are empty.
            impl $(<$life>)? Default for $name $(<$life>)? {
                fn default() -> Self {
                    Self { $($field: composites!(@default $($default)?)),* }
                }
            }

            /// Shows the fields that are not as they are where all are missing.
            impl $(<$life>)? std::fmt::Debug for $name $(<$life>)? {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    let _missing = Self::default();
                    let mut shown = f.debug_struct(stringify!($name));
                    $(if self.$field != _missing.$field {
                        shown.field(stringify!($field), &self.$field);
                    })*
                    shown.finish()
                }
            }

            impl<'a> $crate::codec::composite::Composite<'a> for $name $(<$life>)? {
                const CODE: u64 = $code;
                const NAME: &'static str = $wire;

                #[inline]
                fn read_fields(
                    _fields: &mut $crate::codec::composite::FieldReader<'a, '_>,
                ) -> Result<Self, $crate::codec::composite::FieldError> {
                    Ok(Self { $($field: composites!(@take _fields, $wire, $field $(, $default)?)),* })
                }

                #[inline]
                fn write_fields(&self, _fields: &mut $crate::codec::composite::FieldWriter<'_>) {
                    $(composites!(@give _fields, self.$field $(, $default)?);)*
                }
            }

            impl $(<$life>)? $crate::codec::encode::Encode for $name $(<$life>)? {
                #[inline]
                fn encode(&self, out: &mut Vec<u8>) {
                    $crate::codec::composite::write_composite(self, out);
                }
            }
        )*
    };
    (@default) => { Default::default() };
    (@default $default:expr) => { $default };
    (@take $fields:ident, $wire:literal, $field:ident) => {
        $crate::codec::composite::Slot::take($fields, $wire, stringify!($field))?
    };
    (@take $fields:ident, $wire:literal, $field:ident, $default:expr) => {
        $fields.next($wire, stringify!($field))?.unwrap_or($default)
    };
    (@give $fields:ident, $value:expr) => { $crate::codec::composite::Slot::give(&$value, $fields) };
    (@give $fields:ident, $value:expr, $default:expr) => { $fields.put_unless(&$value, &$default) };
}

pub(crate) use composites;

/// The value of a field of a type with few values.
pub(crate) fn one_of<W: PartialEq, T: Copy>(
    found: W,
    values: &[(W, T)],
    otherwise: &'static str,
) -> Result<T, FieldError> {
    let value = values.iter().find(|(wire, _)| *wire == found).map(|(_, value)| *value);
    value.ok_or(DecodeError::Malformed(otherwise).into())
}

impl Field<'_> for bool {
    #[inline]
    fn read(reader: &mut Reader<'_>, _: &mut Budget) -> Result<Self, FieldError> {
        match reader.u8()? {
            code::TRUE => Ok(true),
            code::FALSE => Ok(false),
            code::BOOLEAN => one_of(reader.u8()?, &[(0, false), (1, true)], "a boolean is neither 0 nor 1"),
            _ => Err(DecodeError::Malformed("a field is no boolean").into()),
        }
    }

    #[inline]
    fn write(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
}

impl Field<'_> for u8 {
    #[inline]
    fn read(reader: &mut Reader<'_>, _: &mut Budget) -> Result<Self, FieldError> {
        match reader.u8()? {
            code::UBYTE => Ok(reader.u8()?),
            _ => Err(DecodeError::Malformed("a field is no ubyte").into()),
        }
    }

    #[inline]
    fn write(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
}

impl Field<'_> for u16 {
    #[inline]
    fn read(reader: &mut Reader<'_>, _: &mut Budget) -> Result<Self, FieldError> {
        match reader.u8()? {
            code::USHORT => Ok(reader.u16()?),
            _ => Err(DecodeError::Malformed("a field is no ushort").into()),
        }
    }

    #[inline]
    fn write(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
}

impl Field<'_> for u32 {
    #[inline]
    fn read(reader: &mut Reader<'_>, _: &mut Budget) -> Result<Self, FieldError> {
        match reader.u8()? {
            code::UINT_8 => Ok(reader.u8()?.into()),
            code::UINT_0 => Ok(0),
            code::UINT => Ok(reader.u32()?),
            _ => Err(DecodeError::Malformed("a field is no uint").into()),
        }
    }

    #[inline]
    fn write(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
}

impl Field<'_> for u64 {
    #[inline]
    fn read(reader: &mut Reader<'_>, _: &mut Budget) -> Result<Self, FieldError> {
        match reader.u8()? {
            code::ULONG_8 => Ok(reader.u8()?.into()),
            code::ULONG_0 => Ok(0),
            code::ULONG => Ok(reader.u64()?),
            _ => Err(DecodeError::Malformed("a field is no ulong").into()),
        }
    }

    #[inline]
    fn write(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
}

impl Field<'_> for Timestamp {
    fn read(reader: &mut Reader<'_>, _: &mut Budget) -> Result<Self, FieldError> {
        match reader.u8()? {
            code::TIMESTAMP => Ok(Self(reader.u64()? as i64)),
            _ => Err(DecodeError::Malformed("a field is no timestamp").into()),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
}

impl<'a> Field<'a> for &'a [u8] {
    #[inline]
    fn read(reader: &mut Reader<'a>, _: &mut Budget) -> Result<Self, FieldError> {
        match reader.u8()? {
            code::BINARY_8 => Ok(reader.short_bytes()?),
            code::BINARY_32 => Ok(reader.long_bytes()?),
            _ => Err(DecodeError::Malformed("a field is no binary").into()),
        }
    }

    #[inline]
    fn write(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
}

impl<'a> Field<'a> for &'a str {
    fn read(reader: &mut Reader<'a>, budget: &mut Budget) -> Result<Self, FieldError> {
        match read_value(reader, budget)? {
            ValueRef::Str(text) => Ok(text),
            _ => Err(DecodeError::Malformed("a field is no string").into()),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
}

impl<'a> Field<'a> for Symbol<'a> {
    fn read(reader: &mut Reader<'a>, budget: &mut Budget) -> Result<Self, FieldError> {
        match read_value(reader, budget)? {
            ValueRef::Symbol(symbol) => Ok(Self(symbol)),
            _ => Err(DecodeError::Malformed("a field is no symbol").into()),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
}

impl<'a> Field<'a> for Map<'a> {
    fn read(reader: &mut Reader<'a>, budget: &mut Budget) -> Result<Self, FieldError> {
        match read_value(reader, budget)? {
            ValueRef::Map(map) => Ok(map),
            _ => Err(DecodeError::Malformed("a field is no map").into()),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        ValueRef::Map(*self).encode(out);
    }
}
