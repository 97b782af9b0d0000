//! The journal that writes nothing: bodies lie in memory while they are referenced, and facts are
//! dropped.
//!
//! Invariant: a segment goes when its live count falls to zero; what a group frees is freed when
//! the group ends.

use bytes::Bytes;

use crate::Address;
use crate::group::{Group, Groups};

/// How large a segment grows before the next one is begun; bodies of one age lie, and go, together.
const SEGMENT: u64 = 1 << 20;

/// Some bodies, one after the other: a four-byte length before each.
struct Segment {
    file: u32,
    bytes: Vec<u8>,
    live: u64,
}

/// All bodies, in segments of ascending number.
pub(crate) struct Memory {
    segments: Vec<Segment>,
    /// How large a segment grows.
    segment_bytes: usize,
    next: u32,
    used: u64,
    pub(crate) groups: Groups,
}

impl Memory {
    /// No bodies; they may take `limit` bytes in all.
    pub(crate) fn new(limit: u64) -> Self {
        let segment_bytes = SEGMENT.min(limit / 8) as usize;
        Self { segments: Vec::new(), segment_bytes, next: 1, used: 0, groups: Groups::new() }
    }

    /// Bytes held.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    pub(crate) fn segments(&self) -> usize {
        self.segments.len()
    }

    /// The number of the oldest segment, and its live count.
    pub(crate) fn oldest(&self) -> (u32, u64) {
        self.segments.first().map_or((self.next, 0), |segment| (segment.file, segment.live))
    }

    pub(crate) fn body(&mut self, parts: &[&[u8]]) -> Address {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let full = self.segments.last().is_none_or(|last| last.bytes.len() + len > self.segment_bytes);
        if full {
            self.segments.push(Segment { file: self.next, bytes: Vec::new(), live: 0 });
            self.next += 1;
        }
        let Some(segment) = self.segments.last_mut() else {
            return Address { file: 0, offset: 0 };
        };
        let address = Address { file: segment.file, offset: segment.bytes.len() as u32 };
        segment.bytes.extend_from_slice(&(len as u32).to_le_bytes());
        parts.iter().for_each(|part| segment.bytes.extend_from_slice(part));
        segment.live += 1;
        self.used += 4 + len as u64;
        address
    }

    pub(crate) fn hold(&mut self, file: u32, count: u64) {
        if let Some(segment) = self.segment(file) {
            segment.live += count;
        }
    }

    pub(crate) fn free(&mut self, file: u32, count: u64) {
        if let Some(segment) = self.segment(file) {
            debug_assert!(segment.live >= count, "more freed in segment {file} than was live");
            segment.live = segment.live.saturating_sub(count);
            if segment.live == 0 {
                self.drop_dead();
            }
        }
    }

    pub(crate) fn end(&mut self, group: Group) {
        self.groups.end(group).into_iter().for_each(|(file, count)| self.free(file, count));
    }

    pub(crate) fn read(&self, address: Address) -> Option<Bytes> {
        let at = self.segments.binary_search_by_key(&address.file, |segment| segment.file).ok()?;
        let (len, rest) = self.segments[at].bytes.get(address.offset as usize..)?.split_first_chunk::<4>()?;
        rest.get(..u32::from_le_bytes(*len) as usize).map(Bytes::copy_from_slice)
    }

    fn segment(&mut self, file: u32) -> Option<&mut Segment> {
        let at = self.segments.binary_search_by_key(&file, |segment| segment.file).ok()?;
        self.segments.get_mut(at)
    }

    fn drop_dead(&mut self) {
        self.segments.retain(|segment| segment.live > 0);
        self.used = self.segments.iter().map(|segment| segment.bytes.len() as u64).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_there_while_they_are_held_and_their_memory_goes_with_them() {
        let mut memory = Memory::new(1 << 30);
        let big = vec![7; SEGMENT as usize / 2];
        let addresses: Vec<_> = (0..10).map(|_| memory.body(&[&big, b"!"])).collect();
        assert!(memory.segments() >= 5);
        assert_eq!(memory.read(addresses[3]).unwrap().len(), big.len() + 1);
        for address in &addresses {
            memory.free(address.file, 1);
        }
        assert_eq!((memory.segments(), memory.used()), (0, 0));
        assert!(memory.read(addresses[3]).is_none());
        assert_ne!(memory.body(&[b"again"]), addresses[0], "an address is given once");
    }

    #[test]
    fn a_group_frees_when_it_ends() {
        let mut memory = Memory::new(1 << 30);
        let address = memory.body(&[b"x"]);
        let group = memory.groups.begin(crate::LogId::SYSTEM, 1);
        memory.groups.freed(group).unwrap().add(address.file, 1);
        assert_eq!(memory.oldest().1, 1);
        memory.end(group);
        assert_eq!(memory.segments(), 0);
    }
}
