//! Local transactions (part 4): requests to a coordinator, and states that name a transaction.

use crate::client::{Client, ClientError, LinkId, SendMode};
use crate::codec::state::TransactionalState;
use crate::codec::terminus::Declare;
use crate::codec::{DeliveryState, Outcome, Section, Value};

/// The descriptor of `discharge` (part 4, §4.5.3).
const DISCHARGE: u64 = 0x32;

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All that was done in it takes effect.
    Commit,
    /// Nothing does.
    Rollback,
}

impl Client {
    /// Asks the coordinator at the other end of `link` for a transaction. [`Event::Answered`] has
    /// its id, in the outcome `declared`. Returns the request's number.
    ///
    /// # Errors
    /// If there is no such link.
    ///
    /// [`Event::Answered`]: super::Event::Answered
    pub fn declare(&mut self, link: LinkId, out: &mut Vec<u8>) -> Result<u64, ClientError> {
        let mut message = Vec::new();
        Section::Value.encode(&Declare::default(), &mut message);
        self.send(link, SendMode::default(), &[&message], out)
    }

    /// Ends a transaction. The answer is *accepted*, or *rejected* if it could not be committed.
    /// Returns the request's number.
    ///
    /// # Errors
    /// If there is no such link.
    pub fn discharge(
        &mut self,
        link: LinkId,
        transaction: &[u8],
        ending: Ending,
        out: &mut Vec<u8>,
    ) -> Result<u64, ClientError> {
        // In full: Artemis 2.44 takes a `fail` that is left out for null, and fails.
        let fields = vec![Value::Binary(transaction.to_vec()), Value::Bool(ending == Ending::Rollback)];
        let discharge = Value::Described(Box::new((Value::U64(DISCHARGE), Value::List(fields))));
        let mut message = Vec::new();
        Section::Value.encode(&discharge, &mut message);
        self.send(link, SendMode::default(), &[&message], out)
    }
}

/// The state of a delivery that has `outcome` once `transaction` is committed.
pub fn in_transaction<'a>(transaction: &'a [u8], outcome: Outcome<'a>) -> DeliveryState<'a> {
    DeliveryState::Transactional(TransactionalState { txn_id: transaction, outcome: Some(outcome) })
}
