//! The layout of a message's block: where each part is, in the present version and in older ones.
//!
//! Invariant: the functions that find parts do not check bounds again. A block was written by
//! [`Head::write`], or [`check`] has accepted it. `docs/formats/message.md` draws the bytes.

use std::ops::Range;

use bytes::BufMut;

use crate::encoding::Reader;
use crate::message::Head;
use crate::message::cc::Copies;
use crate::message::publisher;

/// Version of the block; the first byte of every message on disk.
pub(super) const VERSION: u8 = 3;
/// Version 1: its expiration has 32 bits, and the two bytes that version 2 adds are zero.
const SHORT_TIMES: u8 = 1;
/// Version 2: all lengths have their own places in front.
const WIDE: u8 = 2;

/// Bytes in front of the expiration, or of the address where there is none.
const HEAD: usize = 11;
/// Bytes in front of the address in older versions.
const OLDER_HEAD: usize = 28;
/// Bytes of a time.
const TIME: usize = 6;
/// The greatest time or time span.
const TIME_MAX: u64 = (1 << 48) - 1;
/// No expiration in version 2, and in version 1.
const NO_EXPIRATION: u64 = TIME_MAX;
const NO_SHORT_EXPIRATION: u64 = u32::MAX as u64;

/// The flags. The last two are not set in older versions.
pub(super) const PERSISTENT: u8 = 1;
pub(super) const COPIES_NAMED: u8 = 2;
pub(super) const COPIES_SPENT: u8 = 4;
pub(super) const INSTRUCTED: u8 = 8;
pub(super) const DELAYED: u8 = 16;
pub(super) const PRIORITY_GIVEN: u8 = 32;
const EXPIRES: u8 = 64;
/// The flags behind them, which older versions do not have.
const RETAINED: u8 = 1;
const ANNOTATED: u8 = 128;

/// Kinds of sections. Those from [`PASSED_OVER`] on need not be known.
const PROPERTIES: u8 = 1;
const ANNOTATIONS: u8 = 2;
const PASSED_OVER: u8 = 128;
const PUBLISHER: u8 = 128;

/// The longest front of a block besides its address, its properties and its annotations.
const FRONT_MAX: usize = HEAD + TIME + 2 * 5 + 5 + 2 * (1 + 5) + 2 + publisher::LENGTH;

/// Room that the front of a message without annotations never exceeds.
pub(super) fn room(exchange: &str, routing_key: &str, properties: usize) -> usize {
    FRONT_MAX + exchange.len() + routing_key.len() + properties
}

/// The bytes of a block in front of its body, and of the sections among them. Counted once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Front {
    pub(super) length: usize,
    sections: usize,
}

impl Head<'_> {
    /// The bytes in front of the body.
    #[inline]
    pub(crate) fn length(&self) -> usize {
        self.front().length
    }

    #[inline]
    pub(super) fn front(&self) -> Front {
        let sections =
            section_length(self.properties) + section_length(self.annotations) + section_length(self.publisher);
        let expiration = if self.expiration.is_some() { TIME } else { 0 };
        let (exchange, key) = (self.exchange.len(), self.routing_key.len());
        let lengths = length_bytes(exchange) + length_bytes(key) + length_bytes(sections);
        Front { length: HEAD + expiration + exchange + key + lengths + sections, sections }
    }

    /// Writes the bytes in front of the body: `front` was counted for this head, and `block` has
    /// room for it.
    #[inline]
    pub(super) fn write(&self, front: Front, block: &mut impl BufMut) {
        let mut fixed = [VERSION, self.dialect.0, self.flags(), 0, self.priority.unwrap_or(0), 0, 0, 0, 0, 0, 0];
        fixed[5..].copy_from_slice(&time_bytes(self.published_at));
        block.put_slice(&fixed);
        if let Some(expiration) = self.expiration {
            block.put_slice(&time_bytes(expiration));
        }
        for name in [self.exchange, self.routing_key] {
            put_length(block, name.len());
            if !name.is_empty() {
                block.put_slice(name.as_bytes());
            }
        }
        put_length(block, front.sections);
        let sections = [(PROPERTIES, self.properties), (ANNOTATIONS, self.annotations), (PUBLISHER, self.publisher)];
        for (kind, content) in sections {
            if !content.is_empty() {
                put_section(block, kind, content);
            }
        }
    }

    #[inline]
    fn flags(&self) -> u8 {
        let copies = match self.copies {
            Copies::None => 0,
            Copies::Named => COPIES_NAMED,
            Copies::Spent => COPIES_SPENT,
        };
        let flag = |set, flag| if set { flag } else { 0 };
        copies
            | flag(self.persistent, PERSISTENT)
            | flag(self.instructed, INSTRUCTED)
            | flag(self.delayed, DELAYED)
            | flag(self.priority.is_some(), PRIORITY_GIVEN)
            | flag(self.expiration.is_some(), EXPIRES)
            | flag(!self.annotations.is_empty(), ANNOTATED)
    }
}

/// A time as it is stored. Protocols refuse much greater ones already.
#[inline]
fn time_bytes(milliseconds: u64) -> [u8; TIME] {
    let [a, b, c, d, e, f, _, _] = milliseconds.min(TIME_MAX).to_le_bytes();
    [a, b, c, d, e, f]
}

#[inline]
fn time_at(block: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..TIME].copy_from_slice(&block[at..at + TIME]);
    u64::from_le_bytes(bytes)
}

/// Bytes of a section, none if it has no content.
#[inline]
fn section_length(content: &[u8]) -> usize {
    if content.is_empty() { 0 } else { 1 + length_bytes(content.len()) + content.len() }
}

/// Bytes of a length as a varint.
#[inline]
fn length_bytes(length: usize) -> usize {
    if length < 0x80 { 1 } else { (length.ilog2() as usize + 7) / 7 }
}

/// Writes a length as a varint.
#[inline]
fn put_length(block: &mut impl BufMut, length: usize) {
    if length < 0x80 { block.put_u8(length as u8) } else { put_long_length(block, length) }
}

fn put_long_length(block: &mut impl BufMut, mut length: usize) {
    while length >= 0x80 {
        block.put_u8(length as u8 | 0x80);
        length >>= 7;
    }
    block.put_u8(length as u8);
}

#[inline]
fn put_section(block: &mut impl BufMut, kind: u8, content: &[u8]) {
    block.put_u8(kind);
    put_length(block, content.len());
    block.put_slice(content);
}

/// The length that stands here, and the place behind it.
#[inline]
fn length_at(block: &[u8], at: usize) -> (usize, usize) {
    let first = block[at];
    if first < 0x80 { (first.into(), at + 1) } else { long_length_at(block, at) }
}

fn long_length_at(block: &[u8], mut at: usize) -> (usize, usize) {
    let (mut length, mut place) = (0, 0);
    loop {
        length |= usize::from(block[at] & 0x7f) << place;
        at += 1;
        if block[at - 1] < 0x80 {
            return (length, at);
        }
        place += 7;
    }
}

fn word(block: &[u8], at: usize) -> usize {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]) as usize
}

/// True for a block of an older version.
#[inline]
fn is_older(block: &[u8]) -> bool {
    block[0] != VERSION
}

/// The priority.
#[inline]
pub(super) fn priority(block: &[u8]) -> u8 {
    if is_older(block) { block[3] } else { block[4] }
}

/// When it was published, in milliseconds since 1970.
#[inline]
pub(super) fn published_at(block: &[u8]) -> u64 {
    // Older versions have two more bytes, which are zero.
    time_at(block, if is_older(block) { 8 } else { 5 })
}

/// The time to live in milliseconds.
#[inline]
pub(super) fn expiration(block: &[u8]) -> Option<u64> {
    if is_older(block) {
        return older_expiration(block);
    }
    (block[2] & EXPIRES != 0).then(|| time_at(block, HEAD))
}

fn older_expiration(block: &[u8]) -> Option<u64> {
    let stored = word(block, 16) as u64 | u64::from(block[6]) << 32 | u64::from(block[7]) << 40;
    let none = if block[0] == SHORT_TIMES { NO_SHORT_EXPIRATION } else { NO_EXPIRATION };
    (stored != none).then_some(stored)
}

/// Whether it must survive a restart.
#[inline]
pub(super) fn is_persistent(block: &[u8]) -> bool {
    block[2] & PERSISTENT != 0
}

/// True for the copy that is kept as the last value of its topic.
#[inline]
pub(super) fn is_retained(block: &[u8]) -> bool {
    block[3] & RETAINED != 0 && !is_older(block)
}

/// Makes a block such a copy. Those of older versions have no flag for it.
pub(super) fn mark_retained(block: &mut [u8]) {
    if !is_older(block) {
        block[3] |= RETAINED;
    }
}

/// Replaces the time to live of a block that has one.
pub(super) fn set_expiration(block: &mut [u8], expiration: u64) {
    if !is_older(block) && block[2] & EXPIRES != 0 {
        block[HEAD..HEAD + TIME].copy_from_slice(&time_bytes(expiration));
    }
}

/// True when it has annotations.
#[inline]
pub(super) fn is_annotated(block: &[u8]) -> bool {
    if is_older(block) { word(block, 24) != 0 } else { block[2] & ANNOTATED != 0 }
}

/// The place of the address.
#[inline]
fn address_at(block: &[u8]) -> usize {
    if is_older(block) {
        OLDER_HEAD
    } else if block[2] & EXPIRES != 0 {
        HEAD + TIME
    } else {
        HEAD
    }
}

/// The place of the name whose length stands here.
#[inline]
fn name_at(block: &[u8], at: usize) -> Range<usize> {
    let (length, start) = if is_older(block) { (block[at].into(), at + 1) } else { length_at(block, at) };
    start..start + length
}

/// The place of the exchange's name.
#[inline]
pub(super) fn exchange(block: &[u8]) -> Range<usize> {
    name_at(block, address_at(block))
}

/// The place of the routing key.
#[inline]
pub(super) fn routing_key(block: &[u8]) -> Range<usize> {
    name_at(block, exchange(block).end)
}

/// A length as it stands in a block, and how many of these bytes that takes.
pub(super) fn written_length(length: usize) -> ([u8; 5], usize) {
    let mut bytes = [0; 5];
    put_length(&mut &mut bytes[..], length);
    (bytes, length_bytes(length))
}

/// A block with a number where it has its exchange's name and the length of that. `None` for a
/// block of an older version.
pub(super) fn numbered(block: &[u8], exchange: u32) -> Option<Box<[u8]>> {
    if is_older(block) {
        return None;
    }
    let (start, end) = (address_at(block), self::exchange(block).end);
    let (number, used) = written_length(exchange as usize);
    Some([&block[..start], &number[..used], &block[end..]].concat().into())
}

/// The number of the exchange in such a block, and its place.
#[inline]
pub(super) fn exchange_number(numbered: &[u8]) -> (u32, Range<usize>) {
    let start = address_at(numbered);
    let (number, end) = length_at(numbered, start);
    (number as u32, start..end)
}

/// The place of the routing key in such a block.
#[inline]
pub(super) fn numbered_routing_key(numbered: &[u8]) -> Range<usize> {
    name_at(numbered, exchange_number(numbered).1.end)
}

/// What consumers are sent.
pub(super) struct Parts<'m> {
    /// Exchange and routing key, if each stands behind a single byte with its length.
    pub(super) short_address: Option<&'m [u8]>,
    pub(super) properties: &'m [u8],
    pub(super) body: &'m [u8],
}

/// These parts, found in one pass: a delivery needs all of them.
#[inline]
pub(super) fn sent(block: &[u8]) -> Parts<'_> {
    let rest = &block[address_at(block)..];
    let exchange = usize::from(rest[0]);
    if exchange >= 0x80 || is_older(block) {
        return sent_otherwise(block);
    }
    let key = usize::from(rest[1 + exchange]);
    if key >= 0x80 {
        return sent_otherwise(block);
    }
    let (address, rest) = rest.split_at(2 + exchange + key);
    let (length, start) = length_at(rest, 0);
    let (sections, body) = rest[start..].split_at(length);
    // Properties are the first section.
    let properties = match sections {
        [PROPERTIES, rest @ ..] => {
            let (length, start) = length_at(rest, 0);
            &rest[start..start + length]
        }
        _ => &[],
    };
    Parts { short_address: Some(address), properties, body }
}

/// The same for a block whose address has no single bytes as lengths, and for older ones.
#[cold]
fn sent_otherwise(block: &[u8]) -> Parts<'_> {
    let (exchange, key) = (exchange(block), routing_key(block));
    let start = address_at(block);
    let is_short = exchange.start == start + 1 && key.start == exchange.end + 1;
    Parts {
        short_address: is_short.then(|| &block[start..key.end]),
        properties: &block[properties(block)],
        body: &block[body_at(block)..],
    }
}

/// The place of all sections together.
#[inline]
fn sections(block: &[u8]) -> Range<usize> {
    let (length, start) = length_at(block, routing_key(block).end);
    start..start + length
}

/// The place of the first section of this kind; empty if there is none.
#[inline]
fn section(block: &[u8], kind: u8) -> Range<usize> {
    let Range { start: mut at, end } = sections(block);
    while at < end {
        let (length, start) = length_at(block, at + 1);
        if block[at] == kind {
            return start..start + length;
        }
        at = start + length;
    }
    end..end
}

/// The place of the publisher's properties.
#[inline]
pub(super) fn properties(block: &[u8]) -> Range<usize> {
    if is_older(block) {
        let start = routing_key(block).end;
        return start..start + word(block, 20);
    }
    section(block, PROPERTIES)
}

/// The place of the annotations.
#[inline]
pub(super) fn annotations(block: &[u8]) -> Range<usize> {
    if is_older(block) {
        let start = properties(block).end;
        return start..start + word(block, 24);
    }
    section(block, ANNOTATIONS)
}

/// The place of the publisher's identity.
pub(super) fn publisher(block: &[u8]) -> Range<usize> {
    if is_older(block) { 0..0 } else { section(block, PUBLISHER) }
}

/// The place of the body.
#[inline]
pub(super) fn body_at(block: &[u8]) -> usize {
    if is_older(block) { annotations(block).end } else { sections(block).end }
}

/// Checks that all parts of a stored block are within it, and can be read.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check(block: &[u8]) -> Result<(), String> {
    match block.first() {
        None => Err("it is empty".to_owned()),
        Some(&VERSION) => check_parts(block).map_err(str::to_owned),
        Some(&(SHORT_TIMES | WIDE)) => check_older(block).map_err(str::to_owned),
        Some(version) => Err(format!("its format is {version}, this build reads up to {VERSION}")),
    }
}

const SHORT: &str = "it is shorter than its head";
const NO_ADDRESS: &str = "its exchange and routing key make no sense";
const NO_SECTIONS: &str = "its parts are longer than itself";

fn check_parts(block: &[u8]) -> Result<(), &'static str> {
    let [_, _, flags, more_flags, ..] = block else { return Err(SHORT) };
    if more_flags & !RETAINED != 0 {
        return Err("it has flags that this build does not know");
    }
    let front = if flags & EXPIRES != 0 { HEAD + TIME } else { HEAD };
    let mut rest = Reader::new(block.get(front..).ok_or(SHORT)?);
    for _ in ["exchange", "routing key"] {
        rest.text().map_err(|_| NO_ADDRESS)?;
    }
    let mut sections = Reader::new(rest.bytes().map_err(|_| NO_SECTIONS)?);
    let mut last = 0;
    let mut is_annotated = false;
    while !sections.is_empty() {
        let kind = sections.byte().map_err(|_| NO_SECTIONS)?;
        let content = sections.bytes().map_err(|_| NO_SECTIONS)?;
        if !matches!(kind, PROPERTIES | ANNOTATIONS | PASSED_OVER..) {
            return Err("it has a part that this build does not know");
        }
        if kind <= last || content.is_empty() {
            return Err("its parts are out of order");
        }
        is_annotated |= kind == ANNOTATIONS;
        last = kind;
    }
    if is_annotated == (flags & ANNOTATED != 0) { Ok(()) } else { Err("its flags and its parts disagree") }
}

fn check_older(block: &[u8]) -> Result<(), &'static str> {
    if block.len() < OLDER_HEAD {
        return Err(SHORT);
    }
    let address = usize::from(u16::from_le_bytes([block[4], block[5]]));
    let parts = address + word(block, 20) + word(block, 24);
    if OLDER_HEAD + parts > block.len() {
        return Err(NO_SECTIONS);
    }
    let address = &block[OLDER_HEAD..OLDER_HEAD + address];
    let exchange = address.first().map_or(0, |length| *length as usize);
    let key = address.get(1 + exchange).map(|length| *length as usize);
    if key.is_none_or(|key| address.len() != exchange + key + 2) {
        return Err(NO_ADDRESS);
    }
    let is_text = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
    let names = [&address[1..1 + exchange], &address[2 + exchange..]];
    if names.into_iter().all(is_text) { Ok(()) } else { Err(NO_ADDRESS) }
}
