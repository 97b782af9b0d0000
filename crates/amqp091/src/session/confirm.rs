//! Classes `confirm` and `tx`: the two ways to know that publishes are safe. A channel uses one of
//! them or neither.

use broker::{Outcome, Tags};

use crate::codec::methods::{ConfirmSelect, ConfirmSelectOk, TxRollbackOk, TxSelectOk};
use crate::session::channel::{Channel, Mode};
use crate::session::context::Context;
use crate::session::error::{Failure, ReplyCode};
use crate::session::link::Waiting;

impl Channel {
    pub(super) fn select_confirms(&mut self, cx: &mut Context<'_>, select: &ConfirmSelect) -> Result<(), Failure> {
        match self.mode {
            Mode::Transactional(_) => return Err(precondition("cannot switch from tx to confirm mode")),
            Mode::Plain => self.mode = Mode::Confirming(0),
            Mode::Confirming(_) => {}
        }
        cx.client.show_confirming(self.session);
        if !select.nowait {
            cx.link.send(cx.number, ConfirmSelectOk {});
        }
        Ok(())
    }

    pub(super) fn select_transactions(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        match self.mode {
            Mode::Confirming(_) => return Err(precondition("cannot switch from confirm to tx mode")),
            Mode::Plain => self.mode = Mode::Transactional(cx.client.begin(self.session)),
            Mode::Transactional(_) => {}
        }
        cx.link.send(cx.number, TxSelectOk {});
        Ok(())
    }

    /// Keeps a settlement until the commit. After a rollback the delivery is still unsettled on
    /// this channel, as if the settlement had not been sent. Returns how many there are: a wrong
    /// tag is refused at once (specification, `basic.ack.delivery-tag`).
    pub(super) fn settle_at_commit(
        &mut self,
        cx: &mut Context<'_>,
        tags: Tags,
        outcome: &Outcome,
    ) -> Result<usize, Failure> {
        let (before, settlements) = (self.settlements.len(), &mut self.settlements);
        cx.client.put_aside(self.session, tags, &mut |tag| settlements.push((tag, outcome.clone())))?;
        Ok(self.settlements.len() - before)
    }

    /// The answer comes with the event that ends the commit. Until then no frame is taken.
    pub(super) fn commit(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        let Mode::Transactional(transaction) = self.mode else {
            return Err(precondition("channel is not transactional"));
        };
        for (tag, outcome) in std::mem::take(&mut self.settlements) {
            cx.client.settle_in(transaction, self.session, Tags::One(tag), &outcome)?;
        }
        cx.client.commit(transaction, cx.now)?;
        self.mode = Mode::Transactional(cx.client.begin(self.session));
        cx.link.waiting = Some(Waiting::Commit { channel: cx.number });
        Ok(())
    }

    pub(super) fn roll_back(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        let Mode::Transactional(transaction) = self.mode else {
            return Err(precondition("channel is not transactional"));
        };
        cx.client.rollback(transaction);
        cx.client.take_up_again(self.session, self.settlements.drain(..).map(|(tag, _)| tag));
        self.mode = Mode::Transactional(cx.client.begin(self.session));
        cx.link.send(cx.number, TxRollbackOk {});
        Ok(())
    }
}

fn precondition(text: &str) -> Failure {
    Failure::new(ReplyCode::PreconditionFailed, text)
}
