//! The accept loop of one listener: admits within the limits and starts a task per connection.
//!
//! Running out of file descriptors makes it wait instead of spinning: the kernel would report the
//! same connection again at once.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use wire::{Peer, Subnet, seen_through};

use crate::aside::Aside;
use crate::drive::drive;
use crate::handshake::Handshakes;
use crate::heavy::Heavy;
use crate::listener::Nagle;
use crate::log_throttle::LogThrottle;
use crate::proxy::{self, Unproxied};
use crate::registry::{Refusal, Registry};
use crate::settings::Settings;

const SHORTEST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// A refused peer may come back at once; the log hears of it this often.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// What the connections of one listener have in common.
pub(crate) struct Acceptor {
    pub(crate) registry: Arc<Registry>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) nagle: Nagle,
    pub(crate) handshakes: Arc<Handshakes>,
    /// The connections of all listeners share the threads.
    pub(crate) heavy: Arc<Heavy>,
    /// Where connections may wait for a program elsewhere, if some may.
    pub(crate) aside: Option<Arc<Aside>>,
    /// How many connections this listener may have, and the places that are free; `None` if only
    /// the limits of all listeners count.
    pub(crate) places: Option<(usize, Arc<Semaphore>)>,
    /// The proxies that connections come from; none if clients connect themselves.
    pub(crate) proxies: Vec<Subnet>,
    /// Room for those that wait for a proxy's header, of all listeners.
    pub(crate) unproxied: Arc<Semaphore>,
    pub(crate) refused: Refused,
}

/// What was logged of refusals a moment ago.
#[derive(Debug)]
pub(crate) struct Refused(LogThrottle);

impl Default for Refused {
    fn default() -> Self {
        Self(LogThrottle::new(LOG_INTERVAL))
    }
}

impl Refused {
    fn tell(&self, peer: SocketAddr, why: &dyn std::fmt::Display) {
        if let Some(held) = self.0.pass(Instant::now()) {
            tracing::warn!(%peer, held, "connection refused: {why}");
        }
    }
}

impl Acceptor {
    /// Accepts until `stop` changes.
    pub(crate) async fn run(self: Arc<Self>, listener: TcpListener, mut stop: watch::Receiver<bool>) {
        let failed = LogThrottle::new(LOG_INTERVAL);
        let mut wait = SHORTEST_WAIT;
        loop {
            let accepted = tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((socket, remote)) => {
                    wait = SHORTEST_WAIT;
                    let Ok(local) = socket.local_addr() else { continue };
                    let (remote, local) = (canonical(remote), canonical(local));
                    if self.proxies.is_empty() {
                        self.admit(socket, (remote, local));
                        continue;
                    }
                    tokio::select! {
                        _ = stop.wait_for(|stop| *stop) => return,
                        () = self.introduce(socket, (remote, local)) => {}
                    }
                }
                Err(error) if is_peers_doing(&error) => {}
                Err(error) => {
                    if let Some(held) = failed.pass(Instant::now()) {
                        tracing::error!(%error, held, "no connection can be accepted; is the limit of open files too low?");
                    }
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(LONGEST_WAIT);
                }
            }
        }
    }

    /// Admits a connection of a proxy when its header has come. Returns as soon as there is room to
    /// wait for that; until then, further connections wait in the kernel.
    async fn introduce(self: &Arc<Self>, socket: TcpStream, (proxy, local): (SocketAddr, SocketAddr)) {
        if let Err(why) = proxy::check(proxy, &self.proxies) {
            return self.refuse_unproxied(proxy, &why);
        }
        let Ok(room) = self.unproxied.clone().acquire_owned().await else { return };
        let acceptor = self.clone();
        tokio::spawn(async move {
            let outcome = proxy::read(&socket).await;
            drop(room);
            match outcome {
                Ok(forwarded) => acceptor.admit(socket, seen_through(forwarded, proxy, local)),
                Err(why) => acceptor.refuse_unproxied(proxy, &why),
            }
        });
    }

    fn refuse_unproxied(&self, proxy: SocketAddr, why: &Unproxied) {
        if matches!(why, Unproxied::Left) {
            return tracing::debug!(%proxy, "{why}");
        }
        self.registry.count_refused(Refusal::Unproxied);
        self.refused.tell(proxy, why);
    }

    /// Takes over one end of a pair, whose other end counts as this user.
    ///
    /// # Errors
    /// If a limit of connections refuses it.
    pub(crate) fn adopt(&self, socket: TcpStream, user: &str) -> io::Result<()> {
        let (remote, local) = (canonical(socket.peer_addr()?), canonical(socket.local_addr()?));
        let peer = Peer { remote, local, encrypted: false, certified_user: Some(user.into()) };
        let registration =
            self.registry.admit(peer, Instant::now()).map_err(|refusal| io::Error::other(refusal.to_string()))?;
        let (handshakes, threads) = (self.handshakes.clone(), (self.heavy.clone(), self.aside.clone()));
        tokio::spawn(drive(socket, handshakes, registration, self.settings.clone(), threads));
        Ok(())
    }

    fn admit(&self, socket: TcpStream, (remote, local): (SocketAddr, SocketAddr)) {
        let place = match self.place() {
            Ok(place) => place,
            Err(refusal) => {
                self.registry.count_refused(refusal);
                return self.refused.tell(remote, &refusal);
            }
        };
        let peer = Peer { remote, local, encrypted: self.handshakes.is_secure(), certified_user: None };
        match self.registry.admit(peer, Instant::now()) {
            Ok(registration) => {
                self.tune(&socket);
                tracing::debug!(connection = registration.listed.id(), peer = %remote, "connection accepted");
                let (handshakes, threads) = (self.handshakes.clone(), (self.heavy.clone(), self.aside.clone()));
                let driven = drive(socket, handshakes, registration, self.settings.clone(), threads);
                match place {
                    None => drop(tokio::spawn(driven)),
                    Some(place) => drop(tokio::spawn(async move {
                        driven.await;
                        drop(place);
                    })),
                }
            }
            Err(refusal) => self.refused.tell(remote, &refusal),
        }
    }

    /// A place at this listener, where places are counted.
    fn place(&self) -> Result<Option<OwnedSemaphorePermit>, Refusal> {
        let Some((most, places)) = &self.places else { return Ok(None) };
        places.clone().try_acquire_owned().map(Some).map_err(|_| Refusal::Listener { most: *most })
    }

    /// Socket options are wishes: a connection works without them, slower or noticed dead later.
    fn tune(&self, socket: &TcpStream) {
        let _ = socket.set_nodelay(self.nagle == Nagle::Off);
        if let Some(idle) = self.settings.keepalive {
            let _ = SockRef::from(socket).set_tcp_keepalive(&TcpKeepalive::new().with_time(idle));
        }
    }
}

/// Errors of the connection that was about to be accepted, not of the listener: the next one may be
/// fine.
fn is_peers_doing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
            | io::ErrorKind::TimedOut
    )
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_addresses_become_ipv4_and_others_stay() {
        for (given, expected) in
            [("[::ffff:127.0.0.1]:5672", "127.0.0.1:5672"), ("[::1]:1", "[::1]:1"), ("10.0.0.1:2", "10.0.0.1:2")]
        {
            let given: SocketAddr = given.parse().unwrap();
            assert_eq!(canonical(given).to_string(), expected);
        }
    }

    #[test]
    fn only_errors_of_the_listener_make_it_wait() {
        assert!(is_peers_doing(&io::ErrorKind::ConnectionAborted.into()));
        assert!(!is_peers_doing(&io::Error::from_raw_os_error(24)), "EMFILE");
    }
}
