//! The state of a channel between the frames of a publish.

use broker::{Charge, Gathered};

/// The address of a message, kept until its body is complete.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) exchange: String,
    pub(super) routing_key: String,
    pub(super) mandatory: bool,
}

/// The next frame that a channel expects.
#[derive(Debug)]
pub(super) enum Incoming {
    Method,
    Header(Address),
    /// A body. The broker counts the part that has arrived, if the body is small and has several
    /// frames.
    Body {
        address: Address,
        properties: Vec<u8>,
        size: u64,
        body: Gathered,
        charge: Option<Charge>,
    },
}

impl Incoming {
    /// Drops the content that has arrived and returns the bytes of its body.
    pub(super) fn abandon(&mut self) -> u64 {
        match std::mem::replace(self, Self::Method) {
            Self::Body { body, properties, .. } => (body.len() + properties.len()) as u64,
            _ => 0,
        }
    }
}
