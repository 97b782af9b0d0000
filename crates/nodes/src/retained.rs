//! The nodes that follow, and what the log keeps for them: while one is sent a copy or entries, and
//! while it is away.
//!
//! Invariant: what is kept for a node is bounded. Without a bound in bytes it is kept for one that
//! has a copy and has not caught up yet, as long as that gets on. So a copy is followed by entries,
//! and not by another copy.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use journal::{Keeping, Kept, Passed};
use parking_lot::Mutex;

use crate::message::{Hello, NodeId};
use crate::sender::Filled;

/// Followers at one time.
pub const MOST_FOLLOWERS: usize = 8;
/// How long all is kept for one that has a whole copy and has not caught up: while it is away, and
/// while nothing becomes durable there.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a follower does.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Doing {
    /// It is sent a copy of the whole directory.
    Copying,
    /// It is sent entries.
    Following,
    /// Its connection has ended, and the log is kept for it still.
    Away,
}

/// How far a follower is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FollowerStatus {
    /// Its number.
    pub node: NodeId,
    /// What people call it.
    pub name: String,
    /// Where it connects from.
    pub address: SocketAddr,
    /// What it does.
    pub doing: Doing,
    /// Entries that are flushed here, and not there, at most.
    pub entries: u64,
    /// Bytes that are flushed here and were not sent, at most.
    pub bytes: u64,
    /// Bytes of the log that are kept for it.
    pub kept_bytes: u64,
    /// All that was flushed here so long ago is flushed there, in milliseconds.
    pub behind_ms: u64,
}

/// A node that is connected, as others see it.
pub(crate) struct Connected {
    /// What does not change.
    pub(crate) status: FollowerStatus,
    /// How far it was when its thread looked last. That waits for the node's socket at times.
    pub(crate) seen: Seen,
    /// What the log keeps for it; none if that was given up.
    pub(crate) retained: Arc<Mutex<Option<Retained>>>,
}

/// How far a node was that is sent entries.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    /// What was read for it; none while it is sent no entries.
    pub(crate) passed: Option<Passed>,
    /// Entries that were sent and are not durable there.
    pub(crate) undurable: u64,
    /// All that was flushed here then is durable there, in milliseconds since 1970.
    pub(crate) durable_as_of: u64,
}

impl Connected {
    /// How far it is, `now` in milliseconds since 1970: from what is flushed and kept here now.
    pub(crate) fn status(&self, now: u64) -> FollowerStatus {
        let kept_bytes = self.retained.lock().as_ref().and_then(Retained::bytes).unwrap_or(0);
        let status = FollowerStatus { kept_bytes, ..self.status.clone() };
        let Seen { passed: Some(passed), undurable, durable_as_of } = &self.seen else { return status };
        let behind = passed.behind();
        let (entries, behind_ms) = (behind.entries + undurable, now.saturating_sub(*durable_as_of));
        FollowerStatus { entries, bytes: behind.bytes, behind_ms, ..status }
    }
}

/// What is kept for one node.
pub(crate) struct Retained {
    kept: Kept,
    /// Most bytes of the log that are kept once it has caught up.
    most: u64,
    /// It has not caught up since its copy; when it has got on last, and how far.
    catches_up: Option<(Instant, u64)>,
}

impl Retained {
    /// For one that has what it has: at most so many bytes.
    pub(crate) fn new(keep: impl FnOnce(Keeping) -> Kept, most: u64) -> Self {
        Self { kept: keep(Keeping::UpTo(most)), most, catches_up: None }
    }

    /// For one that begins with a copy.
    pub(crate) fn with_copy(keep: impl FnOnce(Keeping) -> Kept, most: u64) -> Self {
        Self { kept: keep(Keeping::All), most, catches_up: Some((Instant::now(), 0)) }
    }

    /// The node has come back.
    pub(crate) fn returned(mut self) -> Self {
        match &mut self.catches_up {
            Some(since) => *since = (Instant::now(), 0),
            None => self.kept.keep(Keeping::UpTo(self.most)),
        }
        self
    }

    /// The node needs nothing before `file`, has so many entries, and was sent more.
    pub(crate) fn note(&mut self, file: Option<u32>, reached: u64, filled: Filled) {
        file.into_iter().for_each(|file| self.kept.needs(file));
        let Some((since, before)) = &mut self.catches_up else { return };
        if *before != reached {
            (*since, *before) = (Instant::now(), reached);
        }
        if filled == Filled::UpToDate || since.elapsed() >= PATIENCE {
            self.catches_up = None;
            self.kept.keep(Keeping::UpTo(self.most));
        }
    }

    /// The bytes of the log that are kept; none if what it needs was given up.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.kept.bytes()
    }
}

/// A node whose connection has ended.
struct Away {
    hello: Hello,
    peer: SocketAddr,
    retained: Retained,
    since: Instant,
    /// All that was flushed here then is durable there, in milliseconds since 1970.
    durable_as_of: u64,
}

/// The nodes that are away, each with what is kept for it.
#[derive(Default)]
pub(crate) struct AwayNodes(Mutex<Vec<Away>>);

impl AwayNodes {
    /// Keeps for a node what it needs, until it is back or there is no room for it any more.
    pub(crate) fn add(&self, hello: Hello, peer: SocketAddr, mut retained: Retained, durable_as_of: u64) {
        if retained.catches_up.is_none() {
            retained.kept.keep(Keeping::WhileThereIsRoom(retained.most));
        }
        let mut all = self.0.lock();
        all.retain(|away| away.hello.node != hello.node);
        if all.len() == MOST_FOLLOWERS {
            all.remove(0);
        }
        all.push(Away { hello, peer, retained, since: Instant::now(), durable_as_of });
    }

    /// What is kept for a node.
    pub(crate) fn take(&self, hello: &Hello) -> Option<Retained> {
        let mut all = self.0.lock();
        let at = all.iter().position(|away| away.hello.node == hello.node)?;
        Some(all.swap_remove(at).retained)
    }

    /// Forgets those that nothing is kept for any more, and bounds what is kept for the others.
    pub(crate) fn look(&self) {
        self.0.lock().retain_mut(|away| {
            let retained = &mut away.retained;
            if retained.catches_up.is_some() && away.since.elapsed() >= PATIENCE {
                retained.catches_up = None;
                retained.kept.keep(Keeping::WhileThereIsRoom(retained.most));
            }
            let is_kept = retained.bytes().is_some();
            if !is_kept {
                let Hello { name, node, .. } = &away.hello;
                tracing::warn!(%node, name, "the log has gone on without a node that follows and is away; {NEXT}");
            }
            is_kept
        });
    }

    /// How far each was, `now` in milliseconds since 1970.
    pub(crate) fn list(&self, now: u64) -> Vec<FollowerStatus> {
        let status = |away: &Away| {
            let bytes = away.retained.bytes().unwrap_or(0);
            FollowerStatus {
                node: away.hello.node,
                name: away.hello.name.clone(),
                address: away.peer,
                doing: Doing::Away,
                entries: 0,
                bytes,
                kept_bytes: bytes,
                behind_ms: now.saturating_sub(away.durable_as_of),
            }
        };
        self.0.lock().iter().map(status).collect()
    }
}

/// What becomes of a node that has nothing kept for it.
pub(crate) const NEXT: &str = "it begins with a new copy, if what it needs leaves the log before it has caught up";
