//! The figures of a client's sessions in reports: written where they change, and never for a single
//! message.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::queue::SharedCredit;
use crate::report::SessionReport;
use crate::session::{Client, ClientShared, Session, SessionId};

/// One session, as reports see it.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// Its protocol's number for it.
    number: u32,
    confirming: AtomicBool,
    transactional: AtomicBool,
    prefetch: AtomicU32,
    consumers: AtomicU32,
    unconfirmed: AtomicU64,
    credit: Arc<SharedCredit>,
}

impl Shown {
    pub(super) fn new(number: u32, credit: &Arc<SharedCredit>) -> Self {
        Self { number, credit: Arc::clone(credit), ..Self::default() }
    }

    /// Its protocol's number for it.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// How many publishes of the session wait for their answer.
    pub(super) fn set_unconfirmed(&self, count: u64) {
        self.unconfirmed.store(count, Ordering::Relaxed);
    }

    pub(super) fn set_consumers(&self, count: usize) {
        self.consumers.store(u32::try_from(count).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    pub(super) fn set_prefetch(&self, count: u32) {
        self.prefetch.store(count, Ordering::Relaxed);
    }

    pub(super) fn set_confirming(&self) {
        self.confirming.store(true, Ordering::Relaxed);
    }
}

impl Session {
    pub(super) fn new(number: u32) -> Self {
        let shared = Arc::<SharedCredit>::default();
        let shown = Arc::new(Shown::new(number, &shared));
        Self { shared, shown, ..Self::default() }
    }
}

impl Client {
    /// Notes that a session works in transactions.
    pub(super) fn show_transactional(&self, session: SessionId) {
        if let Some(entry) = self.sessions.get(&session.0) {
            entry.shown.transactional.store(true, Ordering::Relaxed);
        }
    }
}

impl ClientShared {
    /// Its sessions, by the numbers that its protocol gives them.
    pub(crate) fn session_reports(&self) -> Vec<SessionReport> {
        let report = |session: &Arc<Shown>| SessionReport {
            client: self.number,
            user: self.user.clone(),
            vhost: self.vhost.clone(),
            peer: self.peer.clone(),
            number: session.number,
            confirming: session.confirming.load(Ordering::Relaxed),
            transactional: session.transactional.load(Ordering::Relaxed),
            prefetch: session.prefetch.load(Ordering::Relaxed),
            shared_prefetch: session.credit.limit(),
            consumers: session.consumers.load(Ordering::Relaxed),
            unsettled: session.credit.unsettled(),
            unconfirmed: session.unconfirmed.load(Ordering::Relaxed),
        };
        let mut reports: Vec<_> = self.shown.lock().iter().map(report).collect();
        reports.sort_by_key(|report| report.number);
        reports
    }
}
