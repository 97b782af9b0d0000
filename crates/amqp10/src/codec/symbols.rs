//! A field that may hold several symbols (part 1, §1.4, `multiple`): one symbol, an array of them,
//! or nothing, which all are the same to a reader.

use wire::{DecodeError, Reader};

use crate::codec::composite::{Field, FieldError};
use crate::codec::encode::{Compound, Encode, Symbol, begin_compound, end_compound};
use crate::codec::format as code;
use crate::codec::value::{Array, Budget, Items, ValueRef, read_value};

/// Symbols of one field: capabilities, outcomes, locales, mechanisms.
#[derive(Clone, Copy)]
pub struct Symbols<'a>(Form<'a>);

#[derive(Clone, Copy)]
enum Form<'a> {
    One(&'a str),
    Read(Array<'a>),
    Slice(&'a [&'a str]),
}

impl<'a> Symbols<'a> {
    /// No symbol.
    pub const NONE: Self = Self(Form::Slice(&[]));

    /// These symbols, to be written.
    pub const fn of(symbols: &'a [&'a str]) -> Self {
        Self(Form::Slice(symbols))
    }

    /// The symbols in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let (slice, items): (&[&str], Option<Items<'_>>) = match self.0 {
            Form::One(_) => (&[], None),
            Form::Read(array) => (&[], Some(array.iter())),
            Form::Slice(symbols) => (symbols, None),
        };
        let one = if let Form::One(symbol) = self.0 { Some(symbol) } else { None };
        let read = items.into_iter().flatten().filter_map(|item| item.as_text());
        one.into_iter().chain(slice.iter().copied()).chain(read)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Whether `symbol` is one of them.
    pub fn has(&self, symbol: &str) -> bool {
        self.iter().any(|found| found == symbol)
    }
}

impl Default for Symbols<'_> {
    fn default() -> Self {
        Self::NONE
    }
}

impl PartialEq for Symbols<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl std::fmt::Debug for Symbols<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> Field<'a> for Symbols<'a> {
    fn read(reader: &mut Reader<'a>, budget: &mut Budget) -> Result<Self, FieldError> {
        match read_value(reader, budget)? {
            ValueRef::Symbol(symbol) => Ok(Self(Form::One(symbol))),
            ValueRef::Array(array) if array.iter().all(|item| matches!(item, ValueRef::Symbol(_))) => {
                Ok(Self(Form::Read(array)))
            }
            _ => Err(DecodeError::Malformed("a field holds something else than symbols").into()),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self.0 {
            Form::One(symbol) => Symbol(symbol).encode(out),
            Form::Read(array) => ValueRef::Array(array).encode(out),
            Form::Slice(symbols) => write_array(symbols, out),
        }
    }
}

fn write_array(symbols: &[&str], out: &mut Vec<u8>) {
    let start = begin_compound(out);
    let narrow = symbols.iter().all(|symbol| symbol.len() <= 255);
    out.push(if narrow { code::SYMBOL_8 } else { code::SYMBOL_32 });
    for symbol in symbols {
        match narrow {
            true => out.push(symbol.len() as u8),
            false => out.extend_from_slice(&(symbol.len() as u32).to_be_bytes()),
        }
        out.extend_from_slice(symbol.as_bytes());
    }
    end_compound(out, Compound::Array, start, symbols.len() as u32);
}
