//! From a peer's credentials to a client of the broker, and the lines of the audit log about that.

use std::cell::Cell;
use std::task::Waker;
use std::time::Instant;

use auth::sasl::Mechanism;
use auth::{Identity, Login, Refusal, shown_name};
use broker::{Broker, Client, Error, Table, Terms};
use tracing::field::{Empty, display};
use wire::{Peer, waiting};

/// How lines of the audit log about one protocol read.
#[derive(Debug)]
pub struct Words {
    /// The protocol's short name.
    pub protocol: &'static str,
    /// A log-in was refused.
    pub login_refused: &'static str,
    /// Whether that line names the mechanism. Some protocols have no names for them.
    pub names_mechanism: bool,
    /// The broker has refused a client that had logged in.
    pub refused: &'static str,
    /// The broker has accepted a client.
    pub opened: &'static str,
}

/// A peer on its way to the broker.
#[derive(Clone, Copy)]
pub struct Entrance<'c> {
    /// The broker.
    pub broker: &'c Broker,
    /// The peer.
    pub peer: &'c Peer,
    /// Wakes the connection.
    pub waker: &'c Waker,
    /// The words of its protocol.
    pub words: &'static Words,
    /// See [`crate::Line`].
    pub(crate) may_wait: &'c Cell<bool>,
}

/// What a client asks for when it has logged in.
#[derive(Debug)]
pub struct Wish {
    /// See [`broker::Login`].
    pub vhost: String,
    /// See [`broker::Login`].
    pub name: Option<String>,
    /// See [`broker::Login`].
    pub properties: Table,
    /// See [`broker::Login`].
    pub terms: Terms,
}

/// What the audit log calls a connection that has opened.
#[derive(Debug, Clone, Copy)]
pub enum Label<'a> {
    /// The name that the client gives it, if it does.
    Name(Option<&'a str>),
    /// The name that the broker gives it.
    Session(&'a str),
}

impl Entrance<'_> {
    /// Starts to check a password.
    pub fn log_in(self, mechanism: Mechanism, user: &str, password: &[u8], now: Instant) -> PendingLogin {
        let login = self.broker.authority().login(user, password, self.peer.remote.ip(), now, self.waker.clone());
        PendingLogin { login, mechanism, user: user.into() }
    }

    /// Logs in a user that needs no password: a certificate or the operator's settings name it.
    pub fn admit(self, mechanism: Mechanism, user: &str, now: Instant) -> PendingLogin {
        let login = self.broker.authority().admit(user, self.peer.remote.ip(), now);
        PendingLogin { login, mechanism, user: user.into() }
    }

    /// Starts to check a newer secret of a client that a backend elsewhere has let in. `None` for
    /// another client: its password does not expire, so there is nothing to renew.
    pub fn renew(self, client: &Client, secret: &[u8], now: Instant) -> Option<PendingRenewal> {
        let (authority, from) = (self.broker.authority(), self.peer.remote.ip());
        let login = authority.renew(client.identity(), secret, from, now, self.waker.clone())?;
        Some(PendingRenewal(login))
    }

    /// Attaches a client that has logged in to its vhost.
    ///
    /// # Errors
    /// When the broker refuses it; that is in the audit log.
    pub fn attach(self, identity: Identity, wish: Wish) -> Result<Client, Error> {
        let Wish { vhost, name, properties, terms } = wish;
        let (user, wanted) = (identity.user().to_owned(), vhost.clone());
        let peer = format!("{} -> {}", self.peer.remote, self.peer.local);
        let protocol = self.words.protocol;
        let login = broker::Login { identity, vhost, protocol, peer, name, properties, terms };
        let attached = self.broker.attach(login, self.waker.clone());
        attached.inspect_err(|error| self.note_refused(&user, &wanted, error))
    }

    /// Fails where the user of a client has as many sessions as it may: for protocols that open one
    /// with each connection.
    ///
    /// # Errors
    /// `NotAllowed`; it is in the audit log.
    pub fn admit_session(self, client: &Client) -> Result<(), Error> {
        client.admit_session().inspect_err(|error| self.note_refused(client.user(), client.vhost(), error))
    }

    fn note_refused(self, user: &str, vhost: &str, error: &Error) {
        let (peer, user, vhost) = (self.peer.remote, shown_name(user), shown_name(vhost));
        tracing::warn!(target: "audit", %peer, user, vhost, reason = %error, "{}", self.words.refused);
    }

    /// Notes in the audit log that a client has its connection.
    pub fn note_open(self, client: &Client, label: Label<'_>) {
        let (user, vhost, encrypted) = (client.user(), client.vhost(), self.peer.encrypted);
        let (name, session) = match label {
            Label::Name(name) => (name, None),
            Label::Session(session) => (None, Some(display(session))),
        };
        let (peer, backend) = (self.peer.remote, client.identity().backend());
        tracing::info!(target: "audit", %peer, user, vhost, encrypted, name, session, backend, "{}", self.words.opened);
    }
}

/// A renewal whose outcome is not known yet.
#[derive(Debug)]
pub struct PendingRenewal(Login);

impl PendingRenewal {
    /// Once it is known: whether the client has the rights of its newer secret now. A refusal is in
    /// the audit log then.
    pub fn take(&self, peer: &Peer, client: &mut Client) -> Option<bool> {
        let reason = match self.0.take()? {
            Ok(newer) => client.renew(&newer).err().map(|error| error.to_string()),
            Err(refusal) => Some(refusal.to_string()),
        };
        let (peer, user, vhost) = (peer.remote, shown_name(client.user()), shown_name(client.vhost()));
        match &reason {
            None => tracing::info!(target: "audit", %peer, user, vhost, "secret renewed"),
            Some(reason) => tracing::warn!(target: "audit", %peer, user, vhost, reason, "secret not renewed"),
        }
        Some(reason.is_none())
    }
}

/// A log-in whose outcome is not known yet.
#[derive(Debug)]
pub struct PendingLogin {
    pub(crate) login: Login,
    pub(crate) mechanism: Mechanism,
    pub(crate) user: Box<str>,
}

impl PendingLogin {
    /// How the user proves who it is.
    pub fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// The user, as the client gave it.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The outcome, once it is known. A refusal is in the audit log then. A user whose rights are
    /// decided elsewhere is let in where the connection may wait for that.
    pub fn take(&self, entrance: Entrance<'_>) -> Option<Result<Identity, Refusal>> {
        if self.login.is_decided_elsewhere() && !waiting::is_allowed() {
            entrance.may_wait.set(true);
            entrance.waker.wake_by_ref();
            return None;
        }
        let outcome = self.login.take()?;
        if let Err(refusal) = &outcome {
            self.note_refusal(refusal, entrance);
        }
        Some(outcome)
    }

    fn note_refusal(&self, reason: &Refusal, entrance: Entrance<'_>) {
        let Words { login_refused, names_mechanism, .. } = entrance.words;
        let (peer, user) = (entrance.peer.remote, shown_name(&self.user));
        let mechanism = names_mechanism.then(|| self.mechanism.name());
        if reason.is_endless() {
            // The refusals that led to this one are in the log. This one can be repeated as fast as
            // connections can be made, so it is logged at debug level only.
            tracing::debug!(target: "audit", %peer, user, mechanism, %reason, "{login_refused}");
        } else {
            tracing::warn!(target: "audit", %peer, user, mechanism, %reason, stranger = Empty, "{login_refused}");
        }
    }
}
