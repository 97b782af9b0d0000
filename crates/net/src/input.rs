//! The read buffer of one connection: grows with what arrives, never with what a peer announces.
//!
//! Bytes lie in `bytes[start..end]`. The memory is zeroed once, when it is allocated, so that
//! reading into it needs no unsafe code; an idle connection holds none.

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use crate::stream::Stream;

/// What a connection starts with: enough for each step of a usual handshake. Many that come within
/// a second have it at once, and what they give back lies between what they keep.
const SMALLEST: usize = 512;
/// What may wait of a peer that has not authenticated: twice the largest unit of any handshake.
const STRANGERS: usize = 16 * 1024;
/// One turn reads at most this much, unless a single unit of the protocol is larger.
pub(crate) const TURN_BYTES: usize = 256 * 1024;

/// Received bytes that the protocol has not taken yet.
#[derive(Debug)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    filled: Range<usize>,
    /// The last read filled all the space it was offered: the next one is offered more.
    hungry: bool,
    limit: usize,
}

impl Input {
    /// An empty buffer that never holds more than a stranger may send.
    pub(crate) fn new() -> Self {
        Self { bytes: Vec::new(), filled: 0..0, hungry: false, limit: STRANGERS }
    }

    /// The peer has authenticated: from now on the buffer holds up to `limit` bytes.
    pub(crate) fn trust(&mut self, limit: usize) {
        self.limit = limit.max(TURN_BYTES);
    }

    /// What waits.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.filled.clone()]
    }

    /// Bytes of its memory.
    pub(crate) fn room(&self) -> usize {
        self.bytes.len()
    }

    /// True when nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.filled.is_empty()
    }

    /// True when the buffer holds as much as it may and the protocol must take some of it.
    pub(crate) fn is_full(&self) -> bool {
        self.filled.len() >= self.limit
    }

    /// Takes all that waits out.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let waiting = self.bytes().to_vec();
        self.consume(waiting.len());
        waiting
    }

    /// Removes the first `count` bytes, at most as many as wait.
    pub(crate) fn consume(&mut self, count: usize) {
        self.filled.start = (self.filled.start + count).min(self.filled.end);
        if self.filled.is_empty() {
            self.filled = 0..0;
        }
    }

    /// Reads once. `Ok(0)` is the end of the stream; a full buffer reads nothing and must not be
    /// polled.
    pub(crate) fn poll_read(&mut self, socket: &mut Stream, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.bytes.is_empty() {
            // Nothing is allocated for a peer that sends nothing.
            std::task::ready!(socket.poll_arrival(cx))?;
        }
        self.make_room();
        let mut space = ReadBuf::new(&mut self.bytes[self.filled.end..]);
        // `poll_read` rather than `try_read`: after a short read it knows without a system call
        // that nothing is left.
        std::task::ready!(Pin::new(socket).poll_read(cx, &mut space))?;
        let count = space.filled().len();
        self.hungry = space.remaining() == 0;
        self.filled.end += count;
        Poll::Ready(Ok(count))
    }

    /// Gives the memory of an idle connection back.
    pub(crate) fn shrink(&mut self) {
        if self.is_empty() {
            self.bytes = Vec::new();
            self.hungry = false;
        }
    }

    /// Sees to it that there is space behind `filled`.
    fn make_room(&mut self) {
        let held = self.filled.len();
        let capacity = self.bytes.len();
        let wanted = if self.hungry && capacity < TURN_BYTES { (capacity * 4).min(TURN_BYTES) } else { capacity };
        // A unit that does not fit by half gets twice the space, so that moving it about stays
        // linear in its size.
        let wanted = if held * 2 > wanted { wanted * 2 } else { wanted };
        let wanted = wanted.clamp(SMALLEST, self.limit.max(SMALLEST));
        if wanted > capacity {
            let mut larger = vec![0; wanted];
            larger[..held].copy_from_slice(self.bytes());
            self.bytes = larger;
            self.filled = 0..held;
        } else if self.filled.end == capacity || self.filled.start > capacity / 2 {
            self.bytes.copy_within(self.filled.clone(), 0);
            self.filled = 0..held;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trusted(limit: usize) -> Input {
        let mut input = Input::new();
        input.trust(limit);
        input
    }

    #[test]
    fn a_stranger_is_held_to_a_small_buffer() {
        let (mut input, mut next) = (Input::new(), 0);
        while !input.is_full() {
            assert!(arrive(&mut input, usize::MAX, &mut next) > 0);
        }
        assert_eq!(input.bytes().len(), STRANGERS);
        input.trust(1 << 20);
        assert!(!input.is_full() && arrive(&mut input, usize::MAX, &mut next) > 0);
    }

    /// Does what a read of `count` bytes does, without a socket; returns how many bytes there was
    /// space for.
    fn arrive(input: &mut Input, count: usize, next: &mut u8) -> usize {
        input.make_room();
        let space = input.bytes.len() - input.filled.end;
        let count = count.min(space);
        for byte in &mut input.bytes[input.filled.end..][..count] {
            *byte = *next;
            *next = next.wrapping_add(1);
        }
        input.hungry = count == space;
        input.filled.end += count;
        count
    }

    #[test]
    fn bytes_come_out_as_they_went_in_whatever_is_taken_between() {
        for take in [1, 100, 4096, 5000] {
            let mut input = trusted(1 << 20);
            let (mut next, mut expected) = (0u8, 0u8);
            for round in 0..200 {
                arrive(&mut input, 1 + round * 37 % 6000, &mut next);
                let taken = take.min(input.bytes().len());
                for byte in &input.bytes()[..taken] {
                    assert_eq!(*byte, expected);
                    expected = expected.wrapping_add(1);
                }
                input.consume(taken);
            }
        }
    }

    #[test]
    fn full_reads_grow_the_buffer_to_one_turn_and_a_unit_not_taken_to_the_limit() {
        let mut input = trusted(1 << 20);
        let mut next = 0;
        let mut sizes = Vec::new();
        for _ in 0..6 {
            sizes.push(arrive(&mut input, usize::MAX, &mut next));
            input.consume(usize::MAX);
        }
        assert_eq!(sizes, [512, 2048, 8192, 32768, 131_072, 262_144]);
        while !input.is_full() {
            assert!(arrive(&mut input, usize::MAX, &mut next) > 0);
        }
        assert_eq!(input.bytes().len(), 1 << 20);
    }

    #[test]
    fn an_idle_buffer_gives_its_memory_back_and_one_in_use_keeps_it() {
        let mut input = trusted(1 << 20);
        let mut next = 0;
        arrive(&mut input, 10, &mut next);
        input.shrink();
        assert_eq!(input.bytes(), (0..10).collect::<Vec<u8>>());
        input.consume(10);
        input.shrink();
        assert_eq!(input.bytes.capacity(), 0);
    }
}
