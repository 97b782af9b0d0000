//! One connection: its phases, and what it does in a turn ([`front::Conversation`]).
//!
//! Phases only go forward. Input is taken frame by frame while nothing is waited for.

use std::task::Waker;
use std::time::{Duration, Instant};

use auth::Identity;
use front::{Conversation, End, Entrance, Line, Parts, Sasl, View};
use wire::{CloseReason, Peer, ReadState};

use crate::codec::frame::HEARTBEAT;
use crate::codec::methods::ConnectionCloseOk;
use crate::codec::{Frame, Method, decode_frame};
use crate::session::error::{Failure, ReplyCode};
use crate::session::events;
use crate::session::last::Last;
use crate::session::link::{After, Link, Waiting};
use crate::session::running::{Running, Taken};
use crate::session::{Amqp091, WORDS};

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
    pub(super) line: Line,
    pub(super) phase: Phase,
    pub(super) link: Link,
    pub(super) running: Option<Running>,
    last: Last,
    /// Highest channel number.
    pub(super) channel_max: u16,
}

impl AmqpConnection {
    pub(super) fn new(server: Amqp091, peer: Peer, waker: Waker, now: Instant) -> Self {
        let phase_ends = now + server.settings.handshake_timeout;
        Self {
            server,
            line: Line::new(peer, waker, &WORDS, phase_ends, now),
            phase: Phase::Header,
            link: Link::new(HANDSHAKE_FRAME_MAX),
            running: None,
            last: Last::default(),
            channel_max: 0,
        }
    }

    /// The peer on its way to the broker.
    pub(super) fn entrance(&self) -> Entrance<'_> {
        self.line.entrance(&self.server.broker)
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
        self.take_renewal(now);
        let Some(running) = &mut self.running else { return };
        let over = match &self.link.waiting {
            // These end in `report`, and the last has been looked at.
            None | Some(Waiting::Commit { .. } | Waiting::Unparked(_) | Waiting::Renewal(_)) => false,
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
        self.line.phase_ends = None;
        self.leave_broker();
    }

    /// Ends the broker's side.
    pub(super) fn leave_broker(&mut self) {
        if let Some(Running { client, .. }) = self.running.take() {
            self.line.leave(client);
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

impl Conversation for AmqpConnection {
    const BEAT: &'static [u8] = &HEARTBEAT;

    #[inline]
    fn parts(&mut self) -> Parts<'_> {
        let client = self.running.as_mut().map(|running| &mut running.client);
        Parts { line: &mut self.line, client, output: &mut self.link.out }
    }

    #[inline]
    fn view(&self) -> View<'_> {
        let state = match self.phase {
            Phase::Answered => ReadState::Answered,
            Phase::Closed => ReadState::Closed,
            Phase::GivenUp => ReadState::GivenUp,
            _ if self.link.waiting.is_some() || self.phase.is_checking() => ReadState::Pause,
            Phase::Running => ReadState::Read,
            // This includes closing: a peer whose connection we close gets no more trust than one
            // before its log-in.
            _ => ReadState::Handshake,
        };
        let client = self.running.as_ref().map(|running| &running.client);
        View { line: &self.line, client, output: &self.link.out, state }
    }

    fn last(&self) -> &'static str {
        self.last.name()
    }

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
                    self.line.waker.wake_by_ref();
                }
                0
            }
            Err(failure) => {
                self.fail(frame.channel, failure, now);
                frame.wire_len()
            }
        }
    }

    fn report(&mut self, room: usize, now: Instant) -> bool {
        self.resume(now);
        let Some(running) = &mut self.running else { return false };
        let Running { client, sessions, .. } = running;
        let (link, broker) = (&mut self.link, &self.server.broker);
        let more = client.drain(now, room, &mut |event| events::report(link, sessions, broker, event));
        link.waiting.take_if(|waiting| matches!(waiting, Waiting::Unparked(session) if !client.parked(*session)));
        self.run_after(now);
        more
    }

    fn end(&mut self, why: End, now: Instant) {
        let text = match why {
            End::Late => return self.end_phase(),
            End::Silent => {
                let peer = self.line.peer.remote;
                tracing::warn!(%peer, "no heartbeat from the client for two intervals: closing");
                // Nothing reaches the peer any more, so nothing is waited for.
                self.link.out.take();
                self.finish();
                self.phase = Phase::GivenUp;
                return;
            }
            End::Asked(CloseReason::Gone) => return self.finish(),
            End::Asked(CloseReason::Shutdown) => "broker forced connection closure with reason 'shutdown'".to_owned(),
            End::Asked(CloseReason::Forced(text)) => text,
        };
        match self.phase {
            // The peer has closed already, and its answer is on the way.
            Phase::Running if matches!(self.link.waiting, Some(Waiting::Reply { closes: true, .. })) => {}
            Phase::Running => self.fail(0, Failure::new(ReplyCode::ConnectionForced, text), now),
            Phase::Closing | Phase::Ignoring => {}
            _ => self.finish(),
        }
    }
}
