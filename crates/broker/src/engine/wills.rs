//! Wills in the log: left, due, taken back, and ended.
//!
//! Lock order: the vhost's tables → its wills → the journal's buffer. A will and its table change
//! under one lock, so a restatement is true at its place in the log.

use std::sync::Arc;

use journal::{Admission, Group, Owner, Restatement, Ticket};

use crate::catalog::Vhost;
use crate::catalog::wills::{WillFact, WillKept, WillKey};
use crate::engine::Engine;
use crate::routing::Weight;

/// When a will is tried again that an alarm holds up, or that memory alone has, in milliseconds.
pub(crate) const TRIED_AGAIN: u64 = 1000;

impl Engine {
    /// A client that is connected leaves a will. Returns what must be flushed.
    pub(crate) fn leave_will(&self, vhost: &Vhost, fact: WillFact, weight: Weight, kept: WillKept) -> Ticket {
        let tables = vhost.tables.read();
        if tables.is_ended() {
            return Ticket::NONE;
        }
        let owner = self.owners.take(vhost.log(), 1);
        let mut table = vhost.wills.lock();
        table.put(owner, fact, weight, kept);
        if kept == WillKept::Memory {
            self.publish_wills_at(self.clock.unix_ms() + TRIED_AGAIN);
            return Ticket::NONE;
        }
        let mut appender = self.journal.appender(vhost.log());
        table.log(owner, &mut appender);
        appender.ticket()
    }

    /// The connection of a client has ended without a word: its will is due after this time.
    /// Returns the will, and when it is due.
    pub(crate) fn will_is_due(&self, vhost: &Vhost, key: &WillKey, after: u64) -> Option<(Owner, u64)> {
        let at = self.clock.unix_ms().saturating_add(after);
        let tables = vhost.tables.read();
        let mut table = vhost.wills.lock();
        let owner = table.of_client(key)?;
        table.set_due(owner, at);
        // One that is published now has its end at once.
        if after > 0 && !tables.is_ended() {
            table.log(owner, &mut self.journal.appender(vhost.log()));
        }
        drop((table, tables));
        self.publish_wills_at(at);
        Some((owner, at))
    }

    /// A will ends without a publication, or with the one of this group. Returns what must be
    /// flushed.
    pub(crate) fn end_will(&self, vhost: &Vhost, owner: Owner, group: Option<Group>) -> Ticket {
        let tables = vhost.tables.read();
        let mut table = vhost.wills.lock();
        // The log has nothing of one that memory alone had.
        if table.remove(owner) != Some(WillKept::Log) || tables.is_ended() {
            return Ticket::NONE;
        }
        let mut appender = self.journal.appender(vhost.log());
        appender.drop_owner(group, owner, &mut std::iter::empty());
        appender.ticket()
    }

    /// The connections of the last run are gone: their wills are due after their delays. One with a
    /// delay is due then over the next end of the broker, too.
    pub(crate) fn end_connections_of_last_run(&self) {
        let now = self.clock.unix_ms();
        for vhost in self.catalog.vhosts() {
            let _tables = vhost.tables.read();
            let mut table = vhost.wills.lock();
            for (owner, delay) in table.of_connected() {
                table.set_due(owner, now.saturating_add(delay));
                if delay > 0 {
                    table.log(owner, &mut self.journal.appender(vhost.log()));
                }
            }
        }
        self.publish_wills_at(now);
    }

    /// Logs the wills that memory alone has, as far as the log has room. What is left is looked at
    /// again.
    pub(crate) fn log_wills_in_memory(&self) {
        for vhost in self.catalog.vhosts() {
            let tables = vhost.tables.read();
            let mut table = vhost.wills.lock();
            while table.has_unlogged() && !tables.is_ended() {
                if self.journal.admission() >= Admission::Closed {
                    drop((table, tables));
                    return self.publish_wills_at(self.clock.unix_ms() + TRIED_AGAIN);
                }
                table.log_from_memory(&mut self.journal.appender(vhost.log()));
            }
        }
    }

    /// Says a will again; false if the owner is none.
    pub(crate) fn restate_will(&self, vhost: &Vhost, owner: Owner, restatement: &Restatement<'_>) -> bool {
        let table = vhost.wills.lock();
        table.due(owner).is_some() && table.log(owner, &mut restatement.appender(vhost.log()))
    }

    /// Some will is due then, in milliseconds since 1970.
    pub(crate) fn publish_wills_at(&self, at: u64) {
        let next = &mut self.waiting.lock().wills_due;
        if next.is_none_or(|next| at < next) {
            *next = Some(at);
            self.housekeeper.wake();
        }
    }

    /// The wills that are due, at most so many, each with its vhost; `None` if it is not time to
    /// look. When to look again is noted.
    pub(crate) fn take_due_wills(&self, now: u64, most: usize) -> Option<Vec<(Arc<Vhost>, Owner)>> {
        self.waiting.lock().wills_due.take_if(|due| *due <= now)?;
        let mut due = Vec::new();
        for vhost in self.catalog.vhosts() {
            let table = vhost.wills.lock();
            let found = table.due_by(now, most - due.len());
            let next = found.is_empty().then(|| table.next_due()).flatten();
            drop(table);
            // Behind those that are found, others may be due.
            let next = if found.is_empty() { next } else { Some(now) };
            next.into_iter().for_each(|at| self.publish_wills_at(at));
            due.extend(found.into_iter().map(|owner| (Arc::clone(&vhost), owner)));
        }
        Some(due)
    }
}
