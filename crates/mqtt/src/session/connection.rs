//! One server-side connection: its phases, and what it does in a turn ([`front::Conversation`]).
//!
//! A failure in any phase says why, where the version has a packet for that, and ends the
//! connection: before the log-in by CONNACK, after it by the DISCONNECT of MQTT 5.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use front::{Conversation, End, Line, Parts, View};
use wire::{CloseReason, Output, Peer, ReadState};

use super::connect::Connecting;
use super::failure::Failure;
use super::open::Session;
use super::opening::Opening;
use super::{Shared, WORDS};
use crate::codec::{
    ConnAck, Header, Notice, Packet, PacketError, PacketKind, Properties, PropertyBlock, PropertyId, Reason, Version,
    Violation, decode, encode,
};
use crate::limits;

enum Phase {
    /// Only CONNECT is accepted.
    Greeting,
    /// The password is being checked.
    Connecting(Box<Connecting>),
    /// The client's identifier is being claimed, and its session looked for.
    Opening(Box<Opening>),
    Open(Box<Session>),
    /// This side ends the connection when the output is written.
    Closed,
    /// The client has said its last word, and closes.
    Answered,
}

/// The server side of one connection.
pub(super) struct MqttConnection {
    /// A large packet of which more is to come.
    gathered: Vec<u8>,
    /// Apart from that, from which packets borrow while they are handled.
    state: State,
}

/// A connection without the packet that it gathers.
struct State {
    shared: Arc<Shared>,
    line: Line,
    output: Output,
    phase: Phase,
    version: Version,
    /// The kind of the packet that was handled last.
    last: Option<PacketKind>,
}

impl MqttConnection {
    pub(super) fn new(shared: Arc<Shared>, peer: Peer, waker: Waker, now: Instant) -> Self {
        let line = Line::new(peer, waker, &WORDS, now + shared.settings.handshake, now);
        let (output, phase, version) = (Output::default(), Phase::Greeting, Version::default());
        Self { gathered: Vec::new(), state: State { shared, line, output, phase, version, last: None } }
    }

    /// Takes a packet from the buffer of its own, which gets what `input` has of it.
    fn take_gathered(&mut self, input: &[u8], total: usize, now: Instant) -> usize {
        let wanted = (total - self.gathered.len()).min(input.len());
        self.gathered.extend_from_slice(&input[..wanted]);
        if self.gathered.len() < total {
            self.state.note_body(total, now);
            return wanted;
        }
        let packet = std::mem::take(&mut self.gathered);
        self.state.take(&packet, now);
        wanted
    }
}

impl State {
    /// The most bytes of a packet in this phase.
    fn largest(&self) -> u32 {
        match self.phase {
            Phase::Open(_) => self.shared.largest(),
            _ => limits::STRANGERS_PACKET,
        }
    }

    /// Tells the broker of a body that is arriving.
    fn note_body(&mut self, total: usize, now: Instant) {
        if let Phase::Open(session) = &mut self.phase {
            session.client.body_arrives(session.id, total as u64, now);
        }
    }

    /// Takes the packet at the front of `input`; returns its length, or 0 if it has to wait.
    fn take(&mut self, input: &[u8], now: Instant) -> usize {
        match decode(input, self.version, self.largest()) {
            Ok(None) => {
                if let Ok(Some(header)) = Header::read(input, self.largest()) {
                    self.note_incomplete(&header, now);
                }
                0
            }
            Ok(Some((packet, length))) => {
                if let Phase::Open(session) = &mut self.phase
                    && session.must_wait(packet.kind())
                {
                    return 0;
                }
                self.last = Some(packet.kind());
                if let Err(failure) = self.handle(&packet, now) {
                    // The packets before the faulty one are valid.
                    if let Phase::Open(session) = &mut self.phase {
                        session.client.flush(now);
                    }
                    self.fail(&failure, now);
                }
                length
            }
            Err(error) => {
                self.fail_malformed(error, now);
                0
            }
        }
    }

    fn note_incomplete(&mut self, header: &Header, now: Instant) {
        if header.kind == PacketKind::Publish {
            self.note_body(header.total(), now);
        }
    }

    /// A CONNECT that is none gets no answer but for its version [3.1.1: MQTT-3.1.4-1]. One of a
    /// version that is not known is answered in the oldest with a code for that.
    fn fail_malformed(&mut self, error: PacketError, now: Instant) {
        let is_silent = matches!(self.phase, Phase::Greeting) && error.violation != Violation::Protocol;
        if is_silent {
            let (peer, error) = (self.line.peer.remote, error.to_string());
            tracing::debug!(%peer, %error, "MQTT connection closed before it logged in");
            self.phase = Phase::Closed;
        } else {
            self.fail(&error.into(), now);
        }
    }

    fn handle(&mut self, packet: &Packet<'_>, now: Instant) -> Result<(), Failure> {
        if let Phase::Open(session) = &mut self.phase {
            return session.handle(packet, &mut self.output, now);
        }
        if let (Phase::Connecting(connecting), Packet::Auth(auth)) = (&mut self.phase, packet) {
            connecting.respond(auth, self.line.entrance(&self.shared.broker), now)?;
            return self.go_on_opening(now);
        }
        let Packet::Connect(connect) = packet else {
            let text = "the first packet must be CONNECT [MQTT-3.1.0-1]";
            self.phase = Phase::Closed;
            tracing::debug!(peer = %self.line.peer.remote, "MQTT connection closed: {text}");
            return Ok(());
        };
        self.version = connect.version;
        let entrance = self.line.entrance(&self.shared.broker);
        let connecting = Connecting::start(connect, &self.shared, entrance, self.output.tail(), now)?;
        self.phase = Phase::Connecting(Box::new(connecting));
        self.go_on_opening(now)
    }

    /// Goes on with what must be done before CONNACK.
    fn go_on_opening(&mut self, now: Instant) -> Result<(), Failure> {
        if let Phase::Connecting(connecting) = &mut self.phase {
            let entrance = self.line.entrance(&self.shared.broker);
            let Some(entered) = connecting.finish(entrance) else { return Ok(()) };
            let entered = entered?;
            let Phase::Connecting(connecting) = std::mem::replace(&mut self.phase, Phase::Closed) else {
                return Ok(());
            };
            let opening = Opening::new(connecting.into_asked(), entered, &self.shared, self.line.waker.clone());
            self.phase = Phase::Opening(Box::new(opening));
        }
        let Phase::Opening(opening) = &mut self.phase else { return Ok(()) };
        if !opening.go_on(now)? {
            return Ok(());
        }
        let Phase::Opening(opening) = std::mem::replace(&mut self.phase, Phase::Closed) else { return Ok(()) };
        let keep_alive = opening.keep_alive();
        let session = opening.open(&self.shared, &self.line.waker, &mut self.output, now)?;
        // Half as much again [MQTT-3.1.2-22]: the connection ends after two of these.
        let receives = (!keep_alive.is_zero()).then_some(keep_alive * 3 / 4);
        self.line.keep_alive.agree(None, receives, now);
        self.line.phase_ends = None;
        self.phase = Phase::Open(Box::new(session));
        Ok(())
    }

    /// Says why, and ends the connection.
    fn fail(&mut self, failure: &Failure, now: Instant) {
        let (peer, error) = (self.line.peer.remote, auth::shown::extract(&failure.text, limits::TOLD));
        let mut block = PropertyBlock::default();
        match &self.phase {
            Phase::Open(session) => {
                let (user, vhost, client_id) = (session.client.user(), session.client.vhost(), session.client_id());
                let reason = failure.reason.as_str();
                tracing::warn!(%peer, user, vhost, client_id, reason, %error, "MQTT connection closed with an error");
                if self.version.has_properties() {
                    let properties = session.reason(&failure.text, &mut block);
                    let reason =
                        if failure.reason.is_in(PacketKind::Disconnect) { failure.reason } else { Reason::Unspecified };
                    let notice = Packet::Disconnect(Notice { reason, properties });
                    encode(&notice, self.version, self.output.tail());
                }
            }
            Phase::Greeting | Phase::Connecting(_) | Phase::Opening(_) => {
                // Any peer that reaches the port could fill the log. Refused log-ins have log lines
                // of their own.
                tracing::debug!(%peer, %error, "MQTT connection closed before it logged in");
                block.text(PropertyId::ReasonString, &failure.text);
                let properties = if self.version.has_properties() { block.as_properties() } else { Properties::NONE };
                let reason =
                    if failure.reason.is_in(PacketKind::ConnAck) { failure.reason } else { Reason::Unspecified };
                let refusal = Packet::ConnAck(ConnAck { session_present: false, reason, properties });
                encode(&refusal, self.version, self.output.tail());
            }
            Phase::Closed | Phase::Answered => return,
        }
        self.leave(Phase::Closed, now);
    }

    /// Ends the session; what is in the output is still written.
    fn leave(&mut self, to: Phase, now: Instant) {
        match std::mem::replace(&mut self.phase, to) {
            Phase::Open(session) => self.line.leave(session.leave(now)),
            Phase::Opening(opening) => self.line.leave(opening.into_client()),
            _ => {}
        }
    }
}

impl Conversation for MqttConnection {
    const BEAT: &'static [u8] = b"";

    #[inline]
    fn parts(&mut self) -> Parts<'_> {
        let State { line, output, phase, .. } = &mut self.state;
        let client = match phase {
            Phase::Open(session) => Some(&mut session.client),
            Phase::Opening(opening) => Some(opening.client_mut()),
            Phase::Greeting | Phase::Connecting(_) | Phase::Closed | Phase::Answered => None,
        };
        Parts { line, client, output }
    }

    #[inline]
    fn view(&self) -> View<'_> {
        let State { line, output, phase, .. } = &self.state;
        let (client, state) = match phase {
            Phase::Greeting => (None, ReadState::Handshake),
            Phase::Connecting(connecting) if connecting.is_asked() => (None, ReadState::Handshake),
            Phase::Connecting(_) => (None, ReadState::Pause),
            Phase::Opening(opening) => (Some(opening.client()), ReadState::Pause),
            Phase::Open(session) if session.waits() => (Some(&session.client), ReadState::Pause),
            Phase::Open(session) => (Some(&session.client), ReadState::Read),
            Phase::Closed => (None, ReadState::Closed),
            Phase::Answered => (None, ReadState::Answered),
        };
        View { line, client, output, state }
    }

    fn last(&self) -> &'static str {
        self.state.last.map_or("", PacketKind::as_str)
    }

    fn take(&mut self, input: &[u8], now: Instant) -> usize {
        let largest = self.state.largest();
        if !self.gathered.is_empty() {
            let header = Header::read(&self.gathered, largest);
            let Ok(Some(header)) = header else { return 0 };
            return self.take_gathered(input, header.total(), now);
        }
        match Header::read(input, largest) {
            Ok(Some(header))
                if header.kind != PacketKind::Publish && header.total() > limits::CONTROL_PACKET as usize =>
            {
                let error = Violation::TooLarge(limits::CONTROL_PACKET).of(header.kind);
                self.state.fail(&error.into(), now);
                0
            }
            Ok(Some(header)) if header.total() > input.len() && header.total() > limits::GATHER_FROM => {
                self.gathered.reserve(input.len());
                self.take_gathered(input, header.total(), now)
            }
            _ => self.state.take(input, now),
        }
    }

    fn report(&mut self, room: usize, now: Instant) -> bool {
        let state = &mut self.state;
        if let Err(failure) = state.go_on_opening(now) {
            state.fail(&failure, now);
        }
        let Phase::Open(session) = &mut state.phase else { return false };
        if session.is_taken_over() {
            let text = "another connection has the client identifier now";
            state.fail(&Failure::new(Reason::SessionTakenOver, text), now);
            return false;
        }
        let reported = session.report(&mut state.output, room, now);
        let is_over = session.is_over();
        match reported {
            Err(failure) => state.fail(&failure, now),
            Ok(_) if is_over => state.leave(Phase::Answered, now),
            Ok(more) => return more,
        }
        false
    }

    fn rest(&mut self) {
        if let Phase::Open(session) = &mut self.state.phase {
            session.rest();
        }
    }

    fn end(&mut self, why: End, now: Instant) {
        let state = &mut self.state;
        let failure = match why {
            End::Late if matches!(state.phase, Phase::Greeting) => {
                state.phase = Phase::Closed;
                return;
            }
            End::Late => {
                let limit = state.shared.settings.handshake.as_secs();
                Failure::new(Reason::ServerBusy, format!("the connection was not open within {limit} seconds"))
            }
            End::Silent => {
                Failure::new(Reason::KeepAliveTimeout, "no packet came for one and a half times the keep alive")
            }
            End::Asked(CloseReason::Gone) => return state.leave(Phase::Answered, now),
            End::Asked(CloseReason::Shutdown) => {
                Failure::new(Reason::ServerShuttingDown, "the server is shutting down; connect again later")
            }
            End::Asked(CloseReason::Forced(reason)) => Failure::new(Reason::AdministrativeAction, reason),
        };
        state.fail(&failure, now);
    }
}
