//! The states of a delivery (part 3, §3.4; part 4, §4.5): how far it came, and how it ended.

use wire::{DecodeError, Reader};

use crate::codec::composite::{Composite, Field, FieldError, composites, read_list};
use crate::codec::descriptor::read_descriptor;
use crate::codec::encode::Encode;
use crate::codec::error::Error;
use crate::codec::value::{Budget, Map};

composites! {
    /// How much of a message has arrived (§3.4.1).
    0x23 "received" Received {
        section_number: u32,
        section_offset: u64,
    }
    /// It is done (§3.4.2).
    0x24 "accepted" Accepted {}
    /// It is invalid (§3.4.3).
    0x25 "rejected" Rejected<'a> {
        error: Option<Error<'a>>,
    }
    /// It was not and will not be acted upon (§3.4.4).
    0x26 "released" Released {}
    /// It was not acted upon, and is different from now on (§3.4.5).
    0x27 "modified" Modified<'a> {
        delivery_failed: bool = false,
        undeliverable_here: bool = false,
        message_annotations: Option<Map<'a>>,
    }
    /// A transaction was made (§4.5.4).
    0x33 "declared" Declared<'a> {
        txn_id: &'a [u8],
    }
    /// What happens to it is part of a transaction (§4.5.5).
    0x34 "transactional-state" TransactionalState<'a> {
        txn_id: &'a [u8],
        outcome: Option<Outcome<'a>>,
    }
}

/// How a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs, reason = "each variant is documented at its structure")]
pub enum Outcome<'a> {
    Accepted,
    Rejected(Rejected<'a>),
    Released,
    Modified(Modified<'a>),
    Declared(Declared<'a>),
}

/// Any state of a delivery.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs, reason = "each variant is documented at its structure")]
pub enum DeliveryState<'a> {
    Received(Received),
    Outcome(Outcome<'a>),
    Transactional(TransactionalState<'a>),
}

/// Reads the outcome whose descriptor was `code`.
fn read_outcome<'a>(code: u64, reader: &mut Reader<'a>, budget: &mut Budget) -> Result<Outcome<'a>, FieldError> {
    match code {
        Accepted::CODE => read_list(reader, budget).map(|Accepted {}| Outcome::Accepted),
        Rejected::CODE => read_list(reader, budget).map(Outcome::Rejected),
        Released::CODE => read_list(reader, budget).map(|Released {}| Outcome::Released),
        Modified::CODE => read_list(reader, budget).map(Outcome::Modified),
        Declared::CODE => read_list(reader, budget).map(Outcome::Declared),
        _ => Err(DecodeError::Malformed("this is no state of a delivery").into()),
    }
}

impl<'a> Field<'a> for Outcome<'a> {
    fn read(reader: &mut Reader<'a>, budget: &mut Budget) -> Result<Self, FieldError> {
        read_outcome(read_descriptor(reader)?, reader, budget)
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
}

impl Encode for Outcome<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Accepted => Accepted {}.encode(out),
            Self::Rejected(rejected) => rejected.encode(out),
            Self::Released => Released {}.encode(out),
            Self::Modified(modified) => modified.encode(out),
            Self::Declared(declared) => declared.encode(out),
        }
    }
}

impl<'a> Field<'a> for DeliveryState<'a> {
    fn read(reader: &mut Reader<'a>, budget: &mut Budget) -> Result<Self, FieldError> {
        match read_descriptor(reader)? {
            Received::CODE => read_list(reader, budget).map(Self::Received),
            TransactionalState::CODE => read_list(reader, budget).map(Self::Transactional),
            code => read_outcome(code, reader, budget).map(Self::Outcome),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
}

impl Encode for DeliveryState<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Received(received) => received.encode(out),
            Self::Outcome(outcome) => outcome.encode(out),
            Self::Transactional(state) => state.encode(out),
        }
    }
}
