//! Confirms and the other answers that the publisher of a session waits for, in the order of its
//! publishes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use journal::Ticket;

use crate::error::Error;
use crate::message::Message;
use crate::queue::arrival::{Confirm, Refusal};
use crate::session::SessionId;
use crate::session::drain::Event;

/// An answer that a publisher still waits for.
#[derive(Debug)]
pub(super) enum Answer {
    /// So many publishes up to this number are safe when the ticket is durable.
    UpTo {
        number: u64,
        count: u64,
        ticket: Ticket,
        /// The number of its turn, and the time of that.
        turn: (u64, Instant),
    },
    Refused {
        number: u64,
        why: Refusal,
    },
    Unroutable {
        number: Option<u64>,
        message: Option<Message>,
    },
    Failed {
        error: Error,
    },
    Overdue {
        timeout: Duration,
    },
}

/// The answers to a session's publishes.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Numbered publishes without an answer.
    unanswered: u64,
    waiting: VecDeque<Answer>,
    /// Covers everything that the session has published.
    ticket: Ticket,
}

impl Answers {
    /// A publish was taken or refused; one with a number will be answered.
    #[inline]
    pub(super) fn expect(&mut self, confirm: Confirm) {
        self.unanswered += u64::from(confirm != Confirm::None);
    }

    /// The ticket of everything that was published so far.
    pub(super) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// How many numbered publishes have no answer.
    pub(super) fn unanswered(&self) -> u64 {
        self.unanswered
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Gives back what is kept for the next ones.
    pub(super) fn rest(&mut self) {
        if self.waiting.is_empty() {
            self.waiting = VecDeque::new();
        }
    }

    pub(super) fn push(&mut self, answer: Answer) {
        self.waiting.push_back(answer);
    }

    /// A publish was taken. Returns the answer that must be pushed for it, unless the last one
    /// covers it too.
    #[inline]
    pub(super) fn taken(&mut self, confirm: Confirm, ticket: Ticket, turn: (u64, Instant)) -> Option<Answer> {
        self.ticket = self.ticket.max(ticket);
        let number = confirm.number()?;
        if let Some(Answer::UpTo { number: last, count, ticket: reached, turn: of }) = self.waiting.back_mut()
            && (of.0 == turn.0 || ticket.is_within(*reached))
        {
            *last = number;
            *count += 1;
            *reached = (*reached).max(ticket);
            return None;
        }
        Some(Answer::UpTo { number, count: 1, ticket, turn })
    }

    /// Takes the returned messages out, and leaves the other answers in their order.
    pub(super) fn take_returned(&mut self, each: &mut dyn FnMut(&Message)) {
        for answer in std::mem::take(&mut self.waiting) {
            match answer {
                Answer::Unroutable { message: Some(message), .. } => each(&message),
                other => self.waiting.push_back(other),
            }
        }
    }

    /// Reports the answers of this session in order, until one waits for a ticket that is not
    /// durable, and tells `times` of each turn that it confirms. Returns how many publishes it
    /// confirmed, and that ticket.
    pub(super) fn report(
        &mut self,
        session: SessionId,
        durable: Ticket,
        times: &mut dyn FnMut(Instant, u64),
        report: &mut dyn FnMut(Event<'_>),
    ) -> (u64, Option<Ticket>) {
        let mut confirmed = 0;
        while let Some(answer) = self.waiting.pop_front() {
            match answer {
                Answer::UpTo { ticket, .. } if !ticket.is_within(durable) => {
                    self.waiting.push_front(answer);
                    return (confirmed, Some(ticket));
                }
                Answer::UpTo { number, count, turn, .. } => {
                    times(turn.1, count);
                    confirmed += count;
                    self.unanswered -= count;
                    report(Event::Confirmed { session, up_to: number });
                }
                Answer::Refused { number, why } => {
                    self.unanswered -= 1;
                    report(Event::Refused { session, number, why });
                }
                Answer::Unroutable { number, message } => {
                    let numbered = u64::from(number.is_some());
                    confirmed += numbered;
                    self.unanswered -= numbered;
                    report(Event::Unroutable { session, number, message: message.as_ref() });
                }
                Answer::Failed { error } => report(Event::SessionFailed { session, error }),
                Answer::Overdue { timeout } => report(Event::Overdue { session, timeout }),
            }
        }
        (confirmed, None)
    }
}
