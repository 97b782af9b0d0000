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
pub(crate) mod id;
mod layout;
pub(crate) mod overlay;
pub(crate) mod properties;
pub(crate) mod publisher;
pub(crate) mod retained;
pub(crate) mod scheduling;
pub(crate) mod selected;

use bytes::{BufMut, Bytes, BytesMut};

use crate::error::Error;
use crate::message::annotations::Annotations;
use crate::message::body::Body;
use crate::message::cc::Copies;
use crate::message::dialect::{Content, DialectId};
use crate::message::layout::{COPIES_NAMED, COPIES_SPENT, DELAYED, Front, INSTRUCTED, PERSISTENT, PRIORITY_GIVEN};
use crate::value::Table;

/// The memory of an entry besides its message's block, in bytes.
pub(crate) const ENTRY_COST: usize = 96;
/// Small messages of a connection share blocks of this size. One live message keeps at most one
/// block in memory.
const BLOCK: usize = 32 * 1024;
/// The same for a few messages that the broker itself makes or reads. They leave at different
/// times, and nothing more comes into their last block.
const SMALL_BLOCK: usize = 4 * 1024;
/// The longest name of anything that is declared, in bytes.
pub(crate) const NAME_MAX: usize = 255;
/// The longest routing key of a message, in bytes.
pub(crate) const KEY_MAX: usize = 65_535;

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
    /// See [`publisher`]; empty if it is not known.
    pub(crate) publisher: &'a [u8],
}

impl Head<'_> {
    /// That of a message without anything.
    pub(crate) const EMPTY: Self = Self {
        dialect: DialectId::BROKER,
        persistent: false,
        priority: None,
        published_at: 0,
        expiration: None,
        copies: Copies::None,
        instructed: false,
        delayed: false,
        exchange: "",
        routing_key: "",
        properties: &[],
        annotations: &[],
        publisher: &[],
    };

    /// Adds the block of a message to `block`, which has room for it.
    #[inline]
    fn put(&self, front: Front, body: &[u8], block: &mut BytesMut) {
        let start = block.len();
        block.resize(start + front.length, 0);
        self.write(front, &mut &mut block[start..]);
        block.put_slice(body);
    }
}

/// The parts of a message that consumers are sent, as they stand in its block.
#[derive(Debug, Clone, Copy)]
pub struct Sent<'m> {
    /// Exchange and routing key, each behind a byte with its length, if the block has them like
    /// that. So it has those of at most 127 bytes.
    pub short_address: Option<&'m [u8]>,
    /// What its publisher wrote.
    pub content: Content<'m>,
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
    pub fn from_stored(block: Bytes) -> Result<Self, Error> {
        match layout::check(&block) {
            Ok(()) => Ok(Self(block)),
            Err(what) => Err(Error::internal(format!("a stored message is damaged: {what}"))),
        }
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
        self.0[2] & (COPIES_NAMED | COPIES_SPENT | DELAYED) != 0 || self.is_retained()
    }

    /// True for a message that a subscriber gets since it was there before, as the last value of
    /// its topic.
    #[inline]
    pub fn is_retained(&self) -> bool {
        layout::is_retained(&self.0)
    }

    /// True when its delay is over.
    #[inline]
    pub(crate) fn was_delayed(&self) -> bool {
        self.0[2] & DELAYED != 0
    }

    /// Its priority; 0 where none was given.
    pub fn priority(&self) -> u8 {
        layout::priority(&self.0)
    }

    /// The priority that it was given, which may be 0. In a block of an older version a given 0
    /// looks like none.
    #[inline]
    pub(crate) fn given_priority(&self) -> Option<u8> {
        let priority = self.priority();
        let given = self.0[2] & PRIORITY_GIVEN != 0 || priority != 0;
        given.then_some(priority)
    }

    /// When it was published, in milliseconds since 1970.
    pub fn published_at(&self) -> u64 {
        layout::published_at(&self.0)
    }

    /// Its own time to live in milliseconds, if it has one. A dead letter that expired has none.
    #[inline]
    pub fn expiration(&self) -> Option<u64> {
        layout::expiration(&self.0)
    }

    /// When it expires by its own time to live, in milliseconds since 1970.
    pub fn expires_at(&self) -> Option<u64> {
        Some(self.published_at().saturating_add(self.expiration()?))
    }

    /// What consumers are sent.
    #[inline]
    pub fn sent(&self) -> Sent<'_> {
        let layout::Parts { short_address, properties, body } = layout::sent(&self.0);
        Sent { short_address, content: Content { properties, body } }
    }

    /// The exchange it was published to.
    pub fn exchange(&self) -> &str {
        std::str::from_utf8(&self.0[layout::exchange(&self.0)]).unwrap_or_default()
    }

    /// The routing key it was published with.
    pub fn routing_key(&self) -> &str {
        std::str::from_utf8(&self.0[layout::routing_key(&self.0)]).unwrap_or_default()
    }

    /// Its properties, in the encoding of its dialect, exactly as published.
    #[inline]
    pub fn properties(&self) -> &[u8] {
        &self.0[layout::properties(&self.0)]
    }

    /// What its publisher wrote.
    #[inline]
    pub fn content(&self) -> Content<'_> {
        self.sent().content
    }

    /// Its history in this broker, if it has one.
    pub fn annotations(&self) -> Option<Annotations> {
        let bytes = self.marks_bytes();
        if bytes.is_empty() { None } else { Annotations::decode(bytes).ok() }
    }

    /// Its annotations as they are stored; empty for none.
    pub(crate) fn marks_bytes(&self) -> &[u8] {
        &self.0[layout::annotations(&self.0)]
    }

    /// Which connection published it; empty if that is not known. It is for comparison alone, and
    /// no protocol shows it.
    pub fn publisher(&self) -> &[u8] {
        &self.0[layout::publisher(&self.0)]
    }

    /// True when it carries annotations.
    #[inline]
    pub(crate) fn is_marked(&self) -> bool {
        layout::is_annotated(&self.0)
    }

    /// The message with what consumers noted on it.
    pub(crate) fn noted(&self, notes: &Table) -> Self {
        let mut annotations = self.annotations().unwrap_or_default();
        annotations::merge(&mut annotations.noted, notes);
        let mut marks = Vec::new();
        annotations.encode(&mut marks);
        let head = Head {
            dialect: self.dialect(),
            persistent: self.persistent(),
            priority: self.given_priority(),
            published_at: self.published_at(),
            expiration: self.expiration(),
            copies: self.copies(),
            instructed: self.instructed(),
            delayed: self.was_delayed(),
            exchange: self.exchange(),
            routing_key: self.routing_key(),
            properties: self.properties(),
            annotations: &marks,
            publisher: self.publisher(),
        };
        let (front, body) = (head.front(), self.body());
        let mut block = BytesMut::with_capacity(front.length + body.len());
        head.put(front, body, &mut block);
        if self.is_retained() {
            layout::mark_retained(&mut block);
        }
        Self(block.freeze())
    }

    /// Its body.
    #[inline]
    pub fn body(&self) -> &[u8] {
        &self.0[layout::body_at(&self.0)..]
    }

    /// Its body by reference.
    pub fn body_shared(&self) -> Bytes {
        self.0.slice(layout::body_at(&self.0)..)
    }
}

/// The memory for the messages of one connection, or for some that come together, several to a
/// block.
#[derive(Debug)]
pub(crate) struct Arena {
    block: BytesMut,
    /// Bytes of a block.
    size: usize,
}

impl Default for Arena {
    /// For a connection, whose messages follow each other.
    fn default() -> Self {
        Self { block: BytesMut::new(), size: BLOCK }
    }
}

impl Arena {
    /// For a few messages of so many bytes in all, about. Its blocks take no more than these, so
    /// that what is counted of them is what they take.
    pub(crate) fn of_few(bytes: usize) -> Self {
        Self { block: BytesMut::new(), size: bytes.clamp(1, SMALL_BLOCK) }
    }

    /// Copies a stored block, which may lie in pieces.
    pub(crate) fn copy(&mut self, pieces: &[&[u8]]) -> Bytes {
        let mut piece = self.cut(pieces.iter().map(|piece| piece.len()).sum());
        pieces.iter().for_each(|bytes| piece.put_slice(bytes));
        piece.freeze()
    }

    /// Room for one message of `need` bytes. A large one has a block of its own: the rest of one
    /// that it shares would stay in memory with it. The room is cut off before it is written, since
    /// the count of those who share a block waits until the processor has stored what was written.
    #[inline]
    fn cut(&mut self, need: usize) -> BytesMut {
        if need > self.size / 2 {
            return BytesMut::with_capacity(need);
        }
        if self.block.capacity() < need {
            self.block = BytesMut::with_capacity(self.size);
        }
        let rest = self.block.split_off(need);
        std::mem::replace(&mut self.block, rest)
    }

    /// Writes a message.
    ///
    /// The exchange may have [`NAME_MAX`] bytes, the key [`KEY_MAX`], and the rest under 4 GiB.
    ///
    /// Part of its caller, which puts the message where it stays: to move it afterwards would wait
    /// for the copy of the body.
    #[inline(always)]
    pub(crate) fn add(&mut self, head: &Head<'_>, body: &[u8]) -> Message {
        let front = head.front();
        let mut block = self.cut(front.length + body.len());
        head.put(front, body, &mut block);
        Message(block.freeze())
    }

    /// The same; a body that was gathered is not copied.
    #[inline]
    pub(crate) fn add_body(&mut self, head: &Head<'_>, body: Body<'_>) -> Message {
        match body {
            Body::Borrowed(body) => self.add(head, body),
            Body::Gathered(gathered) => {
                let front = head.front();
                gathered
                    .complete(front.length, |mut place| head.write(front, &mut place))
                    .unwrap_or_else(|gathered| self.add(head, gathered.as_slice()))
            }
        }
    }
}

#[cfg(test)]
mod tests;
