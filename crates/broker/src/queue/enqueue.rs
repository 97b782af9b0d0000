//! Messages on their way into a queue: each gets its place, is logged, and is shown, in this order.
//!
//! Invariant: the reference of an entry is in the journal's buffer before a consumer can see the
//! entry. The entries of a group stay hidden until the group has ended.

use std::sync::Arc;

use journal::{Group, Ticket};

use crate::arguments::Ranks;
use crate::message::Message;
use crate::queue::arrival::Arrival;
use crate::queue::expiry::expires_at;
use crate::queue::features::Entered;
use crate::queue::lanes::lane_above;
#[cfg(feature = "sabotage")]
use crate::queue::sabotage;
use crate::queue::{ADDRESSES, Attendance, Entry, Gone, HiddenRun, Inner, LaneNumber, Queue, Show, State, Visit};

impl Queue {
    /// Takes the picked arrivals at its end and dispatches. The returned ticket covers their
    /// references.
    pub(crate) fn publish(
        self: &Arc<Self>,
        arrivals: &mut [Arrival],
        picks: &[u32],
        visit: &mut Visit<'_>,
    ) -> Result<Ticket, Gone> {
        // No transaction is then halfway through the log: every known id has its message there.
        let singly = self.deduplicates() || self.keeps_last_values();
        let whole = singly.then(|| visit.context.groups.of(self.log()).read());
        let mut inner = self.lock(visit.context);
        if inner.is_deleted() {
            return Err(Gone);
        }
        if whole.is_some() {
            let ticket = self.publish_singly(&mut inner, arrivals, picks, visit);
            self.conclude(inner, Show::Nothing, visit);
            return Ok(ticket);
        }
        let mut ticket = Ticket::NONE;
        // Whether the next message is refused depends on how many of these the consumers take.
        let refuses = inner.arguments.overflow.refuses();
        let step = if refuses { 1 } else { picks.len().max(1) };
        for picks in picks.chunks(step) {
            if refuses && inner.is_full() {
                for pick in picks {
                    inner.refuse(&mut arrivals[*pick as usize]);
                }
                continue;
            }
            self.insert_all(&mut inner, arrivals, picks, State::Ready, None, visit);
            ticket = ticket.max(self.log_references(&mut inner, None, visit));
            self.show_new(&mut inner, visit);
        }
        self.conclude(inner, Show::Nothing, visit);
        Ok(ticket)
    }

    /// Delivers the entries that this visit has added, and keeps to the limits.
    fn show_new(self: &Arc<Self>, inner: &mut Inner, visit: &mut Visit<'_>) {
        if self.bucket.is_some() {
            let added: Vec<_> = inner.lanes.added().collect();
            return self.take_delayed(inner, &added, visit);
        }
        self.show(inner, Show::AllWithinLimits, visit);
        if self.logged() && visit.context.memory.is_tight() {
            for lane in (0..inner.lanes.count()).rev() {
                let (first, end) = inner.lanes.added_to(lane);
                inner.let_go(first, end, visit.context);
            }
        }
    }

    /// Takes messages as part of a group: they have their places and are hidden before
    /// [`Queue::reveal`]. Adds their runs of numbers to `hidden`, each (first, end). Duplicates are
    /// dropped; where the queue looks for them, the caller holds the groups alone.
    pub(crate) fn publish_hidden(
        self: &Arc<Self>,
        arrivals: &mut [Arrival],
        picks: &[u32],
        group: Option<Group>,
        hidden: &mut Vec<HiddenRun>,
        visit: &mut Visit<'_>,
    ) -> Result<(), Gone> {
        let mut inner = self.lock(visit.context);
        if inner.is_deleted() {
            return Err(Gone);
        }
        self.insert_all(&mut inner, arrivals, picks, State::Hidden, group, visit);
        self.log_references(&mut inner, group, visit);
        hidden.extend(inner.lanes.added().map(|(first, end)| HiddenRun { queue: Arc::clone(self), first, end }));
        Ok(())
    }

    /// The group of these entries, all of this queue, has ended: they are ready.
    pub(crate) fn reveal(self: &Arc<Self>, runs: &[HiddenRun], visit: &mut Visit<'_>) {
        let mut inner = self.lock(visit.context);
        for seq in runs.iter().flat_map(|run| run.first..run.end) {
            let hidden = inner.lanes.get_mut(seq).is_some_and(|entry| entry.state == State::Hidden);
            if hidden {
                inner.make_ready(seq);
                inner.show_key(seq, visit.context);
            }
        }
        if self.bucket.is_some() {
            let runs: Vec<_> = runs.iter().map(|run| (run.first, run.end)).collect();
            self.take_delayed(&mut inner, &runs, visit);
            self.conclude(inner, Show::Nothing, visit);
            return;
        }
        self.show(&mut inner, Show::AllWithinLimits, visit);
        if self.logged() && visit.context.memory.is_tight() {
            runs.iter().rev().for_each(|run| inner.let_go(run.first, run.end, visit.context));
        }
        self.conclude(inner, Show::Nothing, visit);
    }

    /// Takes the picked arrivals one by one, without the duplicates: each in one group with its id,
    /// its key and the entry it supersedes. The caller holds the groups, so every known id is in
    /// the log with its message.
    fn publish_singly(
        self: &Arc<Self>,
        inner: &mut Inner,
        arrivals: &mut [Arrival],
        picks: &[u32],
        visit: &mut Visit<'_>,
    ) -> Ticket {
        let mut ticket = Ticket::NONE;
        for pick in picks {
            let arrival = &mut arrivals[*pick as usize];
            if self.drops(inner, arrival, visit.now) {
                // The ticket covers the first message of this id too.
                ticket = ticket.max(visit.context.journal.appender(self.log()).ticket());
                continue;
            }
            let full = inner.arguments.overflow.refuses() && inner.is_full();
            if full && !self.replaces(inner, arrival, visit.context) {
                inner.refuse(arrival);
                continue;
            }
            let durable = self.logged() && arrival.address.is_some();
            let more = arrival.identity.is_some() || self.keeps_last_values();
            let group = (durable && more).then(|| visit.context.journal.appender(self.log()).begin_group());
            self.insert_all(inner, arrivals, std::slice::from_ref(pick), State::Ready, group, visit);
            ticket = ticket.max(self.log_references(inner, group, visit));
            // The entry that it supersedes.
            ticket = ticket.max(self.log_settled_in(inner, group, visit.context));
            if let Some(group) = group {
                let mut appender = visit.context.journal.appender(self.log());
                appender.end_group(group);
                ticket = appender.ticket();
            }
            self.show_new(inner, visit);
        }
        ticket
    }

    /// Gives the picked arrivals without the duplicates their places, each at the end of its lane.
    /// Their ids and keys are logged in `group`.
    fn insert_all(
        &self,
        inner: &mut Inner,
        arrivals: &mut [Arrival],
        picks: &[u32],
        state: State,
        group: Option<Group>,
        visit: &Visit<'_>,
    ) {
        let attended = inner.is_attended();
        inner.lanes.begin_visit(if attended { Attendance::Attended } else { Attendance::Unattended });
        // Most queues share one piece of memory for their arguments. Its count of holders would
        // move between cores, so it is not touched here.
        let (ranks, message_ttl) = (inner.arguments.ranks(), inner.arguments.message_ttl);
        for pick in picks {
            let arrival = &mut arrivals[*pick as usize];
            if arrival.identity.is_some() && self.drops(inner, arrival, visit.now) {
                continue;
            }
            let (address, message) = (arrival.address, arrival.take_share());
            let key = self.key_of(&message, visit.context);
            inner.totals.published_bytes += arrival.length;
            let (lane, now) = (lane_of_message(ranks, &message), visit.now);
            // A message that is not due does not age.
            let ages = self.bucket.is_none();
            let expires_at = if ages { expires_at(message_ttl, &message, now) } else { u64::MAX };
            let address = if self.logged() { address } else { None };
            let entry = Entry { message: Some(message), address, expires_at, state, ..Entry::gone() };
            let durable = entry.is_durable();
            let number = inner.insert(lane, entry);
            let has_key = key.is_some();
            let entered = Entered { number, durable, identity: arrival.identity.as_deref(), key, group };
            inner.features.entered(entered, self, visit);
            if has_key && state == State::Ready {
                inner.show_key(number, visit.context);
            }
            inner.totals.published += 1;
        }
    }

    /// Logs the references of all durable entries that this visit added, in runs.
    fn log_references(&self, inner: &mut Inner, group: Option<Group>, visit: &Visit<'_>) -> Ticket {
        if !self.logged() {
            return Ticket::NONE;
        }
        #[cfg(feature = "sabotage")]
        if group.is_none() && sabotage::armed("ack-before-message") {
            return self.log_references_late(inner, visit);
        }
        let mut addresses = ADDRESSES.take();
        let mut appender = None;
        for lane in inner.lanes.all_mut() {
            let (first, end) = lane.added();
            if first == end {
                continue;
            }
            let (mark, mut run) = (lane.mark_of_added(), first);
            for seq in first..=end {
                let address = if seq < end { lane.get_mut(seq).and_then(|entry| entry.address) } else { None };
                if let Some(address) = address {
                    addresses.push(address);
                    continue;
                }
                if !addresses.is_empty() {
                    let appender = appender.get_or_insert_with(|| visit.context.journal.appender(self.log()));
                    appender.reference(group, self.id, run, mark, &addresses);
                    addresses.clear();
                }
                run = seq + 1;
            }
        }
        ADDRESSES.set(addresses);
        appender.map_or(Ticket::NONE, |appender| appender.ticket())
    }
}

/// The highest priority that a queue of strict ranks tells apart, and that of a message without
/// one.
const STRICT_PRIORITIES: (u8, u8) = (31, 4);

/// The lane of a message: its priority, as far as the queue has priorities. A message without a
/// priority is in lane 0 of any queue.
#[inline]
fn lane_of_message(ranks: Ranks, message: &Message) -> LaneNumber {
    match ranks {
        Ranks::None => 0,
        Ranks::UpTo(most) => message.priority().min(most).into(),
        Ranks::Strict => {
            let (most, usual) = STRICT_PRIORITIES;
            let priority = message.given_priority().unwrap_or(usual).min(most);
            lane_above(i16::from(priority) - i16::from(usual))
        }
    }
}
