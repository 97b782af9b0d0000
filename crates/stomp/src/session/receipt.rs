//! Receipts that wait: none is written before its change is durable.
//!
//! Every receipt is a fence: it waits for its own change and for everything that the session
//! settled before. The receipt of a SEND also waits for the confirm of its message. Fences are
//! written in order. A SEND that waits for an alarm does not hold back the fences of consumers,
//! which would end the alarm.

use std::collections::VecDeque;

use broker::{Awaited, Client, Ticket, TransactionId};
use wire::Output;

use super::error::Failure;
use crate::codec::{Command, FrameWriter, Spoken};
use crate::limits;

/// A COMMIT under way.
#[derive(Debug)]
struct Commit {
    transaction: TransactionId,
    receipt: Option<String>,
}

/// A SEND that is not confirmed yet.
#[derive(Debug)]
struct Send {
    number: u64,
    receipt: String,
    /// At least everything that was settled before it.
    settled: Ticket,
}

/// The receipts of one session.
#[derive(Debug)]
pub(super) struct Receipts {
    spoken: Spoken,
    /// By publish number, ascending.
    sends: VecDeque<Send>,
    /// How many of them, at the end, belong to the turn that is being gathered.
    new_sends: usize,
    /// Of SENDs that are confirmed: they only wait for earlier settlements.
    confirmed: VecDeque<(Ticket, String)>,
    /// In the order in which the client asked for them.
    fences: VecDeque<(Awaited, String)>,
    /// Fences of the turn that is being gathered.
    gathered: Vec<(Ticket, String)>,
    commit: Option<Commit>,
}

impl Receipts {
    pub(super) fn new(spoken: Spoken) -> Self {
        Self {
            spoken,
            sends: VecDeque::new(),
            new_sends: 0,
            confirmed: VecDeque::new(),
            fences: VecDeque::new(),
            gathered: Vec::new(),
            commit: None,
        }
    }

    /// Whether the connection must not be read. A commit may be under way, or too many receipts may
    /// wait.
    pub(super) fn must_pause(&self) -> bool {
        self.commit.is_some()
            || self.sends.len() + self.confirmed.len() + self.fences.len() + self.gathered.len() >= limits::RECEIPTS
    }

    /// Whether no receipt waits.
    pub(super) fn is_empty(&self) -> bool {
        let sends = self.sends.is_empty() && self.confirmed.is_empty();
        sends && self.fences.is_empty() && self.gathered.is_empty() && self.commit.is_none()
    }

    /// The SEND with this publish number asks for a receipt.
    pub(super) fn after_send(&mut self, number: u64, receipt: String) {
        self.sends.push_back(Send { number, receipt, settled: Ticket::NONE });
        self.new_sends += 1;
    }

    /// The receipt can be written when `ticket` and all settlements up to the end of this turn are
    /// durable.
    pub(super) fn after_turn(&mut self, ticket: Ticket, receipt: String) {
        self.gathered.push((ticket, receipt));
    }

    /// The turn has run; `settled` is the ticket of its settlements.
    pub(super) fn end_turn(&mut self, settled: Ticket) {
        self.sends_run(settled);
        self.fences.extend(self.gathered.drain(..).map(|(ticket, receipt)| (ticket.max(settled).into(), receipt)));
    }

    /// The SENDs of the turn so far have run; `settled` is the ticket of the settlements before
    /// them.
    pub(super) fn sends_run(&mut self, settled: Ticket) {
        let new_sends = std::mem::take(&mut self.new_sends);
        self.sends.iter_mut().rev().take(new_sends).for_each(|send| send.settled = settled);
    }

    /// The receipt can be written when `awaited` has come.
    pub(super) fn after(&mut self, awaited: Awaited, receipt: String) {
        self.fences.push_back((awaited, receipt));
    }

    /// A COMMIT has begun; its receipt can be written when the transaction is durable.
    pub(super) fn after_commit(&mut self, transaction: TransactionId, receipt: Option<String>) {
        self.commit = Some(Commit { transaction, receipt });
    }

    /// Publishes up to this number are durable.
    pub(super) fn confirmed(&mut self, up_to: u64) {
        while let Some(send) = self.sends.pop_front_if(|send| send.number <= up_to) {
            self.confirmed.push_back((send.settled, send.receipt));
        }
    }

    /// A SEND with a receipt was refused.
    pub(super) fn refused(&mut self, number: u64) -> Failure {
        let at = self.sends.iter().position(|send| send.number == number);
        let receipt = at.and_then(|at| self.sends.remove(at)).map(|send| send.receipt);
        let detail = "the message was not taken: a queue is full, or an alarm kept it waiting for too long";
        Failure::new("Message refused", detail).with_receipt(receipt)
    }

    /// A transaction is durable. Its receipt is written after those that were asked for earlier.
    pub(super) fn committed(&mut self, transaction: TransactionId) {
        if let Some(commit) = self.commit.take_if(|commit| commit.transaction == transaction)
            && let Some(receipt) = commit.receipt
        {
            self.after(Awaited::NOTHING, receipt);
        }
    }

    /// A transaction has failed and was rolled back.
    pub(super) fn rolled_back(&mut self, transaction: TransactionId, failure: Failure) -> Failure {
        let commit = self.commit.take_if(|commit| commit.transaction == transaction);
        failure.with_receipt(commit.and_then(|commit| commit.receipt))
    }

    /// Writes all receipts that have nothing more to wait for.
    pub(super) fn release(&mut self, client: &mut Client, output: &mut Output) {
        while let Some((_, receipt)) = self.confirmed.pop_front_if(|(ticket, _)| client.durable((*ticket).into())) {
            self.write(&receipt, output);
        }
        while let Some((_, receipt)) = self.fences.pop_front_if(|(awaited, _)| client.durable(*awaited)) {
            self.write(&receipt, output);
        }
    }

    fn write(&mut self, receipt: &str, output: &mut Output) {
        let before = output.len();
        let mut frame = FrameWriter::for_peer(output.tail(), Command::Receipt, self.spoken);
        frame.header("receipt-id", receipt);
        frame.finish();
        output.count_answer(output.len() - before);
    }
}
