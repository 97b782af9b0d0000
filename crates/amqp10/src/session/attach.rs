//! `attach` (part 2, §2.7.3): a link begins, or is refused.
//!
//! The answer to a link shows what is in force: the real source and target, the filters that are
//! applied. A refused link is attached without a terminus and detached with the error (§2.6.3).

use std::time::Instant;

use broker::{Awaited, Consume, Credit, Rest, Settling, Sharing, Ticket};
use wire::Output;

use crate::codec::error::condition;
use crate::codec::performative::{Attach, Detach, ReceiverSettleMode, Role, SenderSettleMode};
use crate::codec::terminus::{AttachTarget, Coordinator, Source, Target};
use crate::codec::{Encode, Symbols};
use crate::dialect::address::of_queue;
use crate::session::address::MANAGEMENT;
use crate::session::coordinator;
use crate::session::error::{Failure, Fault};
use crate::session::frames::{self, OwnMap};
use crate::session::link::Link;
use crate::session::names::{Named, Node, Suspended};
use crate::session::receiver::{Receiver, Refuses};
use crate::session::responses::is_paired;
use crate::session::running::{Running, Taken};
use crate::session::sender::{Sender, Told};
use crate::session::source::{Found, OUTCOMES, Wanted};
use crate::session::subscription::Identity;
use crate::session::target::{Destination, Dynamic};
use crate::session::termini;
use crate::session::window::Gate;

/// Bytes around the entries of a map of unsettled deliveries.
const MAP_HEAD: usize = 32;

/// Bytes of a link's name at most.
const NAME: usize = 1024;

/// What the target of a link means.
struct Reached {
    destination: Destination,
    /// The queue that goes with the link.
    dynamic: Option<Node>,
    /// The address, if this side has made it.
    made: Option<String>,
    /// What the answer must wait for.
    ticket: Ticket,
}

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
        if begun.links.get(handle).is_some() {
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
            Role::Receiver => self.attach_sender(channel, attach, output, now),
            Role::Sender => self.attach_receiver(channel, attach, output, now),
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
        Ok(())
    }

    /// The peer receives: this side consumes for it.
    fn attach_sender(
        &mut self,
        channel: u16,
        attach: &Attach<'_>,
        output: &mut Output,
        now: Instant,
    ) -> Result<Taken, Failure> {
        Self::check(attach)?;
        let Some(source) = &attach.source else { return self.attach_found(channel, attach, now) };
        if source.address == Some(MANAGEMENT) {
            return self.attach_responses(channel, attach, source);
        }
        let identity = Identity::of(attach.name, &self.container.id, source)?;
        let mut wanted = Wanted::read(source, attach.properties, identity)?;
        let named = match &wanted.identity {
            // Jakarta Messaging wants a second subscriber refused, not the first one robbed.
            Some(identity) if identity.sharing == Sharing::Exclusive => None,
            _ => self.take_name(channel, attach, output, now),
        };
        let found = match self.take_suspended(attach, source.address.filter(|_| !source.dynamic), now) {
            Some(node) => Found::again(node),
            None => Found::find(&mut self.client, (attach, source), &mut wanted, now)?,
        };
        let settled = attach.snd_settle_mode == SenderSettleMode::Settled || wanted.browses;
        let settling = if settled { Settling::Auto } else { Settling::Manual };
        let sender = match attach.incomplete_unsettled {
            true => Ok(Sender::waiting(attach, found.dynamic.clone())),
            false => self.consume(channel, attach, &found, &wanted, settling, now),
        };
        let mut sender = sender.inspect_err(|_| self.forgo(&found, &wanted, now))?;
        sender.named = named;
        let filters = OwnMap::new(wanted.filters);
        // What a lost link had not settled is in its queue again, and is delivered as new.
        let nothing = attach.unsettled.map(|_| OwnMap::new(Vec::new()));
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
            unsettled: nothing.as_ref().and_then(OwnMap::get),
            ..Attach::default()
        };
        let Some(begun) = self.begun(channel) else { return Ok(Taken::Done) };
        begun.deliveries.add_consumer(&sender.tag, attach.handle);
        begun.links.insert(attach.handle, Link::Sender(Box::new(sender)));
        Ok(waits(channel, found.ticket, &reply))
    }

    /// Gives the link its name, which ends the link that has it.
    fn take_name(&mut self, channel: u16, attach: &Attach<'_>, output: &mut Output, now: Instant) -> Option<Named> {
        let named = self.container.names.take(attach.name, attach.role, (channel, attach.handle));
        self.end_stolen(output, now);
        named
    }

    /// The dynamic node that a suspended link of this name has left, if the link is attached to
    /// that again: by its address, or with `None` as a dynamic one. If it is attached to something
    /// else the node goes.
    fn take_suspended(&mut self, attach: &Attach<'_>, address: Option<&str>, now: Instant) -> Option<Node> {
        let suspended = Suspended::of(attach);
        let queue = self.suspended.remove(&suspended)?;
        let is_same = address.is_none_or(|address| address == of_queue(&queue));
        let node = Node { queue, suspended };
        if is_same {
            return Some(node);
        }
        self.delete_dynamic(Some(node), now);
        None
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
        if wanted.no_local && wanted.identity.is_some() {
            // It holds for later connections of the container, too.
            self.client.name_client(&self.container.id);
        }
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
            named: None,
            subscription: found.subscription.clone().filter(|_| wanted.lasts()),
            origin: if is_paired(attach) { Told::Origin } else { Told::Nothing },
            responses: None,
        })
    }

    /// The peer sends: this side publishes for it.
    fn attach_receiver(
        &mut self,
        channel: u16,
        attach: &Attach<'_>,
        output: &mut Output,
        now: Instant,
    ) -> Result<Taken, Failure> {
        Self::check(attach)?;
        let address = match &attach.target {
            Some(AttachTarget::Target(target)) => target.address.map_or(0, str::len),
            _ => 0,
        };
        let room = self.client.admit_publisher(attach.name.len() + address)?;
        let named = match &attach.target {
            // RabbitMQ's clients call all their links to it alike.
            Some(AttachTarget::Target(target)) if target.address == Some(MANAGEMENT) => None,
            _ => self.take_name(channel, attach, output, now),
        };
        let taken = self.attach_target(channel, attach, named.as_ref(), now)?;
        if let Some(Link::Receiver(receiver)) = self.begun(channel).and_then(|begun| begun.links.get_mut(attach.handle))
        {
            receiver.room = Some(room);
            receiver.named = named;
            receiver.refuses = Refuses::of(attach.source.as_ref());
        }
        Ok(taken)
    }

    fn attach_target(
        &mut self,
        channel: u16,
        attach: &Attach<'_>,
        named: Option<&Named>,
        now: Instant,
    ) -> Result<Taken, Failure> {
        let target = match &attach.target {
            Some(AttachTarget::Target(target)) => *target,
            Some(AttachTarget::Coordinator(asked)) => return self.attach_coordinator(channel, attach, asked),
            None => return Err(Failure::invalid("the link has no target")),
        };
        if target.address == Some(MANAGEMENT) {
            return self.attach_requests(channel, attach, &target);
        }
        let Reached { destination, dynamic, made, ticket } = self.reach(attach, &target, now)?;
        let largest = self.broker.limits().max_message_bytes;
        let gate = self.sessions.gate;
        let (termini, frame_max) = (self.container.termini.clone(), self.agreed.peer_frame_max as usize);
        let Some(begun) = self.begun(channel) else { return Ok(Taken::Done) };
        let limit = usize::try_from(largest).unwrap_or(usize::MAX / 2);
        let count = attach.initial_delivery_count.unwrap_or(0);
        let mut receiver = Receiver::new(destination, limit, count);
        receiver.settles_second = attach.rcv_settle_mode == ReceiverSettleMode::Second;
        receiver.dynamic = dynamic;
        let lasts = receiver.dynamic.is_none() && named.is_some();
        let lasts = if lasts { termini::lasts(&target) } else { None };
        receiver.terminus = named.zip(lasts).map(|(named, lasts)| termini.attach(named.name.clone(), lasts, now));
        let terminus = receiver.terminus.clone();
        begun.lasting.extend(terminus.iter().map(|_| attach.handle));
        begun.links.insert(attach.handle, Link::Receiver(Box::new(receiver)));
        let shown = if terminus.is_some() { termini::in_force(&target) } else { termini::of_link(&target) };
        let shown = Target { address: made.as_deref().or(target.address), ..shown };
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
        let room = frame_max.saturating_sub(frames::frame(channel, &reply).len() + MAP_HEAD);
        let told = termini::Told::of(terminus.as_ref(), attach, room);
        let reply = Attach {
            unsettled: told.unsettled.as_ref().and_then(OwnMap::get),
            incomplete_unsettled: told.incomplete,
            ..reply
        };
        let mut bytes = frames::frame(channel, &reply);
        if let Some(Link::Receiver(receiver)) = begun.links.get_mut(attach.handle)
            && gate == Gate::Open
        {
            receiver.top_up();
        }
        if let Some(flow) = begun.link_flow(attach.handle) {
            bytes.extend(frames::frame(channel, &flow));
        }
        Ok(Taken::Waits { awaited: ticket.max(told.ticket).into(), frames: bytes })
    }

    /// Finds what a target means, and makes what is not there.
    fn reach(&mut self, attach: &Attach<'_>, target: &Target<'_>, now: Instant) -> Result<Reached, Failure> {
        // A relay is no node.
        let is_node = target.dynamic || target.address.is_some();
        let sought = target.address.filter(|_| !target.dynamic);
        if let Some(node) = if is_node { self.take_suspended(attach, sought, now) } else { None } {
            return Ok(Reached {
                destination: Destination::queue(node.queue.clone()),
                made: Some(of_queue(&node.queue)),
                dynamic: Some(node),
                ticket: Ticket::NONE,
            });
        }
        if target.dynamic {
            let Dynamic { address, queue, destination, ticket } =
                Dynamic::make(&mut self.client, target.capabilities, now)?;
            let dynamic = queue.map(|queue| Node { queue, suspended: Suspended::of(attach) });
            return Ok(Reached { destination, dynamic, made: Some(address), ticket });
        }
        let (destination, ticket) = match target.address {
            None => (Destination::Anonymous, Ticket::NONE),
            Some(address) => Destination::find(&mut self.client, address, target.capabilities, now)?,
        };
        Ok(Reached { destination, dynamic: None, made: None, ticket })
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
