//! The enhanced log-in of MQTT 5: SCRAM-SHA-256 in CONNECT, AUTH and CONNACK (section 4.12).
//!
//! CONNECT has the client's first message, and CONNACK the server's own proof. So there is one AUTH
//! from each side.

use std::time::Instant;

use auth::sasl::Mechanism;
use auth::sasl::scram::First;
use front::{Entrance, Mechanisms, PendingLogin, Sasl};

use super::failure::Failure;
use crate::codec::{Notice, Packet, Properties, PropertyBlock, PropertyId, Reason, Version, encode};

/// The mechanism that is offered.
const METHOD: Mechanism = Mechanism::ScramSha256;

/// A log-in under way.
#[derive(Debug)]
pub(super) struct Enhanced {
    sasl: Option<Sasl>,
    /// The server's own proof, once the client has proven itself.
    proof: Option<String>,
}

fn malformed(error: auth::sasl::MalformedResponse) -> Failure {
    Failure::new(Reason::BadUserOrPassword, error.0)
}

impl Enhanced {
    /// Begins with the first message of a client, if it asks for such a log-in. Returns its user
    /// and the challenge.
    pub(super) fn start(
        properties: Properties<'_>,
        allowed: &[Mechanism],
        entrance: Entrance<'_>,
        now: Instant,
    ) -> Result<Option<(Self, String, String)>, Failure> {
        let Some(method) = properties.text(PropertyId::AuthenticationMethod) else { return Ok(None) };
        if method != METHOD.name() || !allowed.contains(&METHOD) {
            let text = format!(
                "the log-in method '{method}' is not offered: use {} where it is in auth_mechanisms, a user name and \
                 password, or a certificate",
                METHOD.name()
            );
            return Err(Failure::new(Reason::BadAuthenticationMethod, text));
        }
        let first = properties.binary(PropertyId::AuthenticationData).unwrap_or_default();
        let user = First::parse(first).map_err(malformed)?.user().to_owned();
        let mechanisms = Mechanisms { allowed, anonymous: None };
        let (sasl, challenge) = Sasl::start(entrance, mechanisms, METHOD, first, now).map_err(malformed)?;
        Ok(Some((Self { sasl: Some(sasl), proof: None }, user, challenge.unwrap_or_default())))
    }

    /// Takes the client's answer to the challenge.
    pub(super) fn respond(&mut self, auth: &Notice<'_>, entrance: Entrance<'_>, now: Instant) -> Result<(), Failure> {
        let method = auth.properties.text(PropertyId::AuthenticationMethod);
        if auth.reason != Reason::ContinueAuthentication || method != Some(METHOD.name()) || self.proof.is_some() {
            return Err(Failure::protocol("AUTH does not go on with the log-in that CONNECT has begun [4.12]"));
        }
        let response = auth.properties.binary(PropertyId::AuthenticationData).unwrap_or_default();
        let Some(sasl) = self.sasl.take() else { return Ok(()) };
        let (sasl, proof) = sasl.respond(entrance, response, now).map_err(malformed)?;
        // It leaves with CONNACK, so the client has nothing more to say.
        let (sasl, _) = sasl.respond(entrance, b"", now).map_err(malformed)?;
        (self.sasl, self.proof) = (Some(sasl), Some(proof.unwrap_or_default()));
        Ok(())
    }

    /// The log-in, once only its outcome is missing.
    pub(super) fn checking(&self) -> Option<&PendingLogin> {
        self.sasl.as_ref()?.checking()
    }

    /// What CONNACK has of it.
    pub(super) fn into_proof(self) -> Option<String> {
        self.proof
    }
}

/// Writes the method and its data.
pub(super) fn put(data: &str, block: &mut PropertyBlock) {
    block.text(PropertyId::AuthenticationMethod, METHOD.name());
    block.binary(PropertyId::AuthenticationData, data.as_bytes());
}

/// Writes the challenge.
pub(super) fn write_challenge(challenge: &str, out: &mut Vec<u8>) {
    let mut block = PropertyBlock::default();
    put(challenge, &mut block);
    let notice = Notice { reason: Reason::ContinueAuthentication, properties: block.as_properties() };
    encode(&Packet::Auth(notice), Version::V5, out);
}
