//! Wills on behalf of a client: left, taken back, and published when its connection has ended
//! without a word.
//!
//! What a user may publish is asked when it leaves the will, and again when that is published. A
//! backend elsewhere is asked the first time alone: after a start it does not know who asks.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use auth::{Identity, Resource, Right, Spelling};
use journal::{Owner, Ticket};

use crate::alarms::Allowance;
use crate::catalog::Vhost;
use crate::catalog::wills::{Claimed, Due, KnownBy, WillFact, WillKept, WillKey, load_of};
use crate::engine::Engine;
use crate::engine::clients::{Login, Terms};
use crate::engine::wills::TRIED_AGAIN;
use crate::error::Error;
use crate::message::cc::Copies;
use crate::message::{Arena, Head, Message};
use crate::queue::arrival::{Confirm, Unroutable};
use crate::routing::Weight;
use crate::session::Client;
use crate::session::exactly_once::GroupedWith;
use crate::session::publish::{Publish, copies_of};
use crate::value::Table;

/// Wills that are published in one round of the housekeeping.
const AT_ONCE: usize = 256;
/// The tag of users who may remove the wills of others.
const ADMINISTRATOR: &str = "administrator";

/// What a client does that comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returned {
    /// It goes on with what it had before, so a will that is not due is taken back.
    Resumes,
    /// It begins without what it had before, which has ended: its will is due.
    Begins,
}

impl Client {
    /// Checks whether the message may be a will of this client.
    ///
    /// # Errors
    /// `NotFound` for an unknown exchange, `AccessRefused`, `Precondition` for a message that is
    /// too large.
    pub fn check_will(&mut self, publish: &Publish<'_>) -> Result<(), Error> {
        self.check_publish(publish)?;
        self.vhost.check_target(publish.exchange)?;
        self.authorize(Resource::exchange(publish.exchange), Right::Write)?;
        self.authorize_topics(publish.exchange, std::iter::once(publish.routing_key), Right::Write)
    }

    /// Leaves a will under the name of a client: `publish`, so long after the connection has ended
    /// without a word. It survives the end of the broker once the ticket is durable, if the log has
    /// room for it now, and counts for the user. Returns where it is kept, too.
    /// [`Client::returned`] has dealt with an earlier will of that name.
    ///
    /// # Errors
    /// Those of [`Client::check_will`]; `Precondition` where it has no room.
    pub fn leave_will(
        &mut self,
        client: &str,
        publish: &Publish<'_>,
        delay: Duration,
    ) -> Result<(Ticket, WillKept), Error> {
        self.check_will(publish)?;
        let head = head_of(publish, self.engine.clock.unix_ms());
        let body = publish.body.as_slice();
        let message = Arena::of_few(head.length() + body.len()).add(&head, body);
        let load = load_of(self.shared.user.len() + client.len(), message.block().len());
        let what = format!("the will of client '{client}'");
        self.engine.admit_of_user(&what, load, (&self.shared.identity, &self.shared.account))?;
        let kept = self.engine.admit_will(&what, load)?;
        let known_by = if self.shared.identity.backend().is_some() { KnownBy::Backend } else { KnownBy::Broker };
        let fact =
            WillFact { vhost: self.vhost.id, key: self.will_key(client), known_by, due: due_after(delay), message };
        let payer = self.shared.account.declared();
        let weight = Weight::new(&self.vhost.bindings.paid_by(payer), load);
        Ok((self.engine.leave_will(&self.vhost, fact, weight, kept), kept))
    }

    /// Takes back the will that was left under this name, if there is one. It is not published once
    /// the ticket is durable.
    pub fn withdraw_will(&mut self, client: &str) -> Ticket {
        let owner = self.vhost.wills.lock().of_client(&self.will_key(client));
        owner.map_or(Ticket::NONE, |owner| self.engine.end_will(&self.vhost, owner, None))
    }

    /// Removes the will that a user left under the name of a client, and earlier ones that an alarm
    /// holds up: they are not published. Users remove their own, and administrators those of all.
    /// Returns the ticket for the reply.
    ///
    /// # Errors
    /// `AccessRefused`; `NotFound` if there is no such will.
    pub fn remove_will(&mut self, user: &str, client: &str) -> Result<Ticket, Error> {
        let identity = &self.shared.identity;
        if user != identity.user() && !self.engine.authority.is_tagged(identity, ADMINISTRATOR) {
            return Err(Error::refused(format!("only user '{user}' and administrators remove its wills")));
        }
        let key = WillKey { user: user.into(), client: client.into() };
        let wills = self.vhost.wills.lock().all_of(&key);
        let ended = wills.into_iter().map(|owner| self.engine.end_will(&self.vhost, owner, None));
        ended.reduce(Ticket::max).ok_or_else(|| {
            Error::not_found(format!("no will of client '{client}' of user '{user}' in vhost '{}'", self.vhost.name))
        })
    }

    /// The connection has ended without a word: the will that was left under this name is published
    /// now, or after a time.
    pub fn will_is_due(&mut self, client: &str, after: Duration, now: Instant) {
        self.flush(now);
        let due = self.engine.will_is_due(&self.vhost, &self.will_key(client), ms(after));
        if let Some((owner, _)) = due.filter(|_| after.is_zero()) {
            publish_will(&self.engine, &self.vhost, owner, now);
        }
    }

    /// A client of this name has come. The will of an earlier connection is taken back, or
    /// published before anything that the client does.
    pub fn returned(&mut self, client: &str, returned: Returned, now: Instant) {
        let (owner, due) = {
            let mut table = self.vhost.wills.lock();
            let Some(owner) = table.of_client(&self.will_key(client)) else { return };
            let due = table.due(owner);
            table.let_go(owner);
            (owner, due)
        };
        let is_due = matches!(due, Some(Due::At(at)) if at <= self.engine.clock.unix_ms());
        if is_due || returned == Returned::Begins {
            publish_will(&self.engine, &self.vhost, owner, now);
        } else {
            self.engine.end_will(&self.vhost, owner, None);
        }
    }

    fn will_key(&self, client: &str) -> WillKey {
        WillKey { user: self.shared.user.as_str().into(), client: client.into() }
    }
}

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn due_after(delay: Duration) -> Due {
    Due::After(ms(delay))
}

fn head_of<'a>(publish: &'a Publish<'_>, now: u64) -> Head<'a> {
    Head {
        dialect: publish.dialect,
        persistent: publish.persistent,
        priority: publish.priority,
        published_at: now,
        expiration: publish.expiration,
        copies: copies_of(publish),
        instructed: publish.instructed,
        exchange: publish.exchange,
        routing_key: publish.routing_key,
        properties: publish.properties,
        ..Head::EMPTY
    }
}

/// The publication of a will. Its times count from now on.
fn publish_of(message: &Message) -> Publish<'_> {
    Publish {
        exchange: message.exchange(),
        routing_key: message.routing_key(),
        dialect: message.dialect(),
        properties: message.properties(),
        persistent: message.persistent(),
        priority: message.given_priority(),
        expiration: message.expiration(),
        body: message.body().into(),
        confirm: Confirm::None,
        unroutable: Unroutable::Drop,
        copies: message.copies() == Copies::Named,
        instructed: message.instructed(),
    }
}

/// Publishes the wills that are due, some at a time, and logs those that memory alone has.
pub(crate) fn publish_due(engine: &Arc<Engine>, now: Instant) {
    let Some(due) = engine.take_due_wills(engine.clock.unix_ms(), AT_ONCE) else { return };
    for (vhost, owner) in due {
        publish_will(engine, &vhost, owner, now);
    }
    engine.log_wills_in_memory();
}

/// Publishes a will. One that is refused is logged and ends: its client is gone. One that an alarm
/// holds up is tried again.
fn publish_will(engine: &Arc<Engine>, vhost: &Arc<Vhost>, owner: Owner, now: Instant) {
    let Some(will) = vhost.wills.lock().claim(owner) else { return };
    let published = try_publish(engine, vhost, &will, now);
    match published {
        Ok(Outcome::Published) => {}
        Ok(Outcome::HeldUp) => {
            let until = engine.clock.unix_ms() + TRIED_AGAIN;
            vhost.wills.lock().hold_up(owner, until);
            engine.publish_wills_at(until);
        }
        Err(error) => {
            let WillKey { user, client } = &will.key;
            tracing::warn!(%user, vhost = %vhost.name, %client, %error, "will not published");
            engine.end_will(vhost, owner, None);
        }
    }
}

/// What became of a publication.
enum Outcome {
    Published,
    HeldUp,
}

fn try_publish(engine: &Arc<Engine>, vhost: &Arc<Vhost>, will: &Claimed, now: Instant) -> Result<Outcome, Error> {
    if engine.allowance() == Allowance::None {
        return Ok(Outcome::HeldUp);
    }
    let WillKey { user, client } = &will.key;
    let identity = match will.known_by {
        KnownBy::Backend => Some(Identity::operator(user)),
        KnownBy::Broker => engine.authority.identity_of(user),
    };
    let identity = identity.ok_or_else(|| Error::refused(format!("user '{user}' is not there any more")))?;
    let login = Login {
        // Those who leave wills have topics for keys.
        identity: identity.spelled(Spelling::Word),
        vhost: vhost.name.to_string(),
        protocol: "will",
        peer: client.to_string(),
        name: Some(client.to_string()),
        properties: Table::default(),
        terms: Terms::default(),
    };
    let mut publisher = Client::attach_unlisted(engine, login, Waker::noop().clone())?;
    let session = publisher.open_session(1);
    publisher.publish(session, publish_of(&will.message))?;
    publisher.grouped = Some(GroupedWith::Will(will.owner));
    publisher.flush(now);
    Ok(if publisher.parked(session) { Outcome::HeldUp } else { Outcome::Published })
}
