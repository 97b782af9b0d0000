//! An open connection: its sessions, and the way of a frame to its session.

use std::collections::HashMap;
use std::time::Instant;

use broker::{Awaited, Broker, Client, DeleteIf, SessionId, Ticket};
use wire::Output;

use crate::codec::Performative;
use crate::codec::error::condition;
use crate::codec::performative::{Begin, Detach, End};
use crate::session::begun::{Begun, OUTGOING_WINDOW};
use crate::session::containers::Sole;
use crate::session::error::{Failure, Fault};
use crate::session::flow::unattached;
use crate::session::frames;
use crate::session::link::Link;
use crate::session::names::{Node, OwnNames, Place, Suspended};
use crate::session::relay::Relay;
use crate::session::responses::Answer;
use crate::session::sender::Ending;
use crate::session::sessions::{After, Sessions};
use crate::session::termini::{Handed, Termini};
use crate::session::window::WINDOW;

/// Bytes that wait for the windows of sessions, of one connection. Beyond that nothing more is
/// taken from the broker.
const HELD_MAX: usize = 2 << 20;

/// What both sides have agreed on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Agreed {
    /// The highest number of a channel.
    pub(super) channel_max: u16,
    /// The same, of this side alone.
    pub(super) own_channel_max: u16,
    /// The largest frame that the peer takes.
    pub(super) peer_frame_max: u32,
}

/// The outcome of a frame.
pub(super) enum Taken {
    Done,
    /// These frames are the answer, when this has come.
    Waits {
        awaited: Awaited,
        frames: Vec<u8>,
    },
    /// The same for a response of `/management`.
    Responds {
        awaited: Awaited,
        answer: Answer,
    },
}

/// See the module.
pub(super) struct Running {
    pub(super) client: Client,
    pub(super) sessions: Sessions,
    pub(super) broker: Broker,
    pub(super) agreed: Agreed,
    /// Bytes of messages that are not whole, of all links together.
    pub(super) unfinished: usize,
    pub(super) relay: Relay,
    /// Room for the stored form of a message.
    pub(super) stored: Vec<u8>,
    /// How many links there are.
    links: usize,
    pub(super) container: Container,
    /// The queues of dynamic nodes whose links are suspended.
    pub(super) suspended: HashMap<Suspended, String>,
    /// The name of this node.
    pub(super) node: String,
}

/// The container at the peer's end.
pub(super) struct Container {
    pub(super) id: String,
    /// The names of its links.
    pub(super) names: OwnNames,
    /// What outlives links.
    pub(super) termini: Termini,
    pub(super) _sole: Option<Sole>,
}

impl Running {
    pub(super) fn new(client: Client, broker: Broker, agreed: Agreed, container: Container, node: &str) -> Self {
        let sessions = Sessions::new(broker.dialects().clone());
        Self {
            client,
            sessions,
            broker,
            agreed,
            unfinished: 0,
            relay: Relay::default(),
            stored: Vec::new(),
            links: 0,
            container,
            suspended: HashMap::new(),
            node: node.to_owned(),
        }
    }

    /// Takes a frame of an open connection.
    pub(super) fn take(
        &mut self,
        channel: u16,
        performative: Performative<'_>,
        payload: &[u8],
        output: &mut Output,
        now: Instant,
    ) -> Result<Taken, Fault> {
        let Some(begun) = self.sessions.begun(channel) else {
            return self.take_first(channel, &performative, output);
        };
        match performative {
            Performative::End(_) => return Ok(self.take_end(channel, output, now)),
            _ if begun.ended => {}
            Performative::Transfer(transfer) => return self.take_transfer(channel, &transfer, payload, output, now),
            Performative::Disposition(disposition) => self.take_disposition(channel, &disposition, output, now)?,
            Performative::Flow(flow) => begun.take_flow(&flow, &mut self.client, output, now)?,
            Performative::Attach(attach) => return self.take_attach(channel, &attach, output, now),
            Performative::Detach(detach) => return self.take_detach(channel, &detach, output, now),
            Performative::Begin(_) => {
                let text = format!("the session of channel {channel} has begun already");
                return Err(Fault::connection(condition::ILLEGAL_STATE, text));
            }
            Performative::Open(_) => {
                return Err(Fault::connection(condition::ILLEGAL_STATE, "the connection is open already"));
            }
            // The connection takes it.
            Performative::Close(_) => {}
        }
        Ok(Taken::Done)
    }

    /// The first frame of a channel must begin its session.
    fn take_first(
        &mut self,
        channel: u16,
        performative: &Performative<'_>,
        output: &mut Output,
    ) -> Result<Taken, Fault> {
        let Performative::Begin(begin) = performative else {
            return Err(no_session(channel));
        };
        let most = self.agreed.channel_max;
        if channel > most {
            // Part 2, §2.7.1.
            let text = format!("channel {channel} is higher than the agreed channel-max ({most})");
            return Err(Fault::connection(condition::FRAMING_ERROR, text));
        }
        let refused = match self.client.admit_session() {
            Err(error) => Some(Failure::new(condition::RESOURCE_LIMIT_EXCEEDED, error.text)),
            Ok(()) => self.client.check_session("session").err().map(Failure::from),
        };
        let reply = Begin {
            remote_channel: Some(channel),
            next_outgoing_id: 0,
            incoming_window: WINDOW,
            outgoing_window: OUTGOING_WINDOW,
            handle_max: self.handle_max(),
            ..Begin::default()
        };
        frames::answer(output, channel, &reply);
        let id = self.client.open_session(channel.into());
        let mut begun = Begun::new(channel, id, begin, self.agreed.peer_frame_max);
        begun.incoming.set(self.sessions.gate);
        self.sessions.insert(begun);
        match refused {
            Some(failure) => Err(Fault::Session(failure)),
            None => Ok(Taken::Done),
        }
    }

    /// The highest handle of a link.
    pub(super) fn handle_max(&self) -> u32 {
        match self.broker.limits().consumers.per_session {
            0 => u32::MAX,
            most => most - 1,
        }
    }

    /// Notes one more link. False if there are as many as there may be.
    pub(super) fn admit_link(&mut self) -> bool {
        let most = self.broker.limits().consumers.per_connection as usize;
        let has_room = most == 0 || self.links < most;
        self.links += usize::from(has_room);
        has_room
    }

    pub(super) fn begun(&mut self, channel: u16) -> Option<&mut Begun> {
        self.sessions.begun(channel)
    }

    /// The peer ends a session.
    fn take_end(&mut self, channel: u16, output: &mut Output, now: Instant) -> Taken {
        if self.begun(channel).is_some_and(|begun| !begun.lasting.is_empty()) {
            self.hear(output, now);
        }
        let Some(mut begun) = self.sessions.remove(channel) else { return Taken::Done };
        self.links -= begun.links.len().min(self.links);
        if begun.ended {
            return Taken::Done;
        }
        let awaited = self.close_session(&mut begun, Ending::Orderly, now);
        Taken::Waits { awaited, frames: frames::frame(channel, &End::default()) }
    }

    /// Ends the broker's side of a session.
    fn close_session(&mut self, begun: &mut Begun, ending: Ending, now: Instant) -> Awaited {
        self.suspend_all(begun, now);
        begun.give_all_back(ending, &mut self.client);
        for open in self.sessions.transactions.end_session(begun.id) {
            self.sessions.roll_back(&open, &mut self.client);
        }
        let published = self.client.published_ticket(begun.id);
        let mut gone = Ticket::NONE;
        let ended = self.client.close_session(begun.id, now);
        for link in begun.links.drain() {
            let (dynamic, unfinished) = match link {
                Link::Sender(sender) => (sender.dynamic, 0),
                Link::Receiver(receiver) => (receiver.dynamic, receiver.unfinished),
                Link::Detached | Link::Found(_) => (None, 0),
            };
            self.unfinished -= unfinished.min(self.unfinished);
            gone = gone.max(self.delete_dynamic(dynamic, now));
        }
        ended.and(published).and(gone)
    }

    /// Deletes the queue of a link that ends.
    pub(super) fn delete_dynamic(&mut self, node: Option<Node>, now: Instant) -> Ticket {
        let Some(Node { queue, .. }) = node else { return Ticket::NONE };
        // It may be gone already.
        self.client.delete_queue(&queue, DeleteIf::ALWAYS, now).map_or(Ticket::NONE, |(_, ticket)| ticket)
    }

    /// Links of other sessions and connections have taken the names of these, which end (part 2,
    /// §2.6.1).
    pub(super) fn end_stolen(&mut self, output: &mut Output, now: Instant) {
        for Place { channel, handle, number } in self.container.names.stolen() {
            let begun = self.sessions.begun(channel).filter(|begun| !begun.ended);
            if begun.and_then(|begun| begun.links.get(handle)).and_then(Link::number) == Some(number) {
                let text = "a link of the same name was attached elsewhere; each link of a container needs its own";
                self.end_link(channel, handle, &Failure::new(condition::STOLEN, text), output, now);
            }
        }
    }

    /// Ends a session with an error. The peer's own end is waited for.
    pub(super) fn end_session(&mut self, channel: u16, failure: &Failure, output: &mut Output, now: Instant) {
        if self.begun(channel).is_some_and(|begun| !begun.lasting.is_empty()) {
            self.hear(output, now);
        }
        let Some(mut begun) = self.sessions.remove(channel) else { return };
        if !begun.ended {
            let count = begun.links.len();
            self.close_session(&mut begun, Ending::Broken, now);
            self.links -= count.min(self.links);
            begun.deliveries.forget_held(None);
            begun.ended = true;
            let error = auth::shown::extract(&failure.text, 512);
            let (user, condition) = (self.client.user(), failure.condition);
            tracing::warn!(user, channel, condition, %error, "session ended with an error");
            frames::answer(output, channel, &End { error: Some(failure.as_error()) });
        }
        self.sessions.keep_ended(begun);
    }

    /// The peer detaches a link.
    fn take_detach(
        &mut self,
        channel: u16,
        detach: &Detach<'_>,
        output: &mut Output,
        now: Instant,
    ) -> Result<Taken, Fault> {
        let handle = detach.handle;
        let Some(begun) = self.begun(channel) else { return Ok(Taken::Done) };
        match begun.links.get(handle) {
            None => return Err(unattached(handle)),
            Some(Link::Detached) => {
                begun.links.remove(handle);
                self.links = self.links.saturating_sub(1);
                return Ok(Taken::Done);
            }
            Some(Link::Sender(_) | Link::Receiver(_) | Link::Found(_)) => {}
        }
        let ends = begun.links.get_mut(handle).filter(|_| detach.closed).and_then(Link::take_subscription);
        // A dynamic node outlives a link that is suspended.
        let node = begun.links.get_mut(handle).filter(|_| !detach.closed).and_then(Link::take_node);
        let ended = begun.links.get_mut(handle).filter(|_| detach.closed).and_then(Link::take_terminus);
        begun.lasting.retain(|lasting| ended.is_none() || *lasting != handle);
        self.suspended.extend(node.map(|node| (node.suspended, node.queue)));
        match ended {
            Some(terminus) => terminus.end(),
            None => self.suspend((channel, handle), output, now),
        }
        let mut ticket = self.take_down((channel, handle), Ending::Orderly, output, now);
        let ended = ends.map_or(Ok(Ticket::NONE), |subscription| self.end_subscription(&subscription, now));
        if let Ok(ended) = ended {
            ticket = ticket.max(ended);
        }
        if let Some(begun) = self.begun(channel) {
            begun.links.remove(handle);
        }
        self.links = self.links.saturating_sub(1);
        // A durable subscription outlives a link that is suspended.
        let error = ended.as_ref().err().map(Failure::as_error);
        let reply = Detach { handle, closed: detach.closed, error };
        Ok(Taken::Waits { awaited: ticket.into(), frames: frames::frame(channel, &reply) })
    }

    /// Detaches a link with an error. The peer's own detach is waited for.
    pub(super) fn end_link(&mut self, channel: u16, handle: u32, failure: &Failure, output: &mut Output, now: Instant) {
        self.suspend((channel, handle), output, now);
        self.take_down((channel, handle), Ending::Broken, output, now);
        if let Some(begun) = self.begun(channel) {
            begun.put_detach(handle, failure, output);
        }
    }

    /// Keeps what outlives a link that ends: how its deliveries ended.
    fn suspend(&mut self, (channel, handle): (u16, u32), output: &mut Output, now: Instant) {
        let lasts = |link: &Link| matches!(link, Link::Receiver(receiver) if receiver.terminus.is_some());
        if !self.begun(channel).and_then(|begun| begun.links.get(handle)).is_some_and(lasts) {
            return;
        }
        self.hear(output, now);
        let Self { client, sessions, .. } = self;
        let Some(begun) = sessions.begun(channel) else { return };
        let handed = handed(client, begun.id);
        begun.lasting.retain(|lasting| *lasting != handle);
        if let Some(terminus) = begun.links.get_mut(handle).and_then(Link::take_terminus) {
            terminus.suspend(handed, client.body_charge(), now);
        }
    }

    /// The same of all links of a session whose answers were heard.
    fn suspend_all(&mut self, begun: &mut Begun, now: Instant) {
        for handle in std::mem::take(&mut begun.lasting) {
            let handed = handed(&self.client, begun.id);
            if let Some(terminus) = begun.links.get_mut(handle).and_then(Link::take_terminus) {
                terminus.suspend(handed, self.client.body_charge(), now);
            }
        }
    }

    /// Ends the turn that is gathered, and takes the answers that are there.
    fn hear(&mut self, output: &mut Output, now: Instant) {
        self.client.flush(now);
        let Self { client, sessions, .. } = self;
        client.drain(now, 0, &mut |event| sessions.report(event, output));
    }

    /// Takes a link out of the broker. Returns the ticket that an answer must wait for.
    fn take_down(
        &mut self,
        (channel, handle): (u16, u32),
        ending: Ending,
        output: &mut Output,
        now: Instant,
    ) -> Ticket {
        let Some(begun) = self.sessions.begun(channel) else { return Ticket::NONE };
        let mut ticket = Ticket::NONE;
        if let Some(Link::Sender(sender)) = begun.links.get_mut(handle) {
            // The peer does not look at what is on its way any more.
            sender.leaves = true;
            let (id, tag) = (begun.id, sender.tag.clone());
            let Self { client, sessions, .. } = self;
            sessions.now = client.unix_ms();
            ticket = client.cancel(id, &tag, now, &mut |event| sessions.report(event, output));
        }
        let Self { client, sessions, .. } = self;
        let Some(begun) = sessions.begun(channel) else { return ticket };
        let session = begun.id;
        let published = client.published_ticket(session);
        let (dynamic, unfinished) = begun.end_link(handle, ending, client);
        for open in sessions.transactions.end_link(session, handle) {
            sessions.roll_back(&open, client);
        }
        self.unfinished -= unfinished.min(self.unfinished);
        let gone = self.delete_dynamic(dynamic, now);
        self.client.flush(now);
        ticket.max(published).max(gone).max(self.client.settled_ticket())
    }

    /// What the peer has not settled ends as its links say: the connection ends.
    pub(super) fn give_back(&mut self, ending: Ending, output: &mut Output, now: Instant) {
        let lasting = |begun: &Begun| begun.lasting.iter().map(|handle| (begun.channel, *handle)).collect::<Vec<_>>();
        for link in self.sessions.all_mut().flat_map(|begun| lasting(begun)).collect::<Vec<_>>() {
            self.suspend(link, output, now);
        }
        for begun in self.sessions.all_mut() {
            begun.give_all_back(ending, &mut self.client);
        }
        self.client.flush(now);
    }

    /// Writes what the client reports, about `room` bytes. True if it has more.
    pub(super) fn report(&mut self, output: &mut Output, room: usize, now: Instant) -> Result<bool, Failure> {
        let held = self.sessions.held_bytes() > HELD_MAX;
        let Self { client, sessions, .. } = self;
        let room = if held { 0 } else { room };
        sessions.now = client.unix_ms();
        let more = client.drain(now, room, &mut |event| sessions.report(event, output));
        sessions.release_echoes(client, output);
        self.run_after(output, now)?;
        // A flow of the peer makes room, and ends with a report.
        Ok(more && !held)
    }

    fn run_after(&mut self, output: &mut Output, now: Instant) -> Result<(), Failure> {
        for after in std::mem::take(&mut self.sessions.after) {
            match after {
                After::CloseConnection(failure) => return Err(failure),
                After::EndSession(channel, failure) => self.end_session(channel, &failure, output, now),
                After::Regulate(channel) => {
                    if let Some(begun) = self.sessions.begun(channel) {
                        begun.regulate(&mut self.client, now);
                    }
                }
            }
        }
        Ok(())
    }
}

/// A frame came on a channel without a session.
pub(super) fn no_session(channel: u16) -> Fault {
    Fault::connection(condition::NOT_ALLOWED, format!("no session has begun on channel {channel}"))
}

/// What of a session's publishes without an answer is in queues.
fn handed(client: &Client, session: SessionId) -> Handed {
    if client.parked(session) { Handed::Some } else { Handed::All(client.published_ticket(session)) }
}
