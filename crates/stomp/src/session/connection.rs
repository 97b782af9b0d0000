//! One server-side connection: its phases, and what it does in a turn ([`front::Conversation`]).
//!
//! A failure in any phase writes one ERROR frame, ends the session (which requeues its unsettled
//! deliveries) and closes.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use broker::LARGE_BODY;
use front::{Conversation, End, Line, Parts, View};
use wire::{CloseReason, Output, Peer, ReadState};

use super::connect::{Connecting, log_in_first};
use super::error::Failure;
use super::heart_beat;
use super::open::Session;
use super::{Shared, WORDS};
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

/// The server side of one connection.
pub(super) struct StompConnection {
    decoder: Decoder,
    /// Apart from the decoder, whose frames borrow from it while they are handled.
    state: State,
}

/// A connection without its decoder.
struct State {
    shared: Arc<Shared>,
    line: Line,
    output: Output,
    phase: Phase,
    /// The command of the frame that was handled last.
    last: Option<Command>,
}

impl StompConnection {
    pub(super) fn new(shared: Arc<Shared>, peer: Peer, waker: Waker, now: Instant) -> Self {
        let line = Line::new(peer, waker, &WORDS, now + shared.settings.handshake, now);
        let (output, phase) = (Output::default(), Phase::Greeting);
        Self { decoder: Decoder::default(), state: State { shared, line, output, phase, last: None } }
    }
}

impl State {
    fn version(&self) -> Version {
        match &self.phase {
            Phase::Open(session) => session.version,
            Phase::Greeting | Phase::Connecting(_) | Phase::Answered => Version::V1_0,
        }
    }

    fn fail(&mut self, failure: &Failure) {
        let (peer, error) = (self.line.peer.remote, failure.summary());
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
            self.line.leave(session.client);
        }
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
        let entrance = self.line.entrance(&self.shared.broker);
        let connecting = Connecting::start(frame, &self.shared, entrance, now)?;
        self.phase = Phase::Connecting(Box::new(connecting));
        self.finish_connect(now)
    }

    /// Opens the session if the password has been checked.
    fn finish_connect(&mut self, now: Instant) -> Result<(), Failure> {
        let Phase::Connecting(connecting) = &self.phase else {
            return Ok(());
        };
        let entrance = self.line.entrance(&self.shared.broker);
        let Some(outcome) = connecting.finish(&self.shared, entrance, &mut self.output) else {
            return Ok(());
        };
        heart_beat::agree(&mut self.line.keep_alive, connecting.heart_beat, now);
        self.phase = Phase::Open(Box::new(outcome?));
        self.line.phase_ends = None;
        Ok(())
    }
}

impl Conversation for StompConnection {
    const BEAT: &'static [u8] = b"\n";

    #[inline]
    fn parts(&mut self) -> Parts<'_> {
        let State { line, output, phase, .. } = &mut self.state;
        let client = match phase {
            Phase::Open(session) => Some(&mut session.client),
            Phase::Greeting | Phase::Connecting(_) | Phase::Answered => None,
        };
        Parts { line, client, output }
    }

    #[inline]
    fn view(&self) -> View<'_> {
        let State { line, output, phase, .. } = &self.state;
        let (client, state) = match phase {
            Phase::Greeting => (None, ReadState::Handshake),
            Phase::Connecting(_) => (None, ReadState::Pause),
            Phase::Open(session) if session.waits() => (Some(&session.client), ReadState::Pause),
            Phase::Open(session) => (Some(&session.client), ReadState::Read),
            Phase::Answered => (None, ReadState::Answered),
        };
        View { line, client, output, state }
    }

    fn last(&self) -> &'static str {
        self.state.last.map_or("", Command::as_str)
    }

    fn take(&mut self, input: &[u8], now: Instant) -> usize {
        let Self { decoder, state } = self;
        decoder.set_version(state.version());
        decoder.set_limits(match state.phase {
            Phase::Open(_) => state.shared.limits(),
            Phase::Greeting | Phase::Connecting(_) | Phase::Answered => state.shared.strangers_limits(),
        });
        let decoded = match decoder.decode(input) {
            Ok(decoded) => decoded,
            Err(FrameError::BodyTooLong(_)) if matches!(state.phase, Phase::Greeting) => {
                state.fail(&log_in_first());
                return 0;
            }
            Err(error) => {
                state.fail(&error.into());
                return 0;
            }
        };
        let consumed = decoded.consumed;
        let Some(frame) = decoded.frame else {
            state.note_body(decoder, now);
            return consumed;
        };
        if let Phase::Open(session) = &mut state.phase
            && session.must_wait(&frame)
        {
            return 0;
        }
        if let Err(failure) = state.handle(&frame, now) {
            // The frames before the faulty one are valid.
            if let Phase::Open(session) = &mut state.phase {
                session.client.flush(now);
            }
            state.fail(&failure.about(&frame));
        }
        consumed
    }

    fn report(&mut self, room: usize, now: Instant) -> bool {
        let state = &mut self.state;
        if let Err(failure) = state.finish_connect(now) {
            state.fail(&failure);
        }
        let Phase::Open(session) = &mut state.phase else { return false };
        let reported = session.report(&mut state.output, room, now);
        let is_over = session.is_over();
        match reported {
            Err(failure) => state.fail(&failure),
            Ok(_) if is_over => state.leave(),
            Ok(more) => return more,
        }
        false
    }

    fn end(&mut self, why: End, _: Instant) {
        let state = &mut self.state;
        let (summary, detail) = match why {
            End::Late => {
                let limit = state.shared.settings.handshake.as_secs();
                ("Bad CONNECT", format!("the session was not open within {limit} seconds"))
            }
            End::Silent => {
                ("Heart-beat missed", "nothing was received for twice the agreed heart-beat interval".to_owned())
            }
            End::Asked(CloseReason::Gone) => return state.leave(),
            End::Asked(CloseReason::Shutdown) => {
                ("Connection forced", "the server is shutting down; connect again later".to_owned())
            }
            End::Asked(CloseReason::Forced(reason)) => ("Connection forced", reason),
        };
        state.fail(&Failure::new(summary, detail));
    }
}
