//! Messages on their way out: cut into frames, held back by the peer's window, and remembered until
//! they are answered.

use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};

use crate::client::link::ahead;
use crate::codec::DeliveryState;
use crate::codec::performative::{Flow, Transfer};
use crate::codec::state::TransactionalState;
use crate::delivery::Split;

/// How a message is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendMode<'a> {
    /// Whether no answer is wanted.
    pub settled: bool,
    /// The transaction that it is part of. Brokers give ids of more than 32 bytes, too.
    pub transaction: Option<&'a [u8]>,
}

/// A message that waits for credit.
#[derive(Debug)]
pub(super) struct Message {
    number: u64,
    settled: bool,
    transaction: Option<Box<[u8]>>,
    bytes: Vec<u8>,
}

impl Message {
    pub(super) fn new(number: u64, mode: SendMode<'_>, pieces: &[&[u8]]) -> Self {
        let transaction = mode.transaction.map(Box::from);
        Self { number, settled: mode.settled, transaction, bytes: pieces.concat() }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn mode(&self) -> SendMode<'_> {
        SendMode { settled: self.settled, transaction: self.transaction.as_deref() }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Where frames go, and how large they may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route {
    pub(super) channel: u16,
    pub(super) max_frame_size: u32,
}

/// A delivery that leaves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaving<'a> {
    handle: u32,
    id: u32,
    number: u64,
    mode: SendMode<'a>,
}

/// The transfers that the peer takes.
#[derive(Debug, Default)]
pub(super) struct Frames {
    next_outgoing_id: u32,
    window: u32,
    /// Transfers that wait for the window: the rest of one message.
    held: VecDeque<Vec<u8>>,
}

impl Frames {
    pub(super) fn begin(&mut self, window: u32) {
        self.window = window;
    }

    pub(super) fn next_outgoing_id(&self) -> u32 {
        self.next_outgoing_id
    }

    /// Whether another message may begin.
    #[inline]
    pub(super) fn are_open(&self) -> bool {
        self.window > 0 && self.held.is_empty()
    }

    pub(super) fn waiting(&self) -> usize {
        self.held.iter().map(Vec::len).sum()
    }

    /// Takes the window of a flow (part 2, §2.5.6), and appends what may leave now.
    pub(super) fn widen(&mut self, flow: &Flow<'_>, out: &mut Vec<u8>) {
        // A peer that has not seen our begin yet counts from our first id, which is 0.
        let on_the_way = self.next_outgoing_id.wrapping_sub(flow.next_incoming_id.unwrap_or(0));
        self.window = flow.incoming_window.saturating_sub(on_the_way);
        while self.window > 0
            && let Some(frame) = self.held.pop_front()
        {
            out.extend_from_slice(&frame);
            self.count();
        }
    }

    #[inline]
    fn count(&mut self) {
        self.window -= 1;
        self.next_outgoing_id = self.next_outgoing_id.wrapping_add(1);
    }

    /// Appends the transfers of a message as far as the window goes; the others are held.
    #[inline]
    pub(super) fn transmit(&mut self, leaving: Leaving<'_>, pieces: &[&[u8]], route: Route, out: &mut Vec<u8>) {
        // The number is its name, too: unique on the link.
        let tag = leaving.number.to_be_bytes();
        let transfer = Transfer {
            handle: leaving.handle,
            delivery_id: Some(leaving.id),
            delivery_tag: Some(&tag),
            message_format: Some(0),
            settled: Some(leaving.mode.settled),
            state: leaving
                .mode
                .transaction
                .map(|txn_id| DeliveryState::Transactional(TransactionalState { txn_id, outcome: None })),
            ..Transfer::default()
        };
        let length = pieces.iter().map(|piece| piece.len()).sum();
        let mut split = Split::new(transfer, route.channel, length, route.max_frame_size);
        loop {
            if self.window > 0 {
                let Some(part) = split.head(out) else { break };
                copy(pieces, part, out);
                self.count();
            } else {
                let mut frame = Vec::new();
                let Some(part) = split.head(&mut frame) else { break };
                copy(pieces, part, &mut frame);
                self.held.push_back(frame);
            }
        }
    }
}

/// Appends the bytes `part` of what the pieces are together.
#[inline]
fn copy(pieces: &[&[u8]], part: Range<usize>, out: &mut Vec<u8>) {
    let mut before = 0;
    for piece in pieces {
        let from = part.start.clamp(before, before + piece.len()) - before;
        let to = part.end.clamp(before, before + piece.len()) - before;
        out.extend_from_slice(&piece[from..to]);
        before += piece.len();
    }
}

/// What was sent in a session and is not settled, by delivery id.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// The id of the first one.
    first: u32,
    deliveries: VecDeque<Delivery>,
}

#[derive(Debug, Clone, Copy)]
struct Delivery {
    handle: u32,
    number: u64,
    settled: bool,
}

/// Deliveries of one link that follow each other.
#[derive(Debug, PartialEq)]
pub(super) struct SentRun {
    pub(super) handle: u32,
    pub(super) ids: RangeInclusive<u32>,
    pub(super) numbers: RangeInclusive<u64>,
}

impl Sent {
    /// Takes the next delivery id.
    #[inline]
    pub(super) fn take<'a>(&mut self, handle: u32, number: u64, mode: SendMode<'a>) -> Leaving<'a> {
        let id = self.first.wrapping_add(self.deliveries.len() as u32);
        self.deliveries.push_back(Delivery { handle, number, settled: mode.settled });
        self.forget();
        Leaving { handle, id, number, mode }
    }

    /// The first run of unsettled deliveries among the `count` from `first` on.
    pub(super) fn run(&self, first: u32, count: u32) -> Option<SentRun> {
        // Ids before the first one are settled already.
        let behind = ahead(self.first, first);
        let from = ahead(first, self.first) as usize;
        let to = (from + count.saturating_sub(behind) as usize).min(self.deliveries.len());
        let start = (from..to).find(|at| !self.deliveries[*at].settled)?;
        let begin = self.deliveries[start];
        let follows = |at: &usize| {
            let delivery = self.deliveries[*at];
            let next = begin.number + (at - start) as u64;
            !delivery.settled && delivery.handle == begin.handle && delivery.number == next
        };
        let length = (start..to).take_while(follows).count();
        let id = self.first.wrapping_add(start as u32);
        Some(SentRun {
            handle: begin.handle,
            ids: id..=id.wrapping_add(length as u32 - 1),
            numbers: begin.number..=begin.number + (length as u64 - 1),
        })
    }

    /// Settles deliveries that [`run`](Self::run) returned.
    pub(super) fn settle(&mut self, ids: RangeInclusive<u32>) {
        let from = ahead(*ids.start(), self.first) as usize;
        let to = ahead(*ids.end(), self.first) as usize;
        for at in from..=to {
            self.deliveries[at].settled = true;
        }
        self.forget();
    }

    /// Forgets what was sent on a link that is gone: its handle may become another's.
    pub(super) fn forget_link(&mut self, handle: u32) {
        for delivery in &mut self.deliveries {
            delivery.settled |= delivery.handle == handle;
        }
        self.forget();
    }

    #[inline]
    fn forget(&mut self) {
        while self.deliveries.front().is_some_and(|delivery| delivery.settled) {
            self.deliveries.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }
}
