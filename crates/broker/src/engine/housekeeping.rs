//! Everything that happens without a request of a client: work that visits leave, timers, flushes,
//! alarms.
//!
//! One task runs [`Engine::housekeep`]. It is woken for new work, and otherwise runs when the next
//! timer is due.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use journal::Ticket;

use crate::catalog::Tables;
use crate::engine::dead_letter::Budget;
use crate::engine::retained::Fed;
use crate::engine::sealed::{Sealed, take_durable};
use crate::engine::{Engine, TimerQueue};
use crate::queue::arrival::Work;
use crate::queue::{Inner, Queue, Visit};

/// How often alarms and postponed dead letters are looked at, while a client or a message waits.
const ALARM_PERIOD: Duration = Duration::from_millis(50);

impl Engine {
    /// Does the work that visits left, and the work that this leaves, until none is left.
    pub(crate) fn run_work(&self, work: &mut Vec<Work>) {
        self.run_work_with(work, &mut |_| {});
    }

    /// As [`Engine::run_work`]. `gone` is told of each queue that was deleted: it is gone for good
    /// once this ticket is durable.
    pub(crate) fn run_work_with(&self, work: &mut Vec<Work>, gone: &mut dyn FnMut(Ticket)) {
        self.run_work_within(&mut Budget::of_a_run(), work, gone);
    }

    /// The same, with this budget for dead letters.
    pub(crate) fn run_work_within(&self, budget: &mut Budget, work: &mut Vec<Work>, gone: &mut dyn FnMut(Ticket)) {
        while !work.is_empty() {
            for item in std::mem::take(work) {
                match item {
                    Work::DeadLetter { queue, dying } => self.dead_letter(&queue, dying, budget, work),
                    Work::DeleteIfUnused { queue } => gone(self.delete_if_unused(&queue)),
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
        let fed = self.feed_some(&mut work);
        self.run_work(&mut work);
        if self.go_on_ending() || goes_on || fed == Fed::More {
            waker.wake_by_ref();
        }
        let sweep = self.sweep(now);
        let disk = self.look_at_disk(now);
        let alarmed = self.announce_alarms(now);
        let expiry = self.close_expired(ms, now);
        let next = self.waiting.lock().timers.peek().map(|Reverse((at, _))| *at);
        let wills = self.waiting.lock().wills_due;
        let next = [next, self.expire_retained(ms), wills].into_iter().flatten().min();
        let timer = next.map(|at| now + Duration::from_millis(at.saturating_sub(self.clock.unix_ms())));
        let alarm = (alarmed || postponed || flushed || fed == Fed::Wait).then(|| now + ALARM_PERIOD);
        [timer, alarm, sweep, disk, expiry].into_iter().flatten().min()
    }

    /// Goes on with everything that waited for a flush. True when some still waits.
    fn resume_flushed(&self, now: u64, work: &mut Vec<Work>) -> bool {
        let (marks, sealed, waits) = {
            let mut waiting = self.waiting.lock();
            let marks: Vec<_> = waiting.marks.extract_if(.., |(ticket, _)| self.journal.is_durable(*ticket)).collect();
            let sealed = take_durable(&mut waiting.sealed, |ticket| self.journal.is_durable(ticket));
            let rest = waiting.marks.iter().map(|(ticket, _)| *ticket);
            let rest: Vec<_> = rest.chain(waiting.sealed.iter().map(|sealed| sealed.ticket)).collect();
            (marks, sealed, rest)
        };
        let mut visit = Visit { context: self, now, work };
        for (_, queue) in marks {
            queue.mark_raised(&mut visit);
        }
        for sealed in sealed {
            sealed.reveal(&mut visit);
        }
        // The next flush has what waits longest, whatever its log.
        waits.first().into_iter().for_each(|ticket| self.wait_for(*ticket));
        !waits.is_empty()
    }

    /// Runs the timers that are due. One that a queue sets again for now, since it has more to
    /// drop, waits for the next round, so that all else comes in between.
    fn run_timers(&self, now: u64, work: &mut Vec<Work>) {
        let due: Vec<_> = {
            let timers = &mut self.waiting.lock().timers;
            let next_due = || timers.peek_mut().filter(|next| next.0.0 <= now).map(PeekMut::pop);
            std::iter::from_fn(next_due).collect()
        };
        for Reverse((at, TimerQueue(queue))) in due {
            if let Some(queue) = queue.upgrade() {
                queue.on_timer(at, &mut Visit { context: self, now, work });
            }
        }
    }

    /// Deletes a queue if it is still unused. Returns when it is gone for good.
    fn delete_if_unused(&self, queue: &Arc<Queue>) -> Ticket {
        let Some(vhost) = self.catalog.vhost(&queue.vhost) else { return Ticket::NONE };
        let arguments = queue.arguments(self);
        let source = arguments.dead_letters.made_for.as_deref();
        let is_wanted = |tables: &Tables| source.is_none_or(|source| tables.queue(source).is_some());
        let is_due = |inner: &Inner| queue.should_go(inner, self.clock.unix_ms());
        // An empty dead-letter queue mostly belongs to a queue: the vhost is not locked for that.
        if is_wanted(&vhost.tables.read()) && !is_due(&queue.lock(self)) {
            return Ticket::NONE;
        }
        let mut tables = vhost.tables.write();
        // Messages that are not due yet wait elsewhere.
        let is_awaited = queue.delayed(self) > 0;
        let keeps_awaited = is_awaited && arguments.disuse.only_empty;
        let left_over = !is_wanted(&tables) && !is_awaited;
        let ended = self.end_queue(&mut tables, queue, &|inner| match () {
            () if left_over && inner.is_left_alone() => Ok(()),
            () if is_due(inner) && !keeps_awaited => Ok(()),
            () => Err("in use"),
        });
        // It is refused if a client has come to use the queue meanwhile.
        ended.map_or(Ticket::NONE, |(_, ticket)| ticket)
    }
}
