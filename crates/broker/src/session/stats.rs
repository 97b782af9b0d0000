//! The figures of a client's sessions in reports: written where they change, and never for a single
//! message.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::engine::clients::Shown;
use crate::queue::SharedCredit;
use crate::session::{Client, Session, SessionId};

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
