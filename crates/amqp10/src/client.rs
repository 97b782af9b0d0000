//! A client without I/O, for the benchmark, the tests and the crash harness.
//!
//! The caller owns the socket. Requests append frames to a vector that the caller writes.
//! [`Client::poll`] takes bytes that the caller read, and returns one [`Event`] at a time, borrowed
//! from them. Log-in, windows, answers to `detach`, `end` and `close`, and messages that wait for
//! credit are handled inside. A message that came in one transfer is not copied.
//!
//! ```
//! use amqp10::client::{Client, Event, Login, Options, SendMode};
//! use amqp10::codec::{AttachTarget, Section, Target, performative::Attach};
//!
//! let mut client = Client::new(Options { login: Login::plain("guest", "guest"), ..Options::default() });
//! let mut out = Vec::new();
//! client.start(&mut out); // write `out` to the socket, then feed what comes back:
//! let received: &[u8] = &[];
//! let mut input = received;
//! while let Some(event) = client.poll(&mut input, &mut out)? {
//!     if let Event::Opened(_) = event {
//!         let channel = client.begin(&mut out)?;
//!         let target = AttachTarget::Target(Target { address: Some("q"), ..Target::default() });
//!         let attach = Attach { name: "sender", target: Some(target), ..Attach::default() };
//!         let link = client.attach(channel, &attach, &mut out)?;
//!         let mut message = Vec::new();
//!         Section::Data.encode(&b"hello".as_slice(), &mut message);
//!         client.send(link, SendMode::default(), &[&message], &mut out)?;
//!     }
//! }
//! // Keep what is left in `input`, append what arrives next, and write `out` after each round.
//! # Ok::<(), amqp10::client::ClientError>(())
//! ```

mod error;
mod event;
mod handshake;
mod link;
mod send;
mod session;
mod slots;
#[cfg(test)]
mod tests;
mod transaction;

use std::ops::RangeInclusive;

use crate::codec::frame::HEARTBEAT;
use crate::codec::performative::{Attach, Begin, Close, Detach, Disposition, End, Flow, Open, Role, Transfer};
use crate::codec::{DeliveryState, Frame, FrameKind, Performative, decode_frame, decode_performative, encode_frame};
use crate::limits::MIN_MAX_FRAME_SIZE;

pub use error::ClientError;
pub use event::{Event, LinkId};
pub use handshake::{Login, Options};
pub use send::SendMode;
pub use transaction::{Ending, in_transaction};

use handshake::Phase;
use session::Session;
use slots::Slots;

/// One connection as the client sees it.
#[derive(Debug)]
pub struct Client {
    options: Options,
    phase: Phase,
    peer: Peer,
    /// By our channel.
    sessions: Slots<Session>,
    /// Our channel by the peer's.
    channels: Slots<u16>,
    /// How many deliveries of the disposition at the front of the input were reported already.
    reported: u32,
}

/// What the peer said in its `open`.
#[derive(Debug, Clone, Copy)]
struct Peer {
    max_frame_size: u32,
    channel_max: u16,
    idle_time_out: Option<u32>,
}

/// What a frame came to.
enum Step<'i> {
    /// Nothing that the caller must know.
    Done,
    /// This, and the frame is done with.
    Event(Event<'i>),
    /// This, and there is more of the same frame to report.
    Part(Event<'i>),
}

impl Client {
    /// A client that has sent nothing yet.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            phase: Phase::Header,
            peer: Peer { max_frame_size: MIN_MAX_FRAME_SIZE, channel_max: 0, idle_time_out: None },
            sessions: Slots::default(),
            channels: Slots::default(),
            reported: 0,
        }
    }

    /// The milliseconds without a frame after which the peer gives the connection up, if it said
    /// so. The caller sends [`heartbeat`](Self::heartbeat) at half of that.
    pub fn peer_idle_time_out(&self) -> Option<u32> {
        self.peer.idle_time_out
    }

    /// Appends a sign of life.
    pub fn heartbeat(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&HEARTBEAT);
    }

    /// Appends the begin of a session, and returns its channel. It can be used at once;
    /// [`Event::Begun`] answers it.
    ///
    /// # Errors
    /// If the peer allows no more sessions.
    pub fn begin(&mut self, out: &mut Vec<u8>) -> Result<u16, ClientError> {
        let session = Session::new(self.options.incoming_window);
        let begin = session.begin();
        let channel =
            self.sessions.add(session, self.peer.channel_max.into()).ok_or(ClientError::TooMany("sessions"))?;
        encode_frame(out, FrameKind::Amqp, channel as u16, &begin);
        Ok(channel as u16)
    }

    /// Appends the attach of a link in the session on `channel`, and returns its id. Its handle,
    /// and a sender's initial delivery count, are set here. A receiver has no credit at first.
    /// [`Event::Attached`] answers it; a refusal is followed by [`Event::Detached`].
    ///
    /// # Errors
    /// If there is no such session, or it has no place for the link.
    pub fn attach(&mut self, channel: u16, attach: &Attach<'_>, out: &mut Vec<u8>) -> Result<LinkId, ClientError> {
        let max_message_size = self.options.max_message_size;
        let attach = self.session(channel)?.attach(attach, max_message_size)?;
        encode_frame(out, FrameKind::Amqp, channel, &attach);
        Ok(LinkId { channel, handle: attach.handle })
    }

    /// Allows the peer to send `credit` more messages on this link of a receiver; what was allowed
    /// before is replaced.
    ///
    /// # Errors
    /// If there is no such link.
    pub fn grant(&mut self, link: LinkId, credit: u32, out: &mut Vec<u8>) -> Result<(), ClientError> {
        let session = self.session(link.channel)?;
        session.receiver(link.handle)?.grant(credit);
        let flow = session.link_flow(link.handle)?;
        encode_frame(out, FrameKind::Amqp, link.channel, &flow);
        Ok(())
    }

    /// Asks the peer to send what it has now, and to give the rest of the credit up.
    /// [`Event::Drained`] says when that is done.
    ///
    /// # Errors
    /// If there is no such link.
    pub fn drain(&mut self, link: LinkId, out: &mut Vec<u8>) -> Result<(), ClientError> {
        let session = self.session(link.channel)?;
        session.receiver(link.handle)?.begin_drain();
        let flow = session.link_flow(link.handle)?;
        encode_frame(out, FrameKind::Amqp, link.channel, &flow);
        Ok(())
    }

    /// Asks for what the peer has now, up to `credit` messages, and for no more: [`grant`] and
    /// [`drain`] in one frame.
    ///
    /// # Errors
    /// If there is no such link.
    ///
    /// [`grant`]: Self::grant
    /// [`drain`]: Self::drain
    pub fn fetch(&mut self, link: LinkId, credit: u32, out: &mut Vec<u8>) -> Result<(), ClientError> {
        self.session(link.channel)?.receiver(link.handle)?.grant(credit);
        self.drain(link, out)
    }

    /// How many messages may still be sent on this link before more credit is given: by us if we
    /// are its sender, else by the peer.
    ///
    /// # Errors
    /// If there is no such link.
    pub fn credit(&mut self, link: LinkId) -> Result<u32, ClientError> {
        self.session(link.channel)?.credit(link.handle)
    }

    /// Appends one message, given in pieces, on a link of a sender. It waits inside if the peer
    /// allows no more. Returns its number on the link, from 1, by which [`Event::Answered`] names
    /// it; a message that is sent settled has no answer.
    ///
    /// # Errors
    /// If there is no such link.
    #[inline]
    pub fn send(
        &mut self,
        link: LinkId,
        mode: SendMode<'_>,
        message: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<u64, ClientError> {
        let route = send::Route { channel: link.channel, max_frame_size: self.peer.max_frame_size };
        self.session(link.channel)?.send(link.handle, mode, message, route, out)
    }

    /// Bytes of messages that wait for credit or for the peer's window.
    pub fn waiting(&self) -> usize {
        self.sessions.iter().map(Session::waiting).sum()
    }

    /// Appends the settled outcome `state` of the deliveries `ids` that came in the session.
    ///
    /// # Errors
    /// If there is no such session.
    #[inline]
    pub fn settle(
        &mut self,
        channel: u16,
        ids: RangeInclusive<u32>,
        state: DeliveryState<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ClientError> {
        let (first, last) = ids.into_inner();
        let last = (last != first).then_some(last);
        let role = Role::Receiver;
        let disposition =
            Disposition { role, first, last, settled: true, state: Some(state), ..Disposition::default() };
        self.disposition(channel, &disposition, out)
    }

    /// Appends a disposition as it is: for receivers that let the sender settle first.
    ///
    /// # Errors
    /// If there is no such session.
    pub fn disposition(
        &mut self,
        channel: u16,
        disposition: &Disposition<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ClientError> {
        self.session(channel)?;
        encode_frame(out, FrameKind::Amqp, channel, disposition);
        Ok(())
    }

    /// Appends a detach that closes the link: what is not settled goes back, and a durable
    /// subscription ends. [`Event::Detached`] answers it.
    ///
    /// # Errors
    /// If there is no such link.
    pub fn close_link(&mut self, link: LinkId, out: &mut Vec<u8>) -> Result<(), ClientError> {
        self.detach(link, &Detach { closed: true, ..Detach::default() }, out)
    }

    /// Appends a detach that keeps what is durable. [`Event::Detached`] answers it.
    ///
    /// # Errors
    /// If there is no such link.
    pub fn suspend_link(&mut self, link: LinkId, out: &mut Vec<u8>) -> Result<(), ClientError> {
        self.detach(link, &Detach::default(), out)
    }

    fn detach(&mut self, link: LinkId, detach: &Detach<'_>, out: &mut Vec<u8>) -> Result<(), ClientError> {
        self.session(link.channel)?.detaching(link.handle)?;
        encode_frame(out, FrameKind::Amqp, link.channel, &Detach { handle: link.handle, ..*detach });
        Ok(())
    }

    /// Appends the end of the session. [`Event::Ended`] answers it.
    ///
    /// # Errors
    /// If there is no such session.
    pub fn end(&mut self, channel: u16, out: &mut Vec<u8>) -> Result<(), ClientError> {
        self.session(channel)?.ending = true;
        encode_frame(out, FrameKind::Amqp, channel, &End::default());
        Ok(())
    }

    /// Appends a close of the connection. [`Event::Closed`] answers it; nothing follows.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        self.phase = Phase::Closing;
        encode_frame(out, FrameKind::Amqp, 0, &Close::default());
    }

    /// Reads the next event from `input` and advances `input`. `None` if more bytes are needed. The
    /// caller keeps the rest, which is at most one incomplete frame. Answers that can't wait are
    /// appended to `out`.
    ///
    /// # Errors
    /// If the peer broke the protocol or refused the log-in. The connection can't be used any
    /// further.
    #[inline]
    pub fn poll<'i>(&mut self, input: &mut &'i [u8], out: &mut Vec<u8>) -> Result<Option<Event<'i>>, ClientError> {
        loop {
            if self.phase.awaits_header() {
                if self.take_header(input)? {
                    continue;
                }
                return Ok(None);
            }
            let Some(frame) = decode_frame(input, self.options.max_frame_size)? else { return Ok(None) };
            let after = &input[frame.size as usize..];
            match self.take_frame(frame, out)? {
                Step::Done => *input = after,
                Step::Event(event) => {
                    *input = after;
                    return Ok(Some(event));
                }
                Step::Part(event) => return Ok(Some(event)),
            }
        }
    }

    fn take_frame<'i>(&mut self, frame: Frame<'i>, out: &mut Vec<u8>) -> Result<Step<'i>, ClientError> {
        if frame.kind == FrameKind::Sasl {
            self.take_sasl(frame.body, out)?;
            return Ok(Step::Done);
        }
        if frame.body.is_empty() {
            return Ok(Step::Done);
        }
        let (before, closing) = (out.len(), self.phase == Phase::Closing);
        let step = self.take_performative(frame, out)?;
        // Nothing may follow our end of a session, or our close of the connection.
        if out.len() > before && (closing || self.is_ending(frame.channel)) {
            out.truncate(before);
        }
        Ok(step)
    }

    fn is_ending(&mut self, remote: u16) -> bool {
        self.remote_session(remote).is_ok_and(|(_, session)| session.ending)
    }

    fn take_performative<'i>(&mut self, frame: Frame<'i>, out: &mut Vec<u8>) -> Result<Step<'i>, ClientError> {
        let (performative, payload) = decode_performative(frame.body)?;
        match performative {
            Performative::Transfer(transfer) => self.take_transfer(frame.channel, &transfer, payload, out),
            Performative::Disposition(disposition) => self.take_disposition(frame.channel, disposition, out),
            Performative::Flow(flow) => self.take_flow(frame.channel, &flow, out),
            Performative::Open(open) => self.take_open(open),
            Performative::Begin(begin) => self.take_begin(frame.channel, &begin),
            Performative::Attach(attach) => self.take_attach(frame.channel, attach),
            Performative::Detach(detach) => self.take_detach(frame.channel, detach, out),
            Performative::End(end) => self.take_end(frame.channel, end, out),
            Performative::Close(close) => {
                if self.phase != Phase::Closing {
                    self.close(out);
                }
                Ok(Step::Event(Event::Closed { error: close.error }))
            }
        }
    }

    fn take_open<'i>(&mut self, open: Open<'i>) -> Result<Step<'i>, ClientError> {
        if self.phase != Phase::Open {
            return Err(ClientError::Unexpected("a second open"));
        }
        self.phase = Phase::Running;
        self.peer = Peer {
            // The specification's minimum, whatever the peer says (part 2, §2.7.1).
            max_frame_size: open.max_frame_size.clamp(MIN_MAX_FRAME_SIZE, self.options.max_frame_size),
            channel_max: open.channel_max,
            idle_time_out: open.idle_time_out.filter(|time| *time > 0),
        };
        Ok(Step::Event(Event::Opened(open)))
    }

    fn take_begin(&mut self, remote: u16, begin: &Begin<'_>) -> Result<Step<'static>, ClientError> {
        let channel = begin.remote_channel.ok_or(ClientError::Unexpected("a session that was not asked for"))?;
        self.sessions.get(channel.into()).ok_or(ClientError::NoSession(channel))?.begun(begin);
        self.channels.put(remote.into(), channel);
        Ok(Step::Event(Event::Begun { channel }))
    }

    fn take_attach<'i>(&mut self, remote: u16, attach: Box<Attach<'i>>) -> Result<Step<'i>, ClientError> {
        let (channel, session) = self.remote_session(remote)?;
        let handle = session.attached(&attach)?;
        Ok(Step::Event(Event::Attached { link: LinkId { channel, handle }, attach }))
    }

    fn take_flow(&mut self, remote: u16, flow: &Flow<'_>, out: &mut Vec<u8>) -> Result<Step<'static>, ClientError> {
        let max_frame_size = self.peer.max_frame_size;
        let (channel, session) = self.remote_session(remote)?;
        let event = session.take_flow(flow, send::Route { channel, max_frame_size }, out)?;
        Ok(event.map_or(Step::Done, Step::Event))
    }

    #[inline]
    fn take_transfer<'i>(
        &mut self,
        remote: u16,
        transfer: &Transfer<'i>,
        payload: &'i [u8],
        out: &mut Vec<u8>,
    ) -> Result<Step<'i>, ClientError> {
        let (channel, session) = self.remote_session(remote)?;
        if let Some(flow) = session.count_transfer() {
            encode_frame(out, FrameKind::Amqp, channel, &flow);
        }
        let (handle, step) = session.take_transfer(transfer, payload)?;
        let link = LinkId { channel, handle };
        Ok(match step {
            crate::delivery::Step::Incomplete => Step::Done,
            crate::delivery::Step::Complete(delivery) => Step::Event(Event::Delivery { link, delivery }),
            crate::delivery::Step::Aborted(id) => Step::Event(Event::Aborted { link, id }),
        })
    }

    fn take_disposition<'i>(
        &mut self,
        remote: u16,
        disposition: Disposition<'i>,
        out: &mut Vec<u8>,
    ) -> Result<Step<'i>, ClientError> {
        let skip = std::mem::take(&mut self.reported);
        let (channel, session) = self.remote_session(remote)?;
        if disposition.role == Role::Sender {
            let Disposition { first, last, state, .. } = disposition;
            let ids = first..=last.unwrap_or(first);
            return Ok(Step::Event(Event::Settled { channel, ids, state }));
        }
        let Some(run) = session.answered(&disposition, skip) else { return Ok(Step::Done) };
        if let Some(ids) = run.to_settle {
            settle_sent(channel, ids, disposition.state, out);
        }
        let event = Event::Answered {
            link: LinkId { channel, handle: run.handle },
            numbers: run.numbers,
            state: disposition.state,
        };
        self.reported = run.next;
        Ok(if run.next == 0 { Step::Event(event) } else { Step::Part(event) })
    }

    fn take_detach<'i>(&mut self, remote: u16, detach: Detach<'i>, out: &mut Vec<u8>) -> Result<Step<'i>, ClientError> {
        let (channel, session) = self.remote_session(remote)?;
        let (handle, answer) = session.detached(detach.handle)?;
        if answer == Answer::Owed {
            let answer = Detach { handle, closed: detach.closed, error: None };
            encode_frame(out, FrameKind::Amqp, channel, &answer);
        }
        let link = LinkId { channel, handle };
        Ok(Step::Event(Event::Detached { link, closed: detach.closed, error: detach.error }))
    }

    fn take_end<'i>(&mut self, remote: u16, end: End<'i>, out: &mut Vec<u8>) -> Result<Step<'i>, ClientError> {
        let (channel, session) = self.remote_session(remote)?;
        if !session.ending {
            encode_frame(out, FrameKind::Amqp, channel, &End::default());
        }
        self.sessions.take(channel.into());
        self.channels.take(remote.into());
        Ok(Step::Event(Event::Ended { channel, error: end.error }))
    }

    /// The session for a request.
    #[inline]
    fn session(&mut self, channel: u16) -> Result<&mut Session, ClientError> {
        let session = self.sessions.get(channel.into()).filter(|session| !session.ending);
        session.ok_or(ClientError::NoSession(channel))
    }

    /// The session of a frame that came.
    #[inline]
    fn remote_session(&mut self, remote: u16) -> Result<(u16, &mut Session), ClientError> {
        let channel = self.channels.get(remote.into()).copied().ok_or(ClientError::NoSession(remote))?;
        let session = self.sessions.get(channel.into()).ok_or(ClientError::NoSession(channel))?;
        Ok((channel, session))
    }
}

/// Whether a peer's request to end something has to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// We have not asked for the same.
    Owed,
    /// The peer's is the answer to ours.
    Given,
}

/// Settles what a receiver has answered and leaves to its sender.
fn settle_sent(channel: u16, ids: RangeInclusive<u32>, state: Option<DeliveryState<'_>>, out: &mut Vec<u8>) {
    let (first, last) = ids.into_inner();
    let role = Role::Sender;
    let disposition = Disposition { role, first, last: Some(last), settled: true, state, ..Disposition::default() };
    encode_frame(out, FrameKind::Amqp, channel, &disposition);
}
