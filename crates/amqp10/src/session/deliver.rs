//! Deliveries on their way to the peer, and those that it has not settled.
//!
//! The deliveries that are sent in a session are numbered from 1 on, and a delivery's id is its
//! number, less one. The broker's tag is no such number: what is on its way to a link that is taken
//! down has a tag, and is never sent; clients end the connection at a gap between ids. What the
//! session's window has no room for is held back, and its consumers get no credit then, so that
//! little is held.

use std::collections::{BTreeMap, VecDeque};

use broker::{Content, Delivery, Dialects, Error, Message, Settling};
use hashbrown::HashMap;
use wire::{Output, SHARE_FROM};

use crate::codec::frame::{FrameKind, begin_frame, end_frame};
use crate::codec::performative::{SenderSettleMode, Transfer};
use crate::delivery::Split;
use crate::dialect::{Acquired, ENCODING, Origin, Rest, begin_neutral, begin_stored};
use crate::session::link::Link;
use crate::session::numbered::Numbered;
use crate::session::sender::Told;
use crate::session::window::Outgoing;

/// Unsettled deliveries of one link with consecutive numbers and tags.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// The last number.
    last: u64,
    /// The tag of the first.
    tag: u64,
    handle: u32,
    /// How many of them are not settled.
    left: u64,
}

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// The first number of the run.
    run: u64,
    /// The first number of the part.
    pub(super) number: u64,
    /// The first and the last tag of the part.
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) handle: u32,
}

/// The unsettled deliveries of a session, in runs.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    /// By their first numbers.
    runs: BTreeMap<u64, Run>,
    /// The last number that was sent, settled or not.
    last: u64,
}

impl Unsettled {
    /// The number of the delivery that is sent next.
    #[inline]
    fn next(&self) -> u64 {
        self.last + 1
    }

    /// The delivery with this tag is sent, and has the next number.
    #[inline]
    fn sent(&mut self, tag: u64, handle: u32, settling: Settling) {
        self.last += 1;
        if settling != Settling::Manual {
            return;
        }
        if let Some(mut run) = self.runs.last_entry() {
            let start = *run.key();
            let run = run.get_mut();
            if run.handle == handle && run.last + 1 == self.last && run.tag + (self.last - start) == tag {
                run.last = self.last;
                run.left += 1;
                return;
            }
        }
        self.runs.insert(self.last, Run { last: self.last, tag, handle, left: 1 });
    }

    /// The numbers of these delivery ids, as far as they were sent. `None` if none was.
    pub(super) fn numbers(&self, first: u32, last: u32) -> Option<(u64, u64)> {
        // How far behind the last delivery an id is; ids wrap.
        let newest = self.last.checked_sub(1)? as u32;
        let back = |id: u32| newest.wrapping_sub(id);
        let is_ahead = |id: u32| back(id) > u32::MAX / 2;
        if is_ahead(first) {
            return None;
        }
        let first = self.last.saturating_sub(back(first).into()).max(1);
        let last = if is_ahead(last) { self.last } else { self.last.saturating_sub(back(last).into()) };
        (first <= last).then_some((first, last))
    }

    /// The first part of a run with numbers from `first` to `last`, and the number behind it.
    #[inline]
    pub(super) fn part(&self, first: u64, last: u64) -> Option<(Part, u64)> {
        if first > last {
            return None;
        }
        let around = self.runs.range(..=first).next_back().filter(|(_, run)| run.last >= first);
        let (start, run) = around.or_else(|| self.runs.range(first..=last).next())?;
        let end = last.min(run.last);
        let number = first.max(*start);
        let part = Part {
            run: *start,
            number,
            first: run.tag + (number - start),
            last: run.tag + (end - start),
            handle: run.handle,
        };
        Some((part, end + 1))
    }

    /// The runs of a link.
    pub(super) fn of_link(&self, handle: u32) -> Vec<Part> {
        let mut next = 1;
        let all = std::iter::from_fn(|| {
            let (part, behind) = self.part(next, u64::MAX)?;
            next = behind;
            Some(part)
        });
        all.filter(|part| part.handle == handle).collect()
    }

    /// So many of a part were settled.
    pub(super) fn settled(&mut self, part: Part, count: usize) {
        let Some(run) = self.runs.get_mut(&part.run) else { return };
        run.left = run.left.saturating_sub(count as u64);
        if run.left == 0 {
            self.runs.remove(&part.run);
        }
    }

    /// So many of the one delivery with this number were settled.
    pub(super) fn settled_at(&mut self, number: u64, count: usize) {
        if let Some((part, _)) = self.part(number, number) {
            self.settled(part, count);
        }
    }

    /// A link has ended: all that it had is settled, or is part of a commit that is on its way.
    pub(super) fn forget_link(&mut self, handle: u32) {
        self.runs.retain(|_, run| run.handle != handle);
    }
}

/// What waits for the session's window.
enum Held {
    Message {
        handle: u32,
        tag: u64,
        settling: Settling,
        bytes: Vec<u8>,
        /// How many bytes were sent.
        sent: usize,
    },
    Drained {
        handle: u32,
        unused: u32,
    },
}

/// A drain that has ended, to be told to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Drained {
    pub(super) handle: u32,
    pub(super) unused: u32,
}

/// See the module.
pub(super) struct Deliveries {
    channel: u16,
    frame_max: u32,
    pub(super) outgoing: Outgoing,
    pub(super) unsettled: Unsettled,
    /// The handle of each consumer.
    handles: HashMap<String, u32>,
    held: VecDeque<Held>,
    held_bytes: usize,
    /// Deliveries of a link that is being taken down: the peer is not sent them.
    unseen: Vec<u64>,
    /// Whether the consumers have no credit, because something is held.
    pub(super) stopped: bool,
}

impl Deliveries {
    pub(super) fn new(channel: u16, frame_max: u32, outgoing: Outgoing) -> Self {
        Self {
            channel,
            frame_max,
            outgoing,
            unsettled: Unsettled::default(),
            handles: HashMap::new(),
            held: VecDeque::new(),
            held_bytes: 0,
            unseen: Vec::new(),
            stopped: false,
        }
    }

    pub(super) fn add_consumer(&mut self, tag: &str, handle: u32) {
        self.handles.insert(tag.to_owned(), handle);
    }

    pub(super) fn remove_consumer(&mut self, tag: &str) {
        self.handles.remove(tag);
    }

    pub(super) fn handle_of(&self, tag: &str) -> Option<u32> {
        self.handles.get(tag).copied()
    }

    /// Bytes that wait for the window.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    pub(super) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Writes a delivery, or holds it back.
    pub(super) fn deliver(
        &mut self,
        links: &mut Numbered<Link>,
        delivery: &Delivery<'_>,
        (dialects, now): (&Dialects, u64),
        output: &mut Output,
    ) -> Result<(), Error> {
        let Some(handle) = self.handle_of(delivery.consumer_tag) else { return Ok(()) };
        let Some(Link::Sender(sender)) = links.get_mut(handle) else { return Ok(()) };
        sender.count();
        let (tag, settling) = (delivery.tag, sender.settling);
        if sender.leaves {
            if settling == Settling::Manual {
                self.unseen.push(tag);
            }
            return Ok(());
        }
        let bytes = if self.held.is_empty() && self.outgoing.has_room() {
            let tail = output.tail();
            let start = begin_frame(tail, FrameKind::Amqp, self.channel);
            let number = self.unsettled.next();
            put_transfer(handle, settling, number, tail);
            let message = tail.len();
            let rest = begin(delivery, (dialects, now), sender.origin, tail).inspect_err(|_| tail.truncate(start))?;
            if tail.len() - start + rest.length() <= self.frame_max as usize {
                end_frame(tail, start, rest.length());
                put_rest(rest, delivery.message, output);
                self.outgoing.send();
                self.unsettled.sent(tag, handle, settling);
                return Ok(());
            }
            // It needs several frames.
            rest.write(tail);
            let bytes = tail.split_off(message);
            tail.truncate(start);
            bytes
        } else {
            let mut bytes = Vec::new();
            begin(delivery, (dialects, now), sender.origin, &mut bytes)?.write(&mut bytes);
            bytes
        };
        sender.held = sender.held.wrapping_add(1);
        self.held_bytes += bytes.len();
        self.held.push_back(Held::Message { handle, tag, settling, bytes, sent: 0 });
        self.flush(links, output);
        Ok(())
    }

    /// Takes a message of this side's own. It is sent settled, behind what is held.
    pub(super) fn hold(&mut self, handle: u32, tag: u64, bytes: Vec<u8>) {
        self.held_bytes += bytes.len();
        self.held.push_back(Held::Message { handle, tag, settling: Settling::Auto, bytes, sent: 0 });
    }

    /// A drain has ended, behind the deliveries that are held. Returns it if it can be told now.
    pub(super) fn drained(&mut self, drained: Drained) -> Option<Drained> {
        if self.held.is_empty() {
            return Some(drained);
        }
        let Drained { handle, unused } = drained;
        self.held.push_back(Held::Drained { handle, unused });
        None
    }

    /// The next drain that can be told, once the deliveries before it are sent.
    pub(super) fn next_drained(&mut self) -> Option<Drained> {
        let Some(Held::Drained { handle, unused }) = self.held.front() else { return None };
        let drained = Drained { handle: *handle, unused: *unused };
        self.held.pop_front();
        Some(drained)
    }

    /// Sends what is held, as far as the window goes, and up to the end of a drain.
    pub(super) fn flush(&mut self, links: &mut Numbered<Link>, output: &mut Output) {
        while let Some(Held::Message { handle, tag, settling, bytes, sent }) = self.held.front_mut() {
            let (from, number) = (*sent, self.unsettled.next());
            let name = number.to_be_bytes();
            let first = match from {
                0 => transfer(*handle, *settling, number, &name),
                _ => Transfer { handle: *handle, ..Transfer::default() },
            };
            let mut split = Split::new(first, self.channel, bytes.len() - from, self.frame_max);
            let mut whole = false;
            while !whole && self.outgoing.has_room() {
                let Some(part) = split.head(output.tail()) else { break };
                output.put(&bytes[from + part.start..from + part.end]);
                if *sent == 0 {
                    self.unsettled.sent(*tag, *handle, *settling);
                }
                *sent = from + part.end;
                whole = *sent == bytes.len();
                self.outgoing.send();
            }
            if !whole {
                return;
            }
            self.held_bytes -= bytes.len();
            if let Some(Link::Sender(sender)) = links.get_mut(*handle) {
                sender.held = sender.held.wrapping_sub(1);
            }
            self.held.pop_front();
        }
    }

    /// Forgets what is held of a link, or of all, and returns the tags of which the peer has seen
    /// nothing, and which it would have had to settle.
    pub(super) fn forget_held(&mut self, of: Option<u32>) -> Vec<u64> {
        let mut unseen = std::mem::take(&mut self.unseen);
        let held_bytes = &mut self.held_bytes;
        self.held.retain(|held| {
            let (Held::Message { handle, .. } | Held::Drained { handle, .. }) = held;
            if of.is_some_and(|of| of != *handle) {
                return true;
            }
            if let Held::Message { tag, settling, bytes, sent, .. } = held {
                *held_bytes -= bytes.len();
                if *settling == Settling::Manual && *sent == 0 {
                    unseen.push(*tag);
                }
            }
            false
        });
        unseen
    }
}

/// Appends what [`transfer`] says, of a message in one frame.
#[inline]
fn put_transfer(handle: u32, settling: Settling, number: u64, out: &mut Vec<u8>) {
    let mode = match settling {
        Settling::Auto => SenderSettleMode::Settled,
        Settling::Manual => SenderSettleMode::Unsettled,
    };
    Transfer::put_only(handle, (number - 1) as u32, number.to_be_bytes(), mode, out);
}

fn transfer(handle: u32, settling: Settling, number: u64, name: &[u8]) -> Transfer<'_> {
    Transfer {
        handle,
        delivery_id: Some((number - 1) as u32),
        delivery_tag: Some(name),
        message_format: Some(0),
        settled: Some(settling == Settling::Auto),
        ..Transfer::default()
    }
}

/// Appends the end of a message. A large body is referenced, not copied.
#[inline]
fn put_rest(rest: Rest<'_>, message: &Message, output: &mut Output) {
    if rest.body.len() < SHARE_FROM {
        return rest.write(output.tail());
    }
    let body = message.body_shared();
    output.put_shared(&body.slice_ref(rest.body));
    output.put(rest.tail);
}

/// Appends the message, as it is at `now`, up to the last bytes of its body.
#[inline]
fn begin<'a>(
    delivery: &Delivery<'a>,
    (dialects, now): (&Dialects, u64),
    told: Told,
    out: &mut Vec<u8>,
) -> Result<Rest<'a>, Error> {
    let message = delivery.message;
    let origin = || Origin { exchange: message.exchange(), routing_key: message.routing_key() };
    let acquired = Acquired {
        failed: delivery.failures,
        first: !delivery.redelivered,
        ttl: message.expires_at().map(|end| u32::try_from(end.saturating_sub(now)).unwrap_or(u32::MAX)),
        origin: (told == Told::Origin).then(origin),
    };
    if message.dialect() == ENCODING {
        let (Content { properties, body }, overlay) = (message.content(), message.overlay(delivery.counts, dialects));
        return begin_stored(properties, body, overlay.as_ref(), acquired, out);
    }
    let properties = dialects.read_shown(message, delivery.counts)?;
    begin_neutral(&properties, message.body().len(), acquired, out);
    Ok(Rest { body: message.body(), tail: &[] })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unsettled(of: &[(u64, u32)]) -> Unsettled {
        let mut unsettled = Unsettled::default();
        for (tag, handle) in of {
            unsettled.sent(*tag, *handle, Settling::Manual);
        }
        unsettled
    }

    #[test]
    fn ids_are_numbers_and_wrap() {
        let mut all = Unsettled { last: 10, ..Unsettled::default() };
        for (first, last, numbers) in [
            (0, 0, Some((1, 1))),
            (0, 9, Some((1, 10))),
            (9, 40, Some((10, 10))),
            (10, 10, None),
            (5, 3, None),
            (u32::MAX, 2, Some((1, 3))),
        ] {
            assert_eq!(all.numbers(first, last), numbers, "{first} {last}");
        }
        all.last = (1 << 32) + 2;
        assert_eq!(all.numbers(u32::MAX, 1), Some((1 << 32, (1 << 32) + 2)));
        assert_eq!(Unsettled::default().numbers(0, 0), None);
    }

    #[test]
    fn runs_are_of_one_link_and_go_when_they_are_settled() {
        // Tags 4 and 7 were never sent.
        let mut all = unsettled(&[(1, 7), (2, 7), (3, 8), (5, 8), (6, 7), (8, 7)]);
        let parts = |all: &Unsettled, mut first, last| {
            let mut found = Vec::new();
            while let Some((part, behind)) = all.part(first, last) {
                found.push((part.first, part.last, part.handle));
                first = behind;
            }
            found
        };
        assert_eq!(parts(&all, 2, 4), [(2, 2, 7), (3, 3, 8), (5, 5, 8)]);
        assert_eq!(parts(&all, 7, 7), []);
        let (first, _) = all.part(2, 2).unwrap();
        all.settled(first, 1);
        assert_eq!(parts(&all, 1, 9), [(1, 2, 7), (3, 3, 8), (5, 5, 8), (6, 6, 7), (8, 8, 7)]);
        let (first, _) = all.part(1, 1).unwrap();
        all.settled(first, 1);
        assert_eq!(parts(&all, 1, 9), [(3, 3, 8), (5, 5, 8), (6, 6, 7), (8, 8, 7)]);
        assert_eq!(all.of_link(8).len(), 2);
    }
}
