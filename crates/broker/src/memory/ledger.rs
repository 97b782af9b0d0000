//! The bytes that peers make the broker hold besides queued messages, by kind. They count while
//! they are held, with the queued messages, against the memory limit. Each client has an
//! [`Account`] of its own part.
//!
//! All of them pass when the peer goes on or leaves, so they may raise the alarm. Declarations
//! stay, and are counted and bounded elsewhere ([`crate::engine::admission`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::memory::Memory;
use crate::settings::Settings;

/// The kinds of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Messages of transactions that are not committed.
    Transactions,
    /// Bodies of up to 64 KiB that have not arrived in full. Larger ones have a claim in the
    /// ingress.
    Bodies,
    /// Unread replies without a queue.
    Replies,
}

impl Held {
    /// Each kind, its name in metrics, and its description.
    pub const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::Transactions, "transactions", "messages of open transactions"),
        (Self::Bodies, "bodies", "small bodies that are not whole"),
        (Self::Replies, "replies", "direct replies that are not read"),
    ];
}

/// Bytes of each kind.
#[derive(Debug, Default)]
pub(crate) struct Ledger([AtomicUsize; Held::ALL.len()]);

impl Ledger {
    pub(crate) fn of(&self, kind: Held) -> usize {
        self.0[kind as usize].load(Ordering::Relaxed)
    }

    /// Bytes of all kinds.
    #[inline]
    pub(crate) fn all(&self) -> usize {
        self.0.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn add(&self, kind: Held, bytes: usize) {
        self.0[kind as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, kind: Held, bytes: usize) {
        self.0[kind as usize].fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The bytes that one client makes the broker hold. All are counted in the whole, too.
#[derive(Debug)]
pub(crate) struct Account {
    memory: Arc<Memory>,
    own: Ledger,
    /// Most bytes; `None` for a quarter of the memory limit, at least `least`.
    most: Option<usize>,
    /// The bytes that may wait behind an alarm anyway.
    least: usize,
}

impl Account {
    pub(crate) fn new(memory: &Arc<Memory>, settings: &Settings) -> Self {
        let most = settings.connection_memory.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        Self { memory: Arc::clone(memory), own: Ledger::default(), most, least: settings.park_bytes }
    }

    pub(crate) fn hold(&self, kind: Held, bytes: usize) {
        self.own.add(kind, bytes);
        self.memory.hold(kind, bytes);
    }

    pub(crate) fn let_go(&self, kind: Held, bytes: usize) {
        self.own.remove(kind, bytes);
        self.memory.let_go(kind, bytes);
    }

    /// Bytes of one kind.
    pub(crate) fn of(&self, kind: Held) -> usize {
        self.own.of(kind)
    }

    /// Bytes of all kinds.
    pub(crate) fn held(&self) -> usize {
        self.own.all()
    }

    /// The limit on its bytes.
    pub(crate) fn most(&self) -> usize {
        self.most.unwrap_or_else(|| (self.memory.limit() / 4).max(self.least))
    }

    /// Whether so many more bytes are within the client's limit.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.held().saturating_add(bytes) <= self.most()
    }

    /// Whether memory is full for all clients.
    pub(crate) fn is_full(&self) -> bool {
        self.memory.is_full()
    }
}

/// Bytes that are held, until it is dropped.
#[derive(Debug)]
pub struct Charge {
    account: Arc<Account>,
    kind: Held,
    bytes: usize,
}

impl Charge {
    pub(crate) fn new(account: &Arc<Account>, kind: Held) -> Self {
        Self { account: Arc::clone(account), kind, bytes: 0 }
    }

    /// Adds bytes.
    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.account.hold(self.kind, bytes);
    }

    /// The bytes that are held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.let_go(self.kind, self.bytes);
    }
}
