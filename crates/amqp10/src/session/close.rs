//! The end of a connection: by the peer, by this side, or because the peer has gone.

use std::time::Instant;

use crate::codec::performative::{Close, Open};
use crate::session::connection::{Amqp10Connection, CLOSE_TIMEOUT, Phase, Waiting};
use crate::session::error::Failure;
use crate::session::frames;
use crate::session::sender::Ending;

/// Bytes of an error that are logged.
const TOLD: usize = 512;

impl Amqp10Connection {
    /// The peer closes. Its close is answered when all that it has settled is durable.
    pub(super) fn close_politely(&mut self, now: Instant) {
        self.give_back(Ending::Orderly, now);
        let Some(running) = &mut self.running else { return };
        let awaited = running.client.close(now);
        self.waiting =
            Some(Waiting { awaited, frames: frames::frame(0, &Close::default()), answer: None, closes: true });
        self.resume();
    }

    /// Closes with an error, and waits for the peer's close.
    pub(super) fn fail(&mut self, failure: &Failure, now: Instant) {
        let peer = self.line.peer.remote;
        match &self.running {
            Some(running) => {
                let (user, vhost) = (running.client.user(), running.client.vhost());
                let error = auth::shown::extract(&failure.text, TOLD);
                let condition = failure.condition;
                tracing::warn!(%peer, user, vhost, condition, %error, "connection closed with an error");
            }
            // Any peer that reaches the port could fill the log. Refused log-ins have log lines of
            // their own.
            None => tracing::debug!(%peer, error = %failure, "connection closed before it was open"),
        }
        match self.phase {
            // The peer speaks SASL, which has no word for an error but an outcome.
            Phase::Header | Phase::Mechanism | Phase::Securing(_) | Phase::Secured(_) => {
                return self.leave_to_peer();
            }
            // A close must follow an open.
            Phase::Opening(_) => {
                let container_id = &*self.shared.settings.node;
                frames::answer(&mut self.output, 0, &Open { container_id, ..Open::default() });
            }
            Phase::Running => {}
            Phase::Closing | Phase::Answered | Phase::GivenUp => return,
        }
        self.close_with(failure, now);
    }

    /// Writes a close with an error, and waits for the peer's.
    pub(super) fn close_with(&mut self, failure: &Failure, now: Instant) {
        self.give_back(Ending::Broken, now);
        frames::answer(&mut self.output, 0, &Close { error: Some(failure.as_error()) });
        self.leave();
        self.phase = Phase::Closing;
        self.line.phase_ends = Some(now + CLOSE_TIMEOUT);
    }

    /// Deliveries that the peer has not settled end as their links say.
    pub(super) fn give_back(&mut self, ending: Ending, now: Instant) {
        if let Some(running) = &mut self.running {
            running.give_back(ending, &mut self.output, now);
        }
    }

    /// The handshake took too long, or the answer to our close.
    pub(super) fn end_phase(&mut self) {
        if !matches!(self.phase, Phase::Closing) {
            let peer = self.line.peer.remote;
            tracing::debug!(%peer, "the connection was not open in time");
        }
        self.leave_to_peer();
    }
}
