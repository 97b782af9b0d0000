//! The bytes waiting for one socket: small pieces copied into one buffer, large ones kept by
//! reference.
//!
//! Copying a piece under [`SHARE_FROM`] is cheaper than a reference count and an entry in the
//! vector of a gathering write.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

/// Pieces of at least this many bytes are referenced instead of copied (measured: equal at 4 KiB).
pub const SHARE_FROM: usize = 4096;
/// A buffer that has grown past this is given back when it has been written out. What an idle
/// connection keeps below it goes with [`Output::shrink`].
const KEEP: usize = 1024 * 1024;

/// Ordered bytes for one peer.
#[derive(Debug)]
pub struct Output {
    /// Finished pieces in front of `tail`.
    parts: VecDeque<Bytes>,
    parts_len: usize,
    tail: Vec<u8>,
    /// How much of `tail` has been written already.
    written: usize,
    /// The most that `tail` keeps when it has been written out, in bytes.
    keep: usize,
    /// Bytes of answers since nothing waited last.
    answers: usize,
}

impl Default for Output {
    fn default() -> Self {
        Self { parts: VecDeque::new(), parts_len: 0, tail: Vec::new(), written: 0, keep: KEEP, answers: 0 }
    }
}

impl Output {
    /// An output that keeps its memory however large it grows: for few connections that send large
    /// messages over and over.
    pub fn keeping_all() -> Self {
        Self { keep: usize::MAX, ..Self::default() }
    }

    /// Number of bytes waiting.
    pub fn len(&self) -> usize {
        self.parts_len + self.tail.len() - self.written
    }

    /// True when nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the peer causes by asking, as opposed to deliveries, which stop by themselves.
    /// All of them count until nothing waits any more.
    #[inline]
    pub fn answers(&self) -> usize {
        self.answers
    }

    /// The last `bytes` that were appended are an answer.
    #[inline]
    pub fn count_answer(&mut self, bytes: usize) {
        self.answers += bytes;
    }

    /// The buffer to append small pieces to. Never remove from it.
    #[inline]
    pub fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.tail
    }

    /// Appends a copy of `bytes`.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
    }

    /// Appends `bytes`, by reference where that is cheaper.
    #[inline]
    pub fn put_shared(&mut self, bytes: &Bytes) {
        if bytes.len() < SHARE_FROM {
            self.tail.extend_from_slice(bytes);
        } else {
            self.seal_tail();
            self.parts_len += bytes.len();
            self.parts.push_back(bytes.clone());
        }
    }

    fn seal_tail(&mut self) {
        if self.tail.len() > self.written {
            let mut part = Bytes::from(std::mem::take(&mut self.tail));
            part.advance(self.written);
            self.parts_len += part.len();
            self.parts.push_back(part);
        } else {
            self.tail.clear();
        }
        self.written = 0;
    }

    /// Fills `slices` with what comes first and returns how many were filled.
    pub fn chunks<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut filled = 0;
        for part in &self.parts {
            if filled == slices.len() {
                return filled;
            }
            slices[filled] = IoSlice::new(part);
            filled += 1;
        }
        if filled < slices.len() && self.tail.len() > self.written {
            slices[filled] = IoSlice::new(&self.tail[self.written..]);
            filled += 1;
        }
        filled
    }

    /// Removes the first `count` bytes: they have been written.
    ///
    /// # Panics
    /// When fewer bytes wait.
    pub fn advance(&mut self, mut count: usize) {
        assert!(count <= self.len(), "advanced past the end of the output");
        while count > 0 {
            let Some(first) = self.parts.front_mut() else {
                self.written += count;
                break;
            };
            let step = count.min(first.len());
            first.advance(step);
            self.parts_len -= step;
            count -= step;
            if first.is_empty() {
                self.parts.pop_front();
            }
        }
        if self.written == self.tail.len() {
            self.written = 0;
            self.tail.clear();
            if self.tail.capacity() > self.keep {
                self.tail = Vec::new();
            }
            if self.parts.is_empty() {
                self.answers = 0;
            }
        }
    }

    /// Gives the buffers of an idle connection back.
    pub fn shrink(&mut self) {
        if self.is_empty() {
            self.tail = Vec::new();
            self.parts = VecDeque::new();
        }
    }

    /// All waiting bytes as one vector, removed from the output: for tests and scripts.
    pub fn take(&mut self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len());
        for part in &self.parts {
            all.extend_from_slice(part);
        }
        all.extend_from_slice(&self.tail[self.written..]);
        self.advance(all.len());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_for_large_messages_is_given_back_unless_all_is_kept() {
        for (mut output, kept) in [(Output::default(), false), (Output::keeping_all(), true)] {
            output.put(&vec![1; KEEP + 1]);
            output.advance(KEEP + 1);
            assert_eq!(output.tail.capacity() > KEEP, kept);
        }
    }

    #[test]
    fn answers_count_until_nothing_waits() {
        let mut output = Output::default();
        output.put(b"a delivery");
        output.put(b"ok");
        output.count_answer(2);
        output.advance(11);
        assert_eq!(output.answers(), 2);
        output.advance(1);
        assert_eq!(output.answers(), 0);
    }

    #[test]
    fn small_and_large_pieces_keep_their_order() {
        let large = Bytes::from(vec![7u8; SHARE_FROM]);
        let mut output = Output::default();
        output.put(b"head");
        output.put_shared(&large);
        output.put(b"tail");
        assert_eq!(output.len(), 8 + SHARE_FROM);
        let mut slices = [IoSlice::new(&[]); 8];
        assert_eq!(output.chunks(&mut slices), 3);
        output.advance(2);
        let mut expected = b"ad".to_vec();
        expected.extend_from_slice(&large);
        expected.extend_from_slice(b"tail");
        assert_eq!(output.take(), expected);
        assert!(output.is_empty());
    }

    #[test]
    fn any_way_of_advancing_writes_the_same_bytes() {
        for step in [1, 3, 7, 4096, 5000] {
            let mut output = Output::default();
            let mut expected = Vec::new();
            for i in 0..5u8 {
                let large = Bytes::from(vec![i; SHARE_FROM + i as usize]);
                output.put(&[i; 3]);
                output.put_shared(&large);
                expected.extend_from_slice(&[i; 3]);
                expected.extend_from_slice(&large);
            }
            let mut written = Vec::new();
            while !output.is_empty() {
                let mut slices = [IoSlice::new(&[]); 2];
                let filled = output.chunks(&mut slices);
                let mut room = step;
                for slice in &slices[..filled] {
                    let part = room.min(slice.len());
                    written.extend_from_slice(&slice[..part]);
                    room -= part;
                }
                output.advance(step - room);
            }
            assert_eq!(written, expected);
        }
    }
}
