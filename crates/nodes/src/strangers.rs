//! Connections that have not said yet who they are.
//!
//! Invariant: there are at most [`MOST_STRANGERS`], and one that comes always has a place. For it
//! the oldest of the network goes that has the most. So who floods the port from one network ends
//! connections of its own, and a node from another one gets through.

use std::cell::Cell;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;
use wire::network;

/// Connections that have not said yet who they are.
pub(crate) const MOST_STRANGERS: usize = 16;
/// Threads of these, and of those whose connection was ended for another one.
const MOST_THREADS: usize = 4 * MOST_STRANGERS;

/// See the module.
#[derive(Default)]
pub(crate) struct Strangers(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// The oldest first.
    waiting: Vec<Waiting>,
    /// Threads of those that are not known: they wait, or were ended and have not gone yet.
    threads: usize,
    last: u64,
}

struct Waiting {
    number: u64,
    network: IpAddr,
    socket: TcpStream,
}

/// What came of one that connects.
pub(crate) enum Admitted {
    /// It has a place.
    Yes(Place),
    /// It has one, and another connection was ended for it.
    Instead(Place),
    /// It has none: those that were ended have not gone yet.
    No,
}

/// The place of a connection, until it is dropped.
pub(crate) struct Place {
    of: Arc<Strangers>,
    number: u64,
    known: Cell<bool>,
}

impl Strangers {
    /// Gives one that connects a place.
    pub(crate) fn admit(self: &Arc<Self>, stream: &TcpStream, peer: SocketAddr) -> Admitted {
        let mut inner = self.0.lock();
        let Some(socket) = stream.try_clone().ok().filter(|_| inner.threads < MOST_THREADS) else {
            return Admitted::No;
        };
        (inner.threads, inner.last) = (inner.threads + 1, inner.last + 1);
        let number = inner.last;
        inner.waiting.push(Waiting { number, network: network(peer.ip()), socket });
        let ended = inner.waiting.len() > MOST_STRANGERS;
        if ended {
            let victim = inner.victim();
            let _ = inner.waiting.remove(victim).socket.shutdown(Shutdown::Both);
        }
        let place = Place { of: Arc::clone(self), number, known: Cell::new(false) };
        if ended { Admitted::Instead(place) } else { Admitted::Yes(place) }
    }
}

impl Inner {
    /// The oldest of the network that has the most.
    fn victim(&self) -> usize {
        let count = |one: &Waiting| self.waiting.iter().filter(|other| other.network == one.network).count();
        let most = self.waiting.iter().map(count).max().unwrap_or(0);
        self.waiting.iter().position(|one| count(one) == most).unwrap_or(0)
    }
}

impl Place {
    /// It has said who it is, or goes: its connection is not ended for another.
    pub(crate) fn is_known(&self) {
        if !self.known.replace(true) {
            let mut inner = self.of.0.lock();
            inner.waiting.retain(|one| one.number != self.number);
            inner.threads -= 1;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.is_known();
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn who_floods_the_port_ends_connections_of_its_own() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (strangers, mut places) = (Arc::<Strangers>::default(), Vec::new());
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let from = |address: &str| SocketAddr::new(address.parse().unwrap(), 1);
        let numbers =
            |strangers: &Strangers| -> Vec<u64> { strangers.0.lock().waiting.iter().map(|one| one.number).collect() };
        // One of another network, then a flood from one network of IPv6.
        let cases = [("192.0.2.1", 1), ("2001:db8::1", 1), ("2001:db8::2", 30), ("192.0.2.7", 1)];
        for peer in cases.into_iter().flat_map(|(peer, times)| std::iter::repeat_n(peer, times)) {
            match strangers.admit(&stream, from(peer)) {
                Admitted::Yes(place) | Admitted::Instead(place) => places.push(place),
                Admitted::No => panic!("{peer} has no place"),
            }
        }
        let expected: Vec<_> = [1].into_iter().chain(19..=32).chain([33]).collect();
        assert_eq!(numbers(&strangers), expected);
        // One that is known keeps its connection, and its place is another's.
        places[0].is_known();
        assert_eq!(numbers(&strangers), expected[1..]);
        // Threads that do not end are bounded, too.
        while let Admitted::Yes(place) | Admitted::Instead(place) = strangers.admit(&stream, from("192.0.2.9")) {
            places.push(place);
        }
        assert_eq!(places.len(), MOST_THREADS + 1);
        places.pop();
        assert!(!matches!(strangers.admit(&stream, from("192.0.2.9")), Admitted::No));
    }
}
