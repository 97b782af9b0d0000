//! One session: its windows, its links, and what was sent and not answered.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use crate::client::link::{End, Link, Receiver, Sender, Stage, ahead};
use crate::client::send::{Frames, Message, Route, SendMode, Sent};
use crate::client::slots::{SLOTS, Slots};
use crate::client::{Answer, ClientError, Event, LinkId};
use crate::codec::performative::{Attach, Begin, Disposition, Flow, Role, Transfer};
use crate::codec::{DeliveryState, FrameKind, encode_frame};
use crate::delivery::Step;

/// What we say of the transfers that we may send: no limit of ours.
const OUTGOING_WINDOW: u32 = i32::MAX as u32;

/// A session of ours.
#[derive(Debug)]
pub(super) struct Session {
    incoming: Incoming,
    frames: Frames,
    sent: Sent,
    /// By our handle.
    links: Slots<Link>,
    /// Our handle by the peer's.
    handles: Slots<u32>,
    /// Our handles that the peer has not answered, in order.
    attaching: VecDeque<u32>,
    /// Whether we have ended it.
    pub(super) ending: bool,
}

/// Transfers on their way to us.
#[derive(Debug)]
struct Incoming {
    /// Known from the peer's `begin` on.
    next_id: Option<u32>,
    left: u32,
    window: u32,
}

/// Messages of one link that a disposition is about, or the first of several links'.
#[derive(Debug, PartialEq)]
pub(super) struct Run {
    pub(super) handle: u32,
    pub(super) numbers: RangeInclusive<u64>,
    /// Deliveries that their sender, who is us, must settle.
    pub(super) to_settle: Option<RangeInclusive<u32>>,
    /// Where the rest of the disposition begins, counted from its first delivery; 0: no rest.
    pub(super) next: u32,
}

impl Session {
    pub(super) fn new(window: u32) -> Self {
        Self {
            incoming: Incoming { next_id: None, left: window, window },
            frames: Frames::default(),
            sent: Sent::default(),
            links: Slots::default(),
            handles: Slots::default(),
            attaching: VecDeque::new(),
            ending: false,
        }
    }

    pub(super) fn begin(&self) -> Begin<'static> {
        Begin {
            next_outgoing_id: 0,
            incoming_window: self.incoming.window,
            outgoing_window: OUTGOING_WINDOW,
            handle_max: SLOTS as u32 - 1,
            ..Begin::default()
        }
    }

    pub(super) fn begun(&mut self, begin: &Begin<'_>) {
        self.incoming.next_id = Some(begin.next_outgoing_id);
        self.frames.begin(begin.incoming_window);
    }

    /// Makes a link. The caller sends what it returns.
    pub(super) fn attach<'a>(
        &mut self,
        attach: &Attach<'a>,
        max_message_size: usize,
    ) -> Result<Attach<'a>, ClientError> {
        let (end, initial_delivery_count) = match attach.role {
            Role::Sender => (End::Sender(Sender::default()), Some(0)),
            Role::Receiver => (End::Receiver(Receiver::new(max_message_size)), None),
        };
        let link = Link { name: attach.name.to_owned(), stage: Stage::Attached, end };
        let handle = self.links.add(link, SLOTS).ok_or(ClientError::TooMany("links in one session"))?;
        self.attaching.push_back(handle);
        Ok(Attach { handle, initial_delivery_count, ..*attach })
    }

    /// Takes the peer's attach, and returns our handle.
    pub(super) fn attached(&mut self, attach: &Attach<'_>) -> Result<u32, ClientError> {
        let Self { links, attaching, .. } = self;
        // Peers answer in order, so it is nearly always the first one.
        let wanted = |link: &mut Link| link.name == attach.name && link.role() != attach.role;
        let at = attaching.iter().position(|handle| links.get(*handle as usize).is_some_and(wanted));
        let handle = at.and_then(|at| attaching.remove(at));
        let handle = handle.ok_or(ClientError::Unexpected("a link that was not asked for"))?;
        self.handles.put(attach.handle as usize, handle);
        if let Some(Link { end: End::Receiver(receiver), .. }) = self.links.get(handle as usize) {
            receiver.begin_at(attach.initial_delivery_count.unwrap_or(0));
        }
        Ok(handle)
    }

    fn no_link(handle: u32) -> ClientError {
        ClientError::NoLink(handle)
    }

    fn link(&mut self, handle: u32) -> Result<&mut Link, ClientError> {
        self.links.get(handle as usize).ok_or(Self::no_link(handle))
    }

    pub(super) fn receiver(&mut self, handle: u32) -> Result<&mut Receiver, ClientError> {
        match &mut self.link(handle)?.end {
            End::Receiver(receiver) => Ok(receiver),
            End::Sender(_) => Err(Self::no_link(handle)),
        }
    }

    pub(super) fn credit(&mut self, handle: u32) -> Result<u32, ClientError> {
        Ok(match &self.link(handle)?.end {
            End::Receiver(receiver) => receiver.credit(),
            End::Sender(sender) => sender.credit,
        })
    }

    /// The session's state as a flow.
    fn flow(&self) -> Flow<'static> {
        Flow {
            next_incoming_id: self.incoming.next_id,
            incoming_window: self.incoming.left,
            next_outgoing_id: self.frames.next_outgoing_id(),
            outgoing_window: OUTGOING_WINDOW,
            ..Flow::default()
        }
    }

    /// The same with the state of a link.
    pub(super) fn link_flow(&mut self, handle: u32) -> Result<Flow<'static>, ClientError> {
        let flow = Flow { handle: Some(handle), ..self.flow() };
        Ok(match &self.link(handle)?.end {
            End::Receiver(receiver) => receiver.state(flow),
            End::Sender(sender) => {
                let available = sender.waiting.len() as u32;
                let (delivery_count, link_credit) = (Some(sender.delivery_count), Some(sender.credit));
                Flow { delivery_count, link_credit, available: Some(available), ..flow }
            }
        })
    }

    /// Counts a transfer that came. Returns a flow when the peer needs a new window.
    #[inline]
    pub(super) fn count_transfer(&mut self) -> Option<Flow<'static>> {
        let incoming = &mut self.incoming;
        incoming.next_id = incoming.next_id.map(|id| id.wrapping_add(1));
        incoming.left = incoming.left.saturating_sub(1);
        if incoming.left > incoming.window / 2 {
            return None;
        }
        incoming.left = incoming.window;
        Some(self.flow())
    }

    #[inline]
    pub(super) fn take_transfer<'i>(
        &mut self,
        transfer: &Transfer<'_>,
        payload: &'i [u8],
    ) -> Result<(u32, Step<'i>), ClientError> {
        let handle = self.handle_of(transfer.handle)?;
        let receiver = self.receiver(handle)?;
        let step = receiver.assembly.transfer(transfer, payload)?;
        if step != Step::Incomplete {
            receiver.count();
        }
        Ok((handle, step))
    }

    #[inline]
    fn handle_of(&mut self, remote: u32) -> Result<u32, ClientError> {
        let handle = self.handles.get(remote as usize).copied();
        handle.ok_or(ClientError::Unexpected("a frame for a link that is not attached"))
    }

    /// Takes a flow: sends what it allows, answers if the peer wants that.
    pub(super) fn take_flow(
        &mut self,
        flow: &Flow<'_>,
        route: Route,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, ClientError> {
        let were_shut = !self.frames.are_open();
        self.frames.widen(flow, out);
        let mut event = None;
        let mut handle = None;
        if let Some(remote) = flow.handle {
            let ours = self.handle_of(remote)?;
            handle = Some(ours);
            event = self.take_link_flow(ours, flow, route, out)?;
        }
        if were_shut {
            // A wider window may let messages of any link pass.
            for at in 0..self.links.end() {
                self.send_waiting(at, route, out);
            }
        }
        if flow.echo {
            let answer = match handle {
                Some(handle) => self.link_flow(handle)?,
                None => self.flow(),
            };
            encode_frame(out, FrameKind::Amqp, route.channel, &answer);
        }
        Ok(event)
    }

    fn take_link_flow(
        &mut self,
        handle: u32,
        flow: &Flow<'_>,
        route: Route,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, ClientError> {
        let link = LinkId { channel: route.channel, handle };
        match &mut self.link(handle)?.end {
            End::Receiver(receiver) => {
                return Ok(receiver.take_count(flow).then_some(Event::Drained { link }));
            }
            End::Sender(sender) => sender.take_credit(flow),
        }
        self.send_waiting(handle, route, out);
        let End::Sender(sender) = &mut self.link(handle)?.end else { return Ok(None) };
        if flow.drain && sender.waiting.is_empty() {
            sender.give_up();
            let answer = Flow { drain: true, ..self.link_flow(handle)? };
            encode_frame(out, FrameKind::Amqp, route.channel, &answer);
        }
        let credit = self.credit(handle)?;
        Ok(Some(Event::Credit { link, credit }))
    }

    /// Sends a message or lets it wait, and returns its number.
    #[inline]
    pub(super) fn send(
        &mut self,
        handle: u32,
        mode: SendMode<'_>,
        pieces: &[&[u8]],
        route: Route,
        out: &mut Vec<u8>,
    ) -> Result<u64, ClientError> {
        let Self { links, frames, sent, .. } = self;
        let Some(Link { end: End::Sender(sender), .. }) = links.get(handle as usize) else {
            return Err(Self::no_link(handle));
        };
        sender.numbered += 1;
        let number = sender.numbered;
        if sender.credit > 0 && sender.waiting.is_empty() && frames.are_open() {
            sender.count();
            frames.transmit(sent.take(handle, number, mode), pieces, route, out);
        } else {
            let message = Message::new(number, mode, pieces);
            sender.waiting_bytes += message.bytes().len();
            sender.waiting.push_back(message);
        }
        Ok(number)
    }

    /// Sends what had to wait on a link and may leave now.
    fn send_waiting(&mut self, handle: u32, route: Route, out: &mut Vec<u8>) {
        let Self { links, frames, sent, .. } = self;
        let Some(Link { end: End::Sender(sender), .. }) = links.get(handle as usize) else { return };
        while sender.credit > 0 && frames.are_open() {
            let Some(message) = sender.waiting.pop_front() else { break };
            sender.waiting_bytes -= message.bytes().len();
            sender.count();
            frames.transmit(sent.take(handle, message.number(), message.mode()), &[message.bytes()], route, out);
        }
    }

    /// Bytes that wait.
    pub(super) fn waiting(&self) -> usize {
        let of_link = |link: &Link| match &link.end {
            End::Sender(sender) => sender.waiting_bytes,
            End::Receiver(_) => 0,
        };
        self.frames.waiting() + self.links.iter().map(of_link).sum::<usize>()
    }

    /// The first run of messages that `disposition` is about, behind the first `skip` of its
    /// deliveries. None if nothing is left.
    pub(super) fn answered(&mut self, disposition: &Disposition<'_>, skip: u32) -> Option<Run> {
        let last = disposition.last.unwrap_or(disposition.first);
        let count = ahead(last.wrapping_add(1), disposition.first);
        let first = disposition.first.wrapping_add(skip);
        let run = self.sent.run(first, count.saturating_sub(skip))?;
        let terminal = matches!(disposition.state, Some(DeliveryState::Outcome(_) | DeliveryState::Transactional(_)));
        if disposition.settled || terminal {
            self.sent.settle(run.ids.clone());
        }
        let end = run.ids.end().wrapping_add(1).wrapping_sub(disposition.first);
        let to_settle = (!disposition.settled && terminal).then_some(run.ids);
        let next = if end < count { end } else { 0 };
        Some(Run { handle: run.handle, numbers: run.numbers, to_settle, next })
    }

    /// Notes that we detach.
    pub(super) fn detaching(&mut self, handle: u32) -> Result<(), ClientError> {
        self.link(handle)?.stage = Stage::Detaching;
        Ok(())
    }

    /// Takes the peer's detach, and forgets the link.
    pub(super) fn detached(&mut self, remote: u32) -> Result<(u32, Answer), ClientError> {
        let handle = self.handle_of(remote)?;
        self.handles.take(remote as usize);
        let link = self.links.take(handle as usize).ok_or(Self::no_link(handle))?;
        self.sent.forget_link(handle);
        let answer = if link.stage == Stage::Detaching { Answer::Given } else { Answer::Owed };
        Ok((handle, answer))
    }
}
