//! The checksum that every header, record and body on disk carries.
//!
//! Invariant: it is seeded with the incarnation and the generation. So bytes of an earlier
//! generation in a recycled file, or of another journal, never validate.

use crc_fast::{CrcAlgorithm, Digest};

/// Checksums for one generation of a file of one journal: CRC-32C (Castagnoli) with a seeded start.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Checksums {
    seed: u64,
}

impl Checksums {
    pub(crate) fn new(incarnation: u64, generation: u32) -> Self {
        let mut seed = [0; 12];
        seed[..8].copy_from_slice(&incarnation.to_le_bytes());
        seed[8..].copy_from_slice(&generation.to_le_bytes());
        Self { seed: u64::from(crc_fast::crc32_iscsi(&seed)) }
    }

    pub(crate) fn of(self, bytes: &[u8]) -> u32 {
        let mut sum = self.begin();
        sum.add(bytes);
        sum.value()
    }

    /// Begins the checksum of what comes piece by piece.
    pub(crate) fn begin(self) -> Sum {
        Sum(Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, self.seed))
    }

    /// The checksum of a body whose record is at `offset` of the file.
    pub(crate) fn body(self, offset: u32, bytes: &[u8]) -> u32 {
        self.two(&offset.to_le_bytes(), bytes)
    }

    /// The checksum of two pieces, one after the other.
    pub(crate) fn two(self, first: &[u8], second: &[u8]) -> u32 {
        let mut sum = self.begin();
        sum.add(first);
        sum.add(second);
        sum.value()
    }
}

/// Begins a checksum that depends on nothing but what is added.
pub(crate) fn unseeded() -> Sum {
    Sum(Digest::new(CrcAlgorithm::Crc32Iscsi))
}

/// A checksum under way.
pub(crate) struct Sum(Digest);

impl Sum {
    #[inline]
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all that was added.
    #[inline]
    pub(crate) fn value(&self) -> u32 {
        self.0.finalize() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_differ_by_incarnation_generation_and_place() {
        let sums = Checksums::new(1, 1);
        assert_ne!(sums.of(b"bytes"), Checksums::new(2, 1).of(b"bytes"));
        assert_ne!(sums.of(b"bytes"), Checksums::new(1, 2).of(b"bytes"));
        assert_ne!(sums.body(0, b"bytes"), sums.body(10, b"bytes"));
    }
}
