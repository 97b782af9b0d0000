//! Who published a message, for consumers that leave out what they publish themselves.
//!
//! Invariant: no two connections have the same identity, also after a restart, but those that name
//! the same client. It is in the block only of what is published by a connection that names its
//! client, or has, or has had, such a consumer.

/// Bytes of an identity.
pub(super) const LENGTH: usize = 12;

/// The byte that is 255 where a client is named. In the identity of a connection it is the highest
/// of the time, for some eight thousand years.
const NAMED: usize = 5;

/// The identity of a connection, or of the client that it names.
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

    /// The identity of the client of this name, whatever connection it has.
    pub(crate) fn named(client: &str) -> Self {
        // FNV-1a of 128 bits (Fowler, Noll, Vo). It stays as it is: messages outlive processes.
        let fold = |hash: u128, byte: &u8| (hash ^ u128::from(*byte)).wrapping_mul((1 << 88) + 0x13B);
        let digest = client.as_bytes().iter().fold(0x6C62_272E_07BB_0142_62B8_2175_6295_C58D, fold);
        let mut bytes = [0; LENGTH];
        bytes.copy_from_slice(&digest.to_le_bytes()[..LENGTH]);
        bytes[NAMED] = u8::MAX;
        Self(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_the_same_for_ever_and_no_connection() {
        // The digest of the offset alone, and of "a", by the authors' tables.
        assert_eq!(PublisherId::named("").bytes()[..5], [0x8D, 0xC5, 0x95, 0x62, 0x75]);
        assert_eq!(PublisherId::named("a").bytes()[..5], [0x64, 0x89, 0x4A, 0x4E, 0x70]);
        assert_ne!(PublisherId::named("a"), PublisherId::named("b"));
        let connection = PublisherId::new(u64::MAX, 1 << 47);
        assert_ne!(connection.bytes()[NAMED], u8::MAX);
    }
}
