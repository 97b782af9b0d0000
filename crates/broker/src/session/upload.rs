//! Bodies that this client is sending, at most one in each session, and the claim of each large one
//! in the [`Ingress`].
//!
//! While one of the large ones is let in the client is read, whatever alarm is up, and its others
//! are let in too. While all of them wait it is not read. A client that stops sending a body that
//! was let in loses the session when others wait. A client that stops sending any body loses the
//! session after the body timeout. No time counts while the client is not read.
//!
//! [`Ingress`]: crate::memory::ingress::Ingress

use std::time::{Duration, Instant};

use crate::alarms::{Allowance, Flow};
use crate::error::Error;
use crate::memory::ingress::{Claim, LARGE_BODY, Order};
use crate::memory::ledger::{Charge, Held, Shortage};
use crate::message::body::Place;
use crate::session::{Client, SessionId};

/// A body that has not arrived in full.
#[derive(Debug)]
struct Arriving {
    session: SessionId,
    bytes: usize,
    /// `None` while it is not even in line: an alarm is up, or another body of the client waits.
    claim: Option<Claim>,
    /// `None` before it is let in.
    heard: Option<Heard>,
}

/// When the last bytes of a body came, and when that was last looked at.
#[derive(Debug, Clone, Copy)]
struct Heard {
    at: Instant,
    looked: Instant,
}

/// Why a body is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Silent {
    WhileOthersWait,
    TooLong,
}

/// Whether the client is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadState {
    NotRead,
    Read,
    ReadWhileOthersWait,
}

/// How long nothing of a body may come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// Of a large one, while others wait for its place.
    place: Duration,
    /// Of any.
    silence: Option<Duration>,
}

impl Timeouts {
    /// How long after the last look at a large body the next one is due.
    fn next_look(self) -> Duration {
        self.silence.unwrap_or(self.place).min(self.place)
    }
}

impl Heard {
    fn new(now: Instant) -> Self {
        Self { at: now, looked: now }
    }
}

impl Arriving {
    fn is_let_in(&self) -> bool {
        self.claim.as_ref().is_some_and(Claim::is_granted)
    }

    fn place(&self) -> Place {
        if self.is_let_in() { Place::Sure } else { Place::Unsure }
    }
}

/// The bodies that a client is sending.
#[derive(Default)]
pub(super) struct Uploads {
    /// The large ones that have not arrived in full.
    bodies: Vec<Arriving>,
    /// The other ones that come in parts.
    small: Vec<(SessionId, Heard)>,
}

impl Uploads {
    /// True while bodies wait and none was let in.
    #[inline]
    pub(super) fn waits_for_place(&self) -> bool {
        !self.bodies.is_empty() && !self.has_place()
    }

    /// True while a body that was let in arrives.
    #[inline]
    pub(super) fn has_place(&self) -> bool {
        self.bodies.iter().any(Arriving::is_let_in)
    }

    /// The session's body is complete: its claim, if it was let in.
    #[inline]
    pub(super) fn arrived(&mut self, session: SessionId) -> Option<Claim> {
        if self.bodies.is_empty() && self.small.is_empty() {
            return None;
        }
        self.small.retain(|(of, _)| *of != session);
        let at = self.bodies.iter().position(|body| body.session == session)?;
        self.bodies.swap_remove(at).claim.filter(Claim::is_granted)
    }

    /// The session's body ends here.
    pub(super) fn forget(&mut self, session: SessionId) {
        self.small.retain(|(of, _)| *of != session);
        self.bodies.retain(|body| body.session != session);
    }

    /// All bodies end here.
    pub(super) fn clear(&mut self) {
        self.small.clear();
        self.bodies.clear();
    }

    /// When [`Client::look_after_bodies`] must be called even if the connection was not woken.
    pub(super) fn deadline(&self, timeouts: Timeouts) -> Option<Instant> {
        let large = self.bodies.iter().filter_map(|body| body.heard).map(|heard| heard.looked + timeouts.next_look());
        let small = self.small.iter().filter_map(|(_, heard)| Some(heard.looked + timeouts.silence?));
        large.chain(small).min()
    }

    /// The sessions whose bodies do not come.
    fn silent(&mut self, now: Instant, timeouts: Timeouts, read: ReadState) -> Vec<(SessionId, Silent)> {
        let mut silent = Vec::new();
        let large = self.bodies.iter_mut().filter_map(|body| Some((body.session, body.heard.as_mut()?)));
        let large = large.map(|(session, heard)| (session, heard, timeouts.next_look(), read));
        let state = if read == ReadState::ReadWhileOthersWait { ReadState::Read } else { read };
        let small = self.small.iter_mut();
        let small = small.filter_map(|(session, heard)| Some((*session, heard, timeouts.silence?, state)));
        for (session, heard, next_look, state) in large.chain(small) {
            if now < heard.looked + next_look {
                continue;
            }
            let quiet = now.saturating_duration_since(heard.looked);
            heard.looked = now;
            match state {
                ReadState::NotRead => heard.at = now,
                ReadState::ReadWhileOthersWait if quiet >= timeouts.place => {
                    silent.push((session, Silent::WhileOthersWait));
                }
                _ if timeouts.silence.is_some_and(|most| now >= heard.at + most) => {
                    silent.push((session, Silent::TooLong));
                }
                _ => {}
            }
        }
        silent
    }
}

impl Client {
    /// Notes that a part of a body of `bytes` bytes has arrived in this session, or its header. A
    /// large body needs a claim among all that are under way. Until it has one, [`Client::flow`]
    /// says pause. Its place is sure when it has one, and its memory is accounted for. Called
    /// before the publish.
    pub fn body_arrives(&mut self, session: SessionId, bytes: u64, now: Instant) -> Place {
        let small = self.uploads.small.iter().position(|(of, _)| *of == session);
        if bytes <= LARGE_BODY {
            match small {
                Some(at) => self.uploads.small[at].1 = Heard::new(now),
                None => self.uploads.small.push((session, Heard::new(now))),
            }
            return Place::Unsure;
        }
        // One whose length was not known is large now.
        if let Some(at) = small {
            self.uploads.small.swap_remove(at);
        }
        if let Some(known) = self.uploads.bodies.iter_mut().find(|body| body.session == session) {
            known.heard = known.heard.and(Some(Heard::new(now)));
            return known.place();
        }
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.uploads.bodies.push(Arriving { session, bytes, claim: None, heard: None });
        self.find_places(now);
        self.uploads.bodies.last().map_or(Place::Unsure, Arriving::place)
    }

    /// The body that this session was sending does not come any more, and the session goes on.
    pub fn body_abandoned(&mut self, session: SessionId) {
        self.uploads.forget(session);
    }

    /// The charge of a small body that is not complete, until it is dropped.
    pub fn body_charge(&self) -> Charge {
        Charge::new(&self.shared.account, Held::Bodies)
    }

    /// Fails where memory is short and the client, or all clients of its user, already hold as much
    /// as may wait behind an alarm. It holds `holding` bytes, by `what` it does.
    ///
    /// # Errors
    /// `Precondition`.
    pub fn check_hold(&self, holding: usize, what: &str) -> Result<(), Error> {
        let user_holds = self.shared.account.too_much_in_an_alarm();
        let much = holding > self.engine.settings.parking.bytes || user_holds.is_some();
        if !much || self.engine.allowance() != Allowance::None {
            return Ok(());
        }
        let alarm = self.engine.alarm_text().unwrap_or("in alarm");
        let user = &self.shared.user;
        Err(match user_holds {
            None => Error::precondition(format!(
                "{what} refused: broker is {alarm}, and the connection holds {holding} bytes"
            )),
            Some(bytes) => Error::precondition(format!(
                "{what} refused: broker is {alarm}, and the connections of user '{user}' hold {bytes} bytes"
            )),
        })
    }

    /// Fails where so many more bytes, by `what` it does, exceed the limit of one connection or of
    /// one user.
    ///
    /// # Errors
    /// `Precondition`.
    pub fn check_room(&self, bytes: usize, what: &str) -> Result<(), Error> {
        let Some(shortage) = self.shared.account.shortage(bytes) else { return Ok(()) };
        let user = &self.shared.user;
        Err(match shortage {
            Shortage::Connection { holds, most } => Error::precondition(format!(
                "{what} refused: the connection holds {holds} bytes already, and limits.connection_memory allows {most}"
            )),
            Shortage::User { holds, most } => Error::precondition(format!(
                "{what} refused: the connections of user '{user}' hold {holds} bytes already, and limits.user_memory allows {most}"
            )),
        })
    }

    /// Finds claims for the bodies without one, and starts the clock of those that were let in.
    fn find_places(&mut self, now: Instant) {
        let stopped = self.parking.is_blocked() && !self.receiver.consumes();
        let urgent = self.receiver.consumes() && self.engine.allowance() != Allowance::All;
        let mut let_in = self.uploads.has_place();
        let mut in_line = self.uploads.bodies.iter().any(|body| body.claim.is_some());
        for body in &mut self.uploads.bodies {
            if body.claim.is_none() {
                let order = match (let_in, urgent) {
                    (true, _) => Order::Now,
                    (false, _) if stopped || in_line => continue,
                    (false, true) => Order::First,
                    (false, false) => Order::Turn,
                };
                body.claim = Some(self.engine.ingress.claim(body.bytes, order, self.shared.mailbox.waker()));
                in_line = true;
            }
            if body.is_let_in() {
                let_in = true;
                body.heard.get_or_insert(Heard::new(now));
            }
        }
    }

    /// Checks the bodies that are arriving: whether a claim is free for them, and whether their
    /// bytes come.
    pub(super) fn look_after_bodies(&mut self, now: Instant) {
        if self.uploads.bodies.is_empty() && self.uploads.small.is_empty() {
            return;
        }
        self.find_places(now);
        // While the client is not read a delay is not its fault.
        let read = match self.flow() {
            Flow::Pause => ReadState::NotRead,
            Flow::Run if self.engine.ingress.is_awaited() => ReadState::ReadWhileOthersWait,
            Flow::Run => ReadState::Read,
        };
        let timeouts = self.body_timeouts();
        for (session, why) in self.uploads.silent(now, timeouts, read) {
            self.sessions.fail(
                session,
                match why {
                    Silent::WhileOthersWait => {
                        let seconds = timeouts.place.as_secs();
                        Error::precondition(format!(
                            "nothing of a large message has arrived for {seconds} s while others wait for its place"
                        ))
                    }
                    Silent::TooLong => {
                        let seconds = timeouts.silence.unwrap_or_default().as_secs();
                        Error::precondition(format!(
                            "nothing of a message that was begun has arrived for {seconds} s (limits.body_timeout)"
                        ))
                    }
                },
            );
        }
    }

    pub(super) fn body_timeouts(&self) -> Timeouts {
        let settings = &self.engine.settings;
        Timeouts { place: settings.parking.timeout, silence: settings.body_timeout }
    }
}
