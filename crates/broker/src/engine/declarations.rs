//! The one way to change the tables of a vhost while the broker runs: logged, then visible, under
//! their write lock. Checks are the caller's. What hangs on a change ends with it.

use std::sync::Arc;

use journal::{LogId, Owner, Ticket};

use crate::catalog::change::Change;
use crate::catalog::{Tables, Vhost};
use crate::engine::Engine;
use crate::queue::mailbox::Notice;
use crate::queue::{Bound, Guard, Queue};
use crate::routing::{Binding, Destination};

impl Engine {
    /// Logs and applies a change. Returns the ticket for the reply, which is `NONE` where a restart
    /// forgets the change.
    pub(crate) fn change(&self, vhost: &Vhost, tables: &mut Tables, change: Change) -> Ticket {
        let ticket = change.log(None, vhost.id, tables, &self.journal).unwrap_or(Ticket::NONE);
        tables.note_logged(ticket);
        tables.apply(change);
        ticket
    }

    /// The type of durable queues of a vhost that are declared without one, if that is a choice.
    pub(crate) fn default_queue_type(&self, vhost: Owner) -> Option<String> {
        self.system.lock().vhost_spec(vhost).default_queue_type
    }

    /// Makes changes that stand or fall together: they are one group of the log, and the lock keeps
    /// the tables between them from everybody else. The caller shares the lock of the log's groups.
    pub(crate) fn change_together(&self, vhost: &Vhost, tables: &mut Tables, changes: Vec<Change>) -> Ticket {
        let group = self.journal.appender(vhost.log()).begin_group();
        for change in changes {
            change.log(Some(group), vhost.id, tables, &self.journal);
            tables.apply(change);
        }
        let mut appender = self.journal.appender(vhost.log());
        appender.end_group(group);
        tables.note_logged(appender.ticket());
        appender.ticket()
    }

    /// Removes a binding from an exchange, and the exchange if it is auto-delete and this was its
    /// last one. `None` if there is no such binding.
    pub(crate) fn unbind(&self, vhost: &Vhost, tables: &mut Tables, source: &str, binding: &Binding) -> Option<Ticket> {
        let exchange = tables.exchange(source).filter(|exchange| exchange.bindings.contains(binding))?;
        let bound = Bound::new(exchange.id, Arc::clone(&binding.key), &binding.arguments);
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
        self.totals.churn.queues_deleted.add(1);
        ticket = ticket.max(self.end_dead_letters_of(tables, queue));
        for consumer in consumers {
            consumer.mailbox.notify(Notice::Cancelled { consumer: consumer.key.consumer });
        }
        Ok((ready, ticket))
    }

    /// Ends a subscriber without a queue, with its bindings. It is no error if it has ended.
    pub(crate) fn end_direct(&self, vhost: &Vhost, subscriber: Owner) {
        let mut tables = vhost.tables.write();
        for orphan in tables.remove_direct(subscriber) {
            self.end_exchange(&mut tables, &orphan);
        }
    }

    /// Deletes an exchange with the bindings to it and from it. Auto-delete exchanges that this
    /// leaves unbound go too.
    pub(crate) fn end_exchange(&self, tables: &mut Tables, name: &str) -> Ticket {
        let mut ticket = Ticket::NONE;
        let mut names: Vec<Arc<str>> = vec![name.into()];
        while let Some(name) = names.pop() {
            let Some(exchange) = tables.remove_exchange(&name) else { continue };
            let mut last = None;
            for binding in exchange.bindings.iter() {
                // A destination's bindings lie together, and it forgets all of them at the first.
                if last.replace(binding.destination) == Some(binding.destination) {
                    continue;
                }
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
        ticket
    }
}
