//! Classes `confirm` and `tx`: the two ways of knowing that publishes are safe. A channel uses one of them or neither.

use crate::codec::methods::{ConfirmSelectOk, TxRollbackOk, TxSelectOk};
use crate::session::channel::{Channel, Mode};
use crate::session::error::{Failure, ReplyCode};
use crate::session::link::Waiting;
use crate::session::running::Context;

impl Channel {
    pub(super) fn select_confirms(&mut self, cx: &mut Context<'_>, nowait: bool) -> Result<(), Failure> {
        if let Mode::Transactional(_) = self.mode {
            return Err(precondition("cannot switch from tx to confirm mode"));
        }
        self.mode = Mode::Confirming;
        cx.client.enable_confirms(self.session);
        if !nowait {
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

    /// The answer comes with the event that ends the commit; no frame is looked at before.
    pub(super) fn commit(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        let Mode::Transactional(transaction) = self.mode else {
            return Err(precondition("channel is not transactional"));
        };
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
        self.mode = Mode::Transactional(cx.client.begin(self.session));
        cx.link.send(cx.number, TxRollbackOk {});
        Ok(())
    }
}

fn precondition(text: &str) -> Failure {
    Failure::new(ReplyCode::PreconditionFailed, text)
}
