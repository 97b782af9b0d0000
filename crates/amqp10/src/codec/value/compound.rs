//! Lists, maps, arrays and described values, in place.
//!
//! Each is made from bytes whose extent is known. What is in them was checked before anything
//! outside this crate sees them, so their iterators can't fail.

use wire::{DecodeError, Reader};

use super::{Budget, ValueRef, of_code, read_value, shallow};
use crate::codec::format as code;

/// Splits the body of a list, a map or an array into the number of its elements and the rest.
#[inline]
fn counted(code: u8, body: &[u8]) -> Result<(u32, &[u8]), DecodeError> {
    let mut reader = Reader::new(body);
    // Codes with one byte of size have one byte of count too (§1.2.3).
    let count = if code & 0x10 == 0 { reader.u8()?.into() } else { reader.u32()? };
    Ok((count, reader.rest()))
}

/// A list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct List<'a> {
    count: u32,
    items: &'a [u8],
}

impl<'a> List<'a> {
    pub(super) fn of_body(code: u8, body: &'a [u8]) -> Result<Self, DecodeError> {
        counted(code, body).map(|(count, items)| Self { count, items })
    }

    pub(super) fn parts(&self) -> (u32, Reader<'a>) {
        (self.count, Reader::new(self.items))
    }

    /// The number of its values.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Whether it has no values.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The bytes of its values, without what stands before them.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.items
    }

    /// The values in order.
    pub fn iter(&self) -> Items<'a> {
        Items { constructor: None, left: self.count, reader: Reader::new(self.items) }
    }
}

/// A map. Its keys may be of any type, and in the order that the sender gave them.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Map<'a> {
    count: u32,
    items: &'a [u8],
}

impl<'a> Map<'a> {
    /// Reads an encoded map, which may be all of `bytes` only.
    ///
    /// # Errors
    /// If they are no map, exceed a limit, or go on behind it.
    pub fn new(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        match read_value(&mut reader, &mut Budget::default())? {
            ValueRef::Map(map) if reader.is_empty() => Ok(map),
            ValueRef::Map(_) => Err(DecodeError::Malformed("bytes follow the map")),
            _ => Err(DecodeError::Malformed("this is no map")),
        }
    }

    pub(super) fn of_body(code: u8, body: &'a [u8]) -> Result<Self, DecodeError> {
        let (count, items) = counted(code, body)?;
        if !count.is_multiple_of(2) {
            return Err(DecodeError::Malformed("a map has a key without a value"));
        }
        Ok(Self { count, items })
    }

    pub(super) fn parts(&self) -> (u32, Reader<'a>) {
        (self.count, Reader::new(self.items))
    }

    /// The number of its pairs.
    pub fn len(&self) -> u32 {
        self.count / 2
    }

    /// Whether it has no pairs.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The bytes of its pairs, without what stands before them.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.items
    }

    /// Keys and values in order. A key may be there twice; the first counts.
    pub fn iter(&self) -> Pairs<'a> {
        Pairs { items: Items { constructor: None, left: self.count, reader: Reader::new(self.items) } }
    }

    /// The value whose key is the string or symbol `name`.
    pub fn get(&self, name: &str) -> Option<ValueRef<'a>> {
        self.iter().find(|(key, _)| key.as_text() == Some(name)).map(|(_, value)| value)
    }
}

/// An array: values of one type, whose constructor is written once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Array<'a> {
    count: u32,
    /// The constructor, then the bodies of all elements.
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    pub(super) fn of_body(code: u8, body: &'a [u8]) -> Result<Self, DecodeError> {
        counted(code, body).map(|(count, bytes)| Self { count, bytes })
    }

    /// The number of its elements.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The bytes of its constructor and its elements.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The constructor, and a reader of the elements.
    pub(super) fn constructor(&self) -> Result<(Constructor<'a>, Reader<'a>), DecodeError> {
        let mut reader = Reader::new(self.bytes);
        let mut constructor = Constructor { descriptor: None, code: reader.u8()? };
        if constructor.code == code::DESCRIBED {
            constructor = Constructor { descriptor: Some(code::skip(&mut reader)?), code: reader.u8()? };
        }
        if constructor.code == code::DESCRIBED {
            return Err(DecodeError::Malformed("the elements of an array have two descriptors"));
        }
        Ok((constructor, reader))
    }

    /// The elements in order.
    pub fn iter(&self) -> Items<'a> {
        match self.constructor() {
            Ok((constructor, reader)) => Items { constructor: Some(constructor), left: self.count, reader },
            Err(_) => Items { constructor: None, left: 0, reader: Reader::new(&[]) },
        }
    }
}

/// What the elements of an array have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Constructor<'a> {
    descriptor: Option<&'a [u8]>,
    code: u8,
}

impl<'a> Constructor<'a> {
    pub(super) fn descriptor_bytes(&self) -> Option<Reader<'a>> {
        self.descriptor.map(Reader::new)
    }

    /// The element at the front of `reader`.
    #[inline]
    pub(super) fn element(&self, reader: &mut Reader<'a>) -> Result<ValueRef<'a>, DecodeError> {
        let Some(descriptor) = self.descriptor else { return of_code(self.code, reader) };
        let whole = reader.rest();
        code::body(self.code, reader)?;
        let body = &whole[..whole.len() - reader.rest().len()];
        Ok(ValueRef::Described(Described { descriptor, code: self.code, body }))
    }
}

/// A value and its descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Described<'a> {
    /// The encoded descriptor.
    descriptor: &'a [u8],
    /// The format code of the value.
    code: u8,
    /// What follows that code.
    body: &'a [u8],
}

impl<'a> Described<'a> {
    /// Reads what follows the format code of described values.
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let descriptor = code::skip(reader)?;
        let value = code::skip(reader)?;
        // A value has its format code at least.
        Ok(Self { descriptor, code: value[0], body: &value[1..] })
    }

    pub(super) fn descriptor_bytes(&self) -> Reader<'a> {
        Reader::new(self.descriptor)
    }

    pub(super) fn parse_value(&self) -> Result<ValueRef<'a>, DecodeError> {
        of_code(self.code, &mut Reader::new(self.body))
    }

    /// What says how the value is meant: in the specification's types an unsigned long or a symbol.
    pub fn descriptor(&self) -> ValueRef<'a> {
        shallow(&mut Reader::new(self.descriptor)).unwrap_or(ValueRef::Null)
    }

    /// The value.
    pub fn value(&self) -> ValueRef<'a> {
        self.parse_value().unwrap_or(ValueRef::Null)
    }
}

/// The values of a [`List`] or an [`Array`].
#[derive(Debug, Clone)]
pub struct Items<'a> {
    /// That of an array; each value of a list has its own.
    constructor: Option<Constructor<'a>>,
    left: u32,
    reader: Reader<'a>,
}

impl<'a> Iterator for Items<'a> {
    type Item = ValueRef<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        // All of it was checked before, so an error can't happen.
        match &self.constructor {
            Some(constructor) => constructor.element(&mut self.reader).ok(),
            None => shallow(&mut self.reader).ok(),
        }
    }
}

/// The pairs of a [`Map`].
#[derive(Debug, Clone)]
pub struct Pairs<'a> {
    items: Items<'a>,
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (ValueRef<'a>, ValueRef<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        Some((self.items.next()?, self.items.next()?))
    }
}
