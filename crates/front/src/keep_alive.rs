//! Signs of life. This side sends one when half of an interval passed without output. The peer is
//! taken for dead after two intervals without input.
//!
//! Any byte counts as a sign of life. While the connection is not read, its peer does not count as
//! silent.

use std::time::{Duration, Instant};

/// The intervals of one connection, and when something was last sent and received.
#[derive(Debug, Clone, Copy)]
pub struct KeepAlive {
    /// How often this side must send; `None` for never.
    sends: Option<Duration>,
    /// How often the peer must send; `None` for never.
    receives: Option<Duration>,
    sent: Instant,
    received: Instant,
    /// Bytes of the last input that were not taken. If no more than these are offered, nothing has
    /// arrived.
    left_over: usize,
}

/// What a connection must do for its keep-alive now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Neither of the others.
    Nothing,
    /// A sign of life must be sent. Output that waits to be written is one.
    Send,
    /// The peer has been silent for too long.
    GiveUp,
}

impl KeepAlive {
    /// None yet: a handshake has a timeout of its own.
    pub fn none(now: Instant) -> Self {
        Self { sends: None, receives: None, sent: now, received: now, left_over: 0 }
    }

    /// Sets how often this side must send and how often the peer must; `None` for never.
    pub fn agree(&mut self, sends: Option<Duration>, receives: Option<Duration>, now: Instant) {
        *self = Self { sends, receives, sent: now, received: now, ..*self };
    }

    /// How often the peer must send; zero for never.
    pub fn interval(&self) -> Duration {
        self.receives.unwrap_or_default()
    }

    /// So many bytes of input are offered, with those that were not taken before.
    pub fn offered(&mut self, bytes: usize, now: Instant) {
        if bytes > self.left_over {
            self.received = now;
        }
    }

    /// So many bytes of input were not taken; 0 if the socket is not read from now on, because then
    /// all input after that counts as new.
    pub fn left(&mut self, bytes: usize) {
        self.left_over = bytes;
    }

    /// The socket is not read at the moment, so the peer's silence proves nothing.
    pub fn not_read(&mut self, now: Instant) {
        self.received = now;
    }

    /// Output was produced.
    pub fn sent(&mut self, now: Instant) {
        self.sent = now;
    }

    /// What must be done now.
    pub fn due(&self, now: Instant) -> Due {
        if self.gives_up_at().is_some_and(|at| now >= at) {
            Due::GiveUp
        } else if self.sends_at().is_some_and(|at| now >= at) {
            Due::Send
        } else {
            Due::Nothing
        }
    }

    /// When to ask again.
    pub fn deadline(&self) -> Option<Instant> {
        self.sends_at().into_iter().chain(self.gives_up_at()).min()
    }

    /// Half of the interval, because a timer that fires late must not make the peer give up.
    fn sends_at(&self) -> Option<Instant> {
        Some(self.sent + self.sends? / 2)
    }

    /// Twice the interval: AMQP 0-9-1 prescribes it (§4.2.7), and STOMP asks for a margin of error.
    fn gives_up_at(&self) -> Option<Instant> {
        Some(self.received + self.receives? * 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_every_half_interval_and_gives_up_after_two() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut keep_alive = KeepAlive::none(start);
        assert_eq!((keep_alive.due(at(1000)), keep_alive.deadline()), (Due::Nothing, None));
        let interval = Some(Duration::from_secs(10));
        keep_alive.agree(interval, interval, start);
        assert_eq!((keep_alive.interval(), keep_alive.deadline()), (Duration::from_secs(10), Some(at(5))));
        assert_eq!(keep_alive.due(at(4)), Due::Nothing);
        assert_eq!(keep_alive.due(at(5)), Due::Send);
        keep_alive.sent(at(18));
        assert_eq!(keep_alive.deadline(), Some(at(20)));
        assert_eq!(keep_alive.due(at(19)), Due::Nothing);
        assert_eq!(keep_alive.due(at(20)), Due::GiveUp);
        keep_alive.not_read(at(19));
        assert_eq!(keep_alive.due(at(20)), Due::Nothing);
    }

    #[test]
    fn each_direction_has_an_interval_of_its_own() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut keep_alive = KeepAlive::none(start);
        keep_alive.agree(Some(Duration::from_secs(3)), Some(Duration::from_secs(2)), start);
        assert_eq!(keep_alive.deadline(), Some(at(1500)));
        assert_eq!((keep_alive.due(at(1499)), keep_alive.due(at(1500))), (Due::Nothing, Due::Send));
        keep_alive.sent(at(3500));
        assert_eq!((keep_alive.due(at(3999)), keep_alive.due(at(4000))), (Due::Nothing, Due::GiveUp));
        keep_alive.agree(None, Some(Duration::from_secs(2)), start);
        assert_eq!((keep_alive.due(at(3999)), keep_alive.deadline()), (Due::Nothing, Some(at(4000))));
    }

    #[test]
    fn only_new_bytes_are_a_sign_of_life() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut keep_alive = KeepAlive::none(start);
        keep_alive.agree(None, Some(Duration::from_secs(10)), start);
        keep_alive.left(3);
        keep_alive.offered(3, at(10));
        assert_eq!(keep_alive.due(at(20)), Due::GiveUp);
        keep_alive.offered(4, at(10));
        assert_eq!(keep_alive.due(at(20)), Due::Nothing);
    }
}
