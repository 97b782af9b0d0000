//! What a body says about itself: 48 bytes in front, sealed together with the rest of the body by a
//! CRC32C, so that a delivery that the harness did not send, or that lost a byte, can't pass for
//! one that it did.

/// Whether a message is to outlive the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeliveryMode {
    Persistent,
    Transient,
}

/// First bytes of every body: "HMX1".
const MAGIC: u32 = 0x484d_5831;
/// Length of the stamp, and of the shortest body.
pub(crate) const STAMP: usize = 48;
/// Where the seal stands in the stamp.
const SEAL: usize = STAMP - 4;

/// A message's name: nothing else in a run has the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Id {
    /// The session that published it; every connection that publishes is a producer of its own.
    pub(crate) producer: u32,
    /// Counts a producer's messages from 0.
    pub(crate) seq: u64,
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "message {} of producer {}", self.seq, self.producer)
    }
}

/// What is known of a message from its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) id: Id,
    /// The transaction that brought it.
    pub(crate) transaction: Option<u64>,
    /// The queues that it was routed to, a bit for each.
    pub(crate) queues: u32,
    /// When it is due, in milliseconds since 1970; 0 for at once.
    pub(crate) due: u64,
}

/// Why a body is none of this run's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// Too short for a stamp.
    Short,
    /// Not this harness, or not this run.
    Foreign,
    /// Its length is not the one in its stamp.
    Length,
    /// A byte changed.
    Seal,
}

impl Stamp {
    /// A body of `size` bytes (at least [`STAMP`] are made) for the run `run`.
    pub(crate) fn body(&self, run: u32, size: usize) -> Vec<u8> {
        let size = size.max(STAMP);
        let mut body = Vec::with_capacity(size);
        body.extend_from_slice(&MAGIC.to_be_bytes());
        body.extend_from_slice(&run.to_be_bytes());
        body.extend_from_slice(&self.id.producer.to_be_bytes());
        body.extend_from_slice(&(size as u32).to_be_bytes());
        body.extend_from_slice(&self.id.seq.to_be_bytes());
        body.extend_from_slice(&self.transaction.unwrap_or(0).to_be_bytes());
        body.extend_from_slice(&self.queues.to_be_bytes());
        body.extend_from_slice(&self.due.to_be_bytes());
        body.extend_from_slice(&[0; 4]);
        body.extend((body.len()..size).map(|at| (at as u64).wrapping_mul(31).wrapping_add(self.id.seq) as u8));
        let seal = seal(&body);
        body[SEAL..STAMP].copy_from_slice(&seal.to_be_bytes());
        body
    }

    /// The first bytes of every body of a run.
    pub(crate) fn mark(run: u32) -> Vec<u8> {
        [MAGIC.to_be_bytes(), run.to_be_bytes()].concat()
    }

    /// The name in the first bytes of a body, if there is one, without a look at the rest.
    pub(crate) fn id_of(head: &[u8]) -> Option<Id> {
        head.strip_prefix(&MAGIC.to_be_bytes())?;
        let producer = head.get(8..12)?.try_into().ok()?;
        let seq = head.get(16..24)?.try_into().ok()?;
        Some(Id { producer: u32::from_be_bytes(producer), seq: u64::from_be_bytes(seq) })
    }

    /// Reads the stamp of a received body.
    pub(crate) fn read(run: u32, body: &[u8]) -> Result<Self, Damage> {
        let Some(head) = body.first_chunk::<STAMP>() else { return Err(Damage::Short) };
        let short = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let long = |at: usize| u64::from(short(at)) << 32 | u64::from(short(at + 4));
        if short(0) != MAGIC || short(4) != run {
            return Err(Damage::Foreign);
        }
        if short(12) as usize != body.len() {
            return Err(Damage::Length);
        }
        if short(SEAL) != seal(body) {
            return Err(Damage::Seal);
        }
        let transaction = Some(long(24)).filter(|number| *number != 0);
        Ok(Self { id: Id { producer: short(8), seq: long(16) }, transaction, queues: short(32), due: long(36) })
    }
}

/// The CRC32C of a body without the place where it stands.
fn seal(body: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&body[..SEAL]);
    digest.update(&body[STAMP..]);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_survives_and_no_changed_byte_does() {
        for (transaction, size) in [(None, 0), (Some(7), 40), (None, 41), (Some(u64::MAX), 900)] {
            let stamp = Stamp { id: Id { producer: 3, seq: 1 << 33 }, transaction, queues: 0b101, due: 1 << 40 };
            let body = stamp.body(9, size);
            assert_eq!(body.len(), size.max(STAMP));
            assert_eq!(Stamp::read(9, &body), Ok(stamp));
            assert_eq!(Stamp::read(8, &body), Err(Damage::Foreign));
            for at in 0..body.len() {
                let mut changed = body.clone();
                changed[at] ^= 1;
                assert!(Stamp::read(9, &changed).is_err(), "byte {at}");
                assert!(Stamp::read(9, &body[..at]).is_err(), "cut at {at}");
            }
        }
    }
}
