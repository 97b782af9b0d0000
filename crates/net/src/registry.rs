//! What is connected: admission within the limits, counters, and the way to reach each connection
//! from outside.
//!
//! A connection is listed from before its first byte until its task has ended, however it ends:
//! [`Registration`] removes it when dropped. The lock is held for look-ups and listings only.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex};
use wire::{CloseReason, Peer, network};

use crate::encryption::Encryption;
use crate::wakeup::Wakeup;

/// Why connections are refused: the settings that say so, and the end of the server.
const REASONS: [&str; 7] =
    ["connections", "pending", "pending_per_address", "connects_per_address", "shutdown", "listener", "proxy_protocol"];

/// Callers that are listed before those are looked for that are listed no longer.
const CALLERS: usize = 1024;

/// All connections of a [`crate::Net`].
#[derive(Debug)]
pub struct Registry {
    table: Mutex<Table>,
    emptied: Condvar,
    limits: Limits,
    opened: AtomicU64,
    refused: [AtomicU64; REASONS.len()],
    long_turns: AtomicU64,
    /// Bytes in the buffers of connections that have not authenticated.
    strangers_bytes: AtomicU64,
    /// Bytes received and sent by connections that have ended.
    ended: [AtomicU64; 2],
}

/// Who may come in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Most connections.
    pub(crate) connections: usize,
    /// Most that have not authenticated yet.
    pub(crate) pending: usize,
    /// The same from one address.
    pub(crate) pending_per_address: usize,
    /// Most new ones from one address within a second, but for this machine's own; 0 for any
    /// number.
    pub(crate) rate_per_address: u32,
}

#[derive(Debug, Default)]
struct Table {
    next_id: u64,
    listed: HashMap<u64, Arc<Listed>>,
    /// By network.
    callers: HashMap<IpAddr, Caller>,
    /// Connections that have not authenticated yet, of all callers.
    pending: usize,
    closing: bool,
}

/// What comes from one network. Listed while something is pending, or was accepted a moment ago.
#[derive(Debug)]
struct Caller {
    pending: usize,
    /// When the second began in which `accepted` were.
    since: Instant,
    accepted: u32,
}

/// One connection as the rest of the process sees it.
#[derive(Debug)]
pub(crate) struct Listed {
    id: u64,
    peer: Peer,
    since: SystemTime,
    protocol: OnceLock<&'static str>,
    encryption: OnceLock<Encryption>,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    pending: AtomicBool,
    /// Its part of [`Registry::strangers_bytes`].
    buffered: AtomicU64,
    wakeup: Arc<Wakeup>,
    reason: OnceLock<CloseReason>,
}

/// A connection as listings show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// Number of the connection, counted from 1 since the start of the server.
    pub id: u64,
    /// The peer's address.
    pub remote: SocketAddr,
    /// The address it reached.
    pub local: SocketAddr,
    /// True when it is within TLS.
    pub encrypted: bool,
    /// What that came to, once hands were shaken.
    pub encryption: Option<Encryption>,
    /// Name of its protocol; empty until its first bytes have told.
    pub protocol: &'static str,
    /// When it was accepted.
    pub since: SystemTime,
    /// Bytes received from the peer.
    pub bytes_in: u64,
    /// Bytes sent to the peer.
    pub bytes_out: u64,
}

/// Why a connection was not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// As many connections as the limit allows are open.
    Full { most: usize },
    /// As many as allowed have not authenticated yet.
    Strangers { most: usize },
    /// As many from this address as allowed have not authenticated yet.
    Pending { most: usize },
    /// As many as allowed have come from this address within a second.
    Rapid { most: u32 },
    /// The server is going down.
    Closing,
    /// As many as its listener may have are open there.
    Listener { most: usize },
    /// No valid header of the PROXY protocol came from a proxy.
    Unproxied,
}

impl Refusal {
    /// Its place in [`REASONS`].
    fn reason(self) -> usize {
        match self {
            Self::Full { .. } => 0,
            Self::Strangers { .. } => 1,
            Self::Pending { .. } => 2,
            Self::Rapid { .. } => 3,
            Self::Closing => 4,
            Self::Listener { .. } => 5,
            Self::Unproxied => 6,
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full { most } => write!(
                f,
                "{most} connections are open, the most that limits.connections, limits.pending and the limit of open files allow"
            ),
            Self::Strangers { most } => {
                write!(f, "{most} connections have not authenticated yet, the most that limits.pending allows")
            }
            Self::Rapid { most } => write!(
                f,
                "{most} connections have come from this address within a second, the most that \
                 limits.connects_per_address allows"
            ),
            Self::Pending { most } => write!(
                f,
                "{most} connections from this address have not authenticated yet, the most that \
                 limits.pending_per_address allows"
            ),
            Self::Closing => f.write_str("the server is going down"),
            Self::Listener { most } => {
                write!(f, "{most} connections are open at this listener, the most that its max_connections allows")
            }
            Self::Unproxied => f.write_str("there is no valid header of the PROXY protocol"),
        }
    }
}

impl Registry {
    /// An empty registry.
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            table: Mutex::default(),
            emptied: Condvar::new(),
            limits,
            opened: AtomicU64::new(0),
            long_turns: AtomicU64::new(0),
            strangers_bytes: AtomicU64::new(0),
            ended: Default::default(),
            refused: Default::default(),
        }
    }

    /// Lists a new connection, or says why it has to go.
    pub(crate) fn admit(self: &Arc<Self>, peer: Peer, now: Instant) -> Result<Registration, Refusal> {
        let mut table = self.table.lock();
        let address = peer.remote.ip();
        if let Err(refusal) = table.check(address, &self.limits, now) {
            self.count_refused(refusal);
            return Err(refusal);
        }
        table.note(address, now);
        table.next_id += 1;
        let listed = Arc::new(Listed {
            id: table.next_id,
            peer,
            since: SystemTime::now(),
            protocol: OnceLock::new(),
            encryption: OnceLock::new(),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            pending: AtomicBool::new(true),
            buffered: AtomicU64::new(0),
            wakeup: Arc::default(),
            reason: OnceLock::new(),
        });
        table.listed.insert(listed.id, listed.clone());
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Registration { registry: self.clone(), listed })
    }

    /// Counts a connection that was refused before it asked for a place.
    pub(crate) fn count_refused(&self, refusal: Refusal) {
        self.refused[refusal.reason()].fetch_add(1, Ordering::Relaxed);
    }

    /// Every connection, by number.
    pub fn list(&self) -> Vec<ConnectionInfo> {
        let listed: Vec<_> = self.table.lock().listed.values().cloned().collect();
        let mut infos: Vec<_> = listed.iter().map(|listed| listed.info()).collect();
        infos.sort_unstable_by_key(|info| info.id);
        infos
    }

    /// Those of these connections that are open, by the peer's address and the one it reached.
    pub fn some(&self, ends: &HashSet<(SocketAddr, SocketAddr)>) -> Vec<ConnectionInfo> {
        let is_one = |listed: &&Arc<Listed>| ends.contains(&(listed.peer.remote, listed.peer.local));
        let listed: Vec<_> = self.table.lock().listed.values().filter(is_one).cloned().collect();
        listed.iter().map(|listed| listed.info()).collect()
    }

    /// Number of connections open now.
    pub fn open(&self) -> usize {
        self.table.lock().listed.len()
    }

    /// Number of connections ever admitted.
    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Numbers of connections that were refused, by reason.
    pub fn refused(&self) -> impl Iterator<Item = (&'static str, u64)> {
        REASONS.into_iter().zip(self.refused.each_ref().map(|count| count.load(Ordering::Relaxed)))
    }

    /// How often what a connection asked for held up all others of its thread for 100 ms or longer.
    pub fn long_turns(&self) -> u64 {
        self.long_turns.load(Ordering::Relaxed)
    }

    /// Bytes in the buffers of connections that have not authenticated.
    pub fn strangers_bytes(&self) -> u64 {
        self.strangers_bytes.load(Ordering::Relaxed)
    }

    /// Bytes received and sent by all connections, those that have ended included.
    pub fn moved(&self) -> (u64, u64) {
        let table = self.table.lock();
        let ended = self.ended.each_ref().map(|bytes| bytes.load(Ordering::Relaxed));
        table.listed.values().fold((ended[0], ended[1]), |(received, sent), listed| {
            let (more_in, more_out, _) = listed.moved();
            (received + more_in, sent + more_out)
        })
    }

    /// The buffers of a connection that has not authenticated take so many bytes.
    fn buffers(&self, listed: &Listed, bytes: u64) {
        let before = listed.buffered.swap(bytes, Ordering::Relaxed);
        self.strangers_bytes.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Orders connection `id` to close, telling its peer `explanation`. False when there is none of
    /// that number.
    pub fn close(&self, id: u64, explanation: &str) -> bool {
        let listed = self.table.lock().listed.get(&id).cloned();
        listed.inspect(|listed| listed.order_close(CloseReason::Forced(explanation.to_owned()))).is_some()
    }

    /// Admits no connection from now on, and orders every one to close.
    pub(crate) fn close_all(&self) {
        for listed in self.last_call() {
            listed.order_close(CloseReason::Shutdown);
        }
    }

    /// Ends every connection without ceremony.
    pub(crate) fn cut_all(&self) {
        for listed in self.last_call() {
            listed.wakeup.cut();
        }
    }

    fn last_call(&self) -> Vec<Arc<Listed>> {
        let mut table = self.table.lock();
        table.closing = true;
        table.listed.values().cloned().collect()
    }

    /// Waits until no connection is left or `patience` is over; returns how many are left.
    pub(crate) fn wait_empty(&self, patience: Duration) -> usize {
        let until = Instant::now() + patience;
        let mut table = self.table.lock();
        while !table.listed.is_empty() {
            if self.emptied.wait_until(&mut table, until).timed_out() {
                break;
            }
        }
        table.listed.len()
    }

    fn no_longer_pending(&self, listed: &Listed, table: &mut Table) {
        if !listed.pending.swap(false, Ordering::Relaxed) {
            return;
        }
        self.buffers(listed, 0);
        table.pending -= 1;
        if let Some(caller) = table.callers.get_mut(&network(listed.peer.remote.ip())) {
            caller.pending -= 1;
        }
    }
}

impl Table {
    fn check(&self, address: IpAddr, limits: &Limits, now: Instant) -> Result<(), Refusal> {
        let caller = self.callers.get(&network(address));
        let pending = caller.map_or(0, |caller| caller.pending);
        let accepted = caller.filter(|caller| caller.is_recent(now)).map_or(0, |caller| caller.accepted);
        let rate = limits.rate_per_address;
        if self.closing {
            Err(Refusal::Closing)
        } else if self.listed.len() >= limits.connections {
            Err(Refusal::Full { most: limits.connections })
        } else if self.pending >= limits.pending {
            Err(Refusal::Strangers { most: limits.pending })
        } else if pending >= limits.pending_per_address {
            Err(Refusal::Pending { most: limits.pending_per_address })
        } else if rate > 0 && accepted >= rate && !address.is_loopback() {
            Err(Refusal::Rapid { most: rate })
        } else {
            Ok(())
        }
    }

    /// Notes a connection from `address` that has not authenticated yet.
    fn note(&mut self, address: IpAddr, now: Instant) {
        // A network with many addresses makes room for the next one: only those that still count
        // are kept.
        if self.callers.len() >= CALLERS + 2 * self.pending {
            self.callers.retain(|_, caller| caller.pending > 0 || caller.is_recent(now));
        }
        self.pending += 1;
        let caller = self.callers.entry(network(address)).or_insert(Caller { pending: 0, since: now, accepted: 0 });
        if !caller.is_recent(now) {
            (caller.since, caller.accepted) = (now, 0);
        }
        caller.pending += 1;
        caller.accepted += 1;
    }
}

impl Caller {
    fn is_recent(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) < Duration::from_secs(1)
    }
}

impl Listed {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(crate) fn wakeup(&self) -> &Arc<Wakeup> {
        &self.wakeup
    }

    pub(crate) fn protocol(&self) -> &'static str {
        self.protocol.get().copied().unwrap_or_default()
    }

    /// True before the peer has authenticated.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed)
    }

    /// True when it was ordered to close because the server goes down.
    pub(crate) fn is_going_down(&self) -> bool {
        matches!(self.reason.get(), Some(CloseReason::Shutdown))
    }

    /// Why the connection was ordered to close. The first reason stays.
    pub(crate) fn reason(&self) -> CloseReason {
        self.reason.get().cloned().unwrap_or(CloseReason::Shutdown)
    }

    /// Hands were shaken.
    pub(crate) fn is_encrypted_by(&self, encryption: Encryption) {
        self.encryption.get_or_init(|| encryption);
    }

    pub(crate) fn count_in(&self, bytes: usize) {
        self.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes received and sent, and the seconds since it was accepted.
    pub(crate) fn moved(&self) -> (u64, u64, u64) {
        let seconds = self.since.elapsed().map_or(0, |elapsed| elapsed.as_secs());
        (self.bytes_in.load(Ordering::Relaxed), self.bytes_out.load(Ordering::Relaxed), seconds)
    }

    pub(crate) fn count_out(&self, bytes: usize) {
        self.bytes_out.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn order_close(&self, reason: CloseReason) {
        self.reason.get_or_init(|| reason);
        self.wakeup.close();
    }

    fn info(&self) -> ConnectionInfo {
        ConnectionInfo {
            id: self.id,
            remote: self.peer.remote,
            local: self.peer.local,
            encrypted: self.peer.encrypted || self.encryption.get().is_some(),
            encryption: self.encryption.get().cloned(),
            protocol: self.protocol(),
            since: self.since,
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
        }
    }
}

/// Keeps one connection listed while it lives.
#[derive(Debug)]
pub(crate) struct Registration {
    registry: Arc<Registry>,
    pub(crate) listed: Arc<Listed>,
}

impl Registration {
    /// The first bytes have told the protocol.
    pub(crate) fn speaks(&self, protocol: &'static str) {
        self.listed.protocol.get_or_init(|| protocol);
    }

    /// What it asked for held up all others of its thread.
    pub(crate) fn count_long_turn(&self) {
        self.registry.long_turns.fetch_add(1, Ordering::Relaxed);
    }

    /// Its buffers take so many bytes, and its peer has not authenticated.
    pub(crate) fn buffers(&self, bytes: usize) {
        self.registry.buffers(&self.listed, bytes as u64);
    }

    /// The peer has shown who it is and counts as a stranger no longer.
    pub(crate) fn established(&self) {
        self.registry.no_longer_pending(&self.listed, &mut self.registry.table.lock());
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut table = self.registry.table.lock();
        self.registry.no_longer_pending(&self.listed, &mut table);
        table.listed.remove(&self.listed.id);
        let (received, sent, _) = self.listed.moved();
        self.registry.ended[0].fetch_add(received, Ordering::Relaxed);
        self.registry.ended[1].fetch_add(sent, Ordering::Relaxed);
        if table.listed.is_empty() {
            self.registry.emptied.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(host: u8) -> Peer {
        let (remote, local) = (([10, 0, 0, host], 4000).into(), ([10, 0, 0, 1], 5672).into());
        Peer { remote, local, encrypted: false, certified_user: None }
    }

    const LIMITS: Limits = Limits { connections: 3, pending: 100, pending_per_address: 2, rate_per_address: 0 };

    #[test]
    fn limits_count_what_is_open_and_what_is_unknown_per_address() {
        let registry = Arc::new(Registry::new(LIMITS));
        let first = registry.admit(peer(1), Instant::now()).unwrap();
        let second = registry.admit(peer(1), Instant::now()).unwrap();
        assert_eq!(registry.admit(peer(1), Instant::now()).unwrap_err(), Refusal::Pending { most: 2 });
        first.established();
        first.established();
        let third = registry.admit(peer(1), Instant::now()).unwrap();
        assert_eq!(registry.admit(peer(2), Instant::now()).unwrap_err(), Refusal::Full { most: 3 });
        drop(second);
        assert_eq!(registry.admit(peer(1), Instant::now()).unwrap().listed.id(), 4);
        drop((first, third));
        let refused: Vec<_> = registry.refused().filter(|(_, count)| *count > 0).collect();
        assert_eq!((registry.open(), registry.opened()), (0, 4));
        assert_eq!(refused, [("connections", 1), ("pending_per_address", 1)]);
        assert_eq!(registry.table.lock().pending, 0);
    }

    #[test]
    fn buffers_of_strangers_count_until_they_are_known_or_gone() {
        let registry = Arc::new(Registry::new(LIMITS));
        let [one, two] = [1, 2].map(|host| registry.admit(peer(host), Instant::now()).unwrap());
        one.buffers(4096);
        two.buffers(1024);
        one.buffers(16_384);
        assert_eq!(registry.strangers_bytes(), 16_384 + 1024);
        one.established();
        assert_eq!(registry.strangers_bytes(), 1024);
        drop((one, two));
        assert_eq!(registry.strangers_bytes(), 0);
    }

    #[test]
    fn strangers_are_few_in_all_and_come_slowly_from_each_address() {
        let limits = Limits { connections: 100_000, pending: 4, pending_per_address: 4, rate_per_address: 3 };
        let registry = Arc::new(Registry::new(limits));
        let start = Instant::now();
        let at = |host, milliseconds| registry.admit(peer(host), start + Duration::from_millis(milliseconds));
        let held = [at(1, 0), at(1, 0), at(1, 999)].map(Result::unwrap);
        assert_eq!(at(1, 999).unwrap_err(), Refusal::Rapid { most: 3 });
        let other = at(2, 999).unwrap();
        assert_eq!(at(3, 999).unwrap_err(), Refusal::Strangers { most: 4 });
        drop(other);
        assert!(at(1, 1000).is_ok(), "the next second");
        drop(held);
        let local = Peer { remote: "127.0.0.1:1".parse().unwrap(), ..peer(1) };
        for _ in 0..10 {
            assert!(registry.admit(local.clone(), start).is_ok(), "this machine is not counted");
        }
    }

    #[test]
    fn addresses_of_one_network_are_one_caller() {
        let limits = Limits { connections: 100, pending: 100, pending_per_address: 2, rate_per_address: 3 };
        let registry = Arc::new(Registry::new(limits));
        let now = Instant::now();
        let at = |address: &str| registry.admit(Peer { remote: address.parse().unwrap(), ..peer(1) }, now);
        let first = at("[2001:db8:0:1::1]:1").unwrap();
        let second = at("[2001:db8:0:1:ffff::2]:1").unwrap();
        assert_eq!(at("[2001:db8:0:1::3]:1").unwrap_err(), Refusal::Pending { most: 2 });
        assert!(at("[2001:db8:0:2::1]:1").is_ok(), "another network");
        first.established();
        let third = at("[2001:db8:0:1::4]:1").unwrap();
        drop((second, third));
        assert_eq!(at("[2001:db8:0:1::5]:1").unwrap_err(), Refusal::Rapid { most: 3 });
    }

    #[test]
    fn what_is_known_of_callers_does_not_grow_with_their_number() {
        let limits = Limits { connections: 10, pending: 10, pending_per_address: 10, rate_per_address: 1 };
        let registry = Arc::new(Registry::new(limits));
        let start = Instant::now();
        for number in 0..20_000_u32 {
            let remote = SocketAddr::new(std::net::Ipv4Addr::from_bits(0x0A00_0000 + number).into(), 1);
            let now = start + Duration::from_millis(number.into());
            drop(registry.admit(Peer { remote, ..peer(1) }, now).unwrap());
        }
        assert!(registry.table.lock().callers.len() <= CALLERS + 1000);
    }

    #[test]
    fn closing_orders_every_connection_and_admits_none() {
        let registry = Arc::new(Registry::new(LIMITS));
        let one = registry.admit(peer(1), Instant::now()).unwrap();
        assert!(registry.close(1, "maintenance") && !registry.close(2, "maintenance"));
        assert_eq!(one.listed.reason(), CloseReason::Forced("maintenance".to_owned()));
        registry.close_all();
        assert!(one.listed.wakeup().take().close());
        assert_eq!(registry.admit(peer(1), Instant::now()).unwrap_err(), Refusal::Closing);
        assert_eq!(registry.wait_empty(Duration::ZERO), 1);
        drop(one);
        assert_eq!(registry.wait_empty(Duration::ZERO), 0);
    }

    #[test]
    fn a_listing_shows_protocol_and_bytes_in_order() {
        let registry = Arc::new(Registry::new(Limits { pending_per_address: 3, ..LIMITS }));
        let (one, two) =
            (registry.admit(peer(1), Instant::now()).unwrap(), registry.admit(peer(2), Instant::now()).unwrap());
        two.speaks("stomp");
        two.listed.count_in(5);
        two.listed.count_out(7);
        let shown: Vec<_> =
            registry.list().into_iter().map(|c| (c.id, c.protocol, c.bytes_in, c.bytes_out, c.remote)).collect();
        assert_eq!(shown, [(1, "", 0, 0, peer(1).remote), (2, "stomp", 5, 7, peer(2).remote)]);
        drop((one, two));
    }
}
