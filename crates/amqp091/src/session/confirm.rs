//! Classes `confirm` and `tx`: the two ways of knowing that publishes are safe. A channel uses one of them or neither.

use broker::Outcome;

use crate::codec::methods::{ConfirmSelect, ConfirmSelectOk, TxRollbackOk, TxSelectOk};
use crate::session::channel::{Channel, Mode, Settlement};
use crate::session::error::{Failure, ReplyCode};
use crate::session::link::Waiting;
use crate::session::running::Context;

impl Channel {
    pub(super) fn select_confirms(&mut self, cx: &mut Context<'_>, select: &ConfirmSelect) -> Result<(), Failure> {
        if let Mode::Transactional(_) = self.mode {
            return Err(precondition("cannot switch from tx to confirm mode"));
        }
        self.mode = Mode::Confirming;
        cx.client.enable_confirms(self.session);
        if !select.nowait {
            cx.link.send(cx.number, ConfirmSelectOk {});
        }
        Ok(())
    }

    pub(super) fn select_transactions(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        match self.mode {
            Mode::Confirming => return Err(precondition("cannot switch from confirm to tx mode")),
            Mode::Plain => self.mode = Mode::Transactional(cx.client.begin(self.session)),
            Mode::Transactional(_) => {}
        }
        cx.link.send(cx.number, TxSelectOk {});
        Ok(())
    }

    /// Keeps a settlement until the commit: after a rollback the delivery is still this channel's, unsettled, as if
    /// nothing had been said about it.
    pub(super) fn settle_at_commit(
        &mut self,
        cx: &mut Context<'_>,
        tag: u64,
        multiple: bool,
        outcome: Outcome,
    ) -> Result<(), Failure> {
        let bytes = (self.settlements.len() * size_of::<Settlement>()) as u64;
        let limit = cx.broker.limits().transaction_bytes;
        if bytes >= limit {
            return Err(precondition(&format!("the transaction is larger than {limit} bytes")));
        }
        // "All there are" is meant as of now, not as of the commit.
        let tag = if multiple && tag == 0 { cx.sessions.last_tag(self.session) } else { tag };
        if tag > 0 || !multiple {
            self.settlements.push(Settlement { tag, multiple, outcome });
        }
        Ok(())
    }

    /// The answer comes with the event that ends the commit; no frame is looked at before.
    pub(super) fn commit(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        let Mode::Transactional(transaction) = self.mode else {
            return Err(precondition("channel is not transactional"));
        };
        for Settlement { tag, multiple, outcome } in std::mem::take(&mut self.settlements) {
            cx.client.settle_in(transaction, self.session, tag, multiple, outcome)?;
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
        self.settlements.clear();
        self.mode = Mode::Transactional(cx.client.begin(self.session));
        cx.link.send(cx.number, TxRollbackOk {});
        Ok(())
    }
}

fn precondition(text: &str) -> Failure {
    Failure::new(ReplyCode::PreconditionFailed, text)
}
