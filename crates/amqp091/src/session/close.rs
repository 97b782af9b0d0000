//! All ways in which a connection or a channel ends: a close by the peer, an error, broken frames,
//! a timeout.
//!
//! The broker's side is always released first. So exclusive queues and unsettled deliveries are
//! free when the peer hears of the end.

use std::time::Instant;

use broker::Awaited;

use crate::codec::methods::{ConnectionCloseOk, method_name};
use crate::codec::{FrameError, Method};
use crate::session::connection::{AmqpConnection, CLOSE_TIMEOUT, Phase, SILENCE};
use crate::session::error::{Failure, ReplyCode};
use crate::session::link::Waiting;

impl AmqpConnection {
    /// Closes the channel or the connection, as the failure requires, and tells the peer.
    pub(super) fn fail(&mut self, channel: u16, failure: Failure, now: Instant) {
        if channel != 0 && !failure.code.ends_connection() {
            self.log_failure(channel, &failure);
            if let Some(running) = &mut self.running {
                running.close_channel(&mut self.link, channel, &failure, now);
            }
            return;
        }
        if matches!(self.phase, Phase::Closing | Phase::Ignoring | Phase::Answered | Phase::Closed) {
            return;
        }
        self.log_failure(channel, &failure);
        self.release(now);
        self.leave_broker();
        self.link.send_failure(0, &failure);
        self.phase = Phase::Closing;
        self.line.phase_ends = Some(now + CLOSE_TIMEOUT);
    }

    /// Releases the broker's side. Returns what the answer to the peer must wait for.
    pub(super) fn release(&mut self, now: Instant) -> Awaited {
        self.link.waiting = None;
        let Some(running) = &mut self.running else { return Awaited::NOTHING };
        running.report_returned(&mut self.link, None, now);
        running.client.close(now)
    }

    /// The peer closes. The answer waits until everything that the connection settled is durable.
    pub(super) fn close_politely(&mut self, now: Instant) {
        let awaited = self.release(now);
        let done = self.running.as_mut().is_none_or(|running| running.client.durable(awaited));
        if done {
            self.link.send(0, ConnectionCloseOk {});
            self.leave_to_peer();
            return;
        }
        let mut frame = Vec::new();
        Method::from(ConnectionCloseOk {}).encode(0, &mut frame);
        self.link.waiting = Some(Waiting::Reply { awaited, frame, closes: true });
    }

    /// The bytes are no longer frames. Reports it, and ignores further input for a while, so that
    /// the peer can read the report. Before the log-in only a frame that is too large is reported.
    /// Other bytes get no answer, because they may not be AMQP at all (specification §4.2.3).
    pub(super) fn lose_sync(&mut self, error: FrameError, now: Instant) {
        if matches!(self.phase, Phase::Closing) {
            self.finish();
            return;
        }
        let is_frame = matches!(error, FrameError::TooLarge { .. });
        let failure = Failure::from(error);
        if is_frame || !self.phase.is_before_login() {
            self.fail(0, failure, now);
        } else {
            self.log_failure(0, &failure);
        }
        self.ignore(now);
    }

    /// Sends nothing and closes the socket after a pause, which slows down the guessing of
    /// passwords.
    pub(super) fn ignore(&mut self, now: Instant) {
        self.phase = Phase::Ignoring;
        self.line.phase_ends = Some(now + SILENCE);
    }

    /// The phase has taken too long.
    pub(super) fn end_phase(&mut self) {
        if !matches!(self.phase, Phase::Closing | Phase::Ignoring | Phase::Closed) {
            let (peer, phase) = (self.line.peer.remote, self.phase.name());
            tracing::warn!(%peer, phase, "the handshake took too long: closing");
        }
        self.finish();
    }

    fn log_failure(&self, channel: u16, failure: &Failure) {
        let (user, vhost) = match &self.running {
            Some(running) => (running.client.user(), running.client.vhost()),
            None => ("", ""),
        };
        let (peer, phase) = (self.line.peer.remote, self.phase.name());
        let method = method_name(failure.method.0, failure.method.1).unwrap_or("none");
        let (code, text) = (failure.code as u16, failure.reply_text());
        if failure.code == ReplyCode::ConnectionForced {
            tracing::info!(%peer, user, vhost, text, "closing a connection");
        } else {
            tracing::warn!(%peer, user, vhost, phase, channel, method, code, text, "closing after an error");
        }
    }
}
