//! The server's half of the opening handshake: header, start, log-in, tune, open; and later methods
//! of channel 0.
//!
//! Before a user has logged in and opened a virtual host, nothing here asks the broker for anything
//! else. The texts of refusals are RabbitMQ's.

use std::time::{Duration, Instant};

use auth::Identity;
use auth::sasl::{MalformedResponse, Mechanism};
use broker::Terms;
use front::{Label, Sasl, Wish};

use crate::codec::frame::FrameKind;
use crate::codec::methods::{
    ConnectionOpen, ConnectionOpenOk, ConnectionSecure, ConnectionStart, ConnectionStartOk, ConnectionTune,
    ConnectionTuneOk, ConnectionUpdateSecretOk,
};
use crate::codec::table::{Value, encode_fields};
use crate::codec::{Frame, Method, Table, decode_method};
use crate::dialect::table_to_neutral;
use crate::limits::{FRAME_MIN_SIZE, PROTOCOL_HEADER};
use crate::session::connection::{AmqpConnection, Phase, SILENCE};
use crate::session::context::UserNames;
use crate::session::error::{Failure, ReplyCode};
use crate::session::link::{Traits, Waiting};
use crate::session::running::Running;

/// The header of AMQP 0-9, whose clients can use 0-9-1.
const HEADER_0_9: [u8; 8] = *b"AMQP\x01\x01\x00\x09";
/// Class and method of a failed negotiation.
const TUNE: (u16, u16) = (10, 30);
/// Class and method of a new secret.
const UPDATE_SECRET: (u16, u16) = (10, 70);

impl AmqpConnection {
    pub(super) fn take_header(&mut self, input: &[u8]) -> usize {
        let Some(header) = input.first_chunk::<8>() else { return 0 };
        if !matches!(*header, PROTOCOL_HEADER | HEADER_0_9) {
            // The specification's answer to any other version and to noise: our header, and then
            // the end.
            self.link.out.put(&PROTOCOL_HEADER);
            self.finish();
            return input.len();
        }
        let properties = self.server_properties();
        let offered = self.server.settings.mechanisms().offered(&self.line.peer);
        let mechanisms = offered.map(Mechanism::name).collect::<Vec<_>>().join(" ");
        self.link.send(
            0,
            ConnectionStart {
                version_major: 0,
                version_minor: 9,
                // This was just encoded, so it is a valid table.
                server_properties: Table::new(&properties).unwrap_or_default(),
                mechanisms: mechanisms.as_bytes(),
                locales: b"en_US",
            },
        );
        self.phase = Phase::Starting;
        header.len()
    }

    fn server_properties(&self) -> Vec<u8> {
        let settings = &self.server.settings;
        let capabilities = [
            "publisher_confirms",
            "exchange_exchange_bindings",
            "basic.nack",
            "consumer_cancel_notify",
            "connection.blocked",
            "consumer_priorities",
            "authentication_failure_close",
            "per_consumer_qos",
            "direct_reply_to",
        ];
        let capabilities = capabilities.map(|name| (name.to_owned(), Value::Bool(true))).to_vec();
        let text = |name: &str, value: &str| (name.to_owned(), Value::from(value));
        encode_fields(&[
            ("capabilities".to_owned(), Value::Table(capabilities)),
            text("cluster_name", &self.server.broker.cluster_name()),
            text("information", "Hermod speaks AMQP 0-9-1 with RabbitMQ's extensions"),
            text("platform", "Rust"),
            text("product", &settings.product),
            text("version", &settings.version),
        ])
    }

    /// Takes a frame of channel 0.
    pub(super) fn take_connection_frame(&mut self, frame: Frame<'_>, now: Instant) -> Result<(), Failure> {
        match frame.kind {
            FrameKind::Heartbeat => Ok(()),
            FrameKind::Method => match decode_method(frame.payload) {
                Ok(method) if matches!(self.phase, Phase::Closing) => {
                    self.take_while_closing(&method);
                    Ok(())
                }
                Ok(method) => self.take_connection_method(method, now).map_err(|failure| failure.of(method.id())),
                Err(_) if matches!(self.phase, Phase::Closing) => Ok(()),
                Err(error) => Err(error.into()),
            },
            _ if matches!(self.phase, Phase::Closing) => Ok(()),
            FrameKind::Header | FrameKind::Body => {
                let text = format!("type {}, all octets = <<>>", frame.kind as u8);
                Err(Failure::new(ReplyCode::UnexpectedFrame, text))
            }
        }
    }

    fn take_connection_method(&mut self, method: Method<'_>, now: Instant) -> Result<(), Failure> {
        match (method, &self.phase) {
            (Method::ConnectionStartOk(start_ok), Phase::Starting) => self.take_start_ok(&start_ok, now),
            (Method::ConnectionSecureOk(answer), Phase::Securing(_)) => self.take_secure_ok(answer.response, now),
            (Method::ConnectionTuneOk(tune_ok), Phase::Tuning(_)) => self.take_tune_ok(&tune_ok, now),
            (Method::ConnectionOpen(open), Phase::Opening(_)) => self.take_open(&open),
            (Method::ConnectionClose(_), Phase::Tuning(_) | Phase::Opening(_) | Phase::Running) => {
                self.close_politely(now);
                Ok(())
            }
            (Method::ConnectionUpdateSecret(update), Phase::Running) => {
                self.renew(update.new_secret, now);
                Ok(())
            }
            (_, phase) => {
                let text = format!("unexpected method in connection state {}", phase.name());
                Err(Failure::new(ReplyCode::ChannelError, text))
            }
        }
    }

    fn take_start_ok(&mut self, start_ok: &ConnectionStartOk<'_>, now: Instant) -> Result<(), Failure> {
        self.link.traits = Traits::from_properties(start_ok.client_properties);
        let mechanisms = self.server.settings.mechanisms();
        let chosen = Mechanism::parse(start_ok.mechanism).filter(|chosen| mechanisms.offers(*chosen, &self.line.peer));
        let Some(mechanism) = chosen else {
            let text = format!("unknown authentication mechanism '{}'", start_ok.mechanism);
            return Err(Failure::new(ReplyCode::CommandInvalid, text));
        };
        self.link.traits.mechanism = mechanism.name();
        let step = Sasl::start(self.entrance(), mechanisms, mechanism, start_ok.response, now);
        self.secure(step, now)
    }

    fn take_secure_ok(&mut self, response: &[u8], now: Instant) -> Result<(), Failure> {
        match std::mem::replace(&mut self.phase, Phase::Starting) {
            Phase::Securing(sasl) => {
                let step = sasl.respond(self.entrance(), response, now);
                self.secure(step, now)
            }
            other => {
                self.phase = other;
                Ok(())
            }
        }
    }

    /// Sends the next challenge of a log-in, or waits for its outcome.
    fn secure(&mut self, step: Result<(Sasl, Option<String>), MalformedResponse>, now: Instant) -> Result<(), Failure> {
        let (sasl, challenge) = step.map_err(|error| Failure::new(ReplyCode::SyntaxError, error.0))?;
        if let Some(challenge) = challenge {
            self.link.send(0, ConnectionSecure { challenge: challenge.as_bytes() });
        }
        self.phase = Phase::Securing(sasl);
        self.take_login(now);
        Ok(())
    }

    /// Continues if the outcome of the log-in is known.
    pub(super) fn take_login(&mut self, now: Instant) {
        let Phase::Securing(sasl) = &self.phase else { return };
        match sasl.take(self.entrance()) {
            None => {}
            Some(Ok(identity)) => {
                let settings = &self.server.settings;
                // 0 stands for 65 535.
                self.channel_max = u16::try_from(self.server.broker.sessions_per_connection()).unwrap_or_default();
                self.link.send(
                    0,
                    ConnectionTune {
                        channel_max: self.channel_max,
                        frame_max: settings.frame_max,
                        heartbeat: settings.heartbeat,
                    },
                );
                self.phase = Phase::Tuning(identity);
            }
            Some(Err(_)) => self.refuse_login(now),
        }
    }

    /// Starts to check a newer secret. Nothing more is read until the outcome is known.
    fn renew(&mut self, secret: &[u8], now: Instant) {
        let Some(running) = &self.running else { return };
        match self.entrance().renew(&running.client, secret, now) {
            Some(renewal) => {
                self.link.waiting = Some(Waiting::Renewal(renewal));
                self.take_renewal(now);
            }
            None => self.link.send(0, ConnectionUpdateSecretOk {}),
        }
    }

    /// Continues if the outcome of a renewal is known.
    pub(super) fn take_renewal(&mut self, now: Instant) {
        let (Some(Waiting::Renewal(renewal)), Some(running)) = (&self.link.waiting, &mut self.running) else { return };
        let Some(is_renewed) = renewal.take(&self.line.peer, &mut running.client) else { return };
        self.link.waiting = None;
        if is_renewed {
            self.link.send(0, ConnectionUpdateSecretOk {});
        } else {
            let failure = Failure::new(ReplyCode::NotAllowed, "New secret was refused by one of the backends");
            self.fail(0, failure.of(UPDATE_SECRET), now);
        }
    }

    fn refuse_login(&mut self, now: Instant) {
        if !self.link.traits.authentication_failure_close {
            self.ignore(now);
            return;
        }
        let mechanism = self.link.traits.mechanism;
        let text = format!(
            "Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
        );
        self.link.send_failure(0, &Failure::new(ReplyCode::AccessRefused, text));
        self.phase = Phase::Closing;
        self.line.phase_ends = Some(now + SILENCE);
    }

    fn take_tune_ok(&mut self, tune_ok: &ConnectionTuneOk, now: Instant) -> Result<(), Failure> {
        let settings = &self.server.settings;
        let (frame_max, channel_max) = (tune_ok.frame_max, u32::from(tune_ok.channel_max));
        self.link.frame_max = negotiated("frame_max", frame_max, FRAME_MIN_SIZE, settings.frame_max)?;
        let channel_max = negotiated("channel_max", channel_max, 1, self.channel_max.into())?;
        self.channel_max = u16::try_from(channel_max).ok().filter(|most| *most > 0).unwrap_or(u16::MAX);
        // The halves and the two intervals are RabbitMQ's, and clients rely on them.
        let interval = (tune_ok.heartbeat > 0).then(|| Duration::from_secs(tune_ok.heartbeat.into()));
        self.line.keep_alive.agree(interval, interval, now);
        if let Phase::Tuning(identity) = std::mem::replace(&mut self.phase, Phase::Closed) {
            self.phase = Phase::Opening(identity);
        }
        Ok(())
    }

    fn take_open(&mut self, open: &ConnectionOpen<'_>) -> Result<(), Failure> {
        // Some clients leave out the name and mean the default vhost.
        let vhost = if open.virtual_host.is_empty() { "/" } else { open.virtual_host };
        match std::mem::replace(&mut self.phase, Phase::Starting) {
            Phase::Opening(identity) => self.attach(identity, vhost),
            other => {
                self.phase = other;
                Ok(())
            }
        }
    }

    fn attach(&mut self, identity: Identity, vhost: &str) -> Result<(), Failure> {
        let names = if identity.tags().has("impersonator") { UserNames::All } else { UserNames::Own };
        let wish = Wish {
            vhost: vhost.to_owned(),
            name: self.link.traits.connection_name.clone(),
            properties: properties_of(&std::mem::take(&mut self.link.traits.properties)),
            terms: Terms {
                mechanism: self.link.traits.mechanism,
                keep_alive: self.line.keep_alive.interval(),
                piece_bytes: self.link.frame_max,
                sessions: self.channel_max.into(),
            },
        };
        let client = self.entrance().attach(identity, wish)?;
        self.entrance().note_open(&client, Label::Name(self.link.traits.connection_name.as_deref()));
        self.running = Some(Running::new(client, self.server.broker.clone(), self.channel_max, names));
        self.link.send(0, ConnectionOpenOk::default());
        self.phase = Phase::Running;
        self.line.phase_ends = None;
        Ok(())
    }
}

/// The properties that a client sent, for display.
fn properties_of(bytes: &[u8]) -> broker::Table {
    // They were validated when they arrived.
    table_to_neutral(Table::new(bytes).unwrap_or_default())
}

/// The agreed limit. A client may lower the server's limit, to `min` at the lowest. 0 means no
/// limit, on both sides.
fn negotiated(field: &str, client: u32, min: u32, server: u32) -> Result<u32, Failure> {
    let refused = |relation: &str, limit: u32| {
        let text = format!("negotiated {field} = {client} is {relation} allowed value ({limit})");
        Err(Failure::new(ReplyCode::NotAllowed, text).of(TUNE))
    };
    match client {
        // The specification, of tune-ok: "Zero means that the client does not impose any specific
        // limit".
        0 => Ok(server),
        _ if client < min => refused("lower than the minimum", min),
        _ if server != 0 && client > server => refused("higher than the maximum", server),
        _ => Ok(client),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_may_only_lower_what_was_offered() {
        let table = [
            (4096, 4096, 131_072, Ok(4096)),
            (131_072, 4096, 131_072, Ok(131_072)),
            (0, 4096, 131_072, Ok(131_072)),
            (0, 4096, 0, Ok(0)),
            (200_000, 4096, 0, Ok(200_000)),
            (4095, 4096, 131_072, Err("negotiated f = 4095 is lower than the minimum allowed value (4096)")),
            (131_073, 4096, 131_072, Err("negotiated f = 131073 is higher than the maximum allowed value (131072)")),
        ];
        for (client, min, server, expected) in table {
            let agreed = negotiated("f", client, min, server).map_err(|failure| failure.text);
            assert_eq!(agreed.as_ref().map_err(String::as_str), expected.as_ref().map_err(|text| *text));
        }
    }
}
