//! One server-side connection: its phases, from the first byte to the last.
//!
//! A failure in any phase writes one ERROR frame, ends the session (which requeues its unsettled
//! deliveries) and closes.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use broker::LARGE_BODY;
use front::{Due, Entrance, KeepAlive};
use wire::{CloseReason, Connection, Doing, Output, Peer, ReadState};

use super::connect::{Connecting, log_in_first};
use super::error::Failure;
use super::heart_beat;
use super::open::Session;
use super::protocol::{Shared, WORDS};
use crate::codec::{Command, Decoder, Frame, FrameError, Spoken, Version};
use crate::limits;

enum Phase {
    /// Only CONNECT is accepted.
    Greeting,
    /// The password is being checked.
    Connecting(Box<Connecting>),
    Open(Box<Session>),
    /// The last frame is in the output, and the peer must end the connection.
    Answered,
}

/// The peer on its way to the broker.
fn entrance<'c>(shared: &'c Shared, peer: &'c Peer, waker: &'c Waker) -> Entrance<'c> {
    Entrance { broker: &shared.broker, peer, waker, words: &WORDS }
}

/// The server side of one connection.
pub(super) struct StompConnection {
    shared: Arc<Shared>,
    peer: Peer,
    waker: Waker,
    decoder: Decoder,
    output: Output,
    phase: Phase,
    keep_alive: KeepAlive,
    /// When the session must be open.
    handshake: Instant,
    /// The command of the frame that was handled last.
    last: Option<Command>,
    /// User and vhost of the session that has ended.
    was: Option<(Box<str>, Box<str>)>,
}

impl StompConnection {
    pub(super) fn new(shared: Arc<Shared>, peer: Peer, waker: Waker, now: Instant) -> Self {
        Self {
            handshake: now + shared.settings.handshake,
            shared,
            peer,
            waker,
            decoder: Decoder::default(),
            output: Output::default(),
            phase: Phase::Greeting,
            keep_alive: KeepAlive::none(now),
            last: None,
            was: None,
        }
    }

    fn version(&self) -> Version {
        match &self.phase {
            Phase::Open(session) => session.version,
            Phase::Greeting | Phase::Connecting(_) | Phase::Answered => Version::V1_0,
        }
    }

    fn fail(&mut self, failure: &Failure) {
        let (peer, error) = (self.peer.remote, failure.summary());
        if matches!(self.phase, Phase::Greeting | Phase::Connecting(_)) {
            // Any peer that reaches the port could fill the log. Refused log-ins have log lines of
            // their own.
            tracing::debug!(%peer, %error, "STOMP connection closed before it logged in");
        } else {
            let (user, vhost) = match &self.phase {
                Phase::Open(session) => (session.client.user(), session.client.vhost()),
                _ => ("", ""),
            };
            let error = auth::shown::extract(&error, limits::TOLD);
            tracing::warn!(%peer, user, vhost, %error, "STOMP connection closed with an error");
        }
        let spoken = Spoken { version: self.version(), trailer: self.shared.settings.trailer };
        failure.write(self.output.tail(), spoken);
        self.leave();
    }

    /// Ends the session; what is in the output is still written.
    fn leave(&mut self) {
        if let Phase::Open(session) = std::mem::replace(&mut self.phase, Phase::Answered) {
            self.was = Some((session.client.user().into(), session.client.vhost().into()));
        }
    }

    /// Whether the input so far is enough work for one turn.
    fn is_turn_full(&self) -> bool {
        matches!(&self.phase, Phase::Open(session) if session.client.is_turn_full())
    }

    /// Decodes and handles frames until the input or the turn ends, or the session must not be
    /// read.
    fn read_frames(&mut self, decoder: &mut Decoder, input: &[u8], now: Instant) -> usize {
        let mut consumed = 0;
        while consumed < limits::TURN
            && !self.is_turn_full()
            && matches!(self.read_state(), ReadState::Read | ReadState::Handshake)
        {
            decoder.set_version(self.version());
            decoder.set_limits(self.shared.limits(matches!(self.phase, Phase::Open(_))));
            let decoded = match decoder.decode(&input[consumed..]) {
                Ok(decoded) => decoded,
                Err(FrameError::BodyTooLong(_)) if matches!(self.phase, Phase::Greeting) => {
                    self.fail(&log_in_first());
                    break;
                }
                Err(error) => {
                    self.fail(&error.into());
                    break;
                }
            };
            let Some(frame) = decoded.frame else {
                consumed += decoded.consumed;
                self.note_body(decoder, now);
                break;
            };
            if let Phase::Open(session) = &mut self.phase
                && session.must_wait(&frame)
            {
                break;
            }
            consumed += decoded.consumed;
            if let Err(failure) = self.handle(&frame, now) {
                // The frames before the faulty one are valid.
                if let Phase::Open(session) = &mut self.phase {
                    session.client.flush(now);
                }
                self.fail(&failure.about(&frame));
            }
        }
        consumed
    }

    /// Tells the broker of a body that is arriving. A large body without `content-length` counts as
    /// one of the largest size.
    fn note_body(&mut self, decoder: &Decoder, now: Instant) {
        let (Phase::Open(session), Some((arrived, announced))) = (&mut self.phase, decoder.gathered()) else { return };
        let arrived = arrived as u64;
        let unknown = if arrived > LARGE_BODY { self.shared.broker.limits().max_message_bytes } else { arrived };
        session.client.body_arrives(session.id, announced.map_or(unknown, |length| length as u64), now);
    }

    fn handle(&mut self, frame: &Frame<'_>, now: Instant) -> Result<(), Failure> {
        self.last = Some(frame.command);
        if let Phase::Open(session) = &mut self.phase {
            return session.handle(frame, &mut self.output, now);
        }
        let connecting = Connecting::start(frame, &self.shared, entrance(&self.shared, &self.peer, &self.waker), now)?;
        self.phase = Phase::Connecting(Box::new(connecting));
        self.finish_connect(now)
    }

    /// Opens the session if the password has been checked.
    fn finish_connect(&mut self, now: Instant) -> Result<(), Failure> {
        let Phase::Connecting(connecting) = &self.phase else {
            return Ok(());
        };
        let entrance = entrance(&self.shared, &self.peer, &self.waker);
        let Some(outcome) = connecting.finish(&self.shared, entrance, &mut self.output) else {
            return Ok(());
        };
        heart_beat::agree(&mut self.keep_alive, connecting.heart_beat, now);
        self.phase = Phase::Open(Box::new(outcome?));
        Ok(())
    }

    fn end_turn(&mut self, now: Instant) {
        if let Phase::Open(session) = &mut self.phase {
            let ended = session.end_turn(&mut self.output, now);
            let is_over = session.is_over();
            match ended {
                Err(failure) => self.fail(&failure),
                Ok(()) if is_over => self.leave(),
                Ok(()) => {}
            }
        }
        if !self.output.is_empty() {
            self.keep_alive.sent(now);
        }
    }
}

impl Connection for StompConnection {
    fn receive(&mut self, input: &[u8], now: Instant) -> usize {
        self.keep_alive.offered(input.len(), now);
        let mut decoder = std::mem::take(&mut self.decoder);
        let consumed = self.read_frames(&mut decoder, input, now);
        self.decoder = decoder;
        self.end_turn(now);
        self.keep_alive.left(if self.read_state() == ReadState::Pause { 0 } else { input.len() - consumed });
        consumed
    }

    fn wake(&mut self, now: Instant) {
        if let Err(failure) = self.finish_connect(now) {
            self.fail(&failure);
        }
        self.end_turn(now);
    }

    fn tick(&mut self, now: Instant) {
        match &self.phase {
            Phase::Greeting | Phase::Connecting(_) if now >= self.handshake => {
                let limit = self.shared.settings.handshake.as_secs();
                let detail = format!("the session was not open within {limit} seconds");
                self.fail(&Failure::new("Bad CONNECT", detail));
            }
            Phase::Open(_) => {
                if self.read_state() == ReadState::Pause {
                    self.keep_alive.not_read(now);
                }
                match self.keep_alive.due(now) {
                    Due::Nothing => {}
                    Due::GiveUp => {
                        let detail = "nothing was received for twice the agreed heart-beat interval";
                        self.fail(&Failure::new("Heart-beat missed", detail));
                    }
                    Due::Send => {
                        if self.output.is_empty() {
                            self.output.put(b"\n");
                        }
                        self.keep_alive.sent(now);
                    }
                }
                self.end_turn(now);
            }
            Phase::Greeting | Phase::Connecting(_) | Phase::Answered => {}
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Greeting | Phase::Connecting(_) => Some(self.handshake),
            Phase::Open(session) => session.client.next_deadline().into_iter().chain(self.keep_alive.deadline()).min(),
            Phase::Answered => None,
        }
    }

    fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    fn read_state(&self) -> ReadState {
        match &self.phase {
            Phase::Greeting => ReadState::Handshake,
            Phase::Connecting(_) => ReadState::Pause,
            Phase::Open(session) if session.reads() => ReadState::Read,
            Phase::Open(_) => ReadState::Pause,
            Phase::Answered => ReadState::Answered,
        }
    }

    fn doing(&self) -> Doing<'_> {
        let was = self.was.as_ref().map(|(user, vhost)| (&**user, &**vhost));
        let (user, vhost) = match &self.phase {
            Phase::Open(session) => (session.client.user(), session.client.vhost()),
            _ => was.unwrap_or_default(),
        };
        Doing { user, vhost, last: self.last.map_or("", Command::as_str) }
    }

    fn close(&mut self, reason: CloseReason, now: Instant) {
        if matches!(self.phase, Phase::Answered) {
            return;
        }
        match reason {
            CloseReason::Gone => self.leave(),
            CloseReason::Shutdown => {
                self.end_turn(now);
                let detail = "the server is shutting down; connect again later";
                self.fail(&Failure::new("Connection forced", detail));
            }
            CloseReason::Forced(reason) => {
                self.end_turn(now);
                self.fail(&Failure::new("Connection forced", reason));
            }
        }
    }
}
