//! Dead-letter queues that a rule names (`x-dead-letter-queue`, `x-expiry-queue`): made when the
//! first message dies, gone with their queue or, if they hold messages then, once they are empty.
//!
//! Invariant: the queue is in the log before the group that moves a message to it. While it can't
//! be made, the dead letters wait, and none is dropped.

use std::sync::Arc;

use journal::Ticket;

use crate::arguments::dead_letters::MADE_FOR;
use crate::arguments::{QUEUE_TYPE, QueueArguments};
use crate::catalog::change::{Change, NewQueue};
use crate::catalog::declaration::check_made;
use crate::catalog::{Tables, Vhost};
use crate::engine::Engine;
use crate::engine::admission::Asker;
use crate::engine::connections::{ADMINISTRATOR, no_vhost};
use crate::error::Error;
use crate::queue::arrival::Work;
use crate::queue::{Queue, Reason};
use crate::routing::Load;
use crate::store::facts::QueueFact;
use crate::value::{Table, Value};

impl Engine {
    /// True while a queue for the dead letters of a queue can't be made. It is tried once a second,
    /// and all of them wait meanwhile, since none overtakes another.
    pub(super) fn lacks_queue(&self, queue: &Arc<Queue>) -> bool {
        let Some((again, made)) = queue.makes_again(self) else { return false };
        let now = self.clock.unix_ms();
        if again > now {
            return true;
        }
        if queue.arguments(self).dead_letters.made().all(|wanted| wanted != &*made) {
            queue.note_made(&made, self);
            return false;
        }
        !self.makes_or_notes(queue, &made, now)
    }

    /// Whether messages that die for this reason have their queue, which is made if it is not
    /// there. True without a rule.
    pub(super) fn has_queue_for(&self, queue: &Queue, arguments: &QueueArguments, reason: Reason, now: u64) -> bool {
        let way = arguments.dead_letters.of(reason);
        way.and_then(|way| way.made()).is_none_or(|made| self.makes_or_notes(queue, made, now))
    }

    /// True if the dead-letter queue is there now.
    fn makes_or_notes(&self, queue: &Queue, made: &str, now: u64) -> bool {
        match self.make_dead_letter_queue(queue, made) {
            Ok(()) => queue.note_made(made, self),
            Err(error) => {
                let (name, vhost) = (&queue.name, &queue.vhost);
                let line = format!("dead letters of queue '{name}' in vhost '{vhost}' wait: {}", error.text);
                if queue.note_unmade(made, error.text, now, self) {
                    self.pager.tell(line);
                }
                return false;
            }
        }
        true
    }

    fn make_dead_letter_queue(&self, queue: &Queue, made: &str) -> Result<(), Error> {
        let vhost = self.catalog.vhost(&queue.vhost).ok_or_else(|| no_vhost(&queue.vhost))?;
        if vhost.queue(made).is_some() {
            return Ok(());
        }
        check_made(&queue.name, made)?;
        let mut tables = vhost.tables.write();
        if tables.queue(made).is_some() || tables.queue(&queue.name).is_none_or(|there| there.id != queue.id) {
            return Ok(());
        }
        let new = self.admitted_dead_letter_queue(&vhost, &tables, queue, made)?;
        self.change(&vhost, &mut tables, Change::Queue(Arc::clone(&new)));
        drop(tables);
        self.watch(&new);
        self.totals.churn.queues_declared.add(1);
        self.totals.churn.queues_created.add(1);
        Ok(())
    }

    /// A new queue, which is counted and in no table yet. It counts as declared by the user that
    /// declared the queue it is made for.
    fn admitted_dead_letter_queue(
        &self,
        vhost: &Vhost,
        tables: &Tables,
        of: &Queue,
        name: &str,
    ) -> Result<Arc<Queue>, Error> {
        let durable = of.logged();
        let mut arguments = Table(vec![(MADE_FOR.to_owned(), Value::Text(of.name.to_string()))]);
        if let Some(kind) = self.default_queue_type(vhost.id).filter(|_| durable) {
            arguments.set(QUEUE_TYPE, Value::Text(kind));
        }
        let (what, load) = (format!("queue '{name}'"), Load::of_queue(name, &arguments));
        let load = if durable { load } else { load.unlogged() };
        let payer = of.payer();
        let bounded = payer.as_ref().filter(|payer| !self.authority.has_tag(payer.user(), ADMINISTRATOR));
        bounded.map_or(Ok(()), |payer| self.admit_declared(&what, load, payer))?;
        self.admit_load(&what, load, Asker::Consumer)?;
        self.check_room_for_queue(vhost, name, tables.count_queues() as u64, Asker::Consumer)?;
        let limit = self.settings.limits.queues;
        let parsed = QueueArguments::parse_stored(name, &vhost.name, &arguments)?;
        let new = NewQueue {
            id: self.owner(vhost.log()),
            fact: QueueFact {
                vhost: vhost.id,
                name: name.to_owned(),
                auto_delete: false,
                arguments,
                declared_by: None,
            },
            durable,
            exclusive_to: None,
            queue_type: parsed.queue_type,
            now: self.clock.unix_ms(),
        };
        let queue = vhost.new_queue(tables, new, &vhost.bindings.paid_by_any(payer.as_ref()))?;
        if !self.catalog.admit_queue(limit) {
            return Err(Error::precondition(format!("cannot declare {what}: limit of {limit} queues is reached")));
        }
        Ok(queue)
    }

    /// After a start: ends a queue that was made for dead letters of a queue that is gone. The end
    /// of that one was cut off before this one's.
    pub(crate) fn end_left_over(&self, queue: &Arc<Queue>) {
        if queue.declared.get(MADE_FOR).is_some() {
            self.run_work(&mut vec![Work::DeleteIfUnused { queue: Arc::clone(queue) }]);
        }
    }

    /// Deletes the queues that were made for the dead letters of a queue that ends, if they are
    /// empty and not used. Otherwise they go once that is so.
    pub(crate) fn end_dead_letters_of(&self, tables: &mut Tables, ended: &Queue) -> Ticket {
        let arguments = ended.arguments(self);
        let end = |made| self.end_made(tables, ended, made);
        arguments.dead_letters.made().map(end).fold(Ticket::NONE, Ticket::max)
    }

    fn end_made(&self, tables: &mut Tables, ended: &Queue, made: &str) -> Ticket {
        let Some(made) = tables.queue(made).cloned() else { return Ticket::NONE };
        let is_its = made.arguments(self).dead_letters.made_for.as_deref() == Some(&*ended.name);
        if !is_its || made.delayed(self) > 0 {
            return Ticket::NONE;
        }
        let left_alone = self.end_queue(tables, &made, &|inner| inner.is_left_alone().then_some(()).ok_or("in use"));
        left_alone.map_or(Ticket::NONE, |(_, ticket)| ticket)
    }
}
