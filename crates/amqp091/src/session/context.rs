//! What a channel uses of its connection while it handles a frame.

use std::collections::HashMap;
use std::time::Instant;

use broker::{Broker, Client, SessionId};

use crate::session::link::Link;

/// The parts of its connection that a channel needs to handle a frame.
pub(super) struct Context<'c> {
    pub(super) client: &'c mut Client,
    pub(super) link: &'c mut Link,
    pub(super) sessions: &'c mut Sessions,
    pub(super) broker: &'c Broker,
    pub(super) unfinished: &'c mut u64,
    pub(super) names: UserNames,
    /// The channel's number.
    pub(super) number: u16,
    pub(super) now: Instant,
}

/// The channel of each session of the broker, and what its publisher has been told.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    known: HashMap<SessionId, SessionLink>,
    /// The session that had the last delivery, and its channel: deliveries come in runs.
    last: Option<(SessionId, u16)>,
}

#[derive(Debug)]
pub(super) struct SessionLink {
    pub(super) channel: u16,
    /// All publishes up to this number have been confirmed or refused.
    pub(super) answered: u64,
}

impl Sessions {
    /// The channel of a session that gets a delivery.
    #[inline]
    pub(super) fn receiver(&mut self, session: SessionId) -> Option<u16> {
        match self.last {
            Some((last, channel)) if last == session => Some(channel),
            _ => {
                let channel = self.known.get(&session)?.channel;
                self.last = Some((session, channel));
                Some(channel)
            }
        }
    }

    pub(super) fn channel_of(&self, session: SessionId) -> Option<u16> {
        self.known.get(&session).map(|known| known.channel)
    }

    pub(super) fn get_mut(&mut self, session: SessionId) -> Option<&mut SessionLink> {
        self.known.get_mut(&session)
    }

    pub(super) fn insert(&mut self, session: SessionId, channel: u16) {
        self.known.insert(session, SessionLink { channel, answered: 0 });
    }

    pub(super) fn remove(&mut self, session: SessionId) {
        self.known.remove(&session);
        self.last.take_if(|(last, _)| *last == session);
    }
}

/// The names in which a user may publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UserNames {
    Own,
    All,
}
