//! The responses of `/management` on their way to the peer.

use std::collections::VecDeque;

use broker::PublisherRoom;

use crate::codec::ValueRef;
use crate::codec::performative::Attach;

/// The responses of a link that the peer has not given credit for.
#[derive(Debug, Default)]
pub(super) struct Responses {
    /// The name of the link, which the link of the requests has, too.
    pub(super) name: String,
    /// The handle of that link, once a request has come.
    pub(super) requests: Option<u32>,
    /// The messages.
    pub(super) waiting: VecDeque<Vec<u8>>,
    /// What the link takes of the peer's memory.
    pub(super) _room: Option<PublisherRoom>,
}

/// A response that waits for the disk.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) channel: u16,
    /// The handle of the link that it goes to.
    pub(super) handle: u32,
    pub(super) message: Vec<u8>,
}

/// Whether a link has the property `paired`, as all links of RabbitMQ's clients have.
pub(super) fn is_paired(attach: &Attach<'_>) -> bool {
    let mut properties = attach.properties.into_iter().flat_map(|map| map.iter());
    properties.any(|(name, value)| name.as_text() == Some("paired") && matches!(value, ValueRef::Bool(true)))
}
