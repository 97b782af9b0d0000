//! Transfers put together to deliveries. A message that came in one transfer is not copied.

use std::borrow::Cow;

use crate::codec::DeliveryState;
use crate::codec::performative::Transfer;
use crate::limits::{DELIVERY_TAG, TRANSFERS};

/// At most 32 bytes, in place: a delivery's tag, or the id of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShortBytes {
    length: u8,
    bytes: [u8; DELIVERY_TAG],
}

impl ShortBytes {
    /// A copy of `bytes`, unless they are too many.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut copy = [0; DELIVERY_TAG];
        copy.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self { length: bytes.len() as u8, bytes: copy })
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length.into()]
    }
}

impl std::fmt::Debug for ShortBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_bytes().fmt(f)
    }
}

/// One whole delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery<'a> {
    /// Its number in the session.
    pub id: u32,
    /// Its name on the link.
    pub tag: ShortBytes,
    /// The format of the message; 0 is the specification's.
    pub format: u32,
    /// Whether the sender has settled it.
    pub settled: bool,
    /// Whether it takes up a delivery of an earlier attachment of its link (part 2, §2.7.5).
    pub resumed: bool,
    /// The transaction that it is part of.
    pub transaction: Option<ShortBytes>,
    /// The message.
    pub message: Cow<'a, [u8]>,
}

/// What a transfer was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<'a> {
    /// More follows.
    Incomplete,
    /// The last or only part.
    Complete(Delivery<'a>),
    /// The sender has given up the delivery with this number. It is settled.
    Aborted(u32),
}

/// Transfers that do not fit together. The link can't go on after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssemblyError {
    /// The first transfer of a delivery lacks what it must have.
    Missing(&'static str),
    /// A later transfer says something else than the first.
    Changed(&'static str),
    /// A tag or the id of a transaction has more than 32 bytes.
    TooLong(&'static str),
    /// The message is larger than the link allows: this many bytes.
    TooLarge(usize),
    /// The message has more transfers than [`TRANSFERS`].
    TooMany,
}

impl std::fmt::Display for AssemblyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(field) => write!(f, "the first transfer of a delivery has no {field}"),
            Self::Changed(field) => write!(f, "a transfer has another {field} than the delivery that it continues"),
            Self::TooLong(field) => write!(f, "a {field} has more than {DELIVERY_TAG} bytes"),
            Self::TooLarge(max) => write!(f, "a message is larger than the link's limit of {max} bytes"),
            Self::TooMany => write!(f, "a message has more than {TRANSFERS} transfers"),
        }
    }
}

impl std::error::Error for AssemblyError {}

/// The receiving end of one link.
#[derive(Debug)]
pub struct Assembly {
    max_message_size: usize,
    open: Option<Open>,
}

/// A delivery of which more is to come.
#[derive(Debug)]
struct Open {
    first: First,
    bytes: Vec<u8>,
    transfers: u32,
}

/// What the first transfer says, and a later one may add to.
#[derive(Debug, Clone, Copy)]
struct First {
    id: u32,
    tag: ShortBytes,
    format: u32,
    settled: bool,
    resumed: bool,
    transaction: Option<ShortBytes>,
}

impl Assembly {
    /// Takes messages of at most this many bytes.
    pub fn new(max_message_size: usize) -> Self {
        Self { max_message_size, open: None }
    }

    /// How many bytes it holds of a message that is not whole yet.
    pub fn held(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.bytes.capacity())
    }

    /// Takes the next transfer of the link with the bytes behind it.
    ///
    /// # Errors
    /// If it does not fit to those before, or exceeds a limit. What was gathered is dropped then.
    #[inline]
    pub fn transfer<'a>(&mut self, transfer: &Transfer<'_>, payload: &'a [u8]) -> Result<Step<'a>, AssemblyError> {
        let mut open = match self.open.take() {
            Some(open) => open.continued(transfer)?,
            None if is_whole(transfer) && payload.len() <= self.max_message_size => {
                return Ok(Step::Complete(First::of(transfer)?.delivery(Cow::Borrowed(payload))));
            }
            None => Open { first: First::of(transfer)?, bytes: Vec::new(), transfers: 1 },
        };
        // Whatever else such a transfer says or brings is void (§2.7.5).
        if transfer.aborted {
            return Ok(Step::Aborted(open.first.id));
        }
        if open.bytes.len() + payload.len() > self.max_message_size {
            return Err(AssemblyError::TooLarge(self.max_message_size));
        }
        open.bytes.extend_from_slice(payload);
        if transfer.more {
            self.open = Some(open);
            return Ok(Step::Incomplete);
        }
        Ok(Step::Complete(open.first.delivery(Cow::Owned(open.bytes))))
    }
}

impl Open {
    /// With one more transfer.
    fn continued(mut self, transfer: &Transfer<'_>) -> Result<Self, AssemblyError> {
        let first = &mut self.first;
        if transfer.delivery_id.is_some_and(|id| id != first.id) {
            return Err(AssemblyError::Changed("delivery-id"));
        }
        if transfer.delivery_tag.is_some_and(|tag| tag != first.tag.as_bytes()) {
            return Err(AssemblyError::Changed("delivery-tag"));
        }
        if transfer.message_format.is_some_and(|format| format != first.format) {
            return Err(AssemblyError::Changed("message-format"));
        }
        // Settled once is settled for good (§2.7.5).
        first.settled |= transfer.settled == Some(true);
        if let Some(transaction) = transaction(transfer)? {
            first.transaction = Some(transaction);
        }
        self.transfers += 1;
        if self.transfers > TRANSFERS { Err(AssemblyError::TooMany) } else { Ok(self) }
    }
}

impl First {
    fn of(transfer: &Transfer<'_>) -> Result<Self, AssemblyError> {
        let tag = transfer.delivery_tag.ok_or(AssemblyError::Missing("delivery-tag"))?;
        Ok(Self {
            id: transfer.delivery_id.ok_or(AssemblyError::Missing("delivery-id"))?,
            tag: ShortBytes::new(tag).ok_or(AssemblyError::TooLong("delivery-tag"))?,
            format: transfer.message_format.unwrap_or(0),
            settled: transfer.settled == Some(true),
            resumed: transfer.resume,
            transaction: transaction(transfer)?,
        })
    }

    fn delivery(self, message: Cow<'_, [u8]>) -> Delivery<'_> {
        let Self { id, tag, format, settled, resumed, transaction } = self;
        Delivery { id, tag, format, settled, resumed, transaction, message }
    }
}

/// Whether a first transfer is the only one of its delivery, as nearly all are.
fn is_whole(transfer: &Transfer<'_>) -> bool {
    !transfer.more && !transfer.aborted
}

/// The transaction that a transfer is part of.
fn transaction(transfer: &Transfer<'_>) -> Result<Option<ShortBytes>, AssemblyError> {
    match transfer.state {
        Some(DeliveryState::Transactional(state)) => {
            ShortBytes::new(state.txn_id).map(Some).ok_or(AssemblyError::TooLong("txn-id"))
        }
        _ => Ok(None),
    }
}
