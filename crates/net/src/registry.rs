//! What is connected: admission within the limits, counters, and the way to reach each connection from outside.
//!
//! A connection is listed from before its first byte until its task has ended, however it ends: [`Registration`]
//! removes it when dropped. The lock is held for look-ups and listings only.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex};
use wire::{CloseReason, Peer};

use crate::bell::Bell;

/// All connections of a [`crate::Net`].
#[derive(Debug)]
pub struct Registry {
    table: Mutex<Table>,
    emptied: Condvar,
    most: usize,
    most_pending: usize,
    opened: AtomicU64,
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    next_id: u64,
    listed: HashMap<u64, Arc<Listed>>,
    pending: HashMap<IpAddr, usize>,
    closing: bool,
}

/// One connection as the rest of the process sees it.
#[derive(Debug)]
pub(crate) struct Listed {
    id: u64,
    peer: Peer,
    since: SystemTime,
    protocol: OnceLock<&'static str>,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    pending: AtomicBool,
    bell: Arc<Bell>,
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
    /// As many from this address as allowed have not authenticated yet.
    Pending { most: usize },
    /// The server is going down.
    Closing,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full { most } => write!(
                f,
                "{most} connections are open, the most that limits.connections and the limit of open files allow"
            ),
            Self::Pending { most } => write!(
                f,
                "{most} connections from this address have not authenticated yet, the most that \
                 limits.pending_per_address allows"
            ),
            Self::Closing => f.write_str("the server is going down"),
        }
    }
}

impl Registry {
    /// An empty registry that admits `most` connections, of which `most_pending` per address before they authenticate.
    pub(crate) fn new(most: usize, most_pending: usize) -> Self {
        Self {
            table: Mutex::default(),
            emptied: Condvar::new(),
            most,
            most_pending,
            opened: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Lists a new connection, or says why it has to go.
    pub(crate) fn admit(self: &Arc<Self>, peer: Peer) -> Result<Registration, Refusal> {
        let mut table = self.table.lock();
        let address = peer.remote.ip();
        let pending = table.pending.get(&address).copied().unwrap_or(0);
        let refusal = if table.closing {
            Some(Refusal::Closing)
        } else if table.listed.len() >= self.most {
            Some(Refusal::Full { most: self.most })
        } else if pending >= self.most_pending {
            Some(Refusal::Pending { most: self.most_pending })
        } else {
            None
        };
        if let Some(refusal) = refusal {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(refusal);
        }
        table.next_id += 1;
        let listed = Arc::new(Listed {
            id: table.next_id,
            peer,
            since: SystemTime::now(),
            protocol: OnceLock::new(),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            pending: AtomicBool::new(true),
            bell: Arc::default(),
            reason: OnceLock::new(),
        });
        table.listed.insert(listed.id, listed.clone());
        table.pending.insert(address, pending + 1);
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Registration { registry: self.clone(), listed })
    }

    /// Every connection, by number.
    pub fn list(&self) -> Vec<ConnectionInfo> {
        let listed: Vec<_> = self.table.lock().listed.values().cloned().collect();
        let mut infos: Vec<_> = listed.iter().map(|listed| listed.info()).collect();
        infos.sort_unstable_by_key(|info| info.id);
        infos
    }

    /// Number of connections open now.
    pub fn open(&self) -> usize {
        self.table.lock().listed.len()
    }

    /// Number of connections ever admitted.
    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Number of connections refused by a limit.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Orders connection `id` to close, telling its peer `explanation`. False when there is none of that number.
    pub fn close(&self, id: u64, explanation: &str) -> bool {
        let listed = self.table.lock().listed.get(&id).cloned();
        listed.inspect(|listed| listed.order_close(CloseReason::Forced(explanation.to_owned()))).is_some()
    }

    /// Admits nobody from now on and orders every connection to close.
    pub(crate) fn close_all(&self) {
        for listed in self.last_call() {
            listed.order_close(CloseReason::Shutdown);
        }
    }

    /// Ends every connection without ceremony.
    pub(crate) fn cut_all(&self) {
        for listed in self.last_call() {
            listed.bell.cut();
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
        let address = listed.peer.remote.ip();
        if let Some(count) = table.pending.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                table.pending.remove(&address);
            }
        }
    }
}

impl Listed {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(crate) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }

    pub(crate) fn protocol(&self) -> &'static str {
        self.protocol.get().copied().unwrap_or_default()
    }

    /// Why the connection was ordered to close. The first reason stays.
    pub(crate) fn reason(&self) -> CloseReason {
        self.reason.get().cloned().unwrap_or(CloseReason::Shutdown)
    }

    pub(crate) fn count_in(&self, bytes: usize) {
        self.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_out(&self, bytes: usize) {
        self.bytes_out.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn order_close(&self, reason: CloseReason) {
        self.reason.get_or_init(|| reason);
        self.bell.close();
    }

    fn info(&self) -> ConnectionInfo {
        ConnectionInfo {
            id: self.id,
            remote: self.peer.remote,
            local: self.peer.local,
            encrypted: self.peer.encrypted,
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

    #[test]
    fn limits_count_what_is_open_and_what_is_unknown_per_address() {
        let registry = Arc::new(Registry::new(3, 2));
        let first = registry.admit(peer(1)).unwrap();
        let second = registry.admit(peer(1)).unwrap();
        assert_eq!(registry.admit(peer(1)).unwrap_err(), Refusal::Pending { most: 2 });
        first.established();
        first.established();
        let third = registry.admit(peer(1)).unwrap();
        assert_eq!(registry.admit(peer(2)).unwrap_err(), Refusal::Full { most: 3 });
        drop(second);
        assert_eq!(registry.admit(peer(1)).unwrap().listed.id(), 4);
        drop((first, third));
        assert_eq!((registry.open(), registry.opened(), registry.refused()), (0, 4, 2));
        assert!(registry.table.lock().pending.is_empty());
    }

    #[test]
    fn closing_orders_everyone_and_admits_nobody() {
        let registry = Arc::new(Registry::new(3, 2));
        let one = registry.admit(peer(1)).unwrap();
        assert!(registry.close(1, "maintenance") && !registry.close(2, "maintenance"));
        assert_eq!(one.listed.reason(), CloseReason::Forced("maintenance".to_owned()));
        registry.close_all();
        assert!(one.listed.bell().take().close());
        assert_eq!(registry.admit(peer(1)).unwrap_err(), Refusal::Closing);
        assert_eq!(registry.wait_empty(Duration::ZERO), 1);
        drop(one);
        assert_eq!(registry.wait_empty(Duration::ZERO), 0);
    }

    #[test]
    fn a_listing_shows_protocol_and_bytes_in_order() {
        let registry = Arc::new(Registry::new(3, 3));
        let (one, two) = (registry.admit(peer(1)).unwrap(), registry.admit(peer(2)).unwrap());
        two.speaks("stomp");
        two.listed.count_in(5);
        two.listed.count_out(7);
        let shown: Vec<_> =
            registry.list().into_iter().map(|c| (c.id, c.protocol, c.bytes_in, c.bytes_out, c.remote)).collect();
        assert_eq!(shown, [(1, "", 0, 0, peer(1).remote), (2, "stomp", 5, 7, peer(2).remote)]);
        drop((one, two));
    }
}
