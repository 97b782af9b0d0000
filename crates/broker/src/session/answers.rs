//! The answers that the publisher of a session waits for, in the order of its publishes.

use std::collections::VecDeque;
use std::time::Duration;

use journal::Ticket;

use crate::error::Error;
use crate::message::Message;
use crate::session::SessionId;
use crate::session::drain::{Event, Refusal};

/// An answer that a publisher still waits for.
#[derive(Debug)]
pub(super) enum Answer {
    /// Everything up to this number is safe when the ticket is durable.
    UpTo {
        number: u64,
        ticket: Ticket,
        turn: u64,
    },
    Refused {
        number: u64,
        why: Refusal,
    },
    Returned {
        message: Message,
    },
    Failed {
        error: Error,
    },
    Overdue {
        timeout: Duration,
    },
}

/// The numbers of a session's publishes, and their answers.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Publishes get numbers.
    confirming: bool,
    /// Publish numbers given out.
    published: u64,
    /// The highest number answered.
    answered: u64,
    waiting: VecDeque<Answer>,
    /// Covers everything that the session has published.
    ticket: Ticket,
}

impl Answers {
    /// Gives numbers to the publishes from here on.
    pub(super) fn enable(&mut self) {
        self.confirming = true;
    }

    /// The number of the next publish; 0 where publishes have none.
    #[inline]
    pub(super) fn next_number(&mut self) -> u64 {
        if !self.confirming {
            return 0;
        }
        self.published += 1;
        self.published
    }

    /// The ticket of everything that was published so far.
    pub(super) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// How many numbered publishes have no answer.
    pub(super) fn unanswered(&self) -> u64 {
        self.published.saturating_sub(self.answered)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn push(&mut self, answer: Answer) {
        self.waiting.push_back(answer);
    }

    /// A publish with this number, or with 0, was taken. Returns the answer that must be pushed for
    /// it, unless the last one covers it too.
    #[inline]
    pub(super) fn taken(&mut self, number: u64, ticket: Ticket, turn: u64) -> Option<Answer> {
        self.ticket = self.ticket.max(ticket);
        if number == 0 {
            return None;
        }
        if let Some(Answer::UpTo { number: last, ticket: reached, turn: of }) = self.waiting.back_mut()
            && (*of == turn || ticket.is_within(*reached))
        {
            *last = number;
            *reached = (*reached).max(ticket);
            return None;
        }
        Some(Answer::UpTo { number, ticket, turn })
    }

    /// Takes the returned messages out, and leaves the other answers in their order.
    pub(super) fn take_returned(&mut self, each: &mut dyn FnMut(&Message)) {
        for answer in std::mem::take(&mut self.waiting) {
            match answer {
                Answer::Returned { message } => each(&message),
                other => self.waiting.push_back(other),
            }
        }
    }

    /// Reports the answers of this session in order, until one waits for a ticket that is not
    /// durable. Returns how many publishes it confirmed, and that ticket.
    pub(super) fn report(
        &mut self,
        session: SessionId,
        durable: Ticket,
        report: &mut dyn FnMut(Event<'_>),
    ) -> (u64, Option<Ticket>) {
        let mut confirmed = 0;
        while let Some(answer) = self.waiting.pop_front() {
            match answer {
                Answer::UpTo { ticket, .. } if !ticket.is_within(durable) => {
                    self.waiting.push_front(answer);
                    return (confirmed, Some(ticket));
                }
                Answer::UpTo { number, .. } => {
                    confirmed += number.saturating_sub(self.answered);
                    self.answered = number;
                    report(Event::Confirmed { session, up_to: number });
                }
                Answer::Refused { number, why } => {
                    self.answered = number;
                    report(Event::Refused { session, number, why });
                }
                Answer::Returned { message } => report(Event::Returned { session, message: &message }),
                Answer::Failed { error } => report(Event::SessionFailed { session, error }),
                Answer::Overdue { timeout } => report(Event::Overdue { session, timeout }),
            }
        }
        (confirmed, None)
    }
}
