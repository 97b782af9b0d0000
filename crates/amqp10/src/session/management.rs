//! `/management`: a pair of links on which a peer declares and deletes queues, exchanges and
//! bindings, as RabbitMQ's clients of AMQP 1.0 do.
//!
//! Two links of one session have the same name. One takes requests, the other one has the responses
//! (AMQP link pairing 1.0). A response is a fence: it comes when what was asked for is durable, and
//! nothing of the peer is read before. Responses that the peer gives no credit for wait here, and
//! requests get no credit then; so there are at most [`REQUESTS`] of them.

mod body;
mod operations;
mod request;

use std::time::Instant;

use broker::{Client, Outcome, Settling, Ticket};
use wire::Output;

use crate::codec::Value;
use crate::codec::error::condition;
use crate::codec::performative::{Attach, Flow, Role, SenderSettleMode};
use crate::codec::terminus::{AttachTarget, Source, Target};
use crate::delivery::Delivery;
use crate::session::begun::Begun;
use crate::session::deliver::Drained;
use crate::session::error::{Failure, Fault};
use crate::session::frames::{self, OwnMap};
use crate::session::link::Link;
use crate::session::receiver::Receiver;
use crate::session::responses::{Answer, Responses, is_paired};
use crate::session::running::{Running, Taken};
use crate::session::sender::{Sender, Told};
use crate::session::target::Destination;

use operations::Operator;
use request::Request;

/// Requests that a peer may send before it has taken the responses.
const REQUESTS: u32 = 8;
/// Bytes of a request at most.
const REQUEST_BYTES: usize = 64 << 10;

/// The property of both links, as it is shown.
fn paired() -> OwnMap {
    OwnMap::new(vec![(Value::Symbol("paired".to_owned()), Value::Bool(true))])
}

fn check(attach: &Attach<'_>) -> Result<(), Failure> {
    if !is_paired(attach) {
        return Err(Failure::invalid("a link to /management must have the property paired"));
    }
    if attach.snd_settle_mode != SenderSettleMode::Settled {
        return Err(Failure::invalid("a link to /management must have the snd-settle-mode settled"));
    }
    Ok(())
}

impl Running {
    /// The peer sends requests.
    pub(super) fn attach_requests(
        &mut self,
        channel: u16,
        attach: &Attach<'_>,
        target: &Target<'_>,
    ) -> Result<Taken, Failure> {
        check(attach)?;
        let Some(begun) = self.begun(channel) else { return Ok(Taken::Done) };
        let destination = Destination::Management(attach.name.to_owned());
        let count = attach.initial_delivery_count.unwrap_or(0);
        let mut receiver = Receiver::new(destination, REQUEST_BYTES, count);
        receiver.credit = REQUESTS;
        begun.links.insert(attach.handle, Link::Receiver(Box::new(receiver)));
        let properties = paired();
        let reply = Attach {
            name: attach.name,
            handle: attach.handle,
            role: Role::Receiver,
            snd_settle_mode: attach.snd_settle_mode,
            rcv_settle_mode: attach.rcv_settle_mode,
            source: attach.source,
            target: Some(AttachTarget::Target(*target)),
            max_message_size: Some(REQUEST_BYTES as u64),
            properties: properties.get(),
            ..Attach::default()
        };
        let mut frames = frames::frame(channel, &reply);
        if let Some(flow) = begun.link_flow(attach.handle) {
            frames.extend(frames::frame(channel, &flow));
        }
        Ok(Taken::Waits { awaited: Ticket::NONE.into(), frames })
    }

    /// The peer receives responses.
    pub(super) fn attach_responses(
        &mut self,
        channel: u16,
        attach: &Attach<'_>,
        source: &Source<'_>,
    ) -> Result<Taken, Failure> {
        check(attach)?;
        let room = Some(self.client.admit_publisher(attach.name.len())?);
        let Some(begun) = self.begun(channel) else { return Ok(Taken::Done) };
        if begun.responses().is_some() {
            let text = "the session has a link for responses of /management already";
            return Err(Failure::new(condition::NOT_ALLOWED, text));
        }
        let responses = Responses { name: attach.name.to_owned(), _room: room, ..Responses::default() };
        begun.links.insert(attach.handle, Link::Sender(Box::new(Sender::of_responses(responses))));
        begun.responses = Some(attach.handle);
        let properties = paired();
        let reply = Attach {
            name: attach.name,
            handle: attach.handle,
            role: Role::Sender,
            snd_settle_mode: attach.snd_settle_mode,
            rcv_settle_mode: attach.rcv_settle_mode,
            source: Some(*source),
            target: attach.target,
            initial_delivery_count: Some(0),
            properties: properties.get(),
            ..Attach::default()
        };
        Ok(Taken::Waits { awaited: Ticket::NONE.into(), frames: frames::frame(channel, &reply) })
    }

    /// Does what a request asks for.
    pub(super) fn take_request(
        &mut self,
        channel: u16,
        requests: u32,
        delivery: &Delivery<'_>,
        now: Instant,
    ) -> Result<Taken, Fault> {
        let fault = |failure| Fault::Link(requests, failure);
        if !delivery.settled {
            return Err(fault(Failure::invalid("a request to /management must be settled as it is sent")));
        }
        let request = Request::read(&delivery.message).map_err(fault)?;
        let Some(begun) = self.begun(channel) else { return Ok(Taken::Done) };
        let handle = begun.pair_of(requests).ok_or_else(|| {
            let text = "the session has no link of the same name for the responses of /management";
            fault(Failure::new(condition::PRECONDITION_FAILED, text))
        })?;
        let Self { client, broker, node, .. } = self;
        let (response, ticket) = Operator { client, broker, node, now }.answer(&request);
        let message = response.encoded(request.id);
        Ok(Taken::Responds { awaited: ticket.into(), answer: Answer { channel, handle, message } })
    }

    /// Sends a response whose time has come.
    pub(super) fn respond(&mut self, answer: Answer, output: &mut Output) {
        let Answer { channel, handle, message } = answer;
        let Self { client, sessions, .. } = self;
        let Some(begun) = sessions.begun(channel) else { return };
        if let Some(Link::Sender(sender)) = begun.links.get_mut(handle)
            && let Some(responses) = &mut sender.responses
        {
            responses.waiting.push_back(message);
        }
        begun.send_responses(handle, client, output);
    }
}

impl Sender {
    /// The end of a link for responses. It is no consumer of the broker.
    fn of_responses(responses: Responses) -> Self {
        Self {
            tag: String::new(),
            delivery_count: 0,
            credit: 0,
            held: 0,
            settling: Settling::Auto,
            default_outcome: Outcome::Released,
            ended: false,
            drains: false,
            browses: false,
            leaves: false,
            dynamic: None,
            named: None,
            subscription: None,
            origin: Told::Nothing,
            responses: Some(Box::new(responses)),
        }
    }
}

impl Begun {
    /// The link for responses, if it is there.
    fn responses(&mut self) -> Option<(u32, &mut Responses)> {
        let handle = self.responses?;
        match self.links.get_mut(handle)? {
            Link::Sender(sender) => Some((handle, sender.responses.as_deref_mut()?)),
            _ => None,
        }
    }

    /// The link for the responses to the requests of another link.
    fn pair_of(&mut self, requests: u32) -> Option<u32> {
        let name = match self.links.get(requests)? {
            Link::Receiver(receiver) => match &receiver.destination {
                Destination::Management(name) => name.clone(),
                _ => return None,
            },
            _ => return None,
        };
        let (handle, responses) = self.responses()?;
        responses.requests = Some(requests);
        (responses.name == name).then_some(handle)
    }

    /// Sends the responses that there is credit for, and gives credit for as many requests.
    fn send_responses(&mut self, handle: u32, client: &mut Client, output: &mut Output) {
        let (waiting, requests) = loop {
            let Some(Link::Sender(sender)) = self.links.get_mut(handle) else { return };
            let Some(responses) = &mut sender.responses else { return };
            let next = if sender.credit > 0 { responses.waiting.pop_front() } else { None };
            let Some(message) = next else { break (responses.waiting.len(), responses.requests) };
            sender.count();
            sender.held = sender.held.wrapping_add(1);
            let Some(tag) = client.take_tag(self.id) else { return };
            self.deliveries.hold(handle, tag, message);
        };
        self.flush_held(output);
        let most = REQUESTS.saturating_sub(u32::try_from(waiting).unwrap_or(REQUESTS));
        let Some(requests) = requests else { return };
        if let Some(Link::Receiver(receiver)) = self.links.get_mut(requests)
            && receiver.credit < most
            && receiver.credit <= REQUESTS / 2
        {
            receiver.credit = most;
            self.put_link_flow(requests, output);
        }
    }

    /// Takes the credit that the peer grants for responses.
    pub(super) fn take_response_credit(
        &mut self,
        handle: u32,
        flow: &Flow<'_>,
        client: &mut Client,
        output: &mut Output,
    ) {
        self.send_responses(handle, client, output);
        let Some(Link::Sender(sender)) = self.links.get(handle) else { return };
        let unused = sender.credit;
        if flow.drain
            && let Some(drained) = self.deliveries.drained(Drained { handle, unused })
        {
            self.put_drained(drained, output);
        }
    }
}
