//! A coordinator's requests (§4.2 and §4.3), and their answers.

use std::time::Instant;

use broker::TransactionId;
use wire::Output;

use crate::codec::performative::Attach;
use crate::codec::state::Declared;
use crate::codec::terminus::{Coordinator, CoordinatorRequest, Discharge};
use crate::codec::{self, AttachTarget, Body, DeliveryState, Message, Symbols};
use crate::delivery::Delivery;
use crate::session::begun::Unanswered;
use crate::session::error::Failure;
use crate::session::running::Running;
use crate::session::sessions::Sessions;
use crate::session::transactions::{Discharging, Reply, rolled_back};

/// Bytes of a request to a coordinator at most.
pub(super) const REQUEST: usize = 4096;

/// What a coordinator can do (§4.5.7).
const CAPABILITIES: [&str; 3] = ["amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn"];

/// The coordinator that is in force, or why there is none.
pub(super) fn coordinator(asked: &Coordinator<'_>) -> Result<Coordinator<'static>, Failure> {
    let has = |name| asked.capabilities.has(name);
    if has("amqp:distributed-transactions") && !has("amqp:local-transactions") {
        return Err(Failure::not_built("a distributed transaction"));
    }
    Ok(Coordinator { capabilities: Symbols::of(&CAPABILITIES) })
}

/// The answer to the attach of a coordinator's link.
pub(super) fn attached<'a>(attach: &Attach<'a>, coordinator: Coordinator<'a>) -> Attach<'a> {
    Attach {
        name: attach.name,
        handle: attach.handle,
        role: crate::codec::performative::Role::Receiver,
        snd_settle_mode: attach.snd_settle_mode,
        rcv_settle_mode: attach.rcv_settle_mode,
        source: attach.source,
        target: Some(AttachTarget::Coordinator(coordinator)),
        max_message_size: Some(REQUEST as u64),
        ..Attach::default()
    }
}

impl Running {
    /// Takes a request to a coordinator (§4.2 and §4.3).
    pub(super) fn coordinate(
        &mut self,
        channel: u16,
        handle: u32,
        delivery: &Delivery<'_>,
        output: &mut Output,
        now: Instant,
    ) -> Result<(), Failure> {
        let Body::Value(bytes) = Message::decode(&delivery.message)?.body else {
            return Err(Failure::invalid("a request to a coordinator is a message whose body is one value"));
        };
        let answer = Reply::to(delivery);
        let request = Unanswered { number: 0, delivery: delivery.id, handle };
        let Some(session) = self.begun(channel).map(|begun| begun.id) else { return Ok(()) };
        match CoordinatorRequest::decode(bytes)? {
            CoordinatorRequest::Declare(declare) if declare.global_id.is_some() => {
                Err(Failure::not_built("a transaction with a global id"))
            }
            CoordinatorRequest::Declare(_) => {
                let Self { client, sessions, .. } = self;
                let id = sessions.transactions.declare(client, session, handle)?.to_be_bytes();
                let state = DeliveryState::Outcome(codec::Outcome::Declared(Declared { txn_id: &id }));
                if let Some(begun) = self.begun(channel).filter(|_| answer == Reply::Wanted) {
                    begun.put_state(request, request.delivery, state, output);
                }
                Ok(())
            }
            CoordinatorRequest::Discharge(discharge) => {
                self.discharge(&discharge, Discharging { session, request, answer, redeemed: Vec::new() }, output, now)
            }
        }
    }

    fn discharge(
        &mut self,
        discharge: &Discharge<'_>,
        discharging: Discharging,
        output: &mut Output,
        now: Instant,
    ) -> Result<(), Failure> {
        let Self { client, sessions, .. } = self;
        let open = sessions.transactions.take(discharge.txn_id)?;
        if discharge.fail || open.failed.is_some() {
            sessions.roll_back(&open, client);
            return match open.failed.filter(|_| !discharge.fail) {
                Some(failure) => Err(rolled_back(failure.text)),
                None => {
                    sessions.discharged(&discharging, None, output);
                    Ok(())
                }
            };
        }
        let redeemed = sessions.redeem(&open, client).map_err(|failure| {
            sessions.roll_back(&open, client);
            rolled_back(failure.text)
        })?;
        client.commit(open.transaction, now).map_err(|error| rolled_back(error.text))?;
        sessions.transactions.discharging.insert(open.transaction, Discharging { redeemed, ..discharging });
        Ok(())
    }
}

impl Sessions {
    /// A commit has ended: durable, or rolled back for this reason.
    pub(super) fn committed(&mut self, transaction: TransactionId, refused: Option<String>, output: &mut Output) {
        if let Some(discharging) = self.transactions.discharging.remove(&transaction) {
            if refused.is_none() {
                // First of all: clients settle what they hold when they know that it is committed.
                self.put_redeemed(&discharging.redeemed, output);
            }
            self.discharged(&discharging, refused.map(rolled_back), output);
        }
    }

    fn discharged(&mut self, discharging: &Discharging, failure: Option<Failure>, output: &mut Output) {
        let Discharging { session, request, answer, .. } = *discharging;
        let Some(begun) = self.of(session).filter(|_| answer == Reply::Wanted) else { return };
        match failure {
            Some(failure) => begun.reject(request.delivery, request.handle, failure, output),
            None => {
                let accepted = DeliveryState::Outcome(codec::Outcome::Accepted);
                begun.put_state(request, request.delivery, accepted, output);
            }
        }
    }
}
