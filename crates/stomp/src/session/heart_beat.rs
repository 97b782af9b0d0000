//! Heart-beats of an open session: what both sides agree on.

use std::time::{Duration, Instant};

use front::KeepAlive;

use crate::codec::HeartBeat;

/// The shortest interval that this server agrees to, in milliseconds, as in RabbitMQ. A shorter one
/// would only cost work.
const SHORTEST: u32 = 1000;

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

/// Agrees on what `client` asked for in CONNECT.
pub(super) fn agree(keep_alive: &mut KeepAlive, client: HeartBeat, now: Instant) {
    let server = answer(client);
    keep_alive.agree(server.sends_to(client), server.receives_from(client), now);
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
}
