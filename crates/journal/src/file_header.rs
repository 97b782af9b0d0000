//! The first block of a log file, and of a segment that has its own file.
//!
//! Invariant: the header of another journal, or one with a flipped bit, never decodes.

use std::io;

use crate::checksum::Checksums;
use crate::disk::DiskFile;
use crate::layout::FORMAT;
use crate::options::BLOCK;

const MAGIC: [u8; 6] = *b"HJfile";
/// The bytes of a file's header; the rest of its first block is zero.
pub(crate) const FILE_HEADER: usize = 32;

/// What the first block of a log file says.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) format: u16,
    pub(crate) incarnation: u64,
    pub(crate) generation: u32,
    /// The file's length.
    pub(crate) length: u32,
}

impl FileHeader {
    pub(crate) fn encode(&self) -> [u8; FILE_HEADER] {
        let mut out = [0; FILE_HEADER];
        out[0..6].copy_from_slice(&MAGIC);
        out[6..8].copy_from_slice(&self.format.to_le_bytes());
        out[8..16].copy_from_slice(&self.incarnation.to_le_bytes());
        out[16..20].copy_from_slice(&self.generation.to_le_bytes());
        out[20..24].copy_from_slice(&self.length.to_le_bytes());
        let sum = Checksums::new(self.incarnation, self.generation).of(&out[..FILE_HEADER - 4]);
        out[FILE_HEADER - 4..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// `None` if the bytes are not the whole header of some log file.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<FILE_HEADER>()?;
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let header = Self {
            format: u16::from_le_bytes([bytes[6], bytes[7]]),
            incarnation: u64::from(u32_at(8)) | u64::from(u32_at(12)) << 32,
            generation: u32_at(16),
            length: u32_at(20),
        };
        let sum = Checksums::new(header.incarnation, header.generation).of(&bytes[..FILE_HEADER - 4]);
        (bytes[0..6] == MAGIC && sum == u32_at(FILE_HEADER - 4)).then_some(header)
    }
}

/// Writes and flushes the first block of a file.
pub(crate) fn write_header(file: &dyn DiskFile, incarnation: u64, generation: u32, length: u32) -> io::Result<()> {
    let header = FileHeader { format: FORMAT, incarnation, generation, length };
    let mut block = [0; BLOCK as usize];
    block[..FILE_HEADER].copy_from_slice(&header.encode());
    file.write_all_at(&block, 0)?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_header_comes_back_and_no_flipped_bit_goes_unseen() {
        let header = FileHeader { format: 1, incarnation: 42, generation: 7, length: 1 << 20 };
        let bytes = header.encode();
        assert_eq!(FileHeader::decode(&bytes), Some(header));
        for bit in 0..FILE_HEADER * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FileHeader::decode(&damaged), None, "bit {bit}");
        }
        for cut in 0..FILE_HEADER {
            assert_eq!(FileHeader::decode(&bytes[..cut]), None);
        }
    }
}
