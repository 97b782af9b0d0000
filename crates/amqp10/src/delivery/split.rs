//! A message cut into transfers, each in a frame that the peer accepts.

use std::ops::Range;

use crate::codec::Encode;
use crate::codec::frame::{FrameKind, begin_frame, end_frame};
use crate::codec::performative::Transfer;

/// The transfers of one message, one after the other.
#[derive(Debug)]
pub struct Split<'t> {
    next: Transfer<'t>,
    channel: u16,
    max_frame_size: usize,
    /// What of the message is still to come. `None` behind the last transfer.
    rest: Option<Range<usize>>,
}

impl<'t> Split<'t> {
    /// Of a message of `length` bytes; `transfer` is what the first frame says.
    pub fn new(transfer: Transfer<'t>, channel: u16, length: usize, max_frame_size: u32) -> Self {
        Self { next: transfer, channel, max_frame_size: max_frame_size as usize, rest: Some(0..length) }
    }

    /// Appends the head of the next frame, and returns which bytes of the message must follow it.
    /// `None` if the message is complete.
    pub fn head(&mut self, out: &mut Vec<u8>) -> Option<Range<usize>> {
        let rest = self.rest.take()?;
        let start = begin_frame(out, FrameKind::Amqp, self.channel);
        let body = out.len();
        self.next.more = false;
        self.next.encode(out);
        let mut part = rest.clone();
        if out.len() - start + rest.len() > self.max_frame_size {
            out.truncate(body);
            self.next.more = true;
            self.next.encode(out);
            // A head fills no frame of the smallest size by far: its tag has 32 bytes at most.
            let room = self.max_frame_size.saturating_sub(out.len() - start).max(1);
            part.end = part.end.min(part.start + room);
            self.rest = Some(part.end..rest.end);
            self.next = Transfer { handle: self.next.handle, ..Transfer::default() };
        }
        end_frame(out, start, part.len());
        Some(part)
    }
}

/// Appends all transfers of `message`.
pub fn encode_transfers(transfer: Transfer<'_>, channel: u16, message: &[u8], max_frame_size: u32, out: &mut Vec<u8>) {
    let mut split = Split::new(transfer, channel, message.len(), max_frame_size);
    while let Some(part) = split.head(out) {
        out.extend_from_slice(&message[part]);
    }
}
