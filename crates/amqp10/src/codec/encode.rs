//! Writing values in their smallest encoding.

use crate::codec::format as code;

/// What can be written as one value.
pub trait Encode {
    /// Appends the value with its constructor, in the smallest encoding of its type.
    fn encode(&self, out: &mut Vec<u8>);
}

/// A symbol as a type of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Symbol<'a>(pub &'a str);

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

#[inline]
pub(crate) fn put<const N: usize>(out: &mut Vec<u8>, code: u8, body: [u8; N]) {
    out.push(code);
    out.extend_from_slice(&body);
}

/// Appends bytes with a length of one byte or four.
#[inline]
fn put_variable(out: &mut Vec<u8>, narrow: u8, wide: u8, bytes: &[u8]) {
    match u8::try_from(bytes.len()) {
        Ok(length) => out.extend_from_slice(&[narrow, length]),
        Err(_) => put(out, wide, (bytes.len() as u32).to_be_bytes()),
    }
    out.extend_from_slice(bytes);
}

impl Encode for bool {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(if *self { code::TRUE } else { code::FALSE });
    }
}

impl Encode for u8 {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        put(out, code::UBYTE, [*self]);
    }
}

impl Encode for u16 {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        put(out, code::USHORT, self.to_be_bytes());
    }
}

impl Encode for u32 {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        match (*self, u8::try_from(*self)) {
            (0, _) => out.push(code::UINT_0),
            (_, Ok(small)) => put(out, code::UINT_8, [small]),
            _ => put(out, code::UINT, self.to_be_bytes()),
        }
    }
}

impl Encode for u64 {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        match (*self, u8::try_from(*self)) {
            (0, _) => out.push(code::ULONG_0),
            (_, Ok(small)) => put(out, code::ULONG_8, [small]),
            _ => put(out, code::ULONG, self.to_be_bytes()),
        }
    }
}

impl Encode for i32 {
    fn encode(&self, out: &mut Vec<u8>) {
        match i8::try_from(*self) {
            Ok(small) => put(out, code::INT_8, small.to_be_bytes()),
            Err(_) => put(out, code::INT, self.to_be_bytes()),
        }
    }
}

impl Encode for i64 {
    fn encode(&self, out: &mut Vec<u8>) {
        match i8::try_from(*self) {
            Ok(small) => put(out, code::LONG_8, small.to_be_bytes()),
            Err(_) => put(out, code::LONG, self.to_be_bytes()),
        }
    }
}

impl Encode for &str {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        put_variable(out, code::STRING_8, code::STRING_32, self.as_bytes());
    }
}

/// Binary.
impl Encode for &[u8] {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        put_variable(out, code::BINARY_8, code::BINARY_32, self);
    }
}

impl Encode for Symbol<'_> {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        put_variable(out, code::SYMBOL_8, code::SYMBOL_32, self.0.as_bytes());
    }
}

impl Encode for Timestamp {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        put(out, code::TIMESTAMP, self.0.to_be_bytes());
    }
}

/// The types with a size and a count before their elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compound {
    List,
    Map,
    Array,
}

impl Compound {
    fn codes(self) -> (u8, u8) {
        match self {
            Self::List => (code::LIST_8, code::LIST_32),
            Self::Map => (code::MAP_8, code::MAP_32),
            Self::Array => (code::ARRAY_8, code::ARRAY_32),
        }
    }
}

/// Bytes before the elements, where size and count have four bytes each.
const WIDE_HEAD: usize = 9;
/// And where they have one.
const NARROW_HEAD: usize = 3;

/// The head for `length` bytes of elements.
fn head(compound: Compound, count: u32, length: usize) -> ([u8; WIDE_HEAD], usize) {
    let (narrow, wide) = compound.codes();
    let mut head = [0; WIDE_HEAD];
    if let (Ok(size), Ok(count)) = (u8::try_from(length + 1), u8::try_from(count)) {
        head[..NARROW_HEAD].copy_from_slice(&[narrow, size, count]);
        return (head, NARROW_HEAD);
    }
    head[0] = wide;
    head[1..5].copy_from_slice(&(length as u32 + 4).to_be_bytes());
    head[5..].copy_from_slice(&count.to_be_bytes());
    (head, WIDE_HEAD)
}

/// Appends a compound whose elements are encoded already.
pub(crate) fn put_compound(out: &mut Vec<u8>, compound: Compound, count: u32, elements: &[u8]) {
    if compound == Compound::List && count == 0 {
        out.push(code::LIST_0);
        return;
    }
    let (head, length) = head(compound, count, elements.len());
    out.extend_from_slice(&head[..length]);
    out.extend_from_slice(elements);
}

/// Leaves room for the narrow head of a compound, which most have, and returns where it begins.
#[inline]
pub(crate) fn begin_compound(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; NARROW_HEAD]);
    start
}

/// Writes the head of the compound that began at `start`: behind it are its `count` elements.
#[inline]
pub(crate) fn end_compound(out: &mut Vec<u8>, compound: Compound, start: usize, count: u32) {
    if compound == Compound::List && count == 0 {
        out.truncate(start);
        out.push(code::LIST_0);
        return;
    }
    let elements = start + NARROW_HEAD;
    let (head, length) = head(compound, count, out.len() - elements);
    if length > NARROW_HEAD {
        widen(out, elements);
    }
    out[start..start + length].copy_from_slice(&head[..length]);
}

/// Moves what stands from `elements` on, so that a wide head has room.
#[cold]
fn widen(out: &mut Vec<u8>, elements: usize) {
    let end = out.len();
    out.extend_from_slice(&[0; WIDE_HEAD - NARROW_HEAD]);
    out.copy_within(elements..end, elements + WIDE_HEAD - NARROW_HEAD);
}

/// A described list of few short fields, in room that is appended at once: what every delivery has.
/// It is written as [`FieldWriter`](crate::codec::composite::FieldWriter) would. To gather it
/// elsewhere and copy it would wait until the processor has stored its many small pieces.
pub(crate) struct ShortList<'a> {
    out: &'a mut Vec<u8>,
    /// Where it begins, and where the next field goes.
    start: usize,
    next: usize,
    count: u8,
    /// Where the last field that is there ends, and its number.
    end: (usize, u8),
}

/// Bytes of a [`ShortList`] at most: enough for five fields, of which one is a tag of eight bytes.
const SHORT_LIST: usize = 40;
/// Bytes of its descriptor and its head.
const SHORT_LIST_HEAD: usize = 6;

impl<'a> ShortList<'a> {
    /// Begins the list of the type with this number.
    #[inline]
    pub(crate) fn open(descriptor: u8, out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; SHORT_LIST]);
        let head = [code::DESCRIBED, code::ULONG_8, descriptor, code::LIST_8, 0, 0];
        let next = start + SHORT_LIST_HEAD;
        out[start..next].copy_from_slice(&head);
        Self { out, start, next, count: 0, end: (next, 0) }
    }

    #[inline]
    fn append<const N: usize>(&mut self, bytes: [u8; N]) {
        self.out[self.next..self.next + N].copy_from_slice(&bytes);
        self.next += N;
    }

    /// Writes a field, with its constructor.
    #[inline]
    pub(crate) fn put<const N: usize>(&mut self, field: [u8; N]) {
        self.append(field);
        self.count += 1;
        self.end = (self.next, self.count);
    }

    /// Leaves a field out.
    #[inline]
    pub(crate) fn skip(&mut self) {
        self.append([code::NULL]);
        self.count += 1;
    }

    #[inline]
    pub(crate) fn uint(&mut self, value: u32) {
        match (value, u8::try_from(value)) {
            (0, _) => self.put([code::UINT_0]),
            (_, Ok(small)) => self.put([code::UINT_8, small]),
            _ => {
                let [a, b, c, d] = value.to_be_bytes();
                self.put([code::UINT, a, b, c, d]);
            }
        }
    }

    /// Writes a field if it is there.
    #[inline]
    pub(crate) fn put_if<const N: usize>(&mut self, field: Option<[u8; N]>) {
        match field {
            Some(field) => self.put(field),
            None => self.skip(),
        }
    }

    /// The same of an unsigned number.
    #[inline]
    pub(crate) fn uint_if(&mut self, value: Option<u32>) {
        match value {
            Some(value) => self.uint(value),
            None => self.skip(),
        }
    }

    /// Ends the list behind the last field that is there.
    #[inline]
    pub(crate) fn close(self) {
        let Self { out, start, end: (end, count), .. } = self;
        if count == 0 {
            out[start + 3] = code::LIST_0;
            return out.truncate(start + 4);
        }
        out[start + 4] = (end - start - SHORT_LIST_HEAD + 1) as u8;
        out[start + 5] = count;
        out.truncate(end);
    }
}
