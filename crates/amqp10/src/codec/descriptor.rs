//! The descriptors of the types that the specification defines: their numbers and their names.
//!
//! A peer may write either. Numbers are what this crate compares and writes.

use wire::{DecodeError, Reader};

use crate::codec::format as code;
use crate::codec::value::{ValueRef, shallow};

/// Number and name of each type (parts 2 to 5).
pub(crate) const NAMES: [(u64, &str); 45] = [
    (0x10, "amqp:open:list"),
    (0x11, "amqp:begin:list"),
    (0x12, "amqp:attach:list"),
    (0x13, "amqp:flow:list"),
    (0x14, "amqp:transfer:list"),
    (0x15, "amqp:disposition:list"),
    (0x16, "amqp:detach:list"),
    (0x17, "amqp:end:list"),
    (0x18, "amqp:close:list"),
    (0x1d, "amqp:error:list"),
    (0x23, "amqp:received:list"),
    (0x24, "amqp:accepted:list"),
    (0x25, "amqp:rejected:list"),
    (0x26, "amqp:released:list"),
    (0x27, "amqp:modified:list"),
    (0x28, "amqp:source:list"),
    (0x29, "amqp:target:list"),
    (0x2b, "amqp:delete-on-close:list"),
    (0x2c, "amqp:delete-on-no-links:list"),
    (0x2d, "amqp:delete-on-no-messages:list"),
    (0x2e, "amqp:delete-on-no-links-or-messages:list"),
    (0x30, "amqp:coordinator:list"),
    (0x31, "amqp:declare:list"),
    (0x32, "amqp:discharge:list"),
    (0x33, "amqp:declared:list"),
    (0x34, "amqp:transactional-state:list"),
    (0x40, "amqp:sasl-mechanisms:list"),
    (0x41, "amqp:sasl-init:list"),
    (0x42, "amqp:sasl-challenge:list"),
    (0x43, "amqp:sasl-response:list"),
    (0x44, "amqp:sasl-outcome:list"),
    (0x70, "amqp:header:list"),
    (0x71, "amqp:delivery-annotations:map"),
    (0x72, "amqp:message-annotations:map"),
    (0x73, "amqp:properties:list"),
    (0x74, "amqp:application-properties:map"),
    (0x75, "amqp:data:binary"),
    (0x76, "amqp:amqp-sequence:list"),
    (0x77, "amqp:amqp-value:*"),
    (0x78, "amqp:footer:map"),
    // Filters, of which clients write either form (the specification leaves filters to registries).
    (0x468c_0000_0003, "apache.org:no-local-filter:list"),
    (0x468c_0000_0004, "apache.org:selector-filter:string"),
    (0x120, "amqp:sql-filter"),
    (0x173, "amqp:properties-filter"),
    (0x174, "amqp:application-properties-filter"),
];

/// The number of the type that `descriptor` names or numbers.
pub fn descriptor_code(descriptor: &ValueRef<'_>) -> Option<u64> {
    match *descriptor {
        ValueRef::U64(code) => Some(code),
        ValueRef::Symbol(symbol) => NAMES.iter().find(|(_, name)| *name == symbol).map(|(code, _)| *code),
        _ => None,
    }
}

/// Reads the descriptor of the value at the front of `reader`, which stands at the value then.
#[inline]
pub(crate) fn read_descriptor(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    match *reader.rest() {
        // What almost every peer writes.
        [code::DESCRIBED, code::ULONG_8, number, ..] => {
            reader.bytes(3)?;
            Ok(number.into())
        }
        [code::DESCRIBED, ..] => {
            reader.u8()?;
            let descriptor = shallow(reader)?;
            descriptor_code(&descriptor).ok_or(DecodeError::Malformed("no type has this descriptor"))
        }
        [] => Err(DecodeError::Truncated),
        _ => Err(DecodeError::Malformed("a described type has no descriptor")),
    }
}
