//! Everything that happens without a request of a client: work that visits leave, timers, flushes,
//! alarms.
//!
//! One task runs [`Engine::housekeep`]. It is woken for new work, and otherwise runs when the next
//! timer is due.

use std::cmp::Reverse;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use journal::Ticket;

use crate::catalog::Tables;
use crate::engine::dead_letter::Budget;
use crate::engine::sealed::Sealed;
use crate::engine::{Engine, TimerQueue};
use crate::queue::arrival::Work;
use crate::queue::mailbox::Notice;
use crate::queue::{Guard, Queue, Visit};
use crate::routing::Destination;

/// How often alarms and postponed dead letters are looked at, while a client or a message waits.
const ALARM_PERIOD: Duration = Duration::from_millis(50);

impl Engine {
    /// Does the work that visits left, and the work that this leaves, until none is left. Returns a
    /// ticket: once it is durable the deleted queues are gone for good.
    pub(crate) fn run_work(&self, work: &mut Vec<Work>) -> Ticket {
        let mut gone = Ticket::NONE;
        let mut budget = Budget::of_a_run();
        while !work.is_empty() {
            for item in std::mem::take(work) {
                match item {
                    Work::DeadLetter { queue, dying } => self.dead_letter(&queue, dying, &mut budget, work),
                    Work::DeleteIfUnused { queue } => gone = gone.max(self.delete_if_unused(&queue)),
                    Work::Arm { queue, at } => {
                        let timer = Reverse((at, TimerQueue(Arc::downgrade(&queue))));
                        self.waiting.lock().timers.push(timer);
                        self.housekeeper.wake();
                    }
                    Work::Release { queue } => self.pager.release(&queue),
                    Work::Load { queue } => self.pager.load(queue),
                    Work::Raise { queue, ticket } => {
                        self.waiting.lock().marks.push((ticket, queue));
                        self.wait_for(ticket);
                    }
                }
            }
        }
        gone
    }

    /// Wakes the housekeeper when `ticket` is durable.
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

    /// Sets the timer of a queue that is new here.
    pub(crate) fn watch(&self, queue: &Arc<Queue>) {
        let mut work = Vec::new();
        queue.watch(&mut Visit { context: self, now: self.clock.unix_ms(), work: &mut work });
        self.run_work(&mut work);
    }

    /// Runs everything that is due. Returns when to run again unless the housekeeper is woken
    /// before.
    pub(crate) fn housekeep(&self, now: Instant, waker: &Waker) -> Option<Instant> {
        self.housekeeper.set(waker);
        let ms = self.clock.unix_ms();
        let mut work = Vec::new();
        let flushed = self.resume_flushed(ms, &mut work);
        self.run_timers(ms, &mut work);
        let postponed = !self.postponed.lock().is_empty();
        let goes_on = postponed && self.retry_postponed(&mut work);
        self.run_work(&mut work);
        if self.go_on_ending() || goes_on {
            waker.wake_by_ref();
        }
        let sweep = self.sweep(now);
        let alarmed = self.announce_alarms();
        let next = self.waiting.lock().timers.peek().map(|Reverse((at, _))| *at);
        let timer = next.map(|at| now + Duration::from_millis(at.saturating_sub(self.clock.unix_ms())));
        let alarm = (alarmed || postponed || flushed).then(|| now + ALARM_PERIOD);
        [timer, alarm, sweep].into_iter().flatten().min()
    }

    /// Goes on with everything that waited for a flush. True when some still waits.
    fn resume_flushed(&self, now: u64, work: &mut Vec<Work>) -> bool {
        let durable = self.journal.durable();
        let (marks, sealed, waits) = {
            let mut waiting = self.waiting.lock();
            let marks: Vec<_> = waiting.marks.extract_if(.., |(ticket, _)| *ticket <= durable).collect();
            let sealed: Vec<_> = waiting.sealed.extract_if(.., |sealed| sealed.ticket <= durable).collect();
            let rest = waiting.marks.iter().map(|(ticket, _)| *ticket);
            let rest = rest.chain(waiting.sealed.iter().map(|sealed| sealed.ticket)).min();
            (marks, sealed, rest)
        };
        let mut visit = Visit { context: self, now, work };
        for (_, queue) in marks {
            queue.mark_raised(&mut visit);
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
            let Some(Reverse((at, TimerQueue(queue)))) = due else { return };
            if let Some(queue) = queue.upgrade() {
                queue.on_timer(at, &mut Visit { context: self, now, work });
            }
        }
    }

    /// Deletes a queue if it is still unused. Returns when it is gone for good.
    fn delete_if_unused(&self, queue: &Arc<Queue>) -> Ticket {
        let Some(vhost) = self.catalog.vhost(&queue.vhost) else { return Ticket::NONE };
        let mut tables = vhost.tables.write();
        let ended = self.end_queue(&mut tables, queue, &|inner| {
            if queue.should_go(inner, self.clock.unix_ms()) { Ok(()) } else { Err("in use") }
        });
        // It is refused if a client has come to use the queue meanwhile.
        ended.map_or(Ticket::NONE, |(_, ticket)| ticket)
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
                let mut appender = self.journal.appender();
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
