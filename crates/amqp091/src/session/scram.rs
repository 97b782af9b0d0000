//! SCRAM-SHA-256 within the handshake: challenge and proof, and the server's own proof before tune.
//!
//! AMQP can't send data with the outcome, so the server's proof is one more challenge. The client
//! answers it with an empty response.

use std::time::Instant;

use auth::sasl::Mechanism;

use crate::codec::methods::ConnectionSecure;
use crate::session::connection::{AmqpConnection, Phase};
use crate::session::error::{Failure, ReplyCode};

impl AmqpConnection {
    /// Answers the client's first message, which is in start-ok.
    pub(super) fn challenge(&mut self, response: &[u8]) -> Result<(), Failure> {
        let authority = self.server.broker.authority();
        let started = authority.challenge(response);
        let (exchange, challenge) = started.map_err(|error| Failure::new(ReplyCode::SyntaxError, error.0))?;
        self.link.send(0, ConnectionSecure { challenge: challenge.as_bytes() });
        self.phase = Phase::Challenged(Box::new(exchange));
        Ok(())
    }

    /// Takes a secure-ok: the client's proof, or its empty answer to the server's proof. With
    /// PLAIN, it has the credentials that start-ok lacked.
    pub(super) fn take_secure_ok(&mut self, response: &[u8], now: Instant) -> Result<(), Failure> {
        match std::mem::replace(&mut self.phase, Phase::Starting) {
            Phase::Challenged(exchange) => {
                let authority = self.server.broker.authority();
                let proven = authority.prove(&exchange, response, self.peer.remote.ip(), now);
                let (login, proof) = proven.map_err(|error| Failure::new(ReplyCode::SyntaxError, error.0))?;
                let (mechanism, user) = (Mechanism::ScramSha256, exchange.user().into());
                match proof {
                    None => {
                        self.phase = Phase::Authenticating { login, mechanism, user };
                        self.take_login(now);
                    }
                    Some(proof) => {
                        self.link.send(0, ConnectionSecure { challenge: proof.as_bytes() });
                        self.phase = Phase::Proven { login, user };
                    }
                }
            }
            Phase::Proven { login, user } => {
                self.phase = Phase::Authenticating { login, mechanism: Mechanism::ScramSha256, user };
                self.take_login(now);
            }
            Phase::Asked => return self.log_in(Mechanism::Plain, response, now),
            other => self.phase = other,
        }
        Ok(())
    }
}
