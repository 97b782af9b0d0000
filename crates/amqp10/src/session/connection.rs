//! One connection: its phases, and what it does in a turn ([`front::Conversation`]).
//!
//! Phases only go forward. Input is taken frame by frame while nothing is waited for.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use auth::Identity;
use broker::Awaited;
use front::{Conversation, End, Entrance, Line, Parts, Sasl, View};
use wire::{CloseReason, Output, Peer, ReadState};

use crate::codec::error::condition;
use crate::codec::frame::{Frame, FrameKind, HEARTBEAT, decode_frame};
use crate::codec::performative::Transfer;
use crate::codec::{FrameError, Performative, decode_performative};
use crate::session::error::{Failure, Fault};
use crate::session::responses::Answer;
use crate::session::running::{Running, Taken, no_session};
use crate::session::sender::Ending;
use crate::session::{Shared, WORDS};

/// Largest frame before both sides have agreed on a size. The specification has 512 (part 2,
/// §2.4.1); RabbitMQ reads 8192, so that a long token fits as a password.
const STRANGERS_FRAME: u32 = 8192;
/// How long the peer may take to answer our close.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Who opens the connection.
pub(super) struct LoggedIn {
    pub(super) identity: Identity,
    /// The mechanism's name.
    pub(super) mechanism: &'static str,
    /// The `hostname` of `sasl-init`.
    pub(super) hostname: Option<String>,
}

/// The phase of a connection.
pub(super) enum Phase {
    /// Waits for the first protocol header.
    Header,
    /// The mechanisms were offered; waits for `sasl-init`.
    Mechanism,
    /// Waits for a response of the client, or for the outcome of its log-in.
    Securing(Sasl),
    /// Logged in by SASL; waits for the second protocol header.
    Secured(LoggedIn),
    /// Waits for `open`.
    Opening(LoggedIn),
    /// Open.
    Running,
    /// We sent a close; waits for the peer's and ignores everything else.
    Closing,
    /// Everything is written, and the peer must end the connection.
    Answered,
    /// Nothing more is read or written: the peer has been silent.
    GivenUp,
}

/// An answer that waits for the disk. Nothing is taken before it is written.
pub(super) struct Waiting {
    pub(super) awaited: Awaited,
    pub(super) frames: Vec<u8>,
    /// What else is sent then.
    pub(super) answer: Option<Answer>,
    /// Whether it is the last one, after which the peer ends the connection.
    pub(super) closes: bool,
}

/// See the module.
pub(super) struct Amqp10Connection {
    pub(super) shared: Arc<Shared>,
    pub(super) line: Line,
    pub(super) phase: Phase,
    pub(super) output: Output,
    pub(super) running: Option<Box<Running>>,
    pub(super) waiting: Option<Waiting>,
    /// The `hostname` of `sasl-init`, until the log-in is over.
    pub(super) hostname: Option<String>,
    /// Whether the client began with the SASL layer.
    pub(super) layered: bool,
    last: &'static str,
}

impl Amqp10Connection {
    pub(super) fn new(shared: Arc<Shared>, peer: Peer, waker: Waker, now: Instant) -> Self {
        let ends = now + shared.settings.handshake_timeout;
        Self {
            shared,
            line: Line::new(peer, waker, &WORDS, ends, now),
            phase: Phase::Header,
            output: Output::default(),
            running: None,
            waiting: None,
            hostname: None,
            layered: false,
            last: "",
        }
    }

    /// The peer on its way to the broker.
    pub(super) fn entrance(&self) -> Entrance<'_> {
        self.line.entrance(&self.shared.broker)
    }

    fn frame_max(&self) -> u32 {
        match self.phase {
            Phase::Running => self.shared.settings.frame_max(),
            // A peer whose connection we close may have sent frames of the agreed size before.
            Phase::Closing => self.shared.settings.frame_max(),
            _ => STRANGERS_FRAME.min(self.shared.settings.frame_max()),
        }
    }

    fn take_frame(&mut self, frame: Frame<'_>, now: Instant) -> Result<(), Failure> {
        match (frame.kind, &self.phase) {
            (FrameKind::Sasl, Phase::Mechanism | Phase::Securing(_)) => return self.take_sasl(frame.body, now),
            (FrameKind::Amqp, Phase::Opening(_) | Phase::Running | Phase::Closing) => {}
            (_, Phase::Closing) => return Ok(()),
            (FrameKind::Sasl, _) => {
                return Err(Failure::new(condition::FRAMING_ERROR, "a frame of SASL behind the log-in"));
            }
            (FrameKind::Amqp, _) => return Err(Failure::new(condition::FRAMING_ERROR, "a frame before the log-in")),
        }
        if frame.body.is_empty() {
            self.last = "heartbeat";
            return Ok(());
        }
        if let (Phase::Running, Some((transfer, payload))) = (&self.phase, Transfer::read_plain(frame.body)) {
            self.last = "transfer";
            return self.take_transfer(frame.channel, &transfer, payload, now);
        }
        let (performative, payload) = decode_performative(frame.body)?;
        self.last = name(&performative);
        match (&performative, &self.phase) {
            (Performative::Close(_), Phase::Closing) => {
                self.leave_to_peer();
                Ok(())
            }
            (_, Phase::Closing) => Ok(()),
            (Performative::Open(_), Phase::Opening(_)) if frame.channel != 0 => {
                let text = format!("open is on channel {}, and belongs to channel 0", frame.channel);
                Err(Failure::new(condition::FRAMING_ERROR, text))
            }
            (Performative::Open(open), Phase::Opening(_)) => self.take_open(open, now),
            (Performative::Close(_), Phase::Running) => {
                self.close_politely(now);
                Ok(())
            }
            (_, Phase::Running) => self.take_running(frame.channel, performative, payload, now),
            _ => Err(Failure::new(condition::ILLEGAL_STATE, "the first frame must be open")),
        }
    }

    /// Takes a transfer without the way over all performatives, which is for every message.
    fn take_transfer(
        &mut self,
        channel: u16,
        transfer: &Transfer<'_>,
        payload: &[u8],
        now: Instant,
    ) -> Result<(), Failure> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let taken = match running.begun(channel) {
            Some(begun) if begun.ended => Ok(Taken::Done),
            Some(_) => running.take_transfer(channel, transfer, payload, &mut self.output, now),
            None => Err(no_session(channel)),
        };
        self.took(channel, taken, now)
    }

    fn take_running(
        &mut self,
        channel: u16,
        performative: Performative<'_>,
        payload: &[u8],
        now: Instant,
    ) -> Result<(), Failure> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let taken = running.take(channel, performative, payload, &mut self.output, now);
        self.took(channel, taken, now)
    }

    /// Answers a frame.
    #[inline]
    fn took(&mut self, channel: u16, taken: Result<Taken, Fault>, now: Instant) -> Result<(), Failure> {
        let Some(running) = &mut self.running else { return Ok(()) };
        match taken {
            Ok(Taken::Done) => {}
            Ok(Taken::Waits { awaited, frames }) => self.answer_when(awaited, frames, None),
            Ok(Taken::Responds { awaited, answer }) => self.answer_when(awaited, Vec::new(), Some(answer)),
            Err(Fault::Connection(failure)) => return Err(failure),
            Err(Fault::Session(failure)) => running.end_session(channel, &failure, &mut self.output, now),
            Err(Fault::Link(handle, failure)) => {
                running.end_link(channel, handle, &failure, &mut self.output, now);
            }
        }
        Ok(())
    }

    /// Writes frames when `awaited` has come, which may be now.
    fn answer_when(&mut self, awaited: Awaited, frames: Vec<u8>, answer: Option<Answer>) {
        self.waiting = Some(Waiting { awaited, frames, answer, closes: false });
        self.resume();
    }

    /// Checks whether the connection can stop waiting.
    pub(super) fn resume(&mut self) {
        let (Some(waiting), Some(running)) = (&self.waiting, &mut self.running) else { return };
        if !running.client.durable(waiting.awaited) {
            return;
        }
        let Some(Waiting { frames, answer, closes, .. }) = self.waiting.take() else { return };
        self.output.put(&frames);
        self.output.count_answer(frames.len());
        if let Some(answer) = answer {
            running.respond(answer, &mut self.output);
        }
        if closes {
            self.leave_to_peer();
        }
    }

    /// Everything is said. Leaves the end of the connection to the peer.
    pub(super) fn leave_to_peer(&mut self) {
        self.phase = Phase::Answered;
        self.leave();
    }

    /// Ends the broker's side.
    pub(super) fn leave(&mut self) {
        self.line.phase_ends = None;
        self.waiting = None;
        if let Some(running) = self.running.take() {
            self.line.leave(running.client);
        }
    }
}

/// The name of a performative, for the log.
fn name(performative: &Performative<'_>) -> &'static str {
    match performative {
        Performative::Open(_) => "open",
        Performative::Begin(_) => "begin",
        Performative::Attach(_) => "attach",
        Performative::Flow(_) => "flow",
        Performative::Transfer(_) => "transfer",
        Performative::Disposition(_) => "disposition",
        Performative::Detach(_) => "detach",
        Performative::End(_) => "end",
        Performative::Close(_) => "close",
    }
}

impl Conversation for Amqp10Connection {
    const BEAT: &'static [u8] = &HEARTBEAT;

    #[inline]
    fn parts(&mut self) -> Parts<'_> {
        let client = self.running.as_mut().map(|running| &mut running.client);
        Parts { line: &mut self.line, client, output: &mut self.output }
    }

    #[inline]
    fn view(&self) -> View<'_> {
        let state = match &self.phase {
            Phase::Answered => ReadState::Answered,
            Phase::GivenUp => ReadState::GivenUp,
            Phase::Securing(sasl) if sasl.checking().is_some() => ReadState::Pause,
            _ if self.waiting.is_some() => ReadState::Pause,
            Phase::Running => ReadState::Read,
            // This includes closing: a peer whose connection we close gets no more trust than one
            // before its log-in.
            _ => ReadState::Handshake,
        };
        let client = self.running.as_ref().map(|running| &running.client);
        View { line: &self.line, client, output: &self.output, state }
    }

    fn last(&self) -> &'static str {
        self.last
    }

    fn take(&mut self, input: &[u8], now: Instant) -> usize {
        match self.phase {
            Phase::Header | Phase::Secured(_) => return self.take_header(input, now),
            Phase::Answered | Phase::GivenUp => return input.len(),
            _ => {}
        }
        let frame = match decode_frame(input, self.frame_max()) {
            Ok(Some(frame)) => frame,
            Ok(None) => return 0,
            Err(error) => {
                self.lose_sync(error, now);
                return input.len();
            }
        };
        let size = frame.size as usize;
        if let Err(failure) = self.take_frame(frame, now) {
            self.fail(&failure, now);
        }
        size
    }

    fn report(&mut self, room: usize, now: Instant) -> bool {
        self.take_login();
        self.resume();
        let Some(running) = &mut self.running else { return false };
        if !matches!(self.phase, Phase::Running) {
            return false;
        }
        // Behind the answers to the links that are on their way.
        if self.waiting.is_none() {
            running.end_stolen(&mut self.output, now);
        }
        match running.report(&mut self.output, room, now) {
            Ok(more) => more,
            Err(failure) => {
                self.fail(&failure, now);
                false
            }
        }
    }

    fn end(&mut self, why: End, now: Instant) {
        let text = match why {
            End::Late => return self.end_phase(),
            End::Silent => {
                let peer = self.line.peer.remote;
                tracing::warn!(%peer, "nothing from the client for twice its idle time-out: closing");
                self.give_back(Ending::Broken, now);
                // Nothing reaches the peer any more, so nothing is waited for.
                self.output.take();
                self.leave();
                self.phase = Phase::GivenUp;
                return;
            }
            End::Asked(CloseReason::Gone) => {
                self.give_back(Ending::Broken, now);
                return self.leave_to_peer();
            }
            End::Asked(CloseReason::Shutdown) => "the server is shutting down; connect again later".to_owned(),
            End::Asked(CloseReason::Forced(text)) => text,
        };
        match self.phase {
            // The peer has closed already, and its answer is on the way.
            Phase::Running if self.waiting.as_ref().is_some_and(|waiting| waiting.closes) => {}
            Phase::Running => self.fail(&Failure::new(condition::CONNECTION_FORCED, text), now),
            Phase::Closing => {}
            _ => self.leave_to_peer(),
        }
    }
}

impl Amqp10Connection {
    /// Bytes that are no frame: what follows can't be read either.
    fn lose_sync(&mut self, error: FrameError, now: Instant) {
        match self.phase {
            Phase::Closing => self.leave_to_peer(),
            _ => {
                self.fail(&error.into(), now);
                if matches!(self.phase, Phase::Closing) {
                    self.leave_to_peer();
                }
            }
        }
    }
}
