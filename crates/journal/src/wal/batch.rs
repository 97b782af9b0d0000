//! A batch: the unit of writing and of integrity. This file has its header and its bytes.
//!
//! Invariant: a batch that decodes was written by this journal, for this generation of its file, at
//! this offset, and after exactly the batch before it. The checksum is seeded with the incarnation
//! and the generation (`checksum.rs`).

use parking_lot::RwLock;

use crate::Address;
use crate::checksum::Checksums;
use crate::layout::{FORMAT, is_read};
use crate::log::{LogEnd, LogId};
use crate::wal::identity::{Advance, Identity};

/// The bytes before a batch's records.
pub(crate) const HEADER: usize = 128;

const MAGIC: [u8; 4] = *b"HJba";
/// The first format in which a batch belongs to a log.
const WITH_LOGS: u16 = 2;
/// The flag of a batch of restated facts.
const HOUSEKEEPING: u16 = 1;

/// What the records of a batch are.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum BatchKind {
    /// What happened.
    News,
    /// Facts that are stated again, to let a file go.
    Housekeeping,
}

/// What the header of a batch says.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct BatchHeader {
    pub(crate) incarnation: u64,
    pub(crate) generation: u32,
    /// Where in the file the batch starts.
    pub(crate) offset: u32,
    /// The oldest generation that was still needed when the batch was closed.
    pub(crate) oldest: u32,
    /// Ascends by one from batch to batch, across files.
    pub(crate) sequence: u64,
    /// The sequence up to which everything was flushed when this batch was written: the proof that
    /// it may have been acknowledged.
    pub(crate) durable: u64,
    /// Bytes of records.
    pub(crate) length: u32,
    pub(crate) records: u32,
    /// The header checksum of the batch before.
    pub(crate) previous: u32,
    /// The checksum of the records.
    pub(crate) payload: u32,
    pub(crate) kind: BatchKind,
    /// The log that the batch belongs to, and its place in it; none in format 1.
    pub(crate) identity: Option<Identity>,
}

impl BatchKind {
    fn of(flags: u16) -> Self {
        if flags & HOUSEKEEPING != 0 { Self::Housekeeping } else { Self::News }
    }

    /// Whether so many records of this kind move their log forward.
    fn advance(self, records: u32) -> Advance {
        match self {
            Self::News if records > 0 => Advance::Yes,
            Self::News | Self::Housekeeping => Advance::No,
        }
    }

    fn flags(self) -> u16 {
        match self {
            Self::News => 0,
            Self::Housekeeping => HOUSEKEEPING,
        }
    }
}

/// The checksum of a header, which the next batch repeats.
pub(crate) type Link = u32;

impl BatchHeader {
    /// The bytes the batch takes in its file, padding included.
    pub(crate) fn footprint(&self) -> u32 {
        footprint(HEADER + self.length as usize)
    }

    /// Whether the batch moves its log forward.
    pub(crate) fn advance(&self) -> Advance {
        self.kind.advance(self.records)
    }

    /// The term in which the batch was written.
    pub(crate) fn term(&self) -> u64 {
        self.identity.map_or(0, |identity| identity.end.term)
    }

    pub(crate) fn encode(&self, sums: Checksums, out: &mut [u8; HEADER]) -> Link {
        out.fill(0);
        out[0..4].copy_from_slice(&MAGIC);
        out[4..6].copy_from_slice(&self.format().to_le_bytes());
        out[6..8].copy_from_slice(&self.kind.flags().to_le_bytes());
        out[8..16].copy_from_slice(&self.incarnation.to_le_bytes());
        out[16..20].copy_from_slice(&self.generation.to_le_bytes());
        out[20..24].copy_from_slice(&self.offset.to_le_bytes());
        out[24..32].copy_from_slice(&self.sequence.to_le_bytes());
        out[32..40].copy_from_slice(&self.durable.to_le_bytes());
        out[40..44].copy_from_slice(&self.oldest.to_le_bytes());
        out[44..48].copy_from_slice(&self.length.to_le_bytes());
        out[48..52].copy_from_slice(&self.records.to_le_bytes());
        out[52..56].copy_from_slice(&self.previous.to_le_bytes());
        out[56..60].copy_from_slice(&self.payload.to_le_bytes());
        if let Some(Identity { end, commit }) = self.identity {
            out[60..64].copy_from_slice(&end.link.to_le_bytes());
            out[64..72].copy_from_slice(&u64::from(end.log.number()).to_le_bytes());
            out[72..80].copy_from_slice(&end.term.to_le_bytes());
            out[80..88].copy_from_slice(&end.index.to_le_bytes());
            out[88..96].copy_from_slice(&commit.to_le_bytes());
        }
        let link = sums.of(&out[..HEADER - 4]);
        out[HEADER - 4..].copy_from_slice(&link.to_le_bytes());
        link
    }

    fn format(&self) -> u16 {
        if self.identity.is_some() { FORMAT } else { WITH_LOGS - 1 }
    }

    /// Whether `bytes` look like the header of batch `sequence` at this place, though a bit of them
    /// may have changed.
    pub(crate) fn resembles(
        bytes: &[u8; HEADER],
        incarnation: u64,
        (generation, offset): (u32, u32),
        sequence: u64,
    ) -> bool {
        let alike = [
            bytes[0..4] == MAGIC,
            bytes[8..16] == incarnation.to_le_bytes(),
            bytes[16..20] == generation.to_le_bytes(),
            bytes[20..24] == offset.to_le_bytes(),
            bytes[24..32] == sequence.to_le_bytes(),
        ];
        // What an earlier generation has left here differs in two of them at least.
        alike.iter().filter(|alike| **alike).count() + 1 >= alike.len()
    }

    /// Reads a header that claims to be of generation `generation` at `offset`; `None` if it is
    /// anything else.
    pub(crate) fn decode(bytes: &[u8], incarnation: u64, generation: u32, offset: u32) -> Option<(Self, Link)> {
        let bytes = bytes.first_chunk::<HEADER>()?;
        let (header, link) = Self::decode_any(bytes, incarnation)?;
        (header.generation == generation && header.offset == offset).then_some((header, link))
    }

    /// Reads a header of this journal, wherever it was meant to be.
    pub(crate) fn decode_any(bytes: &[u8; HEADER], incarnation: u64) -> Option<(Self, Link)> {
        let format = u16::from_le_bytes([bytes[4], bytes[5]]);
        if bytes[0..4] != MAGIC || !is_read(format) {
            return None;
        }
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let identity = match format >= WITH_LOGS {
            true => Some(Identity {
                end: LogEnd {
                    log: u32::try_from(u64_at(64)).ok().and_then(LogId::new)?,
                    term: u64_at(72),
                    index: u64_at(80),
                    link: u32_at(60),
                },
                commit: u64_at(88),
            }),
            false => None,
        };
        let header = Self {
            kind: BatchKind::of(u16::from_le_bytes([bytes[6], bytes[7]])),
            incarnation: u64_at(8),
            generation: u32_at(16),
            offset: u32_at(20),
            sequence: u64_at(24),
            durable: u64_at(32),
            oldest: u32_at(40),
            length: u32_at(44),
            records: u32_at(48),
            previous: u32_at(52),
            payload: u32_at(56),
            identity,
        };
        let link = u32_at(HEADER - 4);
        let right = header.incarnation == incarnation
            && Checksums::new(incarnation, header.generation).of(&bytes[..HEADER - 4]) == link;
        right.then_some((header, link))
    }
}

/// The most bytes of records that a batch has in a file of `file` bytes.
pub(crate) fn most_records(file: u32) -> u64 {
    u64::from(file) - u64::from(crate::options::BLOCK) - HEADER as u64
}

/// `length` rounded up to whole blocks.
pub(crate) fn footprint(length: usize) -> u32 {
    (length as u32).next_multiple_of(crate::options::BLOCK)
}

/// A batch in memory, from its first record until it is written.
pub(crate) struct Batch {
    pub(crate) log: LogId,
    /// The index of its log with it.
    pub(crate) index: u64,
    /// The end of its log with it, where it came from another journal.
    pub(crate) sent: Option<LogEnd>,
    pub(crate) file: u32,
    pub(crate) offset: u32,
    pub(crate) sequence: u64,
    pub(crate) oldest: u32,
    pub(crate) records: u32,
    /// The bytes of its records; known when it is closed.
    pub(crate) length: u32,
    pub(crate) kind: BatchKind,
    /// Room for the header, then the records. Locked because readers may want a body while the
    /// writer fills in checksums; until the batch is closed it is only reached through `get_mut`.
    pub(crate) bytes: RwLock<Vec<u8>>,
}

impl Batch {
    /// Whether it moves its log forward.
    pub(crate) fn advance(&self) -> Advance {
        self.kind.advance(self.records)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Where it begins.
    pub(crate) fn start(&self) -> Address {
        Address { file: self.file, offset: self.offset }
    }

    /// Where it ends, padding included; to be asked of a closed one.
    pub(crate) fn end(&self) -> Address {
        Address { file: self.file, offset: self.offset + footprint(HEADER + self.length as usize) }
    }

    /// Header and records, without padding.
    pub(crate) fn len(&mut self) -> usize {
        self.bytes.get_mut().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> BatchHeader {
        BatchHeader {
            incarnation: 0x1122_3344_5566_7788,
            generation: 7,
            offset: 8192,
            oldest: 3,
            sequence: 99,
            durable: 98,
            length: 5000,
            records: 12,
            previous: 0xdead_beef,
            payload: 0xfeed_face,
            kind: BatchKind::Housekeeping,
            identity: Some(Identity {
                end: LogEnd { log: LogId::new(1).unwrap(), term: 4, index: 17, link: 0xabad_cafe },
                commit: 16,
            }),
        }
    }

    #[test]
    fn a_header_has_the_bytes_the_format_page_draws() {
        let mut bytes = [0; HEADER];
        sample().encode(Checksums::new(sample().incarnation, 7), &mut bytes);
        assert_eq!(bytes[0..8], *b"HJba\x02\x00\x01\x00");
        let log: Vec<u8> = [&0xabad_cafe_u32.to_le_bytes()[..], &1u64.to_le_bytes(), &4u64.to_le_bytes()].concat();
        assert_eq!(bytes[60..80], log);
        assert_eq!(bytes[80..96], [17u64.to_le_bytes(), 16u64.to_le_bytes()].concat());
        assert_eq!(bytes[96..124], [0; 28]);
    }

    #[test]
    fn a_header_of_format_1_is_read_and_belongs_to_no_log() {
        let header = BatchHeader { identity: None, ..sample() };
        let mut bytes = [0; HEADER];
        let link = header.encode(Checksums::new(header.incarnation, 7), &mut bytes);
        assert_eq!((bytes[4], &bytes[60..124]), (1, &[0; 64][..]));
        assert_eq!(BatchHeader::decode(&bytes, header.incarnation, 7, 8192), Some((header, link)));
    }

    #[test]
    fn a_header_with_any_bit_flipped_still_resembles_itself_and_none_of_another_generation() {
        let header = sample();
        let mut bytes = [0; HEADER];
        header.encode(Checksums::new(header.incarnation, 7), &mut bytes);
        for bit in 0..HEADER * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(BatchHeader::resembles(&damaged, header.incarnation, (7, 8192), 99), "bit {bit}");
        }
        assert!(!BatchHeader::resembles(&bytes, header.incarnation, (8, 8192), 120));
        assert!(!BatchHeader::resembles(&[0; HEADER], header.incarnation, (7, 8192), 99));
    }

    #[test]
    fn a_header_comes_back_and_only_where_it_belongs() {
        let header = sample();
        let mut bytes = [0; HEADER];
        let link = header.encode(Checksums::new(header.incarnation, 7), &mut bytes);
        assert_eq!(BatchHeader::decode(&bytes, header.incarnation, 7, 8192), Some((header, link)));
        assert_eq!(BatchHeader::decode(&bytes, header.incarnation, 8, 8192), None);
        assert_eq!(BatchHeader::decode(&bytes, header.incarnation, 7, 4096), None);
        assert_eq!(BatchHeader::decode(&bytes, header.incarnation + 1, 7, 8192), None);
        assert_eq!(header.footprint(), 8192);
    }

    #[test]
    fn a_header_with_any_bit_flipped_is_no_header() {
        let header = sample();
        let mut bytes = [0; HEADER];
        header.encode(Checksums::new(header.incarnation, 7), &mut bytes);
        for bit in 0..HEADER * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(BatchHeader::decode(&damaged, header.incarnation, 7, 8192), None, "bit {bit}");
        }
    }
}
