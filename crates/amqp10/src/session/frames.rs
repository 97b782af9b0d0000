//! Frames on their way to the peer.

use wire::{Output, Reader};

use crate::codec::frame::{FrameKind, encode_frame};
use crate::codec::value::Budget;
use crate::codec::{Encode, Map, Value, ValueRef, read_value};

/// Appends a frame that the peer has asked for, so that it counts while it is left unread.
pub(super) fn answer(output: &mut Output, channel: u16, performative: &impl Encode) {
    let tail = output.tail();
    let before = tail.len();
    encode_frame(tail, FrameKind::Amqp, channel, performative);
    let length = tail.len() - before;
    output.count_answer(length);
}

/// The bytes of a frame that has to wait.
pub(super) fn frame(channel: u16, performative: &impl Encode) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_frame(&mut bytes, FrameKind::Amqp, channel, performative);
    bytes
}

/// A map, as a field of a performative.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnMap(Vec<u8>);

impl OwnMap {
    pub(super) fn new(pairs: Vec<(Value, Value)>) -> Self {
        Self(Value::Map(pairs).to_bytes())
    }

    pub(super) fn get(&self) -> Option<Map<'_>> {
        // This was just encoded, so it is a map.
        match read_value(&mut Reader::new(&self.0), &mut Budget::default()) {
            Ok(ValueRef::Map(map)) => Some(map),
            _ => None,
        }
    }
}
