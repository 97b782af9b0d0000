//! The sessions of a connection, by their channels and by the broker's sessions; and what events
//! leave to be done.

use std::collections::VecDeque;

use broker::{Awaited, Client, Delivery, Dialects, SessionId};
use hashbrown::{HashMap, HashSet};
use wire::Output;

use crate::session::begun::Begun;
use crate::session::error::Failure;
use crate::session::numbered::Numbered;
use crate::session::transactions::Transactions;
use crate::session::window::Gate;

/// Work that an event requires beyond a frame.
pub(super) enum After {
    EndSession(u16, Failure),
    CloseConnection(Failure),
    /// Something of this session is held.
    Regulate(u16),
}

/// The sessions of a connection.
pub(super) struct Sessions {
    by_channel: Numbered<Box<Begun>>,
    by_id: HashMap<SessionId, u16>,
    /// The session that had the last delivery: deliveries come in runs.
    last: Option<(SessionId, u16)>,
    pub(super) dialects: Dialects,
    /// The calendar time of what is reported, in milliseconds since 1970.
    pub(super) now: u64,
    pub(super) transactions: Transactions,
    /// Whether an alarm shuts the windows of what peers send.
    pub(super) gate: Gate,
    /// Work that events have left.
    pub(super) after: Vec<After>,
    /// The channels of sessions that hold something back.
    holding: HashSet<u16>,
    /// Settled dispositions that wait until their settlements are durable.
    echoes: VecDeque<(Awaited, Vec<u8>)>,
    /// Those of the turn that is being gathered.
    gathered_echoes: Vec<Vec<u8>>,
}

impl Sessions {
    pub(super) fn new(dialects: Dialects) -> Self {
        Self {
            by_channel: Numbered::default(),
            by_id: HashMap::new(),
            last: None,
            dialects,
            now: 0,
            transactions: Transactions::default(),
            gate: Gate::Open,
            after: Vec::new(),
            holding: HashSet::new(),
            echoes: VecDeque::new(),
            gathered_echoes: Vec::new(),
        }
    }

    pub(super) fn insert(&mut self, begun: Begun) {
        let channel = begun.channel;
        self.by_id.insert(begun.id, channel);
        self.by_channel.insert(channel.into(), Box::new(begun));
    }

    /// Puts a session back that this side has ended: no event reaches it any more.
    pub(super) fn keep_ended(&mut self, begun: Box<Begun>) {
        self.by_channel.insert(begun.channel.into(), begun);
    }

    pub(super) fn remove(&mut self, channel: u16) -> Option<Box<Begun>> {
        let begun = self.by_channel.remove(channel.into())?;
        self.by_id.remove(&begun.id);
        self.last.take_if(|(last, _)| *last == begun.id);
        Some(begun)
    }

    /// A settled disposition goes out when the settlements of this turn are durable.
    pub(super) fn echo(&mut self, frame: Vec<u8>) {
        self.gathered_echoes.push(frame);
    }

    /// The session that is this one of the broker's.
    pub(super) fn of(&mut self, session: SessionId) -> Option<&mut Begun> {
        let channel = *self.by_id.get(&session)?;
        self.begun(channel)
    }

    /// The channel of a session that gets a delivery.
    #[inline]
    fn channel_of(&mut self, session: SessionId) -> Option<u16> {
        match self.last {
            Some((last, channel)) if last == session => Some(channel),
            _ => {
                let channel = *self.by_id.get(&session)?;
                self.last = Some((session, channel));
                Some(channel)
            }
        }
    }

    /// Writes a delivery, or holds it back.
    #[inline]
    pub(super) fn deliver(&mut self, delivery: &Delivery<'_>, output: &mut Output) {
        let Some(channel) = self.channel_of(delivery.session) else { return };
        let Self { by_channel, dialects, now, after, holding, .. } = self;
        let begun = by_channel.get_mut(channel.into()).map(|begun| &mut **begun);
        let Some(Begun { links, deliveries, .. }) = begun else { return };
        let held = deliveries.holds();
        if let Err(error) = deliveries.deliver(links, delivery, (dialects, *now), output) {
            after.push(After::CloseConnection(error.into()));
        }
        if deliveries.holds() && !held {
            holding.insert(channel);
            after.push(After::Regulate(channel));
        }
    }

    /// Those that have not ended.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Begun> {
        self.by_channel.iter_mut().map(|(_, begun)| &mut **begun).filter(|begun| !begun.ended)
    }

    /// The session of this channel.
    #[inline]
    pub(super) fn begun(&mut self, channel: u16) -> Option<&mut Begun> {
        self.by_channel.get_mut(channel.into()).map(|begun| &mut **begun)
    }

    /// Bytes that wait for the windows of all sessions.
    pub(super) fn held_bytes(&mut self) -> usize {
        let by_channel = &self.by_channel;
        let held = |channel: &u16| by_channel.get((*channel).into()).map_or(0, |begun| begun.deliveries.held_bytes());
        self.holding.retain(|channel| held(channel) > 0);
        self.holding.iter().map(held).sum()
    }

    /// Writes the dispositions whose settlements are durable. The turn has run.
    pub(super) fn release_echoes(&mut self, client: &mut Client, output: &mut Output) {
        if self.gathered_echoes.is_empty() && self.echoes.is_empty() {
            return;
        }
        let awaited = Awaited::from(client.settled_ticket());
        self.echoes.extend(self.gathered_echoes.drain(..).map(|frame| (awaited, frame)));
        while let Some((_, frame)) = self.echoes.pop_front_if(|(awaited, _)| client.durable(*awaited)) {
            output.put(&frame);
            output.count_answer(frame.len());
        }
    }
}
