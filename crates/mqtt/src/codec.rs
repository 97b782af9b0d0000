//! Packets of MQTT 3.1, 3.1.1 and 5.0 and their bytes, in both directions, without sockets or time.
//!
//! The decoder borrows from the received bytes, keeps no state and allocates nothing. Everything
//! that it gives keeps the rules of the specification which concern one packet alone.

mod decode;
mod encode;
mod fields;
mod kind;
mod packet;
mod property;
mod reason;
mod topic;
mod version;
mod violation;

pub use decode::{Header, decode};
pub use encode::{FilterList, ReasonList, encode};
pub use fields::{PacketId, TEXT_MAX, VARIABLE_MAX};
pub use kind::PacketKind;
pub use packet::{
    Ack, Asked, ConnAck, Connect, Filters, Granted, Notice, Options, Packet, Peer, Publish, Reasons, RetainHandling,
    Subscribe, SubscribeFilters, Unsubscribe, Will,
};
pub use property::{Properties, PropertyBlock, PropertyId, PropertyValue};
pub use reason::Reason;
pub use topic::Filter;
pub use version::{QoS, Version};
pub use violation::{PacketError, Violation};

#[cfg(test)]
mod tests;
