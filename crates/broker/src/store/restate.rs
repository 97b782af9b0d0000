//! Saying again, at the head of the log, what its oldest file says: declarations, bindings, positions.
//!
//! Entries need no restating: the journal keeps a file as long as a body in it is live, and whatever was logged about an
//! entry lies behind its body.

use std::sync::{Arc, OnceLock, Weak};

use journal::{Journal, Owner, Owners};

use crate::core::Core;
use crate::store::facts;

/// Answers the journal's one question, once the core exists.
#[derive(Default)]
pub(crate) struct Restater {
    core: OnceLock<Weak<Core>>,
}

impl Restater {
    pub(crate) fn answer_for(&self, core: &Arc<Core>) {
        // Set once, at start; a second start has a restater of its own.
        let _ = self.core.set(Arc::downgrade(core));
    }
}

impl Owners for Restater {
    fn restate(&self, owners: &[Owner], journal: &Journal) {
        let Some(core) = self.core.get().and_then(Weak::upgrade) else { return };
        for owner in owners {
            restate_one(&core, *owner, journal);
        }
    }
}

/// Holding the table's read lock keeps every declaration away, and the queue's lock every entry: what is said is true at
/// the place in the log where it is said.
fn restate_one(core: &Core, owner: Owner, journal: &Journal) {
    for vhost in core.catalog.vhosts() {
        let tables = vhost.tables.read();
        if vhost.id == owner {
            facts::log_vhost(&mut journal.housekeeping_appender(), owner, &vhost.name);
            return;
        }
        if let Some(queue) = tables.queue_by_id(owner).filter(|queue| queue.logged()) {
            let inner = queue.lock(core);
            if !inner.is_deleted() {
                let mut appender = journal.housekeeping_appender();
                facts::log_whole_queue(&mut appender, vhost.id, queue, &inner.bindings, inner.position());
            }
            return;
        }
        if let Some(exchange) = tables.exchange_by_id(owner).filter(|exchange| exchange.durable) {
            let mut appender = journal.housekeeping_appender();
            if !exchange.predeclared {
                facts::log_exchange(&mut appender, vhost.id, exchange);
            }
            for bound in &exchange.bound {
                facts::log_binding(&mut appender, owner, facts::BIND, bound);
            }
            return;
        }
    }
    restate_user(core, owner, journal);
}

fn restate_user(core: &Core, owner: Owner, journal: &Journal) {
    let users = core.users.lock();
    let Some(name) = users.iter().find(|(_, id)| **id == owner).map(|(name, _)| name) else { return };
    if let Some(Ok(bytes)) = core.authority.user(name).map(|user| user.encode()) {
        journal.housekeeping_appender().fact(None, owner, facts::USER, &[&bytes]);
    }
}
