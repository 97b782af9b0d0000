//! An open session: its state, the files that handle its commands, and the frames of the broker's
//! events.
//!
//! A connection is one session of the broker. The order within a turn is the broker's: publishes
//! are gathered, and any other operation runs the gathered ones first.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use broker::{Client, Dialects, Event, Outcome, SessionId, Ticket};
use wire::Output;

use super::deliver::Deliveries;
use super::error::Failure;
use super::receipt::Receipts;
use super::transaction::Transactions;
use crate::codec::{Command, Frame, Spoken, Version};

/// A DISCONNECT under way.
#[derive(Debug)]
struct Leaving {
    receipt: Option<String>,
    /// Whether the broker's session is closed; then the receipt waits with the fences.
    closed: bool,
}

/// A client that has logged in.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) id: SessionId,
    /// The number of the last SEND with a receipt of its own; those in transactions have none.
    pub(super) published: u64,
    pub(super) version: Version,
    dialects: Dialects,
    pub(super) deliveries: Deliveries,
    pub(super) receipts: Receipts,
    pub(super) transactions: Transactions,
    /// Destinations that were declared or found to exist.
    pub(super) known: HashSet<String>,
    /// Its temporary queues, by the client's names for them.
    pub(super) temporaries: HashMap<String, String>,
    /// The `client-id` of CONNECT.
    pub(super) client_id: Option<String>,
    /// Reused for the header lines of each SEND.
    pub(super) lines: Vec<u8>,
    leaving: Option<Leaving>,
    /// Whether a frame waits until no publish is parked behind an alarm.
    waits: bool,
}

impl Session {
    /// A session of this name, without any state yet.
    pub(super) fn new(mut client: Client, dialects: Dialects, spoken: Spoken, name: &str) -> Self {
        let id = client.open_session(1);
        Self {
            client,
            id,
            published: 0,
            version: spoken.version,
            dialects,
            deliveries: Deliveries::new(name, spoken),
            receipts: Receipts::new(spoken),
            transactions: Transactions::default(),
            known: HashSet::new(),
            temporaries: HashMap::new(),
            client_id: None,
            lines: Vec::new(),
            leaving: None,
            waits: false,
        }
    }

    /// Whether a frame must wait for something before it can be taken.
    pub(super) fn waits(&self) -> bool {
        self.leaving.is_some() || self.waits || self.receipts.must_pause()
    }

    /// Whether `frame` must wait because publishes before it are parked behind an alarm. Publishes,
    /// settlements and the end of a subscription may overtake them.
    pub(super) fn must_wait(&mut self, frame: &Frame<'_>) -> bool {
        let overtakes = matches!(frame.command, Command::Send | Command::Ack | Command::Nack | Command::Unsubscribe);
        self.waits = !overtakes && self.client.parked(self.id);
        self.waits
    }

    /// Whether DISCONNECT is done and the connection can close.
    pub(super) fn is_over(&self) -> bool {
        self.leaving.as_ref().is_some_and(|leaving| leaving.closed) && self.receipts.is_empty()
    }

    /// Handles a frame.
    pub(super) fn handle(&mut self, frame: &Frame<'_>, output: &mut Output, now: Instant) -> Result<(), Failure> {
        match frame.command {
            Command::Send => self.send(frame, now),
            Command::Ack => self.settle(frame, &Outcome::Accepted),
            Command::Nack => self.refuse(frame),
            Command::Subscribe => self.subscribe(frame, now),
            Command::Unsubscribe => self.unsubscribe(frame, output, now),
            Command::Begin => self.begin(frame),
            Command::Commit => self.commit(frame, now),
            Command::Abort => self.abort(frame),
            Command::Disconnect => self.disconnect(frame, output, now),
            Command::Connect | Command::Stomp => {
                Err(Failure::new("Bad CONNECT", "this connection has opened its session already"))
            }
            Command::Connected | Command::Message | Command::Receipt | Command::Error => {
                let detail = format!("only a server sends {}", frame.command.as_str());
                Err(Failure::new("Bad command", detail))
            }
        }
    }

    fn begin(&mut self, frame: &Frame<'_>) -> Result<(), Failure> {
        self.transactions.begin(frame, &mut self.client, self.id)?;
        self.fence(frame, Ticket::NONE);
        Ok(())
    }

    fn commit(&mut self, frame: &Frame<'_>, now: Instant) -> Result<(), Failure> {
        let id = self.transactions.end(frame)?;
        self.client.commit(id, now)?;
        let receipt = frame.headers.get("receipt").map(|text| text.into_owned());
        self.receipts.after_commit(id, receipt);
        Ok(())
    }

    /// Returns the deliveries that the transaction settled to their queues, which deliver them
    /// again.
    fn abort(&mut self, frame: &Frame<'_>) -> Result<(), Failure> {
        let id = self.transactions.end(frame)?;
        self.client.rollback(id);
        self.fence(frame, Ticket::NONE);
        Ok(())
    }

    /// Answers the receipt of `frame`, if it has one, when `ticket` and all earlier settlements are
    /// durable.
    pub(super) fn fence(&mut self, frame: &Frame<'_>, ticket: Ticket) {
        if let Some(receipt) = frame.headers.get("receipt") {
            self.receipts.after_turn(ticket, receipt.into_owned());
        }
    }

    /// The broker has run what was gathered. Writes its events, about `room` bytes, and the
    /// receipts that can be written now. True if it has more events.
    pub(super) fn report(&mut self, output: &mut Output, room: usize, now: Instant) -> Result<bool, Failure> {
        self.receipts.end_turn(self.client.settled_ticket());
        let Self { client, deliveries, receipts, dialects, .. } = self;
        let mut result = Ok(());
        let more = client.drain(now, room, &mut |event| {
            if result.is_ok() {
                result = report(event, deliveries, receipts, dialects, output);
            }
        });
        result?;
        self.receipts.release(&mut self.client, output);
        if self.leave(now) {
            self.receipts.release(&mut self.client, output);
        }
        self.waits = self.waits && self.client.parked(self.id);
        Ok(more)
    }

    /// Stops a consumer and writes the deliveries that are on their way. Returns the ticket that a
    /// receipt must wait for.
    pub(super) fn cancel(&mut self, consumer: &str, output: &mut Output, now: Instant) -> Result<Ticket, Failure> {
        let Self { client, id, deliveries, receipts, dialects, .. } = self;
        // A SEND of this turn may be confirmed among these events, before its turn has ended.
        client.flush(now);
        receipts.sends_run(client.settled_ticket());
        let mut result = Ok(());
        let ticket = client.cancel(*id, consumer, now, &mut |event| {
            if result.is_ok() {
                result = report(event, deliveries, receipts, dialects, output);
            }
        });
        result.map(|()| ticket)
    }

    fn disconnect(&mut self, frame: &Frame<'_>, output: &mut Output, now: Instant) -> Result<(), Failure> {
        // The client might never read what an auto subscription would still deliver.
        for consumer in self.deliveries.consumers() {
            self.cancel(&consumer, output, now)?;
        }
        let receipt = frame.headers.get("receipt").map(|text| text.into_owned());
        self.leaving = Some(Leaving { receipt, closed: false });
        Ok(())
    }

    /// Continues a DISCONNECT: first the receipts before it, then the end of the session, then its
    /// own receipt. True if the session has just ended.
    fn leave(&mut self, now: Instant) -> bool {
        let Some(leaving) = self.leaving.as_mut().filter(|leaving| !leaving.closed && self.receipts.is_empty()) else {
            return false;
        };
        leaving.closed = true;
        let published = self.client.published_ticket(self.id);
        let ended = self.client.close_session(self.id, now);
        if let Some(receipt) = leaving.receipt.take() {
            self.receipts.after(ended.and(published), receipt);
        }
        true
    }
}

/// Turns one event into frames.
fn report(
    event: Event<'_>,
    deliveries: &mut Deliveries,
    receipts: &mut Receipts,
    dialects: &Dialects,
    output: &mut Output,
) -> Result<(), Failure> {
    match event {
        Event::Deliver(delivery) => deliveries.write(&delivery, dialects, output),
        Event::Confirmed { up_to, .. } => {
            receipts.confirmed(up_to);
            Ok(())
        }
        Event::Refused { number, .. } => Err(receipts.refused(number)),
        Event::Committed { transaction } => {
            receipts.committed(transaction);
            Ok(())
        }
        Event::RolledBack { transaction, error } => Err(receipts.rolled_back(transaction, error.into())),
        Event::Cancelled { consumer_tag, .. } => deliveries.cancelled(consumer_tag, output),
        Event::SessionFailed { error, .. } => Err(error.into()),
        Event::Overdue { timeout, .. } => {
            let limit = timeout.as_millis();
            Err(Failure::new("Acknowledgement timed out", format!("a message was not acknowledged within {limit} ms")))
        }
        Event::Kicked { reason } => Err(Failure::new("Connection forced", reason)),
        // No SEND and no SUBSCRIBE asks for these, and STOMP has no frame for an alarm.
        Event::Unroutable { .. } | Event::Drained { .. } | Event::Blocked { .. } | Event::Unblocked => Ok(()),
    }
}
