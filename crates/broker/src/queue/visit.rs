//! The order of a visit to a queue.
//!
//! 1. The visit makes its change under the lock, and logs it.
//! 2. Consumers are shown what the change made deliverable.
//! 3. The limits are enforced on what consumers left.
//! 4. What steps 2 and 3 settled is logged.
//! 5. Effects on anything else are put on the work list for after the lock.
//!
//! Invariant: the reference of an entry is in the journal's buffer before any consumer can see it.
//! An entry point does the first step by itself, and leaves the others to [`Queue::conclude`].

use std::sync::Arc;

use journal::Ticket;

use crate::queue::arrival::Work;
use crate::queue::{Guard, Inner, Page, Queue, QueueContext};

/// Entries that one visit settles, or drops by a limit or by their age, at most. Others have their
/// turns with the queue before the next ones.
pub(crate) const VISIT_ENTRIES: usize = 10_000;

/// The time of a timer that fires as soon as it can.
pub(super) const AT_ONCE: u64 = 0;

/// The context of one visit, and the work that it leaves.
pub(crate) struct Visit<'a> {
    pub(crate) context: &'a QueueContext,
    /// Milliseconds since 1970.
    pub(crate) now: u64,
    pub(crate) work: &'a mut Vec<Work>,
}

/// What a change makes deliverable.
#[derive(Debug, Clone, Copy)]
pub(super) enum Show {
    Nothing,
    /// Only one consumer has changed. It has this view, or takes everything.
    One {
        view: Option<u64>,
    },
    All,
    /// The same where entries or limits came: the limits are enforced too.
    AllWithinLimits,
}

impl Queue {
    /// The last steps of a visit. The ticket covers what they settled.
    pub(super) fn conclude(self: &Arc<Self>, mut inner: Guard<'_>, show: Show, visit: &mut Visit<'_>) -> Ticket {
        self.show(&mut inner, show, visit);
        if inner.paging.is_damaged() && inner.forget_damage() {
            self.show(&mut inner, Show::All, visit);
        }
        inner.lifetime.act(visit.now);
        let ticket = self.log_settled(&mut inner, visit.context);
        self.leave_work(&mut inner, visit);
        ticket
    }

    /// Steps 2 and 3, for a visit that has more to do between these and the end.
    #[inline]
    pub(super) fn show(self: &Arc<Self>, inner: &mut Inner, show: Show, visit: &mut Visit<'_>) {
        match show {
            Show::Nothing => {}
            Show::One { view } => self.dispatch_to(inner, view, visit),
            Show::All => self.dispatch(inner, visit),
            Show::AllWithinLimits => {
                self.dispatch(inner, visit);
                self.enforce_length(inner);
            }
        }
    }

    /// Step 5: dead letters, losses, the pager and the timer.
    fn leave_work(self: &Arc<Self>, inner: &mut Inner, visit: &mut Visit<'_>) {
        if let Some(dying) = inner.departures.take_dying() {
            visit.work.push(Work::DeadLetter { queue: Arc::clone(self), dying });
        }
        if let Some(lost) = inner.departures.take_lost() {
            visit.context.note_lost(self, &lost, visit.now);
        }
        if self.may_be_left_over(inner) {
            visit.work.push(Work::DeleteIfUnused { queue: Arc::clone(self) });
        }
        if inner.lanes.away() > 0 || inner.views.need_pager() {
            self.ask(inner, visit);
        }
        if let Some(at) = self.next_timer(inner)
            && inner.lifetime.arm(at)
        {
            visit.work.push(Work::Arm { queue: Arc::clone(self), at });
        }
    }

    /// When an entry at the head of a lane expires, or the unused queue itself. Entries that the
    /// pager must place first are left out: their timer would fire at once, again and again, if no
    /// index lists them.
    fn next_timer(&self, inner: &mut Inner) -> Option<u64> {
        if let Some(bucket) = &self.bucket {
            return self.next_look(bucket, inner);
        }
        let sought = inner.paging.wants_head();
        let heads = inner.lanes.all_mut().map(|lane| {
            let unknown = sought && lane.head_page().is_some_and(Page::is_absent);
            if unknown { u64::MAX } else { lane.head_expires_at() }
        });
        let head = heads.min().filter(|at| *at != u64::MAX);
        let at_once = inner.lifetime.take_more().then_some(AT_ONCE);
        [at_once, head, self.idle_until(inner), inner.next_waking()].into_iter().flatten().min()
    }
}
