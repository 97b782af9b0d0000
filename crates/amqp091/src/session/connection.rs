//! One connection: its phases, its turns, and the driver's contract ([`wire::Connection`]).
//!
//! Phases only go forward. Input is taken frame by frame while nothing is waited for. At the end of
//! each turn the broker gets what was gathered, and the output gets the broker's events.

use std::task::Waker;
use std::time::{Duration, Instant};

use auth::Identity;
use broker::Flow;
use front::{Due, Entrance, KeepAlive, Sasl};
use wire::{CloseReason, Connection, Doing, Output, Peer, ReadState};

use crate::codec::frame::encode_heartbeat;
use crate::codec::methods::ConnectionCloseOk;
use crate::codec::{Frame, Method, decode_frame};
use crate::session::error::{Failure, ReplyCode};
use crate::session::events;
use crate::session::last::Last;
use crate::session::link::{After, Link, OUTPUT_ENOUGH, Waiting};
use crate::session::running::{Running, Taken};
use crate::session::{Amqp091, WORDS};

/// A turn ends after this many bytes of input, so that other connections get their turns.
const TURN_BYTES: usize = 256 * 1024;
/// A turn ends after this many frames or whole publishes.
const TURN_ENTRIES: usize = 10_000;
/// Largest frame before both sides have agreed on a size. The specification has 4096 (§4.2.3).
/// RabbitMQ since 4.1 has twice as much, so that a long token fits as a password.
pub(super) const HANDSHAKE_FRAME_MAX: u32 = 8192;
/// How long the peer may take to answer our close.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);
/// After a failed log-in or broken framing, how long input is ignored before the socket closes.
pub(super) const SILENCE: Duration = Duration::from_secs(3);

/// The phase of a connection.
#[derive(Debug)]
pub(super) enum Phase {
    /// Waits for the protocol header.
    Header,
    /// Waits for start-ok.
    Starting,
    /// Waits for a response of the client, or for the outcome of its log-in.
    Securing(Sasl),
    /// Waits for tune-ok.
    Tuning(Identity),
    /// Waits for open.
    Opening(Identity),
    /// Open.
    Running,
    /// We sent a close; waits for close-ok and ignores everything else.
    Closing,
    /// Ignores all input until a timeout.
    Ignoring,
    /// Everything is written, and the peer must end the connection.
    Answered,
    /// Nothing more is read.
    Closed,
    /// Nothing more is read or written: the peer has sent no heartbeat.
    GivenUp,
}

impl Phase {
    pub(super) fn is_before_login(&self) -> bool {
        matches!(self, Self::Header | Self::Starting | Self::Securing(_))
    }

    /// Whether the outcome of a log-in is waited for.
    fn is_checking(&self) -> bool {
        matches!(self, Self::Securing(sasl) if sasl.checking().is_some())
    }

    /// Its name in RabbitMQ's error texts.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Header => "handshake",
            Self::Starting => "starting",
            Self::Securing(_) => "securing",
            Self::Tuning(_) => "tuning",
            Self::Opening(_) => "opening",
            Self::Running => "running",
            Self::Closing | Self::Ignoring => "closing",
            Self::Answered | Self::Closed | Self::GivenUp => "closed",
        }
    }
}

/// See the module.
pub(super) struct AmqpConnection {
    pub(super) server: Amqp091,
    pub(super) peer: Peer,
    pub(super) waker: Waker,
    pub(super) phase: Phase,
    /// The timeout of the phase.
    pub(super) phase_ends: Option<Instant>,
    pub(super) link: Link,
    pub(super) keep_alive: KeepAlive,
    pub(super) running: Option<Running>,
    last: Last,
    /// User and vhost of the connection that was open.
    was: Option<(Box<str>, Box<str>)>,
    /// Highest channel number.
    pub(super) channel_max: u16,
}

impl AmqpConnection {
    pub(super) fn new(server: Amqp091, peer: Peer, waker: Waker, now: Instant) -> Self {
        let phase_ends = Some(now + server.settings.handshake_timeout);
        Self {
            server,
            peer,
            waker,
            phase: Phase::Header,
            phase_ends,
            link: Link::new(HANDSHAKE_FRAME_MAX),
            keep_alive: KeepAlive::none(now),
            running: None,
            last: Last::default(),
            was: None,
            channel_max: 0,
        }
    }

    /// The peer on its way to the broker.
    pub(super) fn entrance(&self) -> Entrance<'_> {
        Entrance { broker: &self.server.broker, peer: &self.peer, waker: &self.waker, words: &WORDS }
    }

    /// Whether the next frame may be taken.
    fn takes_input(&self) -> bool {
        !matches!(self.phase, Phase::Answered | Phase::Closed | Phase::GivenUp)
            && !self.phase.is_checking()
            && self.link.waiting.is_none()
            && !self.link.is_stuffed()
    }

    /// Whether the input so far is enough work for one turn.
    fn is_turn_full(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.client.is_turn_full())
    }

    fn may_read(&self) -> bool {
        let flow = self.running.as_ref().map_or(Flow::Run, |running| running.client.flow());
        self.takes_input() && flow == Flow::Run
    }

    /// Takes the start of `input`; 0 if more bytes, or something else, must come first.
    fn take(&mut self, input: &[u8], now: Instant) -> usize {
        match self.phase {
            Phase::Header => return self.take_header(input),
            Phase::Ignoring | Phase::Answered | Phase::Closed | Phase::GivenUp => return input.len(),
            _ => {}
        }
        let frame = match decode_frame(input, self.link.frame_max) {
            Ok(Some(frame)) => frame,
            Ok(None) => return 0,
            Err(error) => {
                self.lose_sync(error, now);
                return input.len();
            }
        };
        self.last = Last::of(frame);
        let after = &input[frame.wire_len()..];
        match self.take_frame(frame, after, now) {
            Ok(Taken::Frames(more)) => frame.wire_len() + more,
            Ok(Taken::Later) => {
                if self.link.waiting.is_none() {
                    // The frame waited for something that has just come, and nothing else would
                    // offer it again.
                    self.waker.wake_by_ref();
                }
                0
            }
            Err(failure) => {
                self.fail(frame.channel, failure, now);
                frame.wire_len()
            }
        }
    }

    fn take_frame(&mut self, frame: Frame<'_>, after: &[u8], now: Instant) -> Result<Taken, Failure> {
        if let (Phase::Running, Some(running)) = (&self.phase, &mut self.running)
            && frame.channel != 0
        {
            return running.take_frame(&mut self.link, frame, after, now);
        }
        if frame.channel == 0 {
            self.take_connection_frame(frame, now)?;
        } else if !matches!(self.phase, Phase::Closing) {
            return Err(Failure::new(ReplyCode::UnexpectedFrame, "channels can be used once the connection is open"));
        }
        Ok(Taken::Frames(0))
    }

    /// Ends the turn: the broker gets what was gathered, and the output gets the broker's events.
    fn end_turn(&mut self, now: Instant) {
        if let Some(running) = &mut self.running {
            running.client.end_turn(now);
        }
        if self.drain(now) {
            // The driver calls `wake` only after output that `wake` itself produced.
            self.waker.wake_by_ref();
        }
        self.note_output(now);
    }

    fn note_output(&mut self, now: Instant) {
        if !self.link.out.is_empty() {
            self.keep_alive.sent(now);
        }
    }

    /// Takes events from the broker. True if more events wait and the output has room, or if the
    /// frame that waited for parked publishes can be taken.
    fn drain(&mut self, now: Instant) -> bool {
        let Some(running) = &mut self.running else { return false };
        // This also runs with a full output, because it does what is due by time. Otherwise the
        // deadline would stay in the past.
        let budget = OUTPUT_ENOUGH.saturating_sub(self.link.out.len());
        let Running { client, sessions, .. } = running;
        let (link, broker) = (&mut self.link, &self.server.broker);
        let more = client.drain(now, budget, &mut |event| events::report(link, sessions, broker, event));
        let unparked =
            |waiting: &mut Waiting| matches!(waiting, Waiting::Unparked(session) if !client.parked(*session));
        let unparked = link.waiting.take_if(unparked).is_some();
        self.run_after(now);
        unparked || (more && budget > 0)
    }

    fn run_after(&mut self, now: Instant) {
        for after in std::mem::take(&mut self.link.after) {
            match after {
                After::CloseChannel(number, failure) => self.fail(number, failure, now),
                After::CloseConnection(failure) => self.fail(0, failure, now),
            }
        }
    }

    /// Checks whether the connection can stop waiting.
    fn resume(&mut self, now: Instant) {
        self.take_login(now);
        let Some(running) = &mut self.running else { return };
        let over = match &self.link.waiting {
            // Both end in `drain`.
            None | Some(Waiting::Commit { .. } | Waiting::Unparked(_)) => false,
            Some(Waiting::Reply { awaited, .. } | Waiting::Durable(awaited)) => running.client.durable(*awaited),
        };
        if !over {
            return;
        }
        if let Some(Waiting::Reply { frame, closes, .. }) = self.link.waiting.take() {
            self.link.out.put(&frame);
            if closes {
                self.leave_to_peer();
            }
        }
    }

    /// A close is answered. Writes the rest, and leaves the end of the connection to the peer.
    pub(super) fn leave_to_peer(&mut self) {
        self.finish();
        self.phase = Phase::Answered;
    }

    /// Writes the rest and ends.
    pub(super) fn finish(&mut self) {
        self.phase = Phase::Closed;
        self.phase_ends = None;
        self.leave_broker();
    }

    /// Ends the broker's side.
    pub(super) fn leave_broker(&mut self) {
        if let Some(Running { client, .. }) = self.running.take() {
            self.was = Some((client.user().into(), client.vhost().into()));
        }
    }

    /// Takes frames of channel 0 while our close waits for its answer.
    pub(super) fn take_while_closing(&mut self, method: &Method<'_>) {
        match method {
            Method::ConnectionCloseOk(_) => self.leave_to_peer(),
            // Both sides closed at the same time: each answers the other.
            Method::ConnectionClose(_) => self.link.send(0, ConnectionCloseOk {}),
            _ => {}
        }
    }
}

impl Connection for AmqpConnection {
    fn receive(&mut self, input: &[u8], now: Instant) -> usize {
        self.link.note_progress();
        if !self.may_read() {
            return 0;
        }
        self.keep_alive.offered(input.len(), now);
        let (mut taken, mut entries) = (0, 0);
        while taken < TURN_BYTES.min(input.len()) && entries < TURN_ENTRIES && self.takes_input() {
            match self.take(&input[taken..], now) {
                0 => break,
                count => taken += count,
            }
            entries += 1;
            if self.is_turn_full() {
                break;
            }
        }
        self.end_turn(now);
        self.keep_alive.left(if self.may_read() { input.len() - taken } else { 0 });
        taken
    }

    fn wake(&mut self, now: Instant) {
        self.link.note_progress();
        self.resume(now);
        self.drain(now);
        self.note_output(now);
    }

    fn tick(&mut self, now: Instant) {
        if self.phase_ends.is_some_and(|end| now >= end) {
            self.end_phase();
            return;
        }
        if !self.may_read() {
            self.keep_alive.not_read(now);
        }
        match self.keep_alive.due(now) {
            Due::Nothing => {}
            Due::GiveUp => {
                tracing::warn!(peer = %self.peer.remote, "no heartbeat from the client for two intervals: closing");
                // Nothing reaches the peer any more, so nothing is waited for.
                self.link.out.take();
                self.finish();
                self.phase = Phase::GivenUp;
                return;
            }
            Due::Send => {
                if self.link.out.is_empty() {
                    encode_heartbeat(self.link.out.tail());
                }
                self.keep_alive.sent(now);
            }
        }
        if self.running.as_ref().and_then(|running| running.client.next_deadline()).is_some_and(|at| now >= at) {
            self.wake(now);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let client = self.running.as_ref().and_then(|running| running.client.next_deadline());
        [self.phase_ends, self.keep_alive.deadline(), client].into_iter().flatten().min()
    }

    fn output(&mut self) -> &mut Output {
        &mut self.link.out
    }

    fn read_state(&self) -> ReadState {
        match self.phase {
            Phase::Answered => ReadState::Answered,
            Phase::Closed => ReadState::Closed,
            Phase::GivenUp => ReadState::GivenUp,
            _ if !self.may_read() => ReadState::Pause,
            Phase::Running => ReadState::Read,
            // This includes closing: a peer whose connection we close gets no more trust than one
            // before its log-in.
            _ => ReadState::Handshake,
        }
    }

    fn doing(&self) -> Doing<'_> {
        let was = self.was.as_ref().map(|(user, vhost)| (&**user, &**vhost));
        let is = self.running.as_ref().map(|running| (running.client.user(), running.client.vhost()));
        let (user, vhost) = is.or(was).unwrap_or_default();
        Doing { user, vhost, last: self.last.name() }
    }

    fn close(&mut self, reason: CloseReason, now: Instant) {
        let text = match reason {
            CloseReason::Gone => return self.finish(),
            CloseReason::Shutdown => "broker forced connection closure with reason 'shutdown'".to_owned(),
            CloseReason::Forced(text) => text,
        };
        match self.phase {
            // The peer has closed already, and its answer is on the way.
            Phase::Running if matches!(self.link.waiting, Some(Waiting::Reply { closes: true, .. })) => {}
            Phase::Running => self.fail(0, Failure::new(ReplyCode::ConnectionForced, text), now),
            Phase::Closing | Phase::Ignoring | Phase::Answered | Phase::Closed | Phase::GivenUp => {}
            _ => self.finish(),
        }
    }
}
