//! Large bodies that this client is sending, at most one in each session, and the claim of each in
//! the [`Ingress`].
//!
//! While one of them is let in the client is read, whatever alarm is up, and its others are let in
//! too. While all of them wait it is not read. A client that stops sending a body that was let in
//! loses the session when others wait.
//!
//! [`Ingress`]: crate::memory::ingress::Ingress

use std::time::{Duration, Instant};

use crate::alarms::{Allowance, Flow};
use crate::error::Error;
use crate::memory::ingress::{Claim, LARGE_BODY, Order};
use crate::memory::ledger::{Charge, Held, Shortage};
use crate::session::{Client, SessionId};

/// A body that has not arrived in full.
#[derive(Debug)]
struct Arriving {
    session: SessionId,
    bytes: usize,
    /// `None` while it is not even in line: an alarm is up, or another body of the client waits.
    claim: Option<Claim>,
    /// When its last bytes came; `None` before it is let in.
    heard: Option<Instant>,
}

impl Arriving {
    fn is_let_in(&self) -> bool {
        self.claim.as_ref().is_some_and(Claim::is_granted)
    }
}

/// The large bodies that a client is sending.
#[derive(Default)]
pub(super) struct Uploads {
    /// Those that have not arrived in full.
    bodies: Vec<Arriving>,
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
        if self.bodies.is_empty() {
            return None;
        }
        let at = self.bodies.iter().position(|body| body.session == session)?;
        self.bodies.swap_remove(at).claim.filter(Claim::is_granted)
    }

    /// The session's body ends here.
    pub(super) fn forget(&mut self, session: SessionId) {
        self.bodies.retain(|body| body.session != session);
    }

    /// All bodies end here.
    pub(super) fn clear(&mut self) {
        self.bodies.clear();
    }

    /// When [`Client::look_after_bodies`] must be called even if the connection was not woken. A
    /// body that was let in may be silent for `timeout`.
    pub(super) fn deadline(&self, timeout: Duration) -> Option<Instant> {
        self.bodies.iter().filter_map(|body| body.heard).min().map(|heard| heard + timeout)
    }
}

impl Client {
    /// Notes that a part of a body of `bytes` bytes has arrived in this session, or its header. A
    /// large body needs a claim among all that are under way. Until it has one, [`Client::flow`]
    /// says pause. True when it has one, and its memory is accounted for. Called before the
    /// publish.
    pub fn body_arrives(&mut self, session: SessionId, bytes: u64, now: Instant) -> bool {
        if bytes <= LARGE_BODY {
            return false;
        }
        if let Some(known) = self.uploads.bodies.iter_mut().find(|body| body.session == session) {
            known.heard = known.heard.and(Some(now));
            return known.is_let_in();
        }
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.uploads.bodies.push(Arriving { session, bytes, claim: None, heard: None });
        self.find_places(now);
        self.uploads.bodies.last().is_some_and(Arriving::is_let_in)
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
        let much = holding > self.engine.settings.park_bytes || user_holds.is_some();
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
                body.heard.get_or_insert(now);
            }
        }
    }

    /// Checks the bodies that are arriving: whether a claim is free for them, and whether their
    /// bytes come.
    pub(super) fn look_after_bodies(&mut self, now: Instant) {
        if self.uploads.bodies.is_empty() {
            return;
        }
        self.find_places(now);
        let timeout = self.engine.settings.park_timeout;
        // While the client is not read a delay is not its fault.
        let to_blame = self.flow() == Flow::Run && self.engine.ingress.is_awaited();
        let mut given_up = Vec::new();
        for body in &mut self.uploads.bodies {
            if body.heard.is_some_and(|heard| now >= heard + timeout) {
                body.heard = Some(now);
                given_up.push(body.session);
            }
        }
        for session in given_up.into_iter().filter(|_| to_blame) {
            let seconds = timeout.as_secs();
            let text =
                format!("nothing of a large message has arrived for {seconds} s while others wait for its place");
            self.sessions.fail(session, Error::precondition(text));
        }
    }
}
