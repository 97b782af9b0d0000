//! The connection that published a message, for consumers that leave out what it publishes itself.
//!
//! Invariant: no two connections have the same identity, also after a restart. It is in the block
//! only of what is published by a connection that has, or has had, such a consumer.

/// Bytes of an identity.
pub(super) const LENGTH: usize = 12;

/// The identity of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PublisherId([u8; LENGTH]);

impl PublisherId {
    /// The identity of the client with this number, which no other has in this process, and which
    /// first asked for it at `now`, in milliseconds since 1970.
    pub(crate) fn new(client: u64, now: u64) -> Self {
        let mut bytes = [0; LENGTH];
        bytes[..6].copy_from_slice(&now.to_le_bytes()[..6]);
        bytes[6..].copy_from_slice(&client.to_le_bytes()[..6]);
        Self(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}
