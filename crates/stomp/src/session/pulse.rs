//! Heart-beats of an open session: when to send one, and when the peer has been silent for too
//! long.
//!
//! Any byte counts as a heart-beat. While the connection is not read, its peer does not count as
//! silent.

use std::time::{Duration, Instant};

use crate::codec::HeartBeat;

/// The shortest interval that this server agrees to, in milliseconds, as in RabbitMQ. A shorter one
/// would only cost work.
const SHORTEST: u32 = 1000;

/// The negotiated intervals, and when something was last sent and received.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pulse {
    send_every: Option<Duration>,
    hear_within: Option<Duration>,
    sent: Instant,
    heard: Instant,
}

/// The server's half of the negotiation: it sends as often as the client wants, and receives as
/// often as the client can send.
pub(super) fn answer(client: HeartBeat) -> HeartBeat {
    let at_least = |interval: u32| if interval == 0 { 0 } else { interval.max(SHORTEST) };
    HeartBeat { send: at_least(client.receive), receive: at_least(client.send) }
}

/// How often the peer must send; zero for never.
pub(super) fn interval(client: HeartBeat) -> Duration {
    answer(client).receives_from(client).unwrap_or_default()
}

impl Pulse {
    /// A session without heart-beats.
    pub(super) fn none(now: Instant) -> Self {
        Self { send_every: None, hear_within: None, sent: now, heard: now }
    }

    /// The heart-beats that `client` asked for in CONNECT.
    pub(super) fn agreed(client: HeartBeat, now: Instant) -> Self {
        let server = answer(client);
        Self {
            // Half the interval, because a timer that fires late must not make the peer give up.
            send_every: server.sends_to(client).map(|interval| interval / 2),
            // "The receiver needs to take into account an error margin" (STOMP 1.2): twice the
            // interval.
            hear_within: server.receives_from(client).map(|interval| interval * 2),
            sent: now,
            heard: now,
        }
    }

    pub(super) fn has_heard(&mut self, now: Instant) {
        self.heard = now;
    }

    pub(super) fn has_sent(&mut self, now: Instant) {
        self.sent = now;
    }

    pub(super) fn must_send(&self, now: Instant) -> bool {
        self.send_every.is_some_and(|interval| now >= self.sent + interval)
    }

    pub(super) fn is_silent(&self, now: Instant) -> bool {
        self.hear_within.is_some_and(|interval| now >= self.heard + interval)
    }

    /// When to check again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let send = self.send_every.map(|interval| self.sent + interval);
        let hear = self.hear_within.map(|interval| self.heard + interval);
        send.into_iter().chain(hear).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_mirrored_but_not_below_a_second() {
        for (client, server) in [("0,0", "0,0"), ("10000,5000", "5000,10000"), ("1,0", "0,1000"), ("0,1", "1000,0")] {
            assert_eq!(answer(HeartBeat::parse(client).unwrap()).to_string(), server);
        }
    }

    #[test]
    fn silence_is_twice_the_interval_and_sending_half() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let mut pulse = Pulse::agreed(HeartBeat { send: 2000, receive: 3000 }, start);
        assert_eq!(pulse.deadline(), Some(after(1500)));
        assert!(!pulse.must_send(after(1499)) && pulse.must_send(after(1500)));
        pulse.has_sent(after(1500));
        assert!(!pulse.must_send(after(2999)));
        assert!(!pulse.is_silent(after(3999)) && pulse.is_silent(after(4000)));
        pulse.has_heard(after(3999));
        assert!(!pulse.is_silent(after(7998)));
        let none = Pulse::none(start);
        assert_eq!(none.deadline(), None);
        assert!(!none.must_send(after(1 << 40)) && !none.is_silent(after(1 << 40)));
    }
}
