//! Which protocol a connection speaks, told by its first bytes, so that one port can serve several.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use wire::{Protocol, Recognition};

use crate::input::Input;
use crate::registry::Listed;
use crate::stream::Stream;
use crate::upgrade;

/// No protocol needs more bytes to be recognised. A peer that is still undecided then speaks none.
const ENOUGH: usize = 64;

/// A connection whose protocol is known.
pub(crate) struct Opened {
    pub(crate) stream: Stream,
    /// The user that the peer's certificate stands for.
    pub(crate) certified_user: Option<Arc<str>>,
    /// What was read of the protocol already.
    pub(crate) input: Input,
    pub(crate) protocol: Arc<dyn Protocol>,
}

/// What the first bytes say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The protocol at this place in the list.
    Known(usize),
    /// None of them.
    Unknown,
    /// More bytes are needed.
    Undecided,
}

/// Reads until the protocol is known. When no protocol recognises the bytes, the first one gets
/// them: it knows how to refuse a stranger in its own words. `None` when the peer left or the
/// connection was ordered to end.
pub(crate) async fn detect(
    socket: &mut Stream,
    input: &mut Input,
    listed: &Listed,
    protocols: &[Arc<dyn Protocol>],
) -> Option<Arc<dyn Protocol>> {
    let choice = read_until(socket, input, listed, |first| match choose(protocols, first) {
        Choice::Known(index) => Some(protocols[index].clone()),
        Choice::Unknown => {
            tell(first, listed);
            Some(protocols[0].clone())
        }
        Choice::Undecided => None,
    });
    choice.await
}

/// Reads until `decide` says what the first bytes are. `None` when the peer left or the connection
/// was ordered to end.
pub(crate) async fn read_until<T>(
    socket: &mut Stream,
    input: &mut Input,
    listed: &Listed,
    decide: impl Fn(&[u8]) -> Option<T>,
) -> Option<T> {
    poll_fn(|cx| {
        loop {
            let orders = listed.wakeup().take();
            if orders.close() || orders.cut() {
                return Poll::Ready(None);
            }
            if let Some(decided) = decide(input.bytes()) {
                return Poll::Ready(Some(decided));
            }
            match std::task::ready!(input.poll_read(socket, cx)) {
                Ok(count) if count > 0 => listed.count_in(count),
                _ => return Poll::Ready(None),
            }
        }
    })
    .await
}

pub(crate) fn choose(protocols: &[Arc<dyn Protocol>], first: &[u8]) -> Choice {
    let mut undecided = first.is_empty();
    for (index, protocol) in protocols.iter().enumerate() {
        match protocol.recognise(first) {
            Recognition::Yes => return Choice::Known(index),
            Recognition::Incomplete => undecided = true,
            Recognition::No => {}
        }
    }
    if undecided && first.len() < ENOUGH { Choice::Undecided } else { Choice::Unknown }
}

/// Tells of a protocol that other ports speak, the most common mistake in a client's settings.
pub(crate) fn tell(first: &[u8], listed: &Listed) {
    let (peer, port) = (listed.peer().remote, listed.peer().local.port());
    match stranger(first) {
        Some((spoken, remedy)) => tracing::warn!(%peer, port, spoken, remedy, "a client speaks another protocol"),
        None => tracing::debug!(%peer, port, "a client speaks no protocol that is known"),
    }
}

/// A protocol that the listener does not speak, and what to do about it.
fn stranger(first: &[u8]) -> Option<(&'static str, &'static str)> {
    let has = |word: &[u8]| first.windows(word.len()).any(|part| part == word);
    match first {
        [0x16, 3, ..] => Some(("TLS", "this port is without TLS: use the port of the same protocol over TLS")),
        _ if upgrade::recognise(first) == Recognition::Yes => Some(("HTTP", "this is no port of HTTP: use ports.http")),
        [0x10, ..] if has(b"MQTT") || has(b"MQIsdp") => Some(("MQTT", "this port does not speak MQTT: use ports.mqtt")),
        _ if first.starts_with(b"AMQP") => Some(("AMQP", "this port does not speak this AMQP: use ports.amqp")),
        _ if [&b"CONNECT\n"[..], b"CONNECT\r\n", b"STOMP\n", b"STOMP\r\n"]
            .iter()
            .any(|head| first.starts_with(head)) =>
        {
            Some(("STOMP", "this port does not speak STOMP: use ports.stomp"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;
    use std::time::Instant;
    use wire::{Connection, Peer};

    /// Recognised by its opening bytes; is never asked to accept.
    struct Opening(&'static [u8]);

    impl Protocol for Opening {
        fn name(&self) -> &'static str {
            "opening"
        }

        fn recognise(&self, first: &[u8]) -> Recognition {
            let shared = first.len().min(self.0.len());
            match (first[..shared] == self.0[..shared], first.len() >= self.0.len()) {
                (false, _) => Recognition::No,
                (true, true) => Recognition::Yes,
                (true, false) => Recognition::Incomplete,
            }
        }

        fn accept(&self, _: Peer, _: Waker, _: Instant) -> Box<dyn Connection> {
            unreachable!("choosing does not accept")
        }
    }

    #[test]
    fn protocols_of_other_ports_are_known_by_their_first_bytes() {
        for (first, expected) in [
            (&b"\x16\x03\x01\x02\0\x01"[..], Some("TLS")),
            (b"GET / HTTP/1.1\r\n", Some("HTTP")),
            (b"\x10\x10\0\x04MQTT\x04", Some("MQTT")),
            (b"\x10\x14\0\x06MQIsdp\x03", Some("MQTT")),
            (b"AMQP\0\0\x09\x01", Some("AMQP")),
            (b"CONNECT\naccept-version:1.2\n\n\0", Some("STOMP")),
            (b"STOMP\r\n", Some("STOMP")),
            (b"CONNECTED\n", None),
            (b"\x10\x10", None),
            (b"\x16", None),
            (b"GETTING", None),
            (b"", None),
        ] {
            assert_eq!(stranger(first).map(|(spoken, _)| spoken), expected, "{first:?}");
        }
    }

    #[test]
    fn first_bytes_choose() {
        let long: &'static [u8] = &[b'S'; 100];
        let protocols: [Arc<dyn Protocol>; 3] =
            [Arc::new(Opening(b"AMQP")), Arc::new(Opening(b"AMQX1")), Arc::new(Opening(long))];
        for (first, expected) in [
            (&b""[..], Choice::Undecided),
            (b"AM", Choice::Undecided),
            (b"AMQP", Choice::Known(0)),
            (b"AMQP\0", Choice::Known(0)),
            (b"AMQX", Choice::Undecided),
            (b"AMQX1", Choice::Known(1)),
            (b"AMQZ", Choice::Unknown),
            (b"GET /", Choice::Unknown),
            (&long[..63], Choice::Undecided),
            (&long[..64], Choice::Unknown),
        ] {
            assert_eq!(choose(&protocols, first), expected, "{first:?}");
        }
    }
}
