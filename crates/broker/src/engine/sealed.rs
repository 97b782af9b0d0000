//! Messages that come to several queues together: hidden in each until their group is durable.
//!
//! Invariant: of one log, a group is shown after those that ended before it.

use std::sync::Arc;

use hashbrown::HashMap;
use journal::{Group, LogId, Owner, Ticket, Unwoken};

use crate::catalog::direct::DirectBatch;
use crate::engine::replies::Requester;
use crate::message::Message;
use crate::queue::arrival::Arrival;
use crate::queue::mailbox::{Mailbox, Notice, TransactionId};
use crate::queue::{HiddenRun, Queue, QueueContext, Visit};

/// A group that has ended and is not durable yet: of a committed transaction, or of dead letters.
/// Also the records behind the group of a transaction.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) ticket: Ticket,
    /// The places of its messages, those of one queue next to each other.
    pub(crate) hidden: Vec<HiddenRun>,
    /// Messages that go to no queue.
    pub(crate) replies: Vec<(Arc<Requester>, Message)>,
    /// Messages for subscribers without a queue.
    pub(crate) direct: Vec<DirectBatch>,
    /// The transaction, and the mailbox of its client.
    pub(crate) committed: Option<(TransactionId, Arc<Mailbox>)>,
}

impl Sealed {
    /// One without anything, which waits for this ticket.
    pub(crate) fn nothing(ticket: Ticket) -> Self {
        Self { ticket, hidden: Vec::new(), replies: Vec::new(), direct: Vec::new(), committed: None }
    }

    /// Shows the messages and tells the client.
    pub(crate) fn reveal(self, visit: &mut Visit<'_>) {
        for runs in self.hidden.chunk_by(|one, other| Arc::ptr_eq(&one.queue, &other.queue)) {
            runs.first().into_iter().for_each(|run| run.queue.reveal(runs, visit));
        }
        self.direct.into_iter().for_each(|batch| batch.deliver(&visit.context.totals.deliveries));
        for (requester, message) in self.replies {
            let counted = requester.deliver(message);
            let totals = &visit.context.totals.publishes;
            if counted { &totals.routed } else { &totals.unroutable_dropped }.add(1);
        }
        if let Some((transaction, mailbox)) = self.committed {
            mailbox.notify(Notice::Committed { transaction, result: Ok(()) });
        }
    }
}

/// Takes the groups that are durable, in order. The last one is looked at first: a flush that ends
/// between two looks would show a group, and leave an earlier one hidden.
pub(crate) fn take_durable(waiting: &mut Vec<Sealed>, is_durable: impl FnMut(Ticket) -> bool) -> Vec<Sealed> {
    let looks: Vec<bool> = waiting.iter().rev().map(|sealed| sealed.ticket).map(is_durable).collect();
    let mut looks = looks.into_iter().rev();
    waiting.extract_if(.., |_| looks.next().unwrap_or(false)).collect()
}

/// Logs the bodies of arrivals with a durable target, and gives each its hidden place in each
/// target.
pub(crate) fn hide_arrivals(
    arrivals: &mut [Arrival],
    targets: &[Vec<Arc<Queue>>],
    group: Option<Group>,
    visit: &mut Visit<'_>,
) -> Vec<HiddenRun> {
    let _unwoken = log_bodies(arrivals, targets, visit.context);
    let mut hidden = Vec::new();
    for (queue, picks) in picks_of(arrivals, targets) {
        if queue.successor(visit.context).publish_hidden(arrivals, &picks, group, &mut hidden, visit).is_err() {
            picks.iter().for_each(|pick| arrivals[*pick as usize].miss());
        }
    }
    hidden
}

/// Logs the bodies of arrivals with a durable target. The references follow.
pub(crate) fn log_bodies<'c>(
    arrivals: &mut [Arrival],
    targets: &[Vec<Arc<Queue>>],
    context: &'c QueueContext,
) -> Option<Unwoken<'c>> {
    let log = targets.iter().flatten().next()?.log();
    let mut appender = context.journal.appender(log);
    for (arrival, targets) in arrivals.iter_mut().zip(targets) {
        if arrival.message().persistent() && targets.iter().any(|queue| queue.logged()) {
            arrival.address = Some(appender.body(&[arrival.message().block()]));
        }
    }
    Some(appender.and_more())
}

/// The queues that these arrivals go to, and which of them go to each.
pub(crate) fn picks_of(arrivals: &mut [Arrival], targets: &[Vec<Arc<Queue>>]) -> Vec<(Arc<Queue>, Vec<u32>)> {
    let mut queues: Vec<(Arc<Queue>, Vec<u32>)> = Vec::new();
    let mut places: HashMap<Owner, usize> = HashMap::new();
    for (index, targets) in targets.iter().enumerate() {
        arrivals[index].shares = targets.len() as u32;
        for queue in targets {
            let place = *places.entry(queue.id).or_insert_with(|| {
                queues.push((Arc::clone(queue), Vec::new()));
                queues.len() - 1
            });
            queues[place].1.push(index as u32);
        }
    }
    queues
}

/// The messages are in all their queues: only their references keep the bodies now.
pub(crate) fn release_holds(arrivals: &[Arrival], log: LogId, context: &QueueContext) {
    let mut appender = context.journal.appender(log);
    for address in arrivals.iter().filter_map(|arrival| arrival.address) {
        appender.release_hold(address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of quality 2 came after one that was published behind it.
    #[test]
    fn a_flush_between_two_looks_shows_no_group_before_an_earlier_one() {
        let ticket = |index| Ticket::at(LogId::SYSTEM, index);
        let waiting = || Vec::from([1, 2, 3].map(|index| Sealed::nothing(ticket(index))));
        for looks_before_flush in 0..=3 {
            let (mut waiting, mut looks) = (waiting(), 0);
            let shown = take_durable(&mut waiting, |_| {
                looks += 1;
                looks > looks_before_flush
            });
            let tickets = |all: &[Sealed]| all.iter().map(|sealed| sealed.ticket).collect::<Vec<_>>();
            let all = [tickets(&shown), tickets(&waiting)].concat();
            assert_eq!(all, [1, 2, 3].map(ticket), "flush after {looks_before_flush} looks");
        }
    }
}
