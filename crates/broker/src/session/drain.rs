//! Reporting: the events that wait for a client, in order, as far as its output has room.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::message::Message;
use crate::message::overlay::Counts;
use crate::queue::arrival::Refusal;
use crate::queue::mailbox::{Notice, Outgoing, TransactionId};
use crate::session::settle::Unacked;
use crate::session::{Client, SessionId};

/// A message on its way to a consumer.
#[derive(Debug, Clone, Copy)]
pub struct Delivery<'a> {
    /// The consumer's session.
    pub session: SessionId,
    /// The consumer's tag; empty for a fetched message.
    pub consumer_tag: &'a str,
    /// The tag that the client settles it by.
    pub tag: u64,
    /// It may have been delivered before.
    pub redelivered: bool,
    /// Its place in its queue, which it keeps over restarts; 0 if it comes from no queue.
    pub place: u64,
    /// How many deliveries of it failed. A queue that does not count returns knows of one at most.
    pub failures: u32,
    /// How often it came back, where the queue counts that.
    pub counts: Counts,
    /// The message.
    pub message: &'a Message,
}

/// An event for a client.
#[derive(Debug)]
pub enum Event<'a> {
    /// A message for a consumer.
    Deliver(Delivery<'a>),
    /// Every numbered publish up to this one without an answer is as safe as its durability class
    /// promises.
    Confirmed {
        /// The publisher's session.
        session: SessionId,
        /// The number.
        up_to: u64,
    },
    /// This publish was refused.
    Refused {
        /// The publisher's session.
        session: SessionId,
        /// The number.
        number: u64,
        /// Why.
        why: Refusal,
    },
    /// This publish reached no queue. That answers it, if it has a number.
    Unroutable {
        /// The publisher's session.
        session: SessionId,
        /// The number.
        number: Option<u64>,
        /// The message, if it must be returned.
        message: Option<&'a Message>,
    },
    /// The queue under this consumer is gone.
    Cancelled {
        /// The consumer's session.
        session: SessionId,
        /// Its tag.
        consumer_tag: &'a str,
    },
    /// The drain of this consumer has ended: its queue has nothing more for it. It gets nothing
    /// before the next grant. This comes behind the deliveries that were made before.
    Drained {
        /// The consumer's session.
        session: SessionId,
        /// Its tag.
        consumer_tag: &'a str,
        /// The credit that was left, and is taken back.
        unused: u64,
    },
    /// A transaction is durable and visible.
    Committed {
        /// Which one.
        transaction: TransactionId,
    },
    /// A commit was refused; nothing of the transaction happened.
    RolledBack {
        /// Which one.
        transaction: TransactionId,
        /// Why.
        error: Error,
    },
    /// The session must be closed with this error.
    SessionFailed {
        /// The session.
        session: SessionId,
        /// Why.
        error: Error,
    },
    /// A consumer of the session has held a delivery for longer than its timeout. The session must
    /// be closed with an error that says so.
    Overdue {
        /// The session.
        session: SessionId,
        /// The timeout.
        timeout: Duration,
    },
    /// An alarm stops publishers.
    Blocked {
        /// Which alarm.
        reason: &'a str,
    },
    /// The alarm has passed.
    Unblocked,
    /// An operator closes the connection.
    Kicked {
        /// The operator's words.
        reason: String,
    },
}

impl Client {
    /// Reports waiting events in order, until none is left or about `budget` bytes of messages were
    /// reported. True when more wait. Call it only while the output is short: messages that are not
    /// drained stay in the queues.
    pub fn drain(&mut self, now: Instant, budget: usize, report: &mut dyn FnMut(Event<'_>)) -> bool {
        // First, and even without room: a client that leaves its deliveries unread must not stay
        // because of them.
        if let Some(reason) = self.shared.take_kick() {
            report(Event::Kicked { reason });
        }
        let was_blocked = self.parking.is_blocked();
        self.retry_parked(now);
        self.retry_commits(now);
        self.look_after_bodies(now);
        if self.waits_for_dead_letters() {
            self.engine.when_alarms_change(self.shared.mailbox.waker());
        } else {
            self.publisher.forget_dead_letters();
        }
        self.look_for_overdue(now);
        if let Some(reason) = self.parking.take_alarm() {
            report(Event::Blocked { reason });
        }
        if was_blocked && !self.parking.is_blocked() {
            report(Event::Unblocked);
        }
        self.report_answers(now, report);
        let more = self.report_deliveries(budget, report);
        if self.publisher.has_traced() {
            self.flush(now);
        }
        if self.receiver.consumer_count() > 0 {
            self.watch_deliveries(now);
        }
        if self.shared.mailbox.take_passed_by() {
            self.resume_passed();
        }
        if self.shared.mailbox.take_feed_waits() {
            self.engine.housekeeper.wake();
        }
        more
    }

    /// Reports the returned messages of a session, or of all sessions, even if confirms before them
    /// wait for their flush. So none of them is an answer to its number. The session ends next, and
    /// nothing can be reported after that.
    pub fn report_returned(&mut self, session: Option<SessionId>, now: Instant, report: &mut dyn FnMut(Event<'_>)) {
        self.flush(now);
        for (of, entry) in self.sessions.iter_mut() {
            if session.is_some_and(|session| session != of) {
                continue;
            }
            entry.answers.take_returned(&mut |message| {
                report(Event::Unroutable { session: of, number: None, message: Some(message) });
            });
        }
    }

    fn report_answers(&mut self, now: Instant, report: &mut dyn FnMut(Event<'_>)) {
        if !self.sessions.is_answering() {
            return;
        }
        let (totals, durable) = (&self.engine.totals.publishes, self.engine.journal.durable(self.vhost.log()));
        let mut times = |since, count| totals.confirm_times.add(now.saturating_duration_since(since), count);
        let (confirmed, waits) = self.sessions.report_answers(durable, &mut times, report);
        totals.confirmed.add(confirmed);
        if !waits.is_none() {
            self.engine.journal.when_durable(waits, self.shared.mailbox.waker());
        }
    }

    fn report_deliveries(&mut self, budget: usize, report: &mut dyn FnMut(Event<'_>)) -> bool {
        let mut reported = 0;
        loop {
            if !self.receiver.has_deliveries() {
                // The deliveries that came before or with these have been reported now.
                self.report_notices(report);
                self.receiver.take_from(&self.shared.mailbox);
                self.report_urgent(report);
            }
            if !self.receiver.has_deliveries() {
                if !self.receiver.has_notices() {
                    return false;
                }
                continue;
            }
            if reported >= budget {
                return true;
            }
            reported += self.report_inbox(budget - reported, report);
        }
    }

    /// Reports at once the notices that do not depend on deliveries.
    fn report_urgent(&mut self, report: &mut dyn FnMut(Event<'_>)) {
        let all = self.receiver.take_notices();
        let follows = |notice: &Notice| matches!(notice, Notice::Cancelled { .. } | Notice::Drained { .. });
        let (following, urgent) = all.into_iter().partition(follows);
        self.receiver.put_back_notices(urgent);
        self.report_notices(report);
        self.receiver.put_back_notices(following);
    }

    /// Reports from the inbox until `budget` is used up; returns the bytes reported.
    fn report_inbox(&mut self, budget: usize, report: &mut dyn FnMut(Event<'_>)) -> usize {
        let (mut bytes, mut count, mut auto, mut redelivered) = (0, 0, 0, 0);
        let mut inbox = self.receiver.take_deliveries();
        while bytes < budget
            && let Some(outgoing) = inbox.front()
        {
            bytes += outgoing.message.cost();
            count += 1;
            redelivered += u64::from(outgoing.past.is_redelivered());
            auto += u64::from(self.report_one(outgoing, report));
            inbox.pop_front();
        }
        self.receiver.put_back_deliveries(inbox);
        self.shared.mailbox.handed_on(bytes);
        let totals = &self.engine.totals.deliveries;
        totals.delivered_auto.add(auto);
        totals.delivered_manual.add(count - auto);
        totals.redelivered.add(redelivered);
        bytes
    }

    /// True for a delivery that needs no settling.
    fn report_one(&mut self, outgoing: &Outgoing, report: &mut dyn FnMut(Event<'_>)) -> bool {
        if outgoing.has_no_queue() {
            self.shared.mailbox.replies_taken(outgoing.message.cost());
        }
        let Some(consumer) = self.receiver.consumer_mut(outgoing.consumer) else { return false };
        consumer.reported += 1;
        let Some(session) = self.sessions.get_mut(consumer.session) else { return false };
        let settles = consumer.slot.filter(|_| !consumer.no_ack);
        let unacked = settles.map(|slot| Unacked { slot, consumer: outgoing.consumer, seq: outgoing.seq });
        let tag = session.unsettled.add(unacked);
        if let Some(slot) = settles {
            self.slots.hold(slot);
        }
        report(Event::Deliver(Delivery {
            session: consumer.session,
            consumer_tag: &consumer.tag,
            tag,
            redelivered: outgoing.past.is_redelivered(),
            place: if outgoing.has_no_queue() { 0 } else { outgoing.seq },
            failures: outgoing.past.failures(outgoing.returns),
            counts: outgoing.returns.shown(self.engine.settings.counted_returns),
            message: &outgoing.message,
        }));
        let (no_ack, of, slot) = (consumer.no_ack, consumer.session, consumer.slot);
        if self.traces(&outgoing.message) {
            self.trace_delivery(of, slot, outgoing);
        }
        no_ack
    }

    fn report_notices(&mut self, report: &mut dyn FnMut(Event<'_>)) {
        for notice in self.receiver.take_notices() {
            match notice {
                Notice::Cancelled { consumer } => {
                    if let Some(record) = self.forget_consumer(consumer) {
                        report(Event::Cancelled { session: record.session, consumer_tag: &record.tag });
                    }
                }
                Notice::Drained { consumer, unused } => {
                    if let Some(record) = self.receiver.consumer_mut(consumer) {
                        record.reported += unused;
                        report(Event::Drained { session: record.session, consumer_tag: &record.tag, unused });
                    }
                }
                Notice::Committed { transaction, result } => {
                    self.transactions.end_commit();
                    match result {
                        Ok(()) => report(Event::Committed { transaction }),
                        Err(error) => report(Event::RolledBack { transaction, error }),
                    }
                }
            }
        }
    }
}
