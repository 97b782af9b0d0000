//! `attach` (part 2, §2.7.3): a link begins, or is refused.
//!
//! The answer to a link shows what is in force: the real source and target, the filters that are
//! applied. A refused link is attached without a terminus and detached with the error (§2.6.3).

use std::time::Instant;

use broker::{Awaited, Consume, Credit, Rest, Settling, Ticket};
use wire::Output;

use crate::codec::error::condition;
use crate::codec::performative::{Attach, Detach, ReceiverSettleMode, Role, SenderSettleMode};
use crate::codec::terminus::{AttachTarget, Coordinator, Source, Target};
use crate::codec::{Encode, Symbols};
use crate::session::address::MANAGEMENT;
use crate::session::coordinator;
use crate::session::error::{Failure, Fault};
use crate::session::frames::{self, OwnMap};
use crate::session::link::Link;
use crate::session::receiver::Receiver;
use crate::session::responses::is_paired;
use crate::session::running::{Running, Taken};
use crate::session::sender::{Sender, Told};
use crate::session::source::{Found, OUTCOMES, Wanted};
use crate::session::subscription::Identity;
use crate::session::target::{Destination, Dynamic};
use crate::session::window::Gate;

/// Bytes of a link's name at most.
const NAME: usize = 1024;

impl Running {
    pub(super) fn take_attach(
        &mut self,
        channel: u16,
        attach: &Attach<'_>,
        output: &mut Output,
        now: Instant,
    ) -> Result<Taken, Fault> {
        let (handle, most) = (attach.handle, self.handle_max());
        let Some(begun) = self.begun(channel) else { return Ok(Taken::Done) };
        if begun.links.contains_key(&handle) {
            return Err(Fault::session(condition::HANDLE_IN_USE, format!("handle {handle} is in use")));
        }
        if handle > most {
            let text = format!("handle {handle} is higher than handle-max ({most})");
            return Err(Fault::connection(condition::FRAMING_ERROR, text));
        }
        if !self.admit_link() {
            let limit = self.broker.limits().consumers.per_connection;
            let text = format!("the connection has as many links as it may ({limit})");
            return Err(Fault::session(condition::RESOURCE_LIMIT_EXCEEDED, text));
        }
        let attached = match attach.role {
            Role::Receiver => self.attach_sender(channel, attach, now),
            Role::Sender => self.attach_receiver(channel, attach, now),
        };
        match attached {
            Ok(taken) => Ok(taken),
            Err(failure) => {
                self.refuse_link(channel, attach, &failure, output);
                Ok(Taken::Done)
            }
        }
    }

    /// What no link can have.
    fn check(attach: &Attach<'_>) -> Result<(), Failure> {
        if attach.name.len() > NAME {
            return Err(Failure::invalid(format!("the name of a link has at most {NAME} bytes")));
        }
        if attach.unsettled.is_some_and(|unsettled| !unsettled.is_empty()) || attach.incomplete_unsettled {
            return Err(Failure::not_built("the resumption of a link with unsettled deliveries"));
        }
        Ok(())
    }

    /// The peer receives: this side consumes for it.
    fn attach_sender(&mut self, channel: u16, attach: &Attach<'_>, now: Instant) -> Result<Taken, Failure> {
        Self::check(attach)?;
        let Some(source) = &attach.source else { return self.attach_found(channel, attach, now) };
        if source.address == Some(MANAGEMENT) {
            return self.attach_responses(channel, attach, source);
        }
        let identity = Identity::of(attach.name, &self.container, source)?;
        let mut wanted = Wanted::read(source, attach.properties, identity)?;
        let found = Found::find(&mut self.client, source, &mut wanted, now)?;
        let settled = attach.snd_settle_mode == SenderSettleMode::Settled || wanted.browses;
        let settling = if settled { Settling::Auto } else { Settling::Manual };
        let sender = self.consume(channel, attach, &found, &wanted, settling, now);
        let sender = sender.inspect_err(|_| self.forgo(&found, &wanted, now))?;
        let filters = OwnMap::new(wanted.filters);
        let in_force = wanted.identity.map_or(*source, |identity| identity.shown(source));
        let shown = Source {
            address: found.address.as_deref().or(source.address),
            filter: filters.get().filter(|filters| !filters.is_empty()),
            outcomes: Symbols::of(&OUTCOMES),
            ..in_force
        };
        let reply = Attach {
            name: attach.name,
            handle: attach.handle,
            role: Role::Sender,
            snd_settle_mode: if settled { SenderSettleMode::Settled } else { attach.snd_settle_mode },
            rcv_settle_mode: attach.rcv_settle_mode,
            source: Some(shown),
            target: attach.target,
            initial_delivery_count: Some(0),
            ..Attach::default()
        };
        let Some(begun) = self.begun(channel) else { return Ok(Taken::Done) };
        begun.deliveries.add_consumer(&sender.tag, attach.handle);
        begun.links.insert(attach.handle, Link::Sender(Box::new(sender)));
        Ok(waits(channel, found.ticket, &reply))
    }

    /// Takes back what was made for a link that is refused.
    fn forgo(&mut self, found: &Found, wanted: &Wanted, now: Instant) {
        self.delete_dynamic(found.dynamic.clone(), now);
        if let Some(subscription) = found.subscription.as_ref().filter(|_| !wanted.lasts()) {
            // It may have other links, and stays then.
            let _ = self.end_subscription(subscription, now);
        }
    }

    fn consume(
        &mut self,
        channel: u16,
        attach: &Attach<'_>,
        found: &Found,
        wanted: &Wanted,
        settling: Settling,
        now: Instant,
    ) -> Result<Sender, Failure> {
        let Some(id) = self.begun(channel).map(|begun| begun.id) else {
            return Err(Failure::new(condition::INTERNAL_ERROR, "the session has ended"));
        };
        let consume = Consume {
            source: found.source.clone(),
            tag: attach.name.to_owned(),
            no_ack: settling == Settling::Auto,
            exclusive: false,
            no_local: wanted.no_local,
            credit: Credit::Granted { left: 0, rest: Rest::Kept },
            arguments: Ok(wanted.arguments.clone()),
        };
        let tag = self.client.consume(id, consume, now).map_err(|error| match error.text.contains("x-selector") {
            true => Failure::invalid(error.text),
            false => error.into(),
        })?;
        Ok(Sender {
            tag,
            delivery_count: 0,
            credit: 0,
            held: 0,
            settling,
            default_outcome: wanted.default_outcome.clone(),
            ended: false,
            drains: false,
            browses: wanted.browses,
            leaves: false,
            dynamic: found.dynamic.clone(),
            subscription: found.subscription.clone().filter(|_| wanted.lasts()),
            origin: if is_paired(attach) { Told::Origin } else { Told::Nothing },
            responses: None,
        })
    }

    /// The peer sends: this side publishes for it.
    fn attach_receiver(&mut self, channel: u16, attach: &Attach<'_>, now: Instant) -> Result<Taken, Failure> {
        Self::check(attach)?;
        let address = match &attach.target {
            Some(AttachTarget::Target(target)) => target.address.map_or(0, str::len),
            _ => 0,
        };
        let room = self.client.admit_publisher(attach.name.len() + address)?;
        let taken = self.attach_target(channel, attach, now)?;
        if let Some(Link::Receiver(receiver)) =
            self.begun(channel).and_then(|begun| begun.links.get_mut(&attach.handle))
        {
            receiver.room = Some(room);
        }
        Ok(taken)
    }

    fn attach_target(&mut self, channel: u16, attach: &Attach<'_>, now: Instant) -> Result<Taken, Failure> {
        let target = match &attach.target {
            Some(AttachTarget::Target(target)) => *target,
            Some(AttachTarget::Coordinator(asked)) => return self.attach_coordinator(channel, attach, asked),
            None => return Err(Failure::invalid("the link has no target")),
        };
        if target.address == Some(MANAGEMENT) {
            return self.attach_requests(channel, attach, &target);
        }
        let mut dynamic = None;
        let mut made = None;
        let (destination, ticket) = if target.dynamic {
            let node = Dynamic::make(&mut self.client, target.capabilities, now)?;
            made = Some(node.address);
            dynamic = node.queue;
            (node.destination, node.ticket)
        } else {
            match target.address {
                None => (Destination::Anonymous, Ticket::NONE),
                Some(address) => Destination::find(&mut self.client, address, target.capabilities, now)?,
            }
        };
        let largest = self.broker.limits().max_message_bytes;
        let gate = self.sessions.gate;
        let Some(begun) = self.begun(channel) else { return Ok(Taken::Done) };
        let limit = usize::try_from(largest).unwrap_or(usize::MAX / 2);
        let count = attach.initial_delivery_count.unwrap_or(0);
        // The limit is on the body; header and properties come on top.
        let mut receiver = Receiver::new(destination, limit.saturating_add(limit / 4).saturating_add(64 << 10), count);
        receiver.settles_second = attach.rcv_settle_mode == ReceiverSettleMode::Second;
        receiver.dynamic = dynamic;
        begun.links.insert(attach.handle, Link::Receiver(Box::new(receiver)));
        let shown = Target { address: made.as_deref().or(target.address), ..target };
        let reply = Attach {
            name: attach.name,
            handle: attach.handle,
            role: Role::Receiver,
            snd_settle_mode: attach.snd_settle_mode,
            rcv_settle_mode: attach.rcv_settle_mode,
            source: attach.source,
            target: Some(AttachTarget::Target(shown)),
            max_message_size: Some(largest),
            ..Attach::default()
        };
        let mut bytes = frames::frame(channel, &reply);
        if let Some(Link::Receiver(receiver)) = begun.links.get_mut(&attach.handle)
            && gate == Gate::Open
        {
            receiver.top_up();
        }
        if let Some(flow) = begun.link_flow(attach.handle) {
            bytes.extend(frames::frame(channel, &flow));
        }
        Ok(Taken::Waits { awaited: ticket.into(), frames: bytes })
    }

    /// The peer declares transactions on the link.
    fn attach_coordinator(
        &mut self,
        channel: u16,
        attach: &Attach<'_>,
        asked: &Coordinator<'_>,
    ) -> Result<Taken, Failure> {
        let agreed = coordinator::coordinator(asked)?;
        let Some(begun) = self.begun(channel) else { return Ok(Taken::Done) };
        let count = attach.initial_delivery_count.unwrap_or(0);
        let mut receiver = Receiver::new(Destination::Coordinator, coordinator::REQUEST, count);
        receiver.settles_second = attach.rcv_settle_mode == ReceiverSettleMode::Second;
        receiver.top_up();
        begun.links.insert(attach.handle, Link::Receiver(Box::new(receiver)));
        let mut bytes = frames::frame(channel, &coordinator::attached(attach, agreed));
        if let Some(flow) = begun.link_flow(attach.handle) {
            bytes.extend(frames::frame(channel, &flow));
        }
        Ok(Taken::Waits { awaited: Ticket::NONE.into(), frames: bytes })
    }

    /// Answers an attach without a terminus, and detaches the link. What the peer has sent for it
    /// meanwhile is ignored up to its own detach.
    fn refuse_link(&mut self, channel: u16, attach: &Attach<'_>, failure: &Failure, output: &mut Output) {
        let (source, target, role) = match attach.role {
            Role::Receiver => (None, attach.target, Role::Sender),
            Role::Sender => (attach.source, None, Role::Receiver),
        };
        let reply = Attach {
            name: attach.name,
            handle: attach.handle,
            role,
            snd_settle_mode: attach.snd_settle_mode,
            rcv_settle_mode: attach.rcv_settle_mode,
            source,
            target,
            initial_delivery_count: (role == Role::Sender).then_some(0),
            ..Attach::default()
        };
        frames::answer(output, channel, &reply);
        let detach = Detach { handle: attach.handle, closed: true, error: Some(failure.as_error()) };
        frames::answer(output, channel, &detach);
        if let Some(begun) = self.begun(channel) {
            begun.links.insert(attach.handle, Link::Detached);
        }
    }
}

/// The answer, when what was made for the link is durable.
fn waits(channel: u16, ticket: Ticket, reply: &impl Encode) -> Taken {
    Taken::Waits { awaited: Awaited::from(ticket), frames: frames::frame(channel, reply) }
}
