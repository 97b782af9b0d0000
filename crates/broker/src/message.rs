//! A message: one block of bytes that is the same in memory, in the journal and on its way to a
//! consumer.
//!
//! The block is written once, at publish, and never edited; later annotations of the broker
//! (deaths) make a new block. `docs/formats/message.md` draws it. Properties stay in the
//! publisher's encoding, named by its dialect.

pub(crate) mod annotations;
pub(crate) mod body;
pub(crate) mod cc;
pub(crate) mod dialect;
pub(crate) mod overlay;
pub(crate) mod properties;
pub(crate) mod scheduling;
pub(crate) mod selected;

use bytes::{BufMut, Bytes, BytesMut};

use crate::error::Error;
use crate::message::annotations::Annotations;
use crate::message::body::Body;
use crate::message::cc::Copies;
use crate::message::dialect::DialectId;

/// Version of the block; the first byte of every message on disk.
const VERSION: u8 = 2;
/// The version before, whose expiration had 32 bits. The two bytes that [`VERSION`] adds were zero.
const SHORT_TIMES: u8 = 1;
/// Bytes in front of the address.
const HEAD: usize = 28;
/// The memory of an entry besides its message's block, in bytes.
pub(crate) const ENTRY_COST: usize = 96;
const PERSISTENT: u8 = 1;
const COPIES_NAMED: u8 = 2;
const COPIES_SPENT: u8 = 4;
const INSTRUCTED: u8 = 8;
const DELAYED: u8 = 16;
const PRIORITY_GIVEN: u8 = 32;
/// No expiration: all 48 bits set, or all 32 bits of the older version.
const NO_EXPIRATION: u64 = (1 << 48) - 1;
const NO_SHORT_EXPIRATION: u64 = u32::MAX as u64;
/// Small messages of a connection share blocks of this size. One live message keeps at most one
/// block in memory.
const BLOCK: usize = 32 * 1024;
/// The longest exchange name or routing key, in bytes.
pub(crate) const NAME_MAX: usize = 255;

/// The parts of a new message that the broker reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head<'a> {
    pub(crate) dialect: DialectId,
    pub(crate) persistent: bool,
    /// `None` where none was given.
    pub(crate) priority: Option<u8>,
    /// Milliseconds since 1970.
    pub(crate) published_at: u64,
    /// Time to live in milliseconds.
    pub(crate) expiration: Option<u64>,
    pub(crate) copies: Copies,
    /// Its headers have instructions for the broker.
    pub(crate) instructed: bool,
    /// Its delay is over, and it is not delayed again.
    pub(crate) delayed: bool,
    pub(crate) exchange: &'a str,
    pub(crate) routing_key: &'a str,
    pub(crate) properties: &'a [u8],
    /// Encoded [`Annotations`], empty for none.
    pub(crate) annotations: &'a [u8],
}

impl Head<'_> {
    fn address_length(&self) -> usize {
        self.exchange.len() + self.routing_key.len() + 2
    }

    /// The bytes in front of the body.
    #[inline]
    fn length(&self) -> usize {
        HEAD + self.address_length() + self.properties.len() + self.annotations.len()
    }

    /// Writes the bytes in front of the body.
    #[inline]
    fn write(&self, block: &mut impl BufMut) {
        debug_assert!(self.exchange.len() <= NAME_MAX && self.routing_key.len() <= NAME_MAX);
        // Protocols refuse much shorter times already.
        let expiration = self.expiration.map_or(NO_EXPIRATION, |ms| ms.min(NO_EXPIRATION - 1)).to_le_bytes();
        let mut fixed = [0u8; HEAD];
        fixed[0] = VERSION;
        fixed[1] = self.dialect.0;
        fixed[2] = if self.persistent { PERSISTENT } else { 0 };
        fixed[2] |= match self.copies {
            Copies::None => 0,
            Copies::Named => COPIES_NAMED,
            Copies::Spent => COPIES_SPENT,
        };
        fixed[2] |= if self.instructed { INSTRUCTED } else { 0 };
        fixed[2] |= if self.delayed { DELAYED } else { 0 };
        fixed[2] |= if self.priority.is_some() { PRIORITY_GIVEN } else { 0 };
        fixed[3] = self.priority.unwrap_or(0);
        fixed[4..6].copy_from_slice(&(self.address_length() as u16).to_le_bytes());
        fixed[6..8].copy_from_slice(&expiration[4..6]);
        fixed[8..16].copy_from_slice(&self.published_at.to_le_bytes());
        fixed[16..20].copy_from_slice(&expiration[..4]);
        fixed[20..24].copy_from_slice(&(self.properties.len() as u32).to_le_bytes());
        fixed[24..28].copy_from_slice(&(self.annotations.len() as u32).to_le_bytes());
        block.put_slice(&fixed);
        block.put_u8(self.exchange.len() as u8);
        block.put_slice(self.exchange.as_bytes());
        block.put_u8(self.routing_key.len() as u8);
        block.put_slice(self.routing_key.as_bytes());
        block.put_slice(self.properties);
        block.put_slice(self.annotations);
    }
}

/// An immutable message. A clone counts a reference.
#[derive(Debug, Clone)]
pub struct Message(Bytes);

impl Message {
    /// Stands for a message that has been moved out.
    pub(crate) fn moved() -> Self {
        Self(Bytes::new())
    }

    /// Takes a stored block, after checking that its parts are within it.
    pub(crate) fn from_stored(block: Bytes) -> Result<Self, Error> {
        let damaged = |what: &str| Err(Error::internal(format!("a stored message is damaged: {what}")));
        if block.len() < HEAD {
            return damaged("it is shorter than its head");
        }
        if !matches!(block[0], SHORT_TIMES | VERSION) {
            return damaged(&format!("its format is {}, this build reads up to {VERSION}", block[0]));
        }
        let message = Self(block);
        let parts = message.address_len() + message.word(20) + message.word(24);
        if HEAD + parts > message.0.len() {
            return damaged("its parts are longer than itself");
        }
        let address = message.address_bytes();
        let exchange = address.first().map_or(0, |length| *length as usize);
        let key = address.get(1 + exchange).map(|length| *length as usize);
        let whole = key.is_some_and(|key| address.len() == exchange + key + 2);
        if !whole || std::str::from_utf8(address).is_err() {
            return damaged("its exchange and routing key make no sense");
        }
        Ok(message)
    }

    fn word(&self, at: usize) -> usize {
        u32::from_le_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]]) as usize
    }

    fn address_len(&self) -> usize {
        u16::from_le_bytes([self.0[4], self.0[5]]) as usize
    }

    /// The whole block, as it is journaled.
    #[inline]
    pub(crate) fn block(&self) -> &[u8] {
        &self.0
    }

    /// The message's cost in memory, in bytes.
    #[inline]
    pub(crate) fn cost(&self) -> usize {
        self.0.len() + ENTRY_COST
    }

    /// The encoding of its properties.
    #[inline]
    pub fn dialect(&self) -> DialectId {
        DialectId(self.0[1])
    }

    /// True when it must survive a restart.
    #[inline]
    pub fn persistent(&self) -> bool {
        self.0[2] & PERSISTENT != 0
    }

    /// Whether its headers name more routing keys.
    #[inline]
    pub(crate) fn copies(&self) -> Copies {
        match self.0[2] & (COPIES_NAMED | COPIES_SPENT) {
            0 => Copies::None,
            COPIES_NAMED => Copies::Named,
            _ => Copies::Spent,
        }
    }

    /// True when its headers have instructions for the broker: see [`scheduling`].
    #[inline]
    pub(crate) fn instructed(&self) -> bool {
        self.0[2] & INSTRUCTED != 0
    }

    /// True when its flags alone say that consumers do not see it as it was published.
    #[inline]
    fn is_altered(&self) -> bool {
        self.0[2] & (COPIES_NAMED | COPIES_SPENT | DELAYED) != 0
    }

    /// True when its delay is over.
    #[inline]
    pub(crate) fn was_delayed(&self) -> bool {
        self.0[2] & DELAYED != 0
    }

    /// Its priority; 0 where none was given.
    pub fn priority(&self) -> u8 {
        self.0[3]
    }

    /// The priority that it was given, which may be 0. In a block of an older version a given 0
    /// looks like none.
    #[inline]
    pub(crate) fn given_priority(&self) -> Option<u8> {
        let given = self.0[2] & PRIORITY_GIVEN != 0 || self.0[3] != 0;
        given.then_some(self.0[3])
    }

    /// When it was published, in milliseconds since 1970.
    pub fn published_at(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[8..16]);
        u64::from_le_bytes(bytes)
    }

    /// Its own time to live in milliseconds.
    #[inline]
    pub(crate) fn expiration(&self) -> Option<u64> {
        // One check of bounds instead of seven, since every new message is asked.
        let head = self.0.first_chunk::<HEAD>()?;
        let stored = u64::from_le_bytes([head[16], head[17], head[18], head[19], head[6], head[7], 0, 0]);
        let none = if head[0] == SHORT_TIMES { NO_SHORT_EXPIRATION } else { NO_EXPIRATION };
        (stored != none).then_some(stored)
    }

    /// Exchange and routing key, each as a length byte and that many bytes.
    #[inline]
    pub fn address_bytes(&self) -> &[u8] {
        &self.0[HEAD..HEAD + self.address_len()]
    }

    /// The exchange it was published to.
    pub fn exchange(&self) -> &str {
        let address = self.address_bytes();
        std::str::from_utf8(&address[1..1 + address[0] as usize]).unwrap_or_default()
    }

    /// The routing key it was published with.
    pub fn routing_key(&self) -> &str {
        let address = self.address_bytes();
        std::str::from_utf8(&address[2 + address[0] as usize..]).unwrap_or_default()
    }

    /// Its properties, in the encoding of its dialect, exactly as published.
    #[inline]
    pub fn properties(&self) -> &[u8] {
        let start = HEAD + self.address_len();
        &self.0[start..start + self.word(20)]
    }

    /// Its history in this broker, if it has one.
    pub fn annotations(&self) -> Option<Annotations> {
        let bytes = self.marks_bytes();
        if bytes.is_empty() { None } else { Annotations::decode(bytes).ok() }
    }

    /// Its annotations as they are stored; empty for none.
    pub(crate) fn marks_bytes(&self) -> &[u8] {
        let start = HEAD + self.address_len() + self.word(20);
        &self.0[start..start + self.word(24)]
    }

    /// True when it carries annotations.
    #[inline]
    pub(crate) fn is_marked(&self) -> bool {
        self.word(24) != 0
    }

    #[inline]
    fn body_at(&self) -> usize {
        HEAD + self.address_len() + self.word(20) + self.word(24)
    }

    /// Its body.
    #[inline]
    pub fn body(&self) -> &[u8] {
        &self.0[self.body_at()..]
    }

    /// Its body by reference.
    pub fn body_shared(&self) -> Bytes {
        self.0.slice(self.body_at()..)
    }
}

/// The memory for the messages of one connection, several to a block.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    block: BytesMut,
}

impl Arena {
    /// Copies a stored block.
    pub(crate) fn copy(&mut self, block: &[u8]) -> Bytes {
        self.reserve(block.len());
        self.block.put_slice(block);
        self.take()
    }

    /// Takes the written bytes. A block for one message alone is not kept: its rest would keep all
    /// of it in memory.
    fn take(&mut self) -> Bytes {
        if self.block.len() > BLOCK / 2 {
            return std::mem::take(&mut self.block).freeze();
        }
        self.block.split().freeze()
    }

    fn reserve(&mut self, need: usize) {
        if self.block.capacity() - self.block.len() < need {
            self.block = BytesMut::with_capacity(if need > BLOCK / 2 { need } else { BLOCK });
        }
    }

    /// Writes a message.
    ///
    /// The exchange and the key must be at most [`NAME_MAX`] bytes long and the rest under 4 GiB.
    pub(crate) fn add(&mut self, head: &Head<'_>, body: &[u8]) -> Message {
        self.reserve(head.length() + body.len());
        head.write(&mut self.block);
        self.block.put_slice(body);
        Message(self.take())
    }

    /// The same; a body that was gathered is not copied.
    #[inline]
    pub(crate) fn add_body(&mut self, head: &Head<'_>, body: Body<'_>) -> Message {
        match body {
            Body::Borrowed(body) => self.add(head, body),
            Body::Gathered(gathered) => gathered
                .complete(head.length(), |mut front| head.write(&mut front))
                .unwrap_or_else(|gathered| self.add(head, gathered.as_slice())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::body::Gathered;

    fn head() -> Head<'static> {
        Head {
            dialect: DialectId(1),
            persistent: true,
            priority: Some(7),
            published_at: 1_700_000_000_123,
            expiration: Some(60_000),
            copies: Copies::None,
            instructed: false,
            delayed: false,
            exchange: "orders",
            routing_key: "eu.de",
            properties: b"\x10\x00\x02",
            annotations: b"",
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let message = Arena::default().add(&head(), b"body");
        assert_eq!(message.dialect(), DialectId(1));
        assert!(message.persistent());
        assert_eq!((message.priority(), message.given_priority()), (7, Some(7)));
        assert_eq!(message.published_at(), 1_700_000_000_123);
        assert_eq!(message.expiration(), Some(60_000));
        assert_eq!(message.exchange(), "orders");
        assert_eq!(message.routing_key(), "eu.de");
        assert_eq!(message.properties(), b"\x10\x00\x02");
        assert!(!message.is_marked());
        assert_eq!(message.body(), b"body");
        assert_eq!(message.address_bytes(), b"\x06orders\x05eu.de");
    }

    #[test]
    fn a_priority_of_0_is_told_from_none() {
        for given in [None, Some(0), Some(255)] {
            let message = Arena::default().add(&Head { priority: given, ..head() }, b"body");
            assert_eq!((message.priority(), message.given_priority()), (given.unwrap_or(0), given));
        }
        // An older version had no such bit.
        let message = Message::from_stored(short([0, 0, 0, 0])).unwrap();
        assert_eq!(message.given_priority(), Some(7));
    }

    /// The block that version 1 wrote for the message of [`head`] with this expiration.
    fn short(expiration: [u8; 4]) -> Bytes {
        let mut block = Vec::new();
        block.extend([1, 1, 1, 7, 13, 0, 0, 0]);
        block.extend([0x7b, 0x68, 0xe5, 0xcf, 0x8b, 0x01, 0, 0]);
        block.extend(expiration);
        block.extend([3, 0, 0, 0, 0, 0, 0, 0]);
        block.extend(b"\x06orders\x05eu.de\x10\x00\x02body");
        block.into()
    }

    #[test]
    fn a_block_of_version_1_is_read_by_its_own_rule() {
        let cases = [
            ([0xff, 0xff, 0xff, 0xff], None),
            ([0xfe, 0xff, 0xff, 0xff], Some(4_294_967_294)),
            ([0x60, 0xea, 0, 0], Some(60_000)),
            ([0, 0, 0, 0], Some(0)),
        ];
        for (stored, expected) in cases {
            let message = Message::from_stored(short(stored)).unwrap();
            assert_eq!(message.expiration(), expected);
            assert_eq!((message.published_at(), message.body()), (1_700_000_000_123, b"body".as_slice()));
            // It is stored again as it came.
            assert_eq!(message.block(), short(stored));
        }
        let newer = [&[3], &short([0; 4])[1..]].concat();
        let refused = Message::from_stored(newer.into()).unwrap_err();
        assert!(refused.text.ends_with("its format is 3, this build reads up to 2"), "{refused}");
    }

    #[test]
    fn an_expiration_has_48_bits() {
        let cases = [
            (None, [0xff; 6]),
            (Some(0), [0; 6]),
            (Some(60_000), [0x60, 0xea, 0, 0, 0, 0]),
            (Some(4_294_967_295), [0xff, 0xff, 0xff, 0xff, 0, 0]),
            (Some(4_294_967_296), [0, 0, 0, 0, 1, 0]),
            (Some(315_360_000_000), [0x00, 0xb8, 0xeb, 0x6c, 0x49, 0]),
            (Some((1 << 48) - 2), [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ];
        for (expiration, bytes) in cases {
            let message = Arena::default().add(&Head { expiration, ..head() }, b"body");
            let block = message.block();
            assert_eq!((block[0], &block[16..20], &block[6..8]), (2, &bytes[..4], &bytes[4..]), "{expiration:?}");
            let stored = Message::from_stored(Bytes::copy_from_slice(block)).unwrap();
            assert_eq!(stored.expiration(), expiration);
        }
        let endless = Arena::default().add(&Head { expiration: Some(u64::MAX), ..head() }, b"");
        assert_eq!(endless.expiration(), Some((1 << 48) - 2), "what can't be stored is no message without end");
    }

    /// A reply address makes properties longer than they came.
    #[test]
    fn a_body_that_came_in_pieces_makes_the_same_message_with_and_without_room() {
        let (head, body) = (head(), b"in three pieces".as_slice());
        let expected = Arena::default().add(&head, body);
        for properties in [0, 2, 3, 4, 100] {
            for sure in [false, true] {
                let mut gathered = Gathered::new(head.exchange, head.routing_key, properties);
                assert!(gathered.is_empty());
                for piece in [&body[..2], &body[2..9], &body[9..]] {
                    gathered.push(piece, body.len() as u64, sure);
                }
                assert_eq!((gathered.len(), gathered.as_slice()), (body.len(), body));
                let message = Arena::default().add_body(&head, Body::Gathered(gathered));
                assert_eq!(message.block(), expected.block(), "room for {properties} bytes of properties");
            }
        }
    }

    /// A client that announces a body and sends none of it takes no memory.
    #[test]
    fn memory_for_a_body_is_taken_as_it_comes() {
        let whole = 16 << 20;
        let taken = |pieces: usize, sure| {
            let mut gathered = Gathered::new("", "", 0);
            (0..pieces).for_each(|_| gathered.push(&[0; 1000], whole, sure));
            gathered.capacity()
        };
        assert_eq!(taken(0, true), 0);
        assert_eq!([taken(1, false), taken(3, false)], [2000, 6000]);
        assert_eq!([taken(1, true), taken(2000, true)], [1 << 20, 2 * 1_049_000]);
        let mut gathered = Gathered::new("", "", 0);
        (0..2000).for_each(|_| gathered.push(&[0; 1000], 2_000_000, true));
        assert_eq!(gathered.capacity(), 2_000_000);
    }

    #[test]
    fn copies_are_flags_beside_the_others() {
        let cases = [
            (Copies::None, false, 0),
            (Copies::Named, false, 2),
            (Copies::Spent, false, 4),
            (Copies::None, true, 1),
            (Copies::Named, true, 3),
            (Copies::Spent, true, 5),
        ];
        for (copies, persistent, flags) in cases {
            let message = Arena::default().add(&Head { copies, persistent, priority: None, ..head() }, b"");
            assert_eq!((message.copies(), message.persistent()), (copies, persistent));
            assert_eq!(message.block()[2], flags);
        }
    }

    #[test]
    fn instructions_are_a_flag_beside_the_others() {
        let message = Arena::default().add(&Head { instructed: true, ..head() }, b"");
        assert!(message.instructed() && message.persistent() && message.copies() == Copies::None);
        assert!(!Arena::default().add(&head(), b"").instructed());
        let message = Arena::default().add(&Head { delayed: true, ..head() }, b"");
        assert!(message.was_delayed() && !message.instructed());
    }

    #[test]
    fn a_stored_block_cut_anywhere_before_its_body_is_refused() {
        let message = Arena::default().add(&head(), b"body");
        let whole = Bytes::copy_from_slice(message.block());
        assert!(Message::from_stored(whole.clone()).is_ok());
        for length in 0..whole.len() - 4 {
            assert!(Message::from_stored(whole.slice(..length)).is_err(), "cut at {length}");
        }
    }

    #[test]
    fn a_large_message_is_gone_when_nobody_has_it() {
        let mut arena = Arena::default();
        let large = arena.add(&head(), &[0; BLOCK]);
        assert!(large.0.is_unique(), "the arena keeps a part");
        let small = arena.add(&head(), b"small");
        assert!(!small.0.is_unique(), "small messages share");
    }

    #[test]
    fn messages_of_any_size_share_an_arena() {
        let mut arena = Arena::default();
        let sizes = [0, 1, 100, 20_000, 40_000, 3, 15_000, 15_000, 15_000];
        let messages: Vec<_> = sizes.iter().map(|size| arena.add(&head(), &vec![*size as u8; *size])).collect();
        for (message, size) in messages.iter().zip(sizes) {
            assert_eq!(message.body(), vec![size as u8; size]);
        }
    }
}
