//! Dispositions of the peer: the outcomes of what it was sent (part 3, §3.4).

use std::time::Instant;

use broker::{Client, Outcome, Tags, TransactionId};
use wire::Output;

use crate::codec::DeliveryState;
use crate::codec::performative::{Disposition, Role};
use crate::session::begun::Begun;
use crate::session::error::Fault;
use crate::session::frames;
use crate::session::link::Link;
use crate::session::outcome::outcome_of;
use crate::session::running::Running;
use crate::session::sessions::Sessions;
use crate::session::transactions::rolled_back;

impl Running {
    /// Takes a disposition, at once or as part of a transaction.
    pub(super) fn take_disposition(
        &mut self,
        channel: u16,
        disposition: &Disposition<'_>,
        output: &mut Output,
        now: Instant,
    ) -> Result<(), Fault> {
        let Self { client, sessions, .. } = self;
        let within = sessions.enlist(channel, disposition)?;
        let Some(begun) = sessions.begun(channel) else { return Ok(()) };
        if let Some(within) = within.filter(|within| begun.has_promised_other(disposition, *within)) {
            self.end_coordinator(within, output, now);
            return Ok(());
        }
        let echo = begun.take_disposition(disposition, within, client)?;
        echo.into_iter().for_each(|frame| sessions.echo(frame));
        Ok(())
    }

    /// A delivery can't be part of a second transaction (part 4, §4.4.2).
    fn end_coordinator(&mut self, transaction: TransactionId, output: &mut Output, now: Instant) {
        let coordinator = self.sessions.transactions.coordinator_of(transaction);
        let Some((session, handle)) = coordinator else { return };
        let Some(channel) = self.sessions.of(session).map(|begun| begun.channel) else { return };
        let failure = rolled_back("a delivery is part of another transaction that is open".to_owned());
        self.end_link(channel, handle, &failure, output, now);
    }
}

impl Sessions {
    /// The transaction that a disposition is part of.
    fn enlist(&mut self, channel: u16, disposition: &Disposition<'_>) -> Result<Option<TransactionId>, Fault> {
        let Some(DeliveryState::Transactional(state)) = &disposition.state else { return Ok(None) };
        if disposition.role == Role::Sender {
            return Ok(None);
        }
        let transaction = self.transactions.find(state.txn_id).map_err(Fault::Session)?;
        if let Some(session) = self.begun(channel).map(|begun| begun.id).filter(|_| !disposition.settled) {
            self.transactions.promise(state.txn_id, session);
        }
        Ok(Some(transaction))
    }
}

impl Begun {
    /// The peer knows how its deliveries ended.
    fn note_settled(&self, disposition: &Disposition<'_>) {
        for handle in self.lasting.iter().filter(|_| disposition.settled) {
            if let Some(Link::Receiver(receiver)) = self.links.get(*handle)
                && let Some(terminus) = &receiver.terminus
            {
                terminus.settled(disposition.first, disposition.last.unwrap_or(disposition.first));
            }
        }
    }

    /// Settles, at once or within a transaction. Returns the frame that tells the peer of it once
    /// it is durable, if the peer settles after this side.
    pub(super) fn take_disposition(
        &mut self,
        disposition: &Disposition<'_>,
        within: Option<TransactionId>,
        client: &mut Client,
    ) -> Result<Option<Vec<u8>>, Fault> {
        // The peer settles its own publishes, which ended with our answer.
        if disposition.role == Role::Sender {
            self.note_settled(disposition);
            return Ok(None);
        }
        let outcome = match &disposition.state {
            None | Some(DeliveryState::Received(_)) => None,
            Some(DeliveryState::Outcome(outcome)) => Some(outcome_of(outcome).map_err(Fault::Session)?),
            Some(DeliveryState::Transactional(state)) => {
                state.outcome.as_ref().map(outcome_of).transpose().map_err(Fault::Session)?
            }
        };
        if outcome.is_none() && !disposition.settled {
            return Ok(None);
        }
        let last = disposition.last.unwrap_or(disposition.first);
        let Some((first, last)) = self.deliveries.unsettled.numbers(disposition.first, last) else { return Ok(None) };
        if let (Some(transaction), Some(outcome), false) = (within, &outcome, disposition.settled) {
            self.promise((first, last), transaction, outcome, client)?;
            return Ok(None);
        }
        self.supersede((first, last), outcome.as_ref(), client);
        let (mut count, mut next) = (0, first);
        while let Some((part, behind)) = self.deliveries.unsettled.part(next, last) {
            next = behind;
            let default = match self.links.get(part.handle) {
                Some(Link::Sender(sender)) => &sender.default_outcome,
                _ => &Outcome::Released,
            };
            let tags = match part.first == part.last {
                true => Tags::One(part.first),
                false => Tags::Range { first: part.first, last: part.last },
            };
            let outcome = outcome.as_ref().unwrap_or(default);
            let settled = match within {
                None => client.settle(self.id, tags, outcome),
                Some(transaction) => client.settle_in(transaction, self.id, tags, outcome),
            };
            let settled = settled.map_err(|error| Fault::Link(part.handle, error.into()))?;
            self.deliveries.unsettled.settled(part, settled);
            count += settled;
        }
        let echo = Disposition { role: Role::Sender, settled: true, batchable: false, ..*disposition };
        let awaited = !disposition.settled && count > 0;
        Ok(awaited.then(|| frames::frame(self.channel, &echo)))
    }
}
