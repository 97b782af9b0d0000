//! Attached clients as small entries, so that a long list is filtered and sorted before a report of
//! any of them is made. An entry reads its client's figures when it is asked for them.

use std::sync::Arc;

use super::{ClientReport, client_report};
use crate::broker::Broker;
use crate::engine::clients::{ClientShared, SessionReport, Terms};
use crate::value::Table;

/// A client that was attached when it was listed.
#[derive(Debug, Clone)]
pub struct AttachedClient(Arc<ClientShared>);

impl AttachedClient {
    /// Its number, for [`Broker::kick`].
    pub fn number(&self) -> u64 {
        self.0.number
    }

    /// Its user.
    pub fn user(&self) -> &str {
        &self.0.user
    }

    /// Its vhost.
    pub fn vhost(&self) -> &str {
        &self.0.vhost
    }

    /// Its protocol.
    pub fn protocol(&self) -> &'static str {
        self.0.protocol
    }

    /// Both ends of its connection.
    pub fn peer(&self) -> &str {
        &self.0.peer
    }

    /// Its name for its connection.
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// Its other properties.
    pub fn properties(&self) -> Table {
        self.0.properties()
    }

    /// The agreed terms.
    pub fn terms(&self) -> Terms {
        self.0.terms
    }

    /// When it attached, in milliseconds since 1970.
    pub fn connected_at(&self) -> u64 {
        self.0.since
    }

    /// `running`, or `blocked` by an alarm.
    pub fn state(&self) -> &'static str {
        if self.0.figures.is_blocked() { "blocked" } else { "running" }
    }

    /// Its sessions.
    pub fn sessions(&self) -> u64 {
        self.0.figures.sessions().into()
    }

    /// Its consumers.
    pub fn consumers(&self) -> u64 {
        self.0.figures.consumers().into()
    }

    /// Bytes of deliveries in its mailbox.
    pub fn waiting_bytes(&self) -> u64 {
        self.0.mailbox.bytes() as u64
    }

    /// Messages dropped since its subscribers without a queue left too much unread.
    pub fn dropped(&self) -> u64 {
        self.0.mailbox.dropped()
    }

    /// Bytes that it makes the broker hold besides queued messages.
    pub fn held_bytes(&self) -> u64 {
        self.0.account.held() as u64
    }

    /// All of it.
    pub fn report(&self) -> ClientReport {
        client_report(&self.0)
    }

    /// Its sessions, by number.
    pub fn session_reports(&self) -> Vec<SessionReport> {
        self.0.session_reports()
    }
}

impl Broker {
    /// Every attached client, by number.
    pub fn attached(&self) -> Vec<AttachedClient> {
        let mut clients: Vec<_> = self.engine.clients.lock().values().cloned().map(AttachedClient).collect();
        clients.sort_unstable_by_key(AttachedClient::number);
        clients
    }

    /// The attached client of this number.
    pub fn attached_at(&self, number: u64) -> Option<AttachedClient> {
        self.engine.clients.lock().get(&number).cloned().map(AttachedClient)
    }
}
