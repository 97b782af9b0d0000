//! What peers make the broker hold besides queued messages, by kind: counted as long as it is held, and with the queued
//! messages against the memory limit.
//!
//! All of it passes when its peer goes on or goes: so it may raise the alarm. What stays as long as it is declared is counted and
//! bounded elsewhere ([`crate::catalog::admission`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::core::Memory;

/// What is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Messages of transactions that are not committed.
    Transactions,
    /// Bodies of up to 64 KiB that are not whole. Larger ones have a place in the intake.
    Bodies,
    /// Replies without a queue that are not read.
    Replies,
}

impl Held {
    /// Each kind, its name in metrics, and what it is.
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

/// Bytes that are held, until it is dropped.
#[derive(Debug)]
pub struct Charge {
    memory: Arc<Memory>,
    kind: Held,
    bytes: usize,
}

impl Charge {
    pub(crate) fn new(memory: &Arc<Memory>, kind: Held) -> Self {
        Self { memory: Arc::clone(memory), kind, bytes: 0 }
    }

    /// More is held.
    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.memory.hold(self.kind, bytes);
    }

    /// How much is held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.let_go(self.kind, self.bytes);
    }
}
