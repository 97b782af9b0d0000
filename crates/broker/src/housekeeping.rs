//! Everything that happens without a client asking: work left by visits, timers, flushes that somebody waits for, alarms.
//!
//! One task runs [`Core::housekeep`]; it is woken when something new waits and otherwise comes when the next timer is due.

use std::cmp::Reverse;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use journal::Ticket;

use crate::catalog::Tables;
use crate::core::{Core, TimerQueue};
use crate::flow::Allowance;
use crate::queue::{Guard, Queue, Visit};
use crate::routing::Destination;
use crate::session::mailbox::Notice;
use crate::session::transaction::Sealed;
use crate::session::turn::Work;

/// While somebody waits for an alarm to pass, or dead letters wait for room, they are looked at this often.
const ALARM_PERIOD: Duration = Duration::from_millis(50);

impl Core {
    /// Does what visits left behind, and what that leaves behind, until nothing does.
    pub(crate) fn run_work(&self, work: &mut Vec<Work>) {
        while !work.is_empty() {
            for item in std::mem::take(work) {
                match item {
                    Work::DeadLetter { queue, dying } => self.dead_letter(&queue, dying, work),
                    Work::Vanish { queue } => self.vanish(&queue, |queue, inner| queue.is_abandoned(inner)),
                    Work::Arm { queue, at } => {
                        let timer = Reverse((at, TimerQueue(Arc::downgrade(&queue))));
                        self.waiting.lock().timers.push(timer);
                        self.housekeeper.wake();
                    }
                    Work::Raise { queue, mark, ticket } => {
                        self.waiting.lock().marks.push((ticket, queue, mark));
                        self.wait_for(ticket);
                    }
                }
            }
        }
    }

    /// Has the housekeeper woken when `ticket` is durable.
    fn wait_for(&self, ticket: Ticket) {
        if let Some(waker) = self.housekeeper.waker() {
            self.journal.when_durable(ticket, &waker);
        }
    }

    /// Keeps a committed transaction until it is durable.
    pub(crate) fn wait_for_sealed(&self, sealed: Sealed) {
        let ticket = sealed.ticket;
        self.waiting.lock().sealed.push(sealed);
        self.wait_for(ticket);
    }

    /// Looks after a new queue that goes when it is not used.
    pub(crate) fn watch_expiry(&self, queue: &Arc<Queue>) {
        if let Some(ttl) = queue.arguments.expires {
            let at = self.clock.unix_ms() + ttl;
            self.run_work(&mut vec![Work::Arm { queue: Arc::clone(queue), at }]);
        }
    }

    /// Runs what is due. Returns when to come again if nobody wakes the housekeeper before.
    pub(crate) fn housekeep(&self, now: Instant, waker: &Waker) -> Option<Instant> {
        self.housekeeper.set(waker);
        let ms = self.clock.unix_ms();
        let mut work = Vec::new();
        let flushed = self.resume_flushed(ms, &mut work);
        self.run_timers(ms, &mut work);
        let postponed = self.retry_postponed(&mut work);
        self.run_work(&mut work);
        let waited = self.announce_alarms();
        let next = self.waiting.lock().timers.peek().map(|Reverse((at, _))| *at);
        let timer = next.map(|at| now + Duration::from_millis(at.saturating_sub(self.clock.unix_ms())));
        let alarm = (waited || postponed || flushed).then(|| now + ALARM_PERIOD);
        [timer, alarm].into_iter().flatten().min()
    }

    /// Goes on with what waited for a flush. True when something still does.
    fn resume_flushed(&self, now: u64, work: &mut Vec<Work>) -> bool {
        let durable = self.journal.durable();
        let (marks, sealed, waits) = {
            let mut waiting = self.waiting.lock();
            let marks: Vec<_> = waiting.marks.extract_if(.., |(ticket, ..)| *ticket <= durable).collect();
            let sealed: Vec<_> = waiting.sealed.extract_if(.., |sealed| sealed.ticket <= durable).collect();
            let rest = waiting.marks.iter().map(|(ticket, ..)| *ticket);
            let rest = rest.chain(waiting.sealed.iter().map(|sealed| sealed.ticket)).max();
            (marks, sealed, rest)
        };
        let mut visit = Visit { core: self, now, work };
        for (_, queue, mark) in marks {
            queue.mark_raised(mark, &mut visit);
        }
        for sealed in sealed {
            sealed.reveal(&mut visit);
        }
        if let Some(ticket) = waits {
            self.wait_for(ticket);
        }
        waits.is_some()
    }

    fn run_timers(&self, now: u64, work: &mut Vec<Work>) {
        loop {
            let due = {
                let mut waiting = self.waiting.lock();
                match waiting.timers.peek() {
                    Some(Reverse((at, _))) if *at <= now => waiting.timers.pop(),
                    _ => None,
                }
            };
            let Some(Reverse((_, TimerQueue(queue)))) = due else { return };
            let Some(queue) = queue.upgrade() else { continue };
            queue.grow_old(&mut Visit { core: self, now, work });
            if let Some(ttl) = queue.arguments.expires {
                self.expire_queue(&queue, ttl, now, work);
            }
        }
    }

    /// Deletes a queue that nobody used for its time, or looks again later.
    fn expire_queue(&self, queue: &Arc<Queue>, ttl: u64, now: u64, work: &mut Vec<Work>) {
        let (idle, due) = {
            let inner = queue.lock(self);
            (inner.consumer_count() == 0, inner.used_at + ttl)
        };
        if idle && due <= now {
            self.vanish(queue, |_, inner| inner.consumer_count() == 0 && inner.used_at + ttl <= now);
        } else if idle {
            work.push(Work::Arm { queue: Arc::clone(queue), at: due });
        }
    }

    fn retry_postponed(&self, work: &mut Vec<Work>) -> bool {
        if self.waiting.lock().postponed.is_empty() {
            return false;
        }
        if self.allowance() == Allowance::None {
            return true;
        }
        work.append(&mut self.waiting.lock().postponed);
        false
    }

    /// Deletes a queue if `still` holds under its locks.
    fn vanish(&self, queue: &Arc<Queue>, still: impl Fn(&Queue, &Guard<'_>) -> bool) {
        let Some(vhost) = self.catalog.vhost(&queue.vhost) else { return };
        let mut tables = vhost.tables.write();
        self.end_queue(&mut tables, queue, Some(&still));
    }

    /// Deletes a queue with its bindings; `still` is asked under its lock. Returns the entries that were ready.
    pub(crate) fn end_queue(
        &self,
        tables: &mut Tables,
        queue: &Arc<Queue>,
        still: Option<&dyn Fn(&Queue, &Guard<'_>) -> bool>,
    ) -> (u64, Ticket) {
        let (consumers, ready, mut ticket) = {
            let mut inner = queue.lock(self);
            if inner.is_deleted() || still.is_some_and(|still| !still(queue, &inner)) {
                return (0, Ticket::NONE);
            }
            queue.end(&mut inner, self)
        };
        tables.remove_queue(queue);
        for orphan in tables.unbind_all(Destination::Queue(queue.id)) {
            ticket = ticket.max(self.end_exchange(tables, &orphan));
        }
        self.catalog.queue_left();
        self.catalog.changed();
        self.totals.queues_deleted.add(1);
        for consumer in consumers {
            consumer.mailbox.notify(Notice::Cancelled { consumer: consumer.key.consumer });
        }
        (ready, ticket)
    }

    /// Deletes an exchange with the bindings to it and from it, and auto-delete exchanges that this leaves unbound.
    pub(crate) fn end_exchange(&self, tables: &mut Tables, name: &str) -> Ticket {
        let mut ticket = Ticket::NONE;
        let mut names: Vec<Arc<str>> = vec![name.into()];
        while let Some(name) = names.pop() {
            let Some(exchange) = tables.remove_exchange(&name) else { continue };
            for binding in exchange.bindings.iter() {
                if let Destination::Queue(id) = binding.destination
                    && let Some(queue) = tables.queue_by_id(id)
                {
                    queue.lock(self).bindings.retain(|bound| bound.exchange != exchange.id);
                } else if let Destination::Exchange(id) = binding.destination
                    && let Some(other) = tables.exchange_by_id_mut(id)
                {
                    other.bound.retain(|bound| bound.exchange != exchange.id);
                }
            }
            if exchange.durable {
                let mut appender = self.journal.appender();
                appender.drop_owner(None, exchange.id, &mut std::iter::empty());
                ticket = ticket.max(appender.ticket());
            }
            names.extend(tables.unbind_all(Destination::Exchange(exchange.id)));
            self.catalog.exchange_left();
        }
        self.catalog.changed();
        ticket
    }
}
