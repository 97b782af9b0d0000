//! Deliveries that are settled by the discharge of a transaction (part 4, §4.4.2).
//!
//! Until the discharge such a delivery is the peer's, as if nothing had been said of it. A commit
//! settles it, and the peer is told. After a rollback, whichever side wanted it, it is what it was
//! before. When its link ends it is settled in the transaction: the peer has let go of it.

use broker::{Client, Outcome, Tags, TransactionId};
use wire::Output;

use crate::codec::DeliveryState;
use crate::codec::performative::{Disposition, Role};
use crate::session::begun::Begun;
use crate::session::error::{Failure, Fault};
use crate::session::frames;
use crate::session::outcome::told_of;
use crate::session::promised::{One, Redeemed};
use crate::session::sessions::Sessions;
use crate::session::transactions::Open;

impl Begun {
    /// Whether another transaction has one of the deliveries that a disposition is about.
    pub(super) fn has_promised_other(&self, disposition: &Disposition<'_>, within: TransactionId) -> bool {
        let last = disposition.last.unwrap_or(disposition.first);
        self.deliveries
            .unsettled
            .numbers(disposition.first, last)
            .is_some_and(|(first, last)| self.promised.0.range(first..=last).any(|(_, one)| one.transaction != within))
    }

    /// Notes an outcome that the commit of this transaction applies. A later one replaces it.
    pub(super) fn promise(
        &mut self,
        (first, last): (u64, u64),
        transaction: TransactionId,
        outcome: &Outcome,
        client: &mut Client,
    ) -> Result<(), Fault> {
        for (_, one) in self.promised.0.range_mut(first..=last) {
            one.outcome = outcome.clone();
        }
        let mut next = first;
        while let Some((part, behind)) = self.deliveries.unsettled.part(next, last) {
            next = behind;
            let handle = part.handle;
            let refused = |error: broker::Error| Fault::Link(handle, error.into());
            outcome.check().map_err(refused)?;
            let promised = &mut self.promised.0;
            let mut note = |tag| {
                let number = part.number + (tag - part.first);
                promised.insert(number, One { tag, handle, transaction, outcome: outcome.clone() });
            };
            let tags = Tags::Range { first: part.first, last: part.last };
            client.put_aside(self.id, tags, &mut note).map_err(refused)?;
        }
        Ok(())
    }

    /// The peer settles deliveries. What they were promised is replaced by the outcome that they
    /// have now. If they have none they keep what they were promised.
    pub(super) fn supersede(&mut self, (first, last): (u64, u64), now: Option<&Outcome>, client: &mut Client) {
        for (number, one) in self.promised.0.extract_if(first..=last, |_, _| true) {
            if now.is_none() {
                // The outcome was checked, and the transaction is open.
                let count = client.settle_in(one.transaction, self.id, Tags::One(one.tag), &one.outcome);
                self.deliveries.unsettled.settled_at(number, count.unwrap_or_default());
            }
        }
    }

    /// A link ends, so a rollback can't leave its deliveries with it.
    pub(super) fn settle_promised(&mut self, handle: u32, client: &mut Client) {
        for (number, one) in self.promised.0.extract_if(.., |_, one| one.handle == handle) {
            let count = client.settle_in(one.transaction, self.id, Tags::One(one.tag), &one.outcome);
            self.deliveries.unsettled.settled_at(number, count.unwrap_or_default());
        }
    }

    fn redeem(
        &mut self,
        transaction: TransactionId,
        client: &mut Client,
        all: &mut Vec<Redeemed>,
    ) -> Result<(), Failure> {
        let session = self.id;
        for (number, one) in self.promised.0.extract_if(.., |_, one| one.transaction == transaction) {
            let One { tag, handle, outcome, .. } = one;
            if client.settle_held_in(transaction, session, tag, &outcome)? == 0 {
                continue;
            }
            match all.last_mut() {
                Some(run)
                    if run.session == session
                        && run.handle == handle
                        && run.last + 1 == number
                        && run.outcome == outcome =>
                {
                    run.last = number;
                }
                _ => all.push(Redeemed { session, handle, first: number, last: number, outcome }),
            }
        }
        Ok(())
    }

    fn take_back(&mut self, transaction: TransactionId, client: &mut Client) {
        let all = self.promised.0.extract_if(.., |_, one| one.transaction == transaction);
        client.take_up_again(self.id, all.map(|(_, one)| one.tag));
    }

    /// Tells the peer that deliveries are settled, unless their link has ended.
    fn put_redeemed(&mut self, redeemed: &Redeemed, output: &mut Output) {
        let (mut next, last) = (redeemed.first, redeemed.last);
        let mut is_there = false;
        while let Some((part, behind)) = self.deliveries.unsettled.part(next, last) {
            next = behind;
            is_there = true;
            self.deliveries.unsettled.settled(part, (part.last - part.first + 1) as usize);
        }
        let disposition = Disposition {
            role: Role::Sender,
            first: (redeemed.first - 1) as u32,
            last: Some((last - 1) as u32),
            settled: true,
            state: Some(DeliveryState::Outcome(told_of(&redeemed.outcome))),
            batchable: false,
        };
        if is_there {
            frames::answer(output, self.channel, &disposition);
        }
    }
}

impl Sessions {
    /// Settles in a transaction all that was promised for it. On an error some of that is done, and
    /// the transaction must be rolled back.
    pub(super) fn redeem(&mut self, open: &Open, client: &mut Client) -> Result<Vec<Redeemed>, Failure> {
        let mut all = Vec::new();
        for session in &open.promised {
            if let Some(begun) = self.of(*session) {
                begun.redeem(open.transaction, client, &mut all)?;
            }
        }
        Ok(all)
    }

    /// Rolls a transaction back: what was promised for it is forgotten.
    pub(super) fn roll_back(&mut self, open: &Open, client: &mut Client) {
        client.rollback(open.transaction);
        for session in &open.promised {
            if let Some(begun) = self.of(*session) {
                begun.take_back(open.transaction, client);
            }
        }
    }

    /// A commit is durable.
    pub(super) fn put_redeemed(&mut self, all: &[Redeemed], output: &mut Output) {
        for redeemed in all {
            if let Some(begun) = self.of(redeemed.session) {
                begun.put_redeemed(redeemed, output);
            }
        }
    }
}
