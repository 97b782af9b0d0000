//! The checker: takes the history event by event, keeps eight bytes for each message and queue, and
//! says which of the broker's promises a history breaks.
//!
//! Nothing is sorted and nothing is kept of what a drain has settled, so it runs beside the load
//! for any number of kills. The rules are those of Jepsen's total-queue, sharpened: a message that
//! was confirmed must not only be delivered but delivered again until it is settled, and it must
//! not come back once a settlement is fenced.

mod counting;
mod holders;
mod lane;
mod liveness;
#[cfg(test)]
mod tests;
mod transactions;

use std::collections::{HashMap, VecDeque};

use crate::fence::Fence;
use crate::history::{Event, Outcome};
use crate::stamp::{Damage, DeliveryMode, Id, Stamp};
use crate::topology::{Overflow, QUEUES, key, members, source_of};
use crate::violation::{Invariant, Violation};
use holders::Holders;
use lane::{Entry, Lane, Marks};
use transactions::{Stage, Transaction, Transactions};

/// More violations than these are counted but not described.
const DESCRIBED: usize = 30;

/// What a run did, for the ledger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) attempted: u64,
    pub(crate) confirmed: u64,
    pub(crate) delivered: u64,
    pub(crate) redelivered: u64,
    /// Settlements that are known to be on disk.
    pub(crate) fenced: u64,
    pub(crate) transactions: u64,
    /// Deliveries of what died of age.
    pub(crate) expired: u64,
    pub(crate) redriven: u64,
    /// Changes that were confirmed of retained messages, subscriptions, and what was noted on a
    /// message.
    pub(crate) kept: u64,
    /// Publishes that were refused.
    pub(crate) refused: u64,
    /// Deliveries of what had come back too often.
    pub(crate) tired: u64,
    /// Counts of queues that were looked at.
    pub(crate) counted: u64,
    pub(crate) violations: u64,
    pub(crate) lost: u64,
}

/// What one consumer has settled and not yet fenced, oldest first.
#[derive(Debug, Clone, Default)]
struct Pending {
    settled: VecDeque<(usize, Id)>,
    /// Settlements that were taken from the front of `settled`.
    gone: u64,
    /// Questions without an answer, how many settlements each covers, and its kind.
    asked: VecDeque<(u64, u64, Fence)>,
}

/// A consumer that takes all that there is.
#[derive(Debug, Clone)]
struct Draining {
    consumer: u32,
    /// The lowest priority that has come from each queue.
    lowest: [u8; QUEUES.len()],
    /// The newest message that has come of each queue, producer and part of the queue. None where
    /// others may still give messages back.
    newest: Option<HashMap<(usize, u32, u8), u64>>,
}

/// The state of the check.
#[derive(Debug, Clone, Default)]
pub(crate) struct Checker {
    lanes: HashMap<(usize, u32), Lane>,
    pending: HashMap<u32, Pending>,
    transactions: Transactions,
    draining: Option<Draining>,
    holders: Holders,
    /// Who has got something last of each queue and group that has one consumer at a time.
    active: HashMap<(usize, u64), u32>,
    /// Producers below this one are finished: every message of theirs was settled for good, or is
    /// gone.
    retired: u32,
    kills: u64,
    counts: Counts,
    violations: Vec<Violation>,
}

/// What a delivery says of itself: that it is the first of its message, or that it is not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    First,
    Again,
}

impl Checker {
    /// What was counted so far.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// The promises that were broken so far; the first ones, if there are many.
    pub(crate) fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Takes the next event.
    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::Attempt { stamp, mode } => self.attempt(stamp, *mode),
            Event::Confirm(id) => self.confirm(*id),
            Event::Refuse(id) => self.refuse(*id),
            Event::Deliver { consumer, queue, redelivered, content } => {
                self.counts.delivered += 1;
                self.counts.redelivered += u64::from(*redelivered);
                match content {
                    Ok(stamp) => {
                        self.deliver(*consumer, *queue, stamp, if *redelivered { Turn::Again } else { Turn::First });
                    }
                    Err(damage) => self.damaged(*queue, *damage),
                }
            }
            Event::Early { queue, id, early } => {
                self.violate(Invariant::Early, format!("{id} came from {} {early} ms early", QUEUES[*queue].name));
            }
            Event::Changed { queue, id, what } => {
                self.violate(Invariant::Changed, format!("{id} came from {} with {what}", QUEUES[*queue].name));
            }
            Event::Settle { consumer, queue, id, outcome, transaction } => match transaction {
                Some(number) => self.transactions.get_mut(*number).sources.push((*queue, *id)),
                None => self.settle(*consumer, *queue, *id, *outcome),
            },
            Event::FenceAsked { consumer, fence, kind } => {
                let pending = self.pending.entry(*consumer).or_default();
                pending.asked.push_back((*fence, pending.gone + pending.settled.len() as u64, *kind));
            }
            Event::FenceReplied { consumer, fence } => self.fence(*consumer, *fence),
            Event::CommitAsked(number) => self.ask_commit(*number),
            Event::Committed(number) => self.commit(*number),
            Event::Aborted(number) => {
                let transaction = self.transactions.get_mut(*number);
                transaction.stage = Stage::Aborted;
                for (queue, id) in std::mem::take(&mut transaction.sources) {
                    self.let_go(queue, id);
                }
            }
            Event::Counted { queue, ready, moved } => self.counted(*queue, *ready, *moved),
            Event::Redriven(count) => self.counts.redriven += count,
            Event::Kept => self.counts.kept += 1,
            Event::Left(consumer) => self.holders.leave(*consumer),
            Event::Overdue => self.overdue(),
            Event::AtRest => self.holders.leave_all(),
            Event::Draining(consumer) => {
                let newest = self.holders.is_quiet().then(HashMap::new);
                self.holders.leave_all_before(*consumer);
                self.draining = Some(Draining { consumer: *consumer, lowest: [u8::MAX; QUEUES.len()], newest });
            }
            Event::Killed => self.killed(),
        }
    }

    fn violate(&mut self, invariant: Invariant, what: String) {
        self.counts.violations += 1;
        self.counts.lost += u64::from(invariant == Invariant::Lost);
        if self.violations.len() < DESCRIBED {
            self.violations.push(Violation { invariant, kills: self.kills, what });
        }
    }

    fn entry(&mut self, queue: usize, id: Id) -> Option<&mut Entry> {
        self.lanes.get_mut(&(queue, id.producer))?.get_mut(id.seq)
    }

    fn marks(&self, queue: usize, id: Id) -> Option<Marks> {
        self.lanes.get(&(queue, id.producer))?.get(id.seq).map(|entry| entry.marks)
    }

    fn attempt(&mut self, stamp: &Stamp, mode: DeliveryMode) {
        self.counts.attempted += 1;
        if let Some(number) = stamp.transaction {
            self.transactions.get_mut(number).members.push((stamp.id, stamp.queues));
        }
        for queue in members(stamp.queues) {
            let entry = self.lanes.entry((queue, stamp.id.producer)).or_default().attempt(stamp.id.seq);
            if mode == DeliveryMode::Transient || !QUEUES[queue].durable {
                entry.marks.set(Marks::TRANSIENT);
            }
            if let (true, Some(target)) = (QUEUES[queue].passes_on(), QUEUES[queue].dead_letter) {
                self.lanes.entry((target, stamp.id.producer)).or_default().attempt(stamp.id.seq);
            }
        }
    }

    fn confirm(&mut self, id: Id) {
        self.counts.confirmed += 1;
        for queue in 0..QUEUES.len() {
            // What came to a dead-letter queue is judged together with where it came from.
            if source_of(queue).is_none()
                && let Some(entry) = self.entry(queue, id)
            {
                entry.marks.set(Marks::CONFIRMED);
            }
        }
    }

    /// Nothing is promised of what was refused, but that a queue which refuses has not taken it.
    fn refuse(&mut self, id: Id) {
        self.counts.refused += 1;
        for queue in (0..QUEUES.len()).filter(|queue| QUEUES[*queue].overflow != Overflow::DropHead) {
            if let Some(entry) = self.entry(queue, id) {
                entry.marks.set(Marks::REFUSED);
            }
        }
    }

    fn damaged(&mut self, queue: usize, damage: Damage) {
        let name = QUEUES[queue].name;
        self.violate(Invariant::Phantom, format!("a body from {name} is none of this run's: {damage:?}"));
    }

    fn deliver(&mut self, consumer: u32, queue: usize, stamp: &Stamp, turn: Turn) {
        let id = stamp.id;
        let place = QUEUES[queue].name;
        if id.producer < self.retired {
            self.violate(Invariant::AfterFence, format!("{id} came back to {place} after a drain"));
            return;
        }
        let Some(entry) = self.entry(queue, id).copied() else {
            self.violate(Invariant::Phantom, format!("{id} was never published to {place}"));
            return;
        };
        if entry.marks.has(Marks::REFUSED) {
            self.violate(Invariant::Phantom, format!("{id} came from {place}, which had refused it"));
        }
        if let Some(number) = stamp.transaction {
            self.member_delivered(number, id, place);
        }
        self.counts.expired += u64::from(source_of(queue).is_some_and(|source| QUEUES[source].ttl_ms.is_some()));
        self.counts.tired += u64::from(source_of(queue).is_some_and(|source| QUEUES[source].delivery_limit.is_some()));
        self.check_fences(queue, id, entry);
        self.check_holder(consumer, queue, id, entry);
        self.check_active(consumer, queue, id);
        self.check_rank(consumer, queue, id);
        self.check_place(consumer, queue, id);
        if turn == Turn::First {
            self.check_first(consumer, queue, id, entry);
        }
        self.transactions.delivered_again(queue, id);
        if let Some(entry) = self.entry(queue, id) {
            entry.first = entry.first.saturating_add(u8::from(turn == Turn::First));
            entry.marks.set(Marks::DELIVERED);
            entry.marks.clear(Marks::SETTLEMENT);
            entry.holder = consumer;
        }
        // It is here, so whatever its dead-letter queue once had was not durable.
        if let Some(target) = QUEUES[queue].dead_letter
            && let Some(entry) = self.entry(target, id)
        {
            entry.marks.clear(Marks::SETTLEMENT);
        }
    }

    /// I4, also across a dead-letter queue and the queue before it.
    fn check_fences(&mut self, queue: usize, id: Id, entry: Entry) {
        let place = QUEUES[queue].name;
        if entry.marks.has(Marks::FENCED) {
            self.violate(Invariant::AfterFence, format!("{id} in {place} ({}, by {:?})", entry.marks, entry.fence));
        }
        if let Some(target) = QUEUES[queue].dead_letter
            && self.marks(target, id).is_some_and(|marks| marks.has(Marks::FENCED))
        {
            let target = QUEUES[target].name;
            self.violate(Invariant::AfterFence, format!("{id} in {place}, but it is settled in {target}"));
        }
        if let Some(source) = source_of(queue)
            && self.marks(source, id).is_some_and(|marks| marks.has(Marks::FENCED) && !marks.has(Marks::REJECTED))
        {
            let source = QUEUES[source].name;
            self.violate(Invariant::AfterFence, format!("{id} in {place}, but it is settled in {source}"));
        }
    }

    /// I9. Nothing is said of a holder that has left: it may not have been heard.
    fn check_holder(&mut self, consumer: u32, queue: usize, id: Id, entry: Entry) {
        if entry.holder != 0 && self.holders.is_live(entry.holder) {
            let (place, holder) = (QUEUES[queue].name, entry.holder);
            let what = format!("{id} in {place} came to consumer {consumer}, but {holder} has it ({})", entry.marks);
            self.violate(Invariant::Twice, what);
        }
        self.holders.note(consumer);
    }

    /// I13.
    fn check_active(&mut self, consumer: u32, queue: usize, id: Id) {
        let Some(group) = QUEUES[queue].group(id.seq) else { return };
        if let Some(active) = self.active.insert((queue, group), consumer).filter(|active| *active != consumer)
            && self.holders.is_live(active)
        {
            let place = QUEUES[queue].name;
            self.violate(Invariant::Single, format!("{id} in {place} came to consumer {consumer} beside {active}"));
        }
    }

    /// From here on the message may come again.
    fn let_go(&mut self, queue: usize, id: Id) {
        if let Some(entry) = self.entry(queue, id) {
            entry.holder = 0;
        }
    }

    /// I8.
    fn check_rank(&mut self, consumer: u32, queue: usize, id: Id) {
        let Some(draining) = self.draining.as_mut().filter(|draining| draining.consumer == consumer) else { return };
        let (rank, lowest) = (QUEUES[queue].rank(id.seq), &mut draining.lowest[queue]);
        if rank > *lowest {
            let what = format!("{id} in {}: priority {rank} came after {lowest}", QUEUES[queue].name);
            self.violate(Invariant::Priority, what);
        } else {
            *lowest = rank;
        }
    }

    /// I5 of what may have been delivered before: whatever was given back is in its place again.
    /// And I14, where the last values alone have a place.
    fn check_place(&mut self, consumer: u32, queue: usize, id: Id) {
        let Some(draining) = self.draining.as_mut().filter(|draining| draining.consumer == consumer) else { return };
        let Some(newest) = draining.newest.as_mut().filter(|_| QUEUES[queue].ordered) else { return };
        if QUEUES[queue].last_value {
            if let Some(other) = newest.insert((queue, id.producer, key(id.seq) as u8), id.seq)
                && other != id.seq
            {
                let what = format!("{id} in {}: the drain got {other}, too", QUEUES[queue].name);
                self.violate(Invariant::Replaced, what);
            }
            return;
        }
        let place = (queue, id.producer, QUEUES[queue].part(id.seq));
        let before = newest.insert(place, id.seq).unwrap_or_default();
        if before > id.seq {
            newest.insert(place, before);
            let what = format!("{id} in {}: the drain got {before} before it", QUEUES[queue].name);
            self.violate(Invariant::Order, what);
        }
    }

    /// I3 and I5.
    fn check_first(&mut self, consumer: u32, queue: usize, id: Id, entry: Entry) {
        let place = QUEUES[queue].name;
        let known = entry.attempts == 1 && entry.marks.has(Marks::DELIVERED);
        if known || entry.first >= entry.attempts {
            let (first, attempts) = (entry.first, entry.attempts);
            let what = format!("{id} in {place}: delivered as new before ({first} of {attempts}; {})", entry.marks);
            self.violate(Invariant::Duplicate, what);
        }
        if !QUEUES[queue].ordered {
            return;
        }
        let lane = self.lanes.entry((queue, id.producer)).or_default();
        if let Some(newest) = lane.first_delivery(consumer, QUEUES[queue].part(id.seq), id.seq)
            && newest != id.seq
        {
            let what = format!("{id} in {place}: consumer {consumer} got {newest} before it");
            self.violate(Invariant::Order, what);
        }
    }

    /// I6, the part that shows at once: nothing of a transaction is visible before its commit was
    /// asked for; what is visible is promised.
    fn member_delivered(&mut self, number: u64, id: Id, place: &str) {
        let transaction = self.transactions.get_mut(number);
        match transaction.stage {
            Stage::Open | Stage::Aborted => {
                let stage = transaction.stage;
                self.violate(Invariant::Transaction, format!("{id} in {place}, but transaction {number} is {stage:?}"));
            }
            Stage::Asked if !transaction.seen => {
                transaction.seen = true;
                self.promise(number);
            }
            Stage::Asked | Stage::Committed => {}
        }
    }

    /// Everything that a transaction publishes is promised.
    fn promise(&mut self, number: u64) {
        let members = std::mem::take(&mut self.transactions.get_mut(number).members);
        for (id, queues) in &members {
            for queue in self::members(*queues) {
                if let Some(entry) = self.entry(queue, *id) {
                    entry.marks.set(Marks::CONFIRMED);
                }
            }
        }
        self.transactions.get_mut(number).members = members;
    }

    fn settle(&mut self, consumer: u32, queue: usize, id: Id, outcome: Outcome) {
        if let Some(entry) = self.entry(queue, id) {
            match outcome {
                Outcome::Accepted => entry.marks.set(Marks::ACCEPTED),
                Outcome::Rejected => entry.marks.set(Marks::REJECTED),
                Outcome::Released => {
                    entry.holder = 0;
                    return;
                }
            }
        }
        if let (Outcome::Rejected, Some(target)) = (outcome, QUEUES[queue].dead_letter) {
            self.lanes.entry((target, id.producer)).or_default().attempt(id.seq);
            if QUEUES[queue].redriven {
                // Each death may be followed by one way back, so no answer says that it will not be
                // seen here again.
                if let Some(entry) = self.entry(queue, id) {
                    entry.attempts = entry.attempts.saturating_add(1);
                    entry.holder = 0;
                }
                return;
            }
        }
        self.pending.entry(consumer).or_default().settled.push_back((queue, id));
    }

    fn fence(&mut self, consumer: u32, fence: u64) {
        let Some(pending) = self.pending.get_mut(&consumer) else { return };
        // Answers of different kinds may overtake each other: one that was overtaken says nothing
        // new.
        let Some(at) = pending.asked.iter().position(|(number, ..)| *number == fence) else { return };
        let (_, upto, answered) = pending.asked[at];
        pending.asked.drain(..=at);
        let covered = (upto - pending.gone) as usize;
        let settled: Vec<_> = pending.settled.drain(..covered).collect();
        pending.gone = upto;
        for (queue, id) in settled {
            self.counts.fenced += 1;
            if let Some(entry) = self.entry(queue, id)
                && (entry.marks.has(Marks::ACCEPTED) || entry.marks.has(Marks::REJECTED))
            {
                entry.fence = answered;
                entry.marks.set(Marks::FENCED);
            }
        }
    }

    fn ask_commit(&mut self, number: u64) {
        self.transactions.ask(number);
        for (queue, id) in self.transactions.get_mut(number).sources.clone() {
            if let Some(entry) = self.entry(queue, id) {
                entry.marks.set(Marks::ACCEPTED);
            }
        }
    }

    fn commit(&mut self, number: u64) {
        self.counts.transactions += 1;
        let sources = self.transactions.commit(number).sources.clone();
        self.counts.fenced += sources.len() as u64;
        for (queue, id) in sources {
            if let Some(entry) = self.entry(queue, id) {
                entry.fence = Fence::Commit;
                entry.marks.set(Marks::FENCED);
            }
        }
        self.promise(number);
    }

    fn killed(&mut self) {
        self.kills += 1;
        self.holders.leave_all();
        self.pending.clear();
        self.draining = None;
        for ((queue, _), lane) in &mut self.lanes {
            // What was promised of these ends with the broker's life.
            for entry in lane.iter_mut().filter(|entry| entry.marks.has(Marks::TRANSIENT)) {
                entry.marks.clear(Marks::CONFIRMED);
            }
            if source_of(*queue).is_some_and(|source| QUEUES[source].passes_on()) {
                // A message that a queue moved on by itself may be back there, and be moved on once
                // more.
                for entry in lane.iter_mut().filter(|entry| !entry.marks.has(Marks::FENCED)) {
                    entry.attempts = entry.attempts.saturating_add(1);
                }
            } else if QUEUES[*queue].sifts {
                // What is not confirmed may have been delivered and be lost all the same. It is
                // sent again, and is new then.
                for entry in lane.iter_mut().filter(|entry| !entry.marks.has(Marks::CONFIRMED)) {
                    entry.attempts = entry.first.saturating_add(1);
                    entry.marks.clear(Marks::DELIVERED);
                }
            }
        }
    }

    /// Everything has been drained and all settlements are fenced: says what is missing, and
    /// forgets all messages of producers below `retired`, which must be all that there were.
    pub(crate) fn finish(&mut self, retired: u32) {
        let mut transaction_of = HashMap::new();
        for (number, transaction) in self.transactions.take() {
            transaction_of.extend(transaction.members.iter().map(|(id, _)| (*id, number)));
            self.finish_transaction(number, &transaction);
        }
        let mut missing: Vec<_> = self.unsettled().collect();
        missing.sort_unstable_by_key(|(queue, id, _)| (*queue, *id));
        for (queue, id, marks) in missing {
            let place = QUEUES[queue].name;
            match transaction_of.get(&id) {
                Some(number) if !marks.has(Marks::DELIVERED) => {
                    let what = format!("{id} of transaction {number} is missing from {place} ({marks})");
                    self.violate(Invariant::Transaction, what);
                }
                _ => {
                    let beyond = self.describe_beyond(queue, id);
                    self.violate(Invariant::Lost, format!("{id} in {place} ({marks}{beyond})"));
                }
            }
        }
        self.lanes.clear();
        self.pending.clear();
        self.retired = retired;
    }

    /// What is known of a message in the dead-letter queue behind `queue`.
    fn describe_beyond(&self, queue: usize, id: Id) -> String {
        let Some(target) = QUEUES[queue].dead_letter else { return String::new() };
        let name = QUEUES[target].name;
        match self.marks(target, id).filter(|marks| marks.has(Marks::DELIVERED)) {
            Some(marks) => format!("; in {name}: {marks}"),
            None => format!("; never seen in {name}"),
        }
    }

    /// Whether a promised message has found its end: accepted here, settled behind here, or maybe
    /// replaced by a later one.
    fn is_settled(&self, queue: usize, id: Id, marks: Marks) -> bool {
        let moved = QUEUES[queue].dead_letter.and_then(|target| self.marks(target, id));
        let beyond = moved.is_some_and(|marks| marks.has(Marks::ACCEPTED));
        beyond || marks.has(Marks::ACCEPTED) || self.is_followed(queue, id)
    }

    /// Whether a later message was put in its place, where only the last values stay.
    fn is_followed(&self, queue: usize, id: Id) -> bool {
        let lane = self.lanes.get(&(queue, id.producer)).filter(|_| QUEUES[queue].last_value);
        lane.is_some_and(|lane| lane.is_followed(id.seq))
    }

    /// I6, the part that shows in the end: of a commit without an answer either everything happened
    /// or nothing.
    fn finish_transaction(&mut self, number: u64, transaction: &Transaction) {
        if transaction.stage != Stage::Asked {
            return;
        }
        let places: Vec<(usize, Id)> =
            transaction.members.iter().flat_map(|(id, queues)| members(*queues).map(|queue| (queue, *id))).collect();
        let arrived = |(queue, id): &&(usize, Id)| self.marks(*queue, *id).is_some_and(|m| m.has(Marks::DELIVERED));
        let arrived = places.iter().filter(arrived).count();
        let kept = transaction.sources.iter().filter(|(queue, id)| {
            // A source that was never promised may be gone by itself.
            self.marks(*queue, *id).is_some_and(|marks| marks.has(Marks::CONFIRMED))
        });
        let (kept, again, all) = (kept.count(), transaction.again, places.len());
        // Parts that are missing where others arrived are found one by one.
        let broken = if arrived > 0 { again > 0 } else { again < kept };
        if broken {
            let what = format!(
                "transaction {number}: {arrived} of {all} messages arrived, {again} of {kept} accepted ones came back"
            );
            self.violate(Invariant::Transaction, what);
        }
    }
}
