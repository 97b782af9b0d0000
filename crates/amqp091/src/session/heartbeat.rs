//! Heartbeats. One is sent when half an interval passed without output. The connection is closed
//! after two intervals without input (specification §4.2.7; the halves are RabbitMQ's, and clients
//! rely on them).

use std::time::{Duration, Instant};

/// The heartbeats of one connection, in both directions.
#[derive(Debug)]
pub(super) struct Heartbeat {
    /// `None` if the client wants none.
    interval: Option<Duration>,
    last_received: Instant,
    last_sent: Instant,
}

/// What a connection must do about heartbeats now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    Send,
    /// The peer has been silent for too long.
    GiveUp,
}

impl Heartbeat {
    /// No heartbeats yet: the handshake has a timeout of its own.
    pub(super) fn new(now: Instant) -> Self {
        Self { interval: None, last_received: now, last_sent: now }
    }

    /// Sets the negotiated interval in seconds; 0 for none.
    pub(super) fn settle(&mut self, seconds: u16, now: Instant) {
        self.interval = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
        self.last_received = now;
        self.last_sent = now;
    }

    /// The negotiated interval; zero for none.
    pub(super) fn interval(&self) -> Duration {
        self.interval.unwrap_or_default()
    }

    /// Input arrived, or could not be read for reasons that are not the peer's.
    pub(super) fn received(&mut self, now: Instant) {
        self.last_received = now;
    }

    /// Output was produced.
    pub(super) fn sent(&mut self, now: Instant) {
        self.last_sent = now;
    }

    pub(super) fn due(&self, now: Instant) -> Due {
        let Some(interval) = self.interval else { return Due::Nothing };
        if now >= self.last_received + interval * 2 {
            Due::GiveUp
        } else if now >= self.last_sent + interval / 2 {
            Due::Send
        } else {
            Due::Nothing
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let interval = self.interval?;
        Some((self.last_received + interval * 2).min(self.last_sent + interval / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_every_half_interval_and_gives_up_after_two() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut heartbeat = Heartbeat::new(start);
        assert_eq!((heartbeat.due(at(1000)), heartbeat.deadline()), (Due::Nothing, None));
        heartbeat.settle(10, start);
        assert_eq!(heartbeat.deadline(), Some(at(5)));
        assert_eq!(heartbeat.due(at(4)), Due::Nothing);
        assert_eq!(heartbeat.due(at(5)), Due::Send);
        heartbeat.sent(at(18));
        assert_eq!(heartbeat.deadline(), Some(at(20)));
        assert_eq!(heartbeat.due(at(19)), Due::Nothing);
        assert_eq!(heartbeat.due(at(20)), Due::GiveUp);
        heartbeat.received(at(19));
        assert_eq!(heartbeat.due(at(20)), Due::Nothing);
    }
}
