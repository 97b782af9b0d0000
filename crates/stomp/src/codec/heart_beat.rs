//! The `heart-beat` header: how often each side can send and wants to receive (STOMP 1.2,
//! "Heart-beating").

use std::fmt;
use std::time::Duration;

/// One side's half of the negotiation, in milliseconds; zero means "cannot send" or "does not
/// want".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeartBeat {
    /// Smallest interval at which this side can send.
    pub send: u32,
    /// Interval at which this side would like to receive.
    pub receive: u32,
}

impl HeartBeat {
    /// Reads `send,receive`; spaces are ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let (send, receive) = text.split_once(',')?;
        Some(Self { send: send.trim().parse().ok()?, receive: receive.trim().parse().ok()? })
    }

    /// How often this side must send to `peer`: the longer of the interval that it can send at and
    /// the interval that the peer wants.
    pub fn sends_to(self, peer: Self) -> Option<Duration> {
        (self.send > 0 && peer.receive > 0).then(|| Duration::from_millis(self.send.max(peer.receive).into()))
    }

    /// How often this side can expect a heart-beat from `peer`.
    pub fn receives_from(self, peer: Self) -> Option<Duration> {
        peer.sends_to(self)
    }
}

impl fmt::Display for HeartBeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.send, self.receive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_side_sets_the_interval_and_zero_turns_it_off() {
        let ms = |n| Some(Duration::from_millis(n));
        for (ours, theirs, sends, receives) in [
            ("0,0", "10,10", None, None),
            ("10,20", "0,0", None, None),
            ("10,20", "30,40", ms(40), ms(30)),
            ("500,20", "5,40", ms(500), ms(20)),
            ("500,0", "5,40", ms(500), None),
        ] {
            let (ours, theirs) = (HeartBeat::parse(ours).unwrap(), HeartBeat::parse(theirs).unwrap());
            assert_eq!(ours.sends_to(theirs), sends);
            assert_eq!(ours.receives_from(theirs), receives);
        }
    }

    #[test]
    fn only_two_numbers_are_a_heart_beat() {
        assert_eq!(HeartBeat::parse(" 1 , 2 ").unwrap().to_string(), "1,2");
        for bad in ["", "1", "1,", "-1,0", "1,2,3", "99999999999,0", "a,b"] {
            assert_eq!(HeartBeat::parse(bad), None, "{bad}");
        }
    }
}
