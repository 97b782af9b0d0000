//! The server's half of a log-in by SASL: which mechanisms a peer may use, and what is said until
//! the outcome is known.
//!
//! A protocol carries challenges and responses. It may be unable to send data with the outcome, so
//! the server's own proof by SCRAM is one more challenge, which the client answers with an empty
//! response.

use std::time::Instant;

use auth::sasl::scram::Exchange;
use auth::sasl::{self, MalformedResponse, Mechanism};
use auth::{Identity, Refusal};
use wire::Peer;

use crate::entrance::{Entrance, PendingLogin};

/// The mechanisms that the operator has allowed.
#[derive(Debug, Clone, Copy)]
pub struct Mechanisms<'s> {
    /// In the order in which they are offered.
    pub allowed: &'s [Mechanism],
    /// The user of clients that log in by ANONYMOUS.
    pub anonymous: Option<&'s str>,
}

impl<'s> Mechanisms<'s> {
    /// Whether this peer may use this mechanism.
    pub fn offers(self, mechanism: Mechanism, peer: &Peer) -> bool {
        self.allowed.contains(&mechanism)
            && match mechanism {
                Mechanism::Plain | Mechanism::AmqPlain | Mechanism::ScramSha256 => true,
                Mechanism::External => peer.certified_user.is_some(),
                Mechanism::Anonymous => self.anonymous.is_some(),
            }
    }

    /// Those that this peer may use.
    pub fn offered(self, peer: &Peer) -> impl Iterator<Item = Mechanism> + use<'s, '_> {
        self.allowed.iter().copied().filter(move |mechanism| self.offers(*mechanism, peer))
    }
}

/// A log-in by SASL under way.
#[derive(Debug)]
pub struct Sasl(State);

#[derive(Debug)]
enum State {
    /// The client chose PLAIN without credentials, and was asked for them.
    Asked,
    /// Waits for the client's proof by SCRAM.
    Challenged(Box<Exchange>),
    /// Waits for the client's answer to the server's own proof; the outcome is known.
    Proven(PendingLogin),
    /// Waits for the outcome.
    Checking(PendingLogin),
}

/// A log-in, and the challenge that the client must be sent.
type Step = (Sasl, Option<String>);

impl Sasl {
    /// Begins a log-in with the client's first response.
    ///
    /// # Errors
    /// When the response is not one of this mechanism.
    pub fn start(
        entrance: Entrance<'_>,
        mechanisms: Mechanisms<'_>,
        mechanism: Mechanism,
        response: &[u8],
        now: Instant,
    ) -> Result<Step, MalformedResponse> {
        let login = match mechanism {
            // The client must speak first (RFC 4422), so one that has sent no credentials is asked
            // for them.
            Mechanism::Plain if response.is_empty() => return Ok((Self(State::Asked), Some(String::new()))),
            Mechanism::Plain => return plain(entrance, response, now),
            Mechanism::AmqPlain => {
                let given = sasl::amqplain::parse(response)?;
                entrance.log_in(mechanism, given.user, given.password, now)
            }
            Mechanism::ScramSha256 => {
                let (exchange, challenge) = entrance.broker.authority().challenge(response)?;
                return Ok((Self(State::Challenged(Box::new(exchange))), Some(challenge)));
            }
            // The response of the client is ignored: clients put anything there, and it proves
            // nothing. Neither mechanism is offered without a user, and a user without a name does
            // not exist.
            Mechanism::External => {
                entrance.admit(mechanism, entrance.peer.certified_user.as_deref().unwrap_or_default(), now)
            }
            Mechanism::Anonymous => entrance.admit(mechanism, mechanisms.anonymous.unwrap_or_default(), now),
        };
        Ok((Self(State::Checking(login)), None))
    }

    /// Takes the response to a challenge.
    ///
    /// # Errors
    /// When the response is not one of this mechanism.
    pub fn respond(self, entrance: Entrance<'_>, response: &[u8], now: Instant) -> Result<Step, MalformedResponse> {
        match self.0 {
            State::Asked => plain(entrance, response, now),
            State::Challenged(exchange) => {
                let from = entrance.peer.remote.ip();
                let (login, proof) = entrance.broker.authority().prove(&exchange, response, from, now)?;
                let login = PendingLogin { login, mechanism: Mechanism::ScramSha256, user: exchange.user().into() };
                match proof {
                    None => Ok((Self(State::Checking(login)), None)),
                    proof => Ok((Self(State::Proven(login)), proof)),
                }
            }
            State::Proven(login) => Ok((Self(State::Checking(login)), None)),
            State::Checking(login) => Ok((Self(State::Checking(login)), None)),
        }
    }

    /// The log-in of which only the outcome is missing. `None` while the client must respond.
    pub fn checking(&self) -> Option<&PendingLogin> {
        match &self.0 {
            State::Checking(login) => Some(login),
            State::Asked | State::Challenged(_) | State::Proven(_) => None,
        }
    }

    /// The outcome, once it is known. A refusal is in the audit log then.
    pub fn take(&self, entrance: Entrance<'_>) -> Option<Result<Identity, Refusal>> {
        self.checking()?.take(entrance)
    }
}

fn plain(entrance: Entrance<'_>, response: &[u8], now: Instant) -> Result<Step, MalformedResponse> {
    let given = sasl::plain::parse(response)?;
    let login = entrance.log_in(Mechanism::Plain, given.user, given.password, now);
    Ok((Sasl(State::Checking(login)), None))
}
