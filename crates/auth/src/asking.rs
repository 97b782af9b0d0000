//! Rights that a program elsewhere decides about, operation by operation: what it is asked, and the
//! memory of what it has allowed.
//!
//! A question may wait for a network. So it is asked only where that may be ([`wire::waiting`]);
//! elsewhere the memory alone answers, and what it does not know is refused. Refusals are not kept.
//! The memory has a bound, and each user a share of it. A program that can't be asked allows
//! nothing: it counts as out of reach for a moment, in which it is not asked.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::topic::Actor;
use crate::{Resource, ResourceKind, Right, Tags};

/// What a user may have in the memory at a time.
const OF_USER: usize = 1024;
/// What all users may have in it.
const OF_ALL: usize = 64 * 1024;
/// How long an answer is kept at least. One operation may ask before it takes a lock, and look into
/// the memory below that.
const LEAST_KEPT: Duration = Duration::from_secs(1);
/// How long a program counts as out of reach after an answer that did not come.
const DOWN: Duration = Duration::from_secs(1);

/// A program elsewhere that decides about each operation of its users.
pub trait Judge: std::fmt::Debug + Send + Sync {
    /// Whether this is allowed. It may take as long as a timeout of its own, on a thread for that.
    ///
    /// # Errors
    /// Why that can't be found out, in words for the log, with no secret in them.
    fn decide(&self, asked: &Asked<'_>) -> Result<bool, String>;
}

/// One question to a [`Judge`].
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Who wants to do something.
    pub actor: Actor<'a>,
    /// The tags that the user was given at its log-in.
    pub tags: &'a Tags,
    /// Where the user has come from.
    pub from: IpAddr,
    /// The virtual host.
    pub vhost: &'a str,
    /// What it is about.
    pub about: About<'a>,
}

/// What a question is about.
#[derive(Debug, Clone, Copy)]
pub enum About<'a> {
    /// To enter the virtual host.
    Vhost,
    /// To have a right on a resource.
    Resource(Resource<'a>, Right),
    /// To use a routing key with a topic exchange.
    Topic {
        /// The exchange.
        exchange: &'a str,
        /// The routing key.
        key: &'a str,
        /// [`Right::Write`] to publish, [`Right::Read`] to bind.
        right: Right,
    },
}

impl Asked<'_> {
    /// All that the answer depends on, but for the user. Each part ends with its length, so that no
    /// two questions have the same bytes.
    fn key(&self) -> Box<[u8]> {
        let mut key = Vec::with_capacity(64);
        let mut part = |text: &str| {
            key.extend_from_slice(text.as_bytes());
            key.extend_from_slice(&(text.len() as u32).to_be_bytes());
        };
        part(self.vhost);
        part(self.actor.client.unwrap_or_default());
        let (kind, right) = match self.about {
            About::Vhost => {
                part(&self.from.to_string());
                (b'v', Right::Read)
            }
            About::Resource(resource, right) => {
                part(resource.name);
                (if resource.kind == ResourceKind::Queue { b'q' } else { b'e' }, right)
            }
            About::Topic { exchange, key, right } => {
                part(exchange);
                part(key);
                (b't', right)
            }
        };
        key.extend_from_slice(&[kind, right as u8]);
        key.into()
    }
}

/// A judge, and what it has lately allowed.
#[derive(Debug)]
pub(crate) struct Asking {
    judge: Arc<dyn Judge>,
    /// The backend that lets its users in.
    pub(crate) backend: &'static str,
    kept: Mutex<Memory>,
    keep_for: Duration,
    /// Until when it counts as out of reach.
    down: Mutex<Option<Instant>>,
}

impl Asking {
    pub(crate) fn new(judge: Arc<dyn Judge>, backend: &'static str, keep_for: Duration) -> Self {
        let keep_for = keep_for.max(LEAST_KEPT);
        Self { judge, backend, kept: Mutex::default(), keep_for, down: Mutex::default() }
    }

    /// How long an answer counts.
    pub(crate) fn keeps_for(&self) -> Duration {
        self.keep_for
    }

    /// Whether this is allowed: by an answer that is kept, or else by one that is waited for where
    /// that may be.
    pub(crate) fn allows(&self, asked: &Asked<'_>) -> bool {
        let (user, key, now) = (asked.actor.user, asked.key(), Instant::now());
        if self.kept.lock().has(user, &key, now) {
            return true;
        }
        if !wire::waiting::is_allowed() || self.is_down(now) {
            return false;
        }
        wire::waiting::note();
        match self.judge.decide(asked) {
            Ok(true) => {
                // It counts from the question on: it may have been answered then.
                self.kept.lock().keep(user, key, now, self.keep_for);
                true
            }
            Ok(false) => false,
            Err(why) => {
                self.goes_down(&why);
                false
            }
        }
    }

    /// Forgets all answers.
    pub(crate) fn forget(&self) {
        *self.kept.lock() = Memory::default();
        *self.down.lock() = None;
    }

    fn is_down(&self, now: Instant) -> bool {
        self.down.lock().is_some_and(|until| now < until)
    }

    /// One line of the log for those who have waited together.
    fn goes_down(&self, why: &str) {
        let now = Instant::now();
        if self.down.lock().replace(now + DOWN).is_some_and(|until| now < until) {
            return;
        }
        let (backend, reason) = (self.backend, why);
        tracing::warn!(backend, reason, "rights can't be asked for: what is not known is refused");
    }
}

/// What was allowed, by user.
#[derive(Debug, Default)]
struct Memory {
    users: HashMap<Arc<str>, Share>,
    /// Of all users together.
    count: usize,
}

/// What one user was allowed, and until when that counts. The oldest is in front.
#[derive(Debug, Default)]
struct Share {
    until: HashMap<Arc<[u8]>, Instant>,
    order: VecDeque<(Arc<[u8]>, Instant)>,
}

impl Share {
    /// Forgets the oldest. False if there is none.
    fn forget_one(&mut self) -> bool {
        let Some((key, until)) = self.order.pop_front() else { return false };
        // One that was asked again meanwhile has a later place.
        if self.until.get(&key) == Some(&until) {
            self.until.remove(&key);
        }
        true
    }

    fn forget_old(&mut self, now: Instant) -> usize {
        let before = self.order.len();
        while self.order.front().is_some_and(|(_, until)| *until <= now) {
            self.forget_one();
        }
        before - self.order.len()
    }
}

impl Memory {
    fn has(&self, user: &str, key: &[u8], now: Instant) -> bool {
        self.users.get(user).and_then(|share| share.until.get(key)).is_some_and(|until| now < *until)
    }

    fn keep(&mut self, user: &str, key: Box<[u8]>, now: Instant, keep_for: Duration) {
        if self.count >= OF_ALL {
            self.make_room(now);
        }
        if !self.users.contains_key(user) {
            self.users.insert(user.into(), Share::default());
        }
        let Some(share) = self.users.get_mut(user) else { return };
        self.count -= share.forget_old(now);
        if share.order.len() >= OF_USER && share.forget_one() {
            self.count -= 1;
        }
        let (key, until): (Arc<[u8]>, _) = (key.into(), now + keep_for);
        share.until.insert(Arc::clone(&key), until);
        share.order.push_back((key, until));
        self.count += 1;
    }

    /// Forgets what is old, and users without anything. If that is nothing, the user with the most
    /// gives its oldest.
    fn make_room(&mut self, now: Instant) {
        let mut gone = 0;
        self.users.retain(|_, share| {
            gone += share.forget_old(now);
            !share.order.is_empty()
        });
        self.count -= gone;
        let most = self.users.values_mut().max_by_key(|share| share.order.len());
        if gone == 0 && most.is_some_and(Share::forget_one) {
            self.count -= 1;
        }
    }
}

#[cfg(test)]
mod tests;
