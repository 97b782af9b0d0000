//! Transactions: publishes and settlements that happen together or not at all, across queues and
//! crashes.
//!
//! A commit writes one group: bodies, hidden references, settlements, end. When the group is
//! durable the messages become visible. The client is told when the effects behind the group are
//! durable too; until then its connection is not read. Entries that the group settles are gone from
//! its end record on, whatever happens to the session.

mod open;

use std::sync::Arc;
use std::time::Instant;

use hashbrown::HashMap;
use journal::{Group, Owner, SpansLogs};

use crate::alarms::Allowance;
use crate::catalog::direct::DirectBatch;
use crate::engine::replies::Requester;
use crate::engine::sealed::{Sealed, hide_arrivals, release_holds};
use crate::error::{Error, ErrorKind};
use crate::memory::ledger::{Charge, Held};
use crate::message::Message;
use crate::queue::arrival::{Arrival, Unroutable};
use crate::queue::mailbox::{Notice, TransactionId};
use crate::queue::{Coming, HiddenRun, Queue, Settlement, Visit};
use crate::session::confirms::Answer;
use crate::session::publish::Publish;
use crate::session::settle::{Outcome, Tags, Taken, Unacked};
use crate::session::{Client, SessionId};

pub(super) use open::{Enlisted, Open, Transactions};

/// The most entries of a commit (see [`Client::is_turn_full`]): all of it happens at once.
const COMMIT_ENTRIES: usize = 1_000_000;

impl Client {
    /// Starts a transaction. After a rollback its deliveries are as if they had not been sent.
    pub fn begin(&mut self, session: SessionId) -> TransactionId {
        self.begin_with(session, Outcome::Released)
    }

    /// Starts a transaction whose deliveries have the outcome `undone` after a rollback.
    pub fn begin_with(&mut self, session: SessionId, undone: Outcome) -> TransactionId {
        let charge = Charge::new(&self.shared.account, Held::Transactions);
        if let Some(entry) = self.sessions.get(session) {
            entry.shown.set_transactional();
        }
        self.transactions.begin(session, charge, undone)
    }

    /// Gathers a publish. It is checked and routed once now, for errors, and again at commit. The
    /// commit answers it.
    ///
    /// # Errors
    /// As [`Client::publish`]; `Precondition` when the transaction holds too much. `NotFound` for
    /// [`Unroutable::Tell`] when it reaches no queue.
    pub fn publish_in(
        &mut self,
        transaction: TransactionId,
        session: SessionId,
        publish: Publish<'_>,
    ) -> Result<(), Error> {
        self.check_publish(&publish)?;
        let limit = self.engine.settings.limits.transaction_bytes;
        let unroutable = publish.unroutable;
        let message = self.write_message(publish);
        let routed = self.route_again(&message)?;
        if routed.retain.is_some() {
            let text = "a message with x-retain is not retained by a transaction: publish it outside of one";
            return Err(Error::new(ErrorKind::NotImplemented, text.to_owned()));
        }
        self.note_steps(&routed);
        if unroutable == Unroutable::Tell && routed.route.is_empty() {
            return Err(reaches_nothing(&message));
        }
        let (cost, what) = (self.transactions.require(transaction)?.cost_of(&message), "publish in a transaction");
        self.check_hold(self.transactions.bytes() + cost, what)?;
        self.check_room(cost, what)?;
        let open = self.transactions.require(transaction)?;
        if (open.charge.bytes() + cost) as u64 > limit {
            return Err(Error::precondition(format!(
                "transaction holds more than {limit} bytes; commit in smaller pieces"
            )));
        }
        open.add(message, unroutable, cost);
        // From here on it counts against the limit of the transaction.
        self.uploads.forget(session);
        Ok(())
    }

    /// Gathers a settlement, and returns of how many deliveries. These are no longer unsettled, but
    /// stay as they are before the commit.
    ///
    /// # Errors
    /// As [`Client::settle`]; `Precondition` for a transaction that is not open.
    pub fn settle_in(
        &mut self,
        transaction: TransactionId,
        session: SessionId,
        tags: Tags,
        outcome: &Outcome,
    ) -> Result<usize, Error> {
        self.enlist(transaction, session, (tags, None), outcome)
    }

    /// The same for one delivery whose client holds on to it. If the commit fails it is unsettled
    /// again, as long as its consumer is there.
    ///
    /// # Errors
    /// As [`Client::settle_in`].
    pub fn settle_held_in(
        &mut self,
        transaction: TransactionId,
        session: SessionId,
        tag: u64,
        outcome: &Outcome,
    ) -> Result<usize, Error> {
        self.enlist(transaction, session, (Tags::One(tag), Some(tag)), outcome)
    }

    fn enlist(
        &mut self,
        transaction: TransactionId,
        session: SessionId,
        (tags, held): (Tags, Option<u64>),
        outcome: &Outcome,
    ) -> Result<usize, Error> {
        outcome.check()?;
        self.transactions.require(transaction)?;
        let mut deliveries = Vec::new();
        let settled = self.take_deliveries(session, tags, &mut |_, unacked| {
            deliveries.push(Enlisted { session, unacked, outcome: outcome.clone(), held });
        })?;
        self.transactions.require(transaction)?.deliveries.extend(deliveries);
        Ok(settled)
    }

    /// Commits: `Event::Committed` follows when everything is durable and visible.
    ///
    /// # Errors
    /// When a target queue is full and refuses, or an exchange is gone: the transaction is rolled
    /// back.
    pub fn commit(&mut self, transaction: TransactionId, now: Instant) -> Result<(), Error> {
        self.flush(now);
        let engine = Arc::clone(&self.engine);
        let open = self.transactions.require(transaction)?;
        let (publishes, own) = (open.has_publishes(), open.charge.bytes());
        if publishes && engine.allowance_beside(own) == Allowance::None {
            self.meet_alarm();
            self.transactions.require(transaction)?.waiting_since = Some(now);
            return Ok(());
        }
        self.commit_now(transaction)
    }

    fn commit_now(&mut self, transaction: TransactionId) -> Result<(), Error> {
        let Some(mut open) = self.transactions.remove(transaction) else { return Ok(()) };
        let mut arrivals = open.take_arrivals();
        let mut direct = HashMap::new();
        let targets = self.targets(&mut arrivals, &mut direct);
        let targets = targets.and_then(|all| self.check_logs(&all, &open.deliveries).map(|()| all));
        // The last turn is over; the next one has a time of its own.
        self.publisher.forget_time();
        let targets = match targets {
            Ok(targets) => targets,
            Err(error) => {
                self.undo(open);
                return Err(error);
            }
        };
        let engine = Arc::clone(&self.engine);
        let postponed = &engine.postponed;
        if postponed.are_many() && targets.iter().flatten().any(|queue| postponed.lock().has(queue)) {
            self.wait_for_dead_letters();
        }
        self.count_received(&arrivals);
        for (arrival, queues) in arrivals.iter().zip(&targets) {
            if self.traces(arrival.message()) {
                self.trace_publish(open.session, arrival.message(), queues);
            }
        }
        let written = engine.write_group(self.vhost.log(), &targets);
        let group = engine.journal.appender(self.vhost.log()).begin_group();
        let (hidden, now) = (self.hide(&mut arrivals, &targets, group), engine.clock.unix_ms());
        self.settle_group(&open.deliveries, group);
        let mut appender = engine.journal.appender(self.vhost.log());
        appender.end_group(group);
        let ticket = appender.ticket();
        drop(appender);
        drop(written);
        release_holds(&arrivals, self.vhost.log(), &engine);
        self.settled.reach(ticket);
        self.settle_rest(&open.deliveries);
        let replies = self.return_unroutable(open.session, &mut arrivals);
        let direct = direct.into_values().collect();
        let sealed = Sealed { ticket, hidden, replies, direct, committed: None };
        // Not before an earlier commit of this client: commits become visible in order.
        let at_once = self.transactions.start_commit() && engine.journal.is_durable(ticket);
        if at_once {
            sealed.reveal(&mut Visit { context: &engine, now, work: &mut self.work });
        } else {
            engine.wait_for_sealed(sealed);
        }
        self.run_work();
        // Rejections are logged behind the group. They must not come back either once the client is
        // told.
        let committed = Some((transaction, Arc::clone(&self.shared.mailbox)));
        let behind = Sealed { committed, ..Sealed::nothing(self.settled.ticket()) };
        if at_once && engine.journal.is_durable(behind.ticket) {
            behind.reveal(&mut Visit { context: &engine, now, work: &mut self.work });
        } else {
            engine.wait_for_sealed(behind);
        }
        Ok(())
    }

    /// Returns the messages that reached no queue, where the publisher asked for that. The result
    /// has the replies.
    fn return_unroutable(&mut self, session: SessionId, arrivals: &mut Vec<Arrival>) -> Vec<(Arc<Requester>, Message)> {
        let (all, mut replies) = (arrivals.len(), Vec::new());
        self.engine.totals.publishes.duplicates.add(arrivals.iter().filter(|arrival| arrival.repeated).count() as u64);
        let (mut lost, mut returned) = (0, 0);
        for arrival in arrivals.drain(..).filter(Arrival::is_lost) {
            if let Some(requester) = self.engine.requester(&self.vhost.name, arrival.message()) {
                replies.push((requester, arrival.into_message()));
                continue;
            }
            lost += 1;
            if arrival.unroutable == Unroutable::Return {
                returned += 1;
                let message = Some(arrival.into_message());
                self.sessions.answer(session, Answer::Unroutable { number: None, message });
            }
        }
        let totals = &self.engine.totals.publishes;
        totals.routed.add((all - lost - replies.len()) as u64);
        totals.unroutable_returned.add(returned);
        totals.unroutable_dropped.add(lost as u64 - returned);
        replies
    }

    /// The queues of each arrival, or why the transaction can't be committed. Gathers what goes to
    /// subscribers without a queue.
    fn targets(
        &mut self,
        arrivals: &mut [Arrival],
        direct: &mut HashMap<u32, DirectBatch>,
    ) -> Result<Vec<Vec<Arc<Queue>>>, Error> {
        let mut targets = Vec::with_capacity(arrivals.len());
        let mut cost = 0;
        // The arrivals before this one, by queue.
        let mut coming: HashMap<Owner, Coming> = HashMap::new();
        for arrival in arrivals {
            let routed = self.route_again(arrival.message())?;
            cost += routed.cost();
            if cost > COMMIT_ENTRIES {
                return Err(Error::precondition(format!(
                    "transaction has more than {COMMIT_ENTRIES} messages, those of each queue counted; commit in smaller pieces"
                )));
            }
            if arrival.unroutable == Unroutable::Tell && routed.route.is_empty() {
                return Err(reaches_nothing(arrival.message()));
            }
            arrival.identity = routed.identity;
            self.slots.add_direct(&routed.route, arrival, direct);
            let queues: Vec<_> = routed.route.iter().filter_map(|slot| self.slots.queue(*slot)).cloned().collect();
            let before = |queue: &Queue| coming.get(&queue.id).copied().unwrap_or_default();
            if let Some(full) = queues.iter().find(|queue| queue.would_refuse(before(queue), &self.engine)) {
                let (name, vhost) = (&full.name, &full.vhost);
                return Err(Error::precondition(format!(
                    "queue '{name}' in vhost '{vhost}' is full and refuses publishes"
                )));
            }
            // Duplicates are dropped, and a newer value may supersede a ready one. Such messages
            // are not counted.
            let may_stay_out =
                |queue: &Queue| queue.keeps_last_values() || (arrival.identity.is_some() && queue.deduplicates());
            for queue in queues.iter().filter(|queue| !may_stay_out(queue)) {
                coming.entry(queue.id).or_default().add(arrival.message());
            }
            targets.push(queues);
        }
        Ok(targets)
    }

    /// All of a transaction is one group, which lies in one log.
    fn check_logs(&self, targets: &[Vec<Arc<Queue>>], deliveries: &[Enlisted]) -> Result<(), Error> {
        let settled = deliveries.iter().filter_map(|enlisted| self.slots.queue(enlisted.unacked.slot));
        let queues = targets.iter().flatten().chain(settled);
        self.vhost.log().check_group(queues.map(|queue| queue.log())).map_err(spans_logs)
    }

    /// Logs bodies and hidden references as part of the group.
    fn hide(&mut self, arrivals: &mut [Arrival], targets: &[Vec<Arc<Queue>>], group: Group) -> Vec<HiddenRun> {
        let engine = Arc::clone(&self.engine);
        let mut visit = Visit { context: &engine, now: engine.clock.unix_ms(), work: &mut self.work };
        hide_arrivals(arrivals, targets, Some(group), &mut visit)
    }

    /// Settles accepted deliveries in the group.
    fn settle_group(&mut self, deliveries: &[Enlisted], group: Group) {
        let (client, now) = (self.shared.number, self.engine.clock.unix_ms());
        let engine = Arc::clone(&self.engine);
        for (queue, settlements) in self.by_queue(deliveries, |outcome| *outcome == Outcome::Accepted) {
            queue.settle_in(&settlements, client, group, &Visit { context: &engine, now, work: &mut self.work });
            engine.totals.deliveries.acknowledged.add(settlements.len() as u64);
        }
    }

    /// Settles released and rejected deliveries. They have effects of their own, which follow when
    /// the group is in the log.
    fn settle_rest(&mut self, deliveries: &[Enlisted]) {
        let (client, now) = (self.shared.number, self.engine.clock.unix_ms());
        let engine = Arc::clone(&self.engine);
        for Enlisted { unacked, outcome, .. } in deliveries {
            if let Some(annotations) = outcome.annotations() {
                self.annotate(*unacked, annotations);
            }
        }
        let rest = self.by_queue(deliveries, |outcome| *outcome != Outcome::Accepted);
        for (queue, settlements) in rest {
            let ticket = queue.settle(&settlements, client, &mut Visit { context: &engine, now, work: &mut self.work });
            self.settled.reach(ticket);
        }
        for (queue, _) in self.by_queue(deliveries, |outcome| *outcome == Outcome::Accepted) {
            // Credit came back inside the group, so other consumers may be served.
            queue.settle(&[], client, &mut Visit { context: &engine, now, work: &mut self.work });
        }
        for Enlisted { session, unacked, .. } in deliveries {
            self.slots.let_go(unacked.slot);
            let mut taken = Taken::default();
            taken.add(*unacked);
            self.uncount(*session, taken);
        }
        self.resume_shared();
    }

    fn by_queue(&self, deliveries: &[Enlisted], pick: impl Fn(&Outcome) -> bool) -> Vec<(Arc<Queue>, Vec<Settlement>)> {
        let mut queues: Vec<(Arc<Queue>, Vec<Settlement>)> = Vec::new();
        for Enlisted { unacked, outcome, .. } in deliveries.iter().filter(|enlisted| pick(&enlisted.outcome)) {
            let Some(queue) = self.slots.queue(unacked.slot) else { continue };
            let (outcome, said) = outcome.for_entry();
            let settlement = Settlement { seq: unacked.seq, consumer: unacked.consumer, outcome, said };
            match queues.iter_mut().find(|(other, _)| other.id == queue.id) {
                Some((_, settlements)) => settlements.push(settlement),
                None => queues.push((Arc::clone(queue), vec![settlement])),
            }
        }
        queues
    }

    /// Drops a transaction: its publishes are forgotten, its deliveries return to their places, and
    /// those that clients hold are unsettled again.
    pub fn rollback(&mut self, transaction: TransactionId) {
        if let Some(open) = self.transactions.remove(transaction) {
            self.undo(open);
        }
    }

    fn undo(&mut self, open: Open) {
        let mut deliveries = self.take_up_held(open.deliveries);
        deliveries.iter_mut().for_each(|enlisted| enlisted.outcome = open.undone.clone());
        self.settle_rest(&deliveries);
        self.run_work();
    }

    /// Makes those that clients hold unsettled again, and returns the others. A consumer that has
    /// left holds none.
    fn take_up_held(&mut self, deliveries: Vec<Enlisted>) -> Vec<Enlisted> {
        let is_held = |one: &Enlisted| {
            one.held.is_some()
                && self.sessions.get(one.session).is_some()
                && self.receiver.consumer(one.unacked.consumer).is_some()
        };
        let (held, rest): (Vec<_>, Vec<_>) = deliveries.into_iter().partition(is_held);
        let mut of: HashMap<SessionId, Vec<(u64, Unacked)>> = HashMap::new();
        for Enlisted { session, unacked, held, .. } in held {
            of.entry(session).or_default().extend(held.map(|tag| (tag, unacked)));
        }
        for (session, deliveries) in of {
            if let Some(entry) = self.sessions.get_mut(session) {
                entry.unsettled.put_back(deliveries);
            }
        }
        rest
    }

    /// Drops all transactions of a session that ends. Their publishes are forgotten, and their
    /// deliveries are returned.
    pub(super) fn abandon_transactions(&mut self, session: SessionId) -> Vec<Unacked> {
        let abandoned = self.transactions.remove_of(session);
        let deliveries = abandoned.flat_map(|open| open.deliveries).collect();
        self.take_up_held(deliveries).into_iter().map(|enlisted| enlisted.unacked).collect()
    }

    /// Commits transactions that waited for an alarm, or rolls back those that waited too long.
    pub(super) fn retry_commits(&mut self, now: Instant) {
        let timeout = self.engine.settings.parking.timeout;
        for (transaction, since, own) in self.transactions.waiting() {
            let allowed = self.engine.allowance_beside(own) != Allowance::None;
            let result = if allowed {
                self.commit_now(transaction)
            } else if now >= since + timeout {
                self.rollback(transaction);
                let alarm = self.engine.alarm_text().unwrap_or("in alarm");
                Err(Error::precondition(format!("commit refused: broker is {alarm}")))
            } else {
                self.engine.when_alarms_change(self.shared.mailbox.waker());
                Ok(())
            };
            if let Err(error) = result {
                self.transactions.start_commit();
                self.shared.mailbox.notify(Notice::Committed { transaction, result: Err(error) });
            }
        }
    }
}

/// The error of a message whose publisher wants to know that it reaches no queue. A transaction has
/// no other answer to it: all of it happens or nothing.
fn reaches_nothing(message: &Message) -> Error {
    let (exchange, key) = (message.exchange(), message.routing_key());
    let text = format!("no queue takes a message to exchange '{exchange}' with routing key '{key}'");
    Error::new(ErrorKind::NotFound, text)
}

/// The error of a transaction that one group can't hold.
fn spans_logs(refused: SpansLogs) -> Error {
    Error::new(ErrorKind::NotImplemented, format!("transaction refused: {refused}"))
}

#[cfg(test)]
mod tests {
    use journal::LogId;

    use super::*;

    /// No vhost has two logs yet.
    #[test]
    fn a_transaction_over_two_logs_has_an_error_of_its_own() {
        let log = |number| LogId::new(number).unwrap();
        let error = log(1).check_group([log(1), log(2)]).map_err(spans_logs).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotImplemented);
        assert_eq!(
            error.text,
            "transaction refused: a group of log 1 would write to log 2 too; write one for each log"
        );
    }
}
