//! Between the log-in and CONNACK: the client's identifier is claimed, and its session is found or
//! begun (section 3.1.4 of MQTT 5).
//!
//! The claim waits until another connection with the identifier has let go. CONNACK waits until a
//! session that is stored is on disk, and a will, if the disk has room for it.

use std::task::Waker;
use std::time::{Duration, Instant};

use broker::{Awaited, Client, ExactlyOnce, RetainedWanted, Returned, Ticket, WillKept};
use wire::Output;

use super::Shared;
use super::claims::{Claim, Standing};
use super::connect::{Asked, Entered, key_of};
use super::enhanced;
use super::failure::Failure;
use super::open::{Parts, Session};
use super::store::{Life, PREFIX, Store, outlives};
use super::sys::SysReader;
use super::will::{WillMessage, delay_within};
use crate::codec::{ConnAck, Packet, PropertyBlock, PropertyId, QoS, Reason, encode};
use crate::dialect::Mark;
use crate::limits;

/// Told to a client whose will is not on disk.
const HELD_WILL: &str = "the log has no room for the will now: until it has, an end of the broker loses the will";

/// What the broker has of the session.
struct Found {
    store: Store,
    /// Whether there was one.
    is_present: bool,
    /// What it has begun to hand over exactly once.
    begun: ExactlyOnce,
    awaited: Awaited,
}

/// See the module.
pub(super) struct Opening {
    asked: Asked,
    client: Client,
    will: Option<WillMessage>,
    /// Where the broker has it.
    left: Option<WillKept>,
    mark: Mark,
    claim: Claim,
    found: Option<Found>,
}

impl Opening {
    pub(super) fn new(asked: Asked, entered: Entered, shared: &Shared, waker: Waker) -> Self {
        let Entered { client, mark, will } = entered;
        let claim = shared.claims.claim(key_of(&client, &asked.client_id), waker);
        Self { asked, client, will, left: None, mark, claim, found: None }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn client_mut(&mut self) -> &mut Client {
        &mut self.client
    }

    /// The connection ends before it was open, so there was nothing that a will could tell of.
    pub(super) fn into_client(mut self) -> Client {
        if self.left.is_some() {
            self.client.withdraw_will(&self.claim.key.client_id);
        }
        self.client
    }

    pub(super) fn keep_alive(&self) -> Duration {
        self.asked.keep_alive
    }

    /// True when CONNACK can be sent.
    pub(super) fn go_on(&mut self, now: Instant) -> Result<bool, Failure> {
        match self.claim.standing() {
            Standing::Lost => {
                let text = "another connection with this client identifier came before this one was open";
                return Err(Failure::new(Reason::ServerBusy, text));
            }
            Standing::Waits => return Ok(false),
            Standing::Holds => {}
        }
        if self.found.is_none() {
            self.found = Some(self.find(now)?);
        }
        let awaited = self.found.as_ref().map_or(Awaited::NOTHING, |found| found.awaited);
        Ok(self.client.durable(awaited))
    }

    /// Finds the session, or begins one.
    fn find(&mut self, now: Instant) -> Result<Found, Failure> {
        let Asked { expiry, clean_start, .. } = self.asked;
        let client_id = self.claim.key.client_id.clone();
        if let Some(will) = &self.will {
            self.client.check_will(&will.as_publish())?;
        }
        let stored = Store::stored(&self.claim.key, expiry);
        let mut is_present = stored.as_ref().is_ok_and(|stored| self.client.check_queue(&stored.queue, now).is_ok());
        let returned = if is_present && !clean_start { Returned::Resumes } else { Returned::Begins };
        self.client.returned(&client_id, returned, now);
        let mut ticket = self.leave_will(&client_id)?;
        if let (true, true, Ok(stored)) = (is_present, clean_start, &stored) {
            ticket = ticket.max(self.client.unsubscribe(&stored.name, &stored.queue, now)?);
            is_present = false;
        }
        if expiry == 0 && !is_present {
            let store = Store::of_connection(self.client.fresh_name(PREFIX));
            return Ok(Found { store, is_present, begun: ExactlyOnce::default(), awaited: ticket.into() });
        }
        let store = stored.map_err(|error| Failure::new(Reason::ClientIdInvalid, error.text))?;
        // The last connection of a stored session leaves its expiry until it ends.
        if expiry > 0 {
            let spec = store.spec(Vec::new(), RetainedWanted::None);
            ticket = ticket.max(self.client.subscribe(&spec, now)?.ticket);
        }
        let (begun, kept) = self.client.keep_exactly_once(&store.name)?;
        Ok(Found { store, is_present, begun, awaited: ticket.max(kept).into() })
    }

    /// Leaves the will with the broker, for the end of this connection and for the broker's own.
    fn leave_will(&mut self, client_id: &str) -> Result<Ticket, Failure> {
        let Some(will) = &self.will else { return Ok(Ticket::NONE) };
        let delay = delay_within(will.delay, outlives(self.asked.expiry));
        let (ticket, kept) = self.client.leave_will(client_id, &will.as_publish(), delay)?;
        self.left = Some(kept);
        Ok(ticket)
    }

    /// The open session; its CONNACK is in `output`.
    pub(super) fn open(
        self,
        shared: &Shared,
        waker: &Waker,
        output: &mut Output,
        now: Instant,
    ) -> Result<Session, Failure> {
        let Self { asked, client, will, left, mark, claim, found } = self;
        let will = will.map(|will| will.delay);
        let Some(Found { store, is_present, begun, .. }) = found else {
            return Err(Failure::new(Reason::Unspecified, "the session was not looked for"));
        };
        let mut block = PropertyBlock::default();
        if asked.accepts.version.has_properties() {
            answer(&asked, shared, &mut block);
            if left == Some(WillKept::Memory) && asked.wants_reasons {
                block.text(PropertyId::ReasonString, HELD_WILL);
            }
        }
        let (version, is_stored) = (asked.accepts.version, store.life == Life::Stored);
        let max_qos = shared.settings.max_qos;
        let sys = SysReader::new(&shared.sys, waker);
        let parts = Parts { asked, client, will, mark, claim, store, sys, max_qos };
        let mut session = Session::new(parts, shared.broker.dialects().clone(), now);
        let ack = ConnAck { session_present: is_present, reason: Reason::Success, properties: block.as_properties() };
        encode(&Packet::ConnAck(ack), version, output.tail());
        if is_stored {
            session.resume(&begun, &shared.broker, now)?;
        }
        Ok(session)
    }
}

/// Writes what the server has decided (section 3.2.2.3 of MQTT 5).
fn answer(asked: &Asked, shared: &Shared, block: &mut PropertyBlock) {
    if asked.is_shortened {
        block.number(PropertyId::SessionExpiry, asked.expiry);
    }
    block.number(PropertyId::ReceiveMaximum, limits::RECEIVE_MAXIMUM.into());
    if shared.settings.max_qos != QoS::ExactlyOnce {
        block.number(PropertyId::MaximumQoS, shared.settings.max_qos as u32);
    }
    block.number(PropertyId::MaximumPacketSize, shared.largest());
    if asked.is_assigned {
        block.text(PropertyId::AssignedClientId, &asked.client_id);
    }
    block.number(PropertyId::TopicAliasMaximum, limits::ALIASES.into());
    asked.proof.iter().for_each(|proof| enhanced::put(proof, block));
}
