//! The one way to change vhosts and their tables while the broker runs: logged, then visible. The
//! tables change under their write lock. Checks are the caller's. What hangs on a change ends with
//! it.

use std::sync::Arc;

use hashbrown::HashSet;
use journal::{LogId, Owner, Ticket};

use crate::catalog::change::Change;
use crate::catalog::definitions::{Definition, DefinitionKey, Sort};
use crate::catalog::{OWNERS_PER_VHOST, Tables, Vhost};
use crate::engine::Engine;
use crate::error::Error;
use crate::queue::mailbox::Notice;
use crate::queue::{Bound, Guard, Queue};
use crate::routing::{Binding, Destination};
use crate::store::facts;
use crate::value::Table;

impl Engine {
    pub(crate) fn existing_vhost(&self, name: &str) -> Result<Arc<Vhost>, Error> {
        self.catalog.vhost(name).ok_or_else(|| Error::not_found(format!("vhost '{name}' does not exist")))
    }

    /// The owners of a new vhost: of its record, and the first of its own log. When there are no
    /// more logs, it is in the system's.
    pub(crate) fn vhost_owners(&self) -> (Owner, Owner) {
        let home = self.owners.new_log(&self.journal.logs()).unwrap_or(LogId::SYSTEM);
        (self.owner(LogId::SYSTEM), self.owners.take(home, OWNERS_PER_VHOST))
    }

    /// Gives up the logs of vhosts that are gone.
    pub(crate) fn end_logs_without_vhost(&self) {
        let homes: HashSet<LogId> = self.catalog.vhosts().iter().map(|vhost| vhost.log()).collect();
        let gone = |log: &LogId| *log != LogId::SYSTEM && !homes.contains(log);
        self.journal.logs().into_iter().filter(gone).for_each(|log| self.journal.end_log(log));
    }

    /// Adds a vhost with its description. They are logged as one group: a restart finds both or
    /// neither.
    pub(crate) fn add_vhost(&self, name: &str, description: Table) -> Result<Ticket, Error> {
        let (record, id) = self.vhost_owners();
        let key = DefinitionKey::new(Sort::Vhost, id, "");
        let mut kept = self.definitions.0.lock();
        let bytes = self.admit_definition(&key, &description, &kept)?;
        let owner = self.owner(key.log());
        let mut appender = self.journal.appender(LogId::SYSTEM);
        let group = appender.begin_group();
        facts::log_vhost(&mut appender, Some(group), (record, id), name);
        appender.fact(Some(group), owner, facts::DEFINITION, &[&bytes]);
        appender.end_group(group);
        let ticket = appender.ticket();
        drop(appender);
        kept.insert(key, Definition { owner, value: Arc::new(description) });
        drop(kept);
        self.catalog.add_vhost(record, id, name);
        Ok(ticket)
    }

    /// Ends a vhost with everything in it. Its record comes first: later ones only say how many
    /// bodies are free.
    pub(crate) fn end_vhost(&self, vhost: &Vhost) -> Ticket {
        let mut tables = vhost.tables.write();
        let ticket = {
            let mut appender = self.journal.appender(LogId::of(vhost.record));
            appender.drop_owner(None, vhost.record, &mut std::iter::empty());
            appender.ticket()
        };
        tables.end();
        self.catalog.remove_vhost(&vhost.name);
        self.definitions.vhost_ends(vhost.id);
        let queues: Vec<_> = tables.queues().cloned().collect();
        for queue in queues {
            // The check is empty, so it can't refuse.
            let _ = self.end_queue(&mut tables, &queue, &|_| Ok(()));
        }
        for exchange in tables.exchange_names() {
            self.end_exchange(&mut tables, &exchange);
        }
        if vhost.log() != LogId::SYSTEM {
            self.journal.end_log(vhost.log());
        }
        ticket
    }

    /// Logs and applies a change. Returns the ticket for the reply, which is `NONE` where a restart
    /// forgets the change.
    pub(crate) fn change(&self, vhost: &Vhost, tables: &mut Tables, change: Change) -> Ticket {
        let ticket = change.log(vhost.id, tables, &self.journal).unwrap_or(Ticket::NONE);
        tables.note_logged(ticket);
        tables.apply(change);
        self.catalog.changed();
        ticket
    }

    /// Removes a binding from an exchange, and the exchange if it is auto-delete and this was its
    /// last one. `None` if there is no such binding.
    pub(crate) fn unbind(&self, vhost: &Vhost, tables: &mut Tables, source: &str, binding: &Binding) -> Option<Ticket> {
        let exchange = tables.exchange(source).filter(|exchange| exchange.bindings.contains(binding))?;
        let bound = Bound::new(exchange.id, &binding.key, &binding.arguments);
        let ticket = self.change(vhost, tables, Change::Unbind(bound, binding.destination));
        if tables.exchange(source).is_some_and(|exchange| exchange.auto_delete && exchange.bindings.is_empty()) {
            return Some(ticket.max(self.end_exchange(tables, source)));
        }
        Some(ticket)
    }

    /// Deletes a queue with its bindings. `check` runs under the queue's lock and may return an
    /// error that keeps it. Returns the number of ready entries, and the ticket for the reply.
    pub(crate) fn end_queue(
        &self,
        tables: &mut Tables,
        queue: &Arc<Queue>,
        check: &dyn Fn(&Guard<'_>) -> Result<(), &'static str>,
    ) -> Result<(u64, Ticket), &'static str> {
        let (consumers, ready, mut ticket) = {
            let mut inner = queue.lock(self);
            if inner.is_deleted() {
                return Ok((0, Ticket::NONE));
            }
            check(&inner)?;
            queue.end(&mut inner, self)
        };
        tables.remove_queue(queue);
        for bucket in queue.close_delays() {
            let mut inner = bucket.lock(self);
            ticket = ticket.max(bucket.end(&mut inner, self).2);
            drop(inner);
            tables.remove_bucket(&bucket);
        }
        for orphan in tables.unbind_all(Destination::Queue(queue.id)) {
            ticket = ticket.max(self.end_exchange(tables, &orphan));
        }
        tables.note_logged(ticket);
        self.catalog.queue_left();
        self.catalog.changed();
        self.totals.queues_deleted.add(1);
        for consumer in consumers {
            consumer.mailbox.notify(Notice::Cancelled { consumer: consumer.key.consumer });
        }
        Ok((ready, ticket))
    }

    /// Deletes an exchange with the bindings to it and from it. Auto-delete exchanges that this
    /// leaves unbound go too.
    pub(crate) fn end_exchange(&self, tables: &mut Tables, name: &str) -> Ticket {
        let mut ticket = Ticket::NONE;
        let mut names: Vec<Arc<str>> = vec![name.into()];
        while let Some(name) = names.pop() {
            let Some(exchange) = tables.remove_exchange(&name) else { continue };
            for binding in exchange.bindings.iter() {
                if let Destination::Queue(id) = binding.destination
                    && let Some(queue) = tables.queue_by_id(id)
                {
                    queue.lock(self).bindings.retain(&|bound| bound.exchange != exchange.id);
                } else if let Destination::Exchange(id) = binding.destination
                    && let Some(other) = tables.exchange_by_id_mut(id)
                {
                    other.bound.retain(&|bound| bound.exchange != exchange.id);
                }
            }
            if exchange.durable {
                let mut appender = self.journal.appender(LogId::of(exchange.id));
                appender.drop_owner(None, exchange.id, &mut std::iter::empty());
                ticket = ticket.max(appender.ticket());
            }
            names.extend(tables.unbind_all(Destination::Exchange(exchange.id)));
            if !exchange.predeclared {
                self.catalog.exchange_left();
            }
        }
        tables.note_logged(ticket);
        self.catalog.changed();
        ticket
    }
}
