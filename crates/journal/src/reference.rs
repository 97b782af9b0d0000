//! What an owner references, and how the references to a segment are listed: by page.

use crate::ticket::Address;

/// How many consecutive sequence numbers of an owner make a page: those with the same quotient by
/// this.
pub const PAGE: u64 = 4096;

/// One bit for each sequence number of a page; the lowest bit of the first word is the page's first
/// number.
pub type Bits = [u64; (PAGE / 64) as usize];

/// A reference, and where its body lies.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Reference {
    /// The sequence number.
    pub seq: u64,
    /// Where the body lies.
    pub address: Address,
    /// The length of the body in bytes; zero also where it is not known, as after a start.
    pub length: u32,
}

/// The references of one owner's page whose bodies lie in one segment.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// The number of the segment.
    pub segment: u32,
    /// Where in the segment's index the references are listed: a byte offset.
    pub block: u32,
    /// How many references there are, those settled since included.
    pub count: u32,
}
