//! Protocol headers and the SASL layer (part 2, §2.2; part 5, §5.3), up to the user.
//!
//! Nothing here asks the broker for anything but the log-in.

use std::time::Instant;

use auth::sasl::{MalformedResponse, Mechanism};
use front::Sasl;

use crate::codec::frame::{FrameKind, PROTOCOL_HEADER, encode_frame};
use crate::codec::sasl::{SaslChallenge, SaslCode, SaslInit, SaslMechanisms, SaslOutcome};
use crate::codec::{Encode, ProtocolId, SaslFrame, Symbols, decode_sasl};
use crate::session::Settings;
use crate::session::connection::{Amqp10Connection, LoggedIn, Phase};
use crate::session::error::Failure;

impl Amqp10Connection {
    /// Takes the first or the second protocol header.
    pub(super) fn take_header(&mut self, input: &[u8], now: Instant) -> usize {
        let found = match ProtocolId::decode(input) {
            Ok(None) if input.len() < PROTOCOL_HEADER => return 0,
            found => found,
        };
        match (found, std::mem::replace(&mut self.phase, Phase::Header)) {
            (Ok(Some(ProtocolId::Sasl)), Phase::Header) => self.offer_mechanisms(),
            (Ok(Some(ProtocolId::Amqp)), Phase::Header) if self.is_offered(Mechanism::Anonymous) => {
                // The user is that of ANONYMOUS, as if the client had said so.
                let mechanisms = self.shared.settings.mechanisms();
                let step = Sasl::start(self.entrance(), mechanisms, Mechanism::Anonymous, b"", now);
                self.output.put(&ProtocolId::Amqp.header());
                if let Ok((sasl, _)) = step {
                    self.phase = Phase::Securing(sasl);
                    self.take_login();
                }
            }
            (Ok(Some(ProtocolId::Amqp)), Phase::Secured(logged_in)) => {
                self.output.put(&ProtocolId::Amqp.header());
                self.phase = Phase::Opening(logged_in);
            }
            // The specification's answer to what is not served here: a header that is, and the end.
            (_, Phase::Secured(_)) => {
                self.output.put(&ProtocolId::Amqp.header());
                self.leave_to_peer();
                return input.len();
            }
            _ => {
                self.output.put(&ProtocolId::Sasl.header());
                self.leave_to_peer();
                return input.len();
            }
        }
        PROTOCOL_HEADER
    }

    fn is_offered(&self, mechanism: Mechanism) -> bool {
        Settings::is_known(mechanism) && self.shared.settings.mechanisms().offers(mechanism, &self.line.peer)
    }

    /// Some clients wait for the mechanisms before they say anything else, so both go out at once.
    fn offer_mechanisms(&mut self) {
        self.layered = true;
        self.output.put(&ProtocolId::Sasl.header());
        let offered = self.shared.settings.mechanisms().offered(&self.line.peer);
        let names: Vec<_> = offered.filter(|one| Settings::is_known(*one)).map(Mechanism::name).collect();
        self.put_sasl(&SaslMechanisms { sasl_server_mechanisms: Symbols::of(&names) });
        self.phase = Phase::Mechanism;
    }

    fn put_sasl(&mut self, frame: &impl Encode) {
        encode_frame(self.output.tail(), FrameKind::Sasl, 0, frame);
    }

    pub(super) fn take_sasl(&mut self, body: &[u8], now: Instant) -> Result<(), Failure> {
        match (decode_sasl(body)?, std::mem::replace(&mut self.phase, Phase::Mechanism)) {
            (SaslFrame::Init(init), Phase::Mechanism) => self.take_init(&init, now),
            (SaslFrame::Response(response), Phase::Securing(sasl)) => {
                let step = sasl.respond(self.entrance(), response.response.0, now);
                self.secure(step);
            }
            _ => self.refuse_login(),
        }
        Ok(())
    }

    fn take_init(&mut self, init: &SaslInit<'_>, now: Instant) {
        self.hostname = init.hostname.map(str::to_owned);
        let chosen = Mechanism::parse(init.mechanism.0).filter(|chosen| self.is_offered(*chosen));
        let Some(mechanism) = chosen else {
            let (peer, mechanism) = (self.line.peer.remote, auth::shown_name(init.mechanism.0));
            tracing::debug!(target: "audit", %peer, %mechanism, "login refused: the mechanism is not offered");
            return self.refuse_login();
        };
        let response = init.initial_response.map_or(&[][..], |response| response.0);
        let step = Sasl::start(self.entrance(), self.shared.settings.mechanisms(), mechanism, response, now);
        self.secure(step);
    }

    /// Sends the next challenge of a log-in, or waits for its outcome.
    fn secure(&mut self, step: Result<(Sasl, Option<String>), MalformedResponse>) {
        let Ok((sasl, challenge)) = step else { return self.refuse_login() };
        if let Some(challenge) = challenge {
            self.put_sasl(&SaslChallenge { challenge: challenge.as_bytes() });
        }
        self.phase = Phase::Securing(sasl);
        self.take_login();
    }

    /// Continues if the outcome of the log-in is known.
    pub(super) fn take_login(&mut self) {
        let Phase::Securing(sasl) = &self.phase else { return };
        let Some(pending) = sasl.checking() else { return };
        let mechanism = pending.mechanism().name();
        let Some(outcome) = sasl.take(self.entrance()) else { return };
        let Ok(identity) = outcome else { return self.refuse_login() };
        let logged_in = LoggedIn { identity, mechanism, hostname: self.hostname.take() };
        if self.layered {
            self.put_sasl(&SaslOutcome { code: SaslCode::Ok, additional_data: None });
            self.phase = Phase::Secured(logged_in);
        } else {
            self.phase = Phase::Opening(logged_in);
        }
    }

    fn refuse_login(&mut self) {
        if self.layered {
            self.put_sasl(&SaslOutcome { code: SaslCode::Auth, additional_data: None });
        }
        self.leave_to_peer();
    }
}
