//! CONNECT: what the client wants, its log-in, its vhost.
//!
//! Checking a password takes a while, and the connection is not read meanwhile. A refused client is
//! told only that it was refused; the log has the reason.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use auth::sasl::Mechanism;
use auth::{Identity, Spelling};
use broker::{Client, Table, Terms, Value};
use front::{Entrance, Label, PendingLogin, Wish};

use super::Shared;
use super::claims::ClientKey;
use super::enhanced::{Enhanced, write_challenge};
use super::failure::{Failure, check_topic};
use super::outgoing::Accepts;
use super::store::NEVER;
use super::will::WillMessage;
use crate::codec::{Connect, Notice, PropertyId, Reason, Version};
use crate::dialect::Mark;

/// What a client asked for, with the server's bounds.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) accepts: Accepts,
    pub(super) client_id: String,
    /// The server has chosen the identifier.
    pub(super) is_assigned: bool,
    pub(super) clean_start: bool,
    /// Seconds that the session outlives the connection.
    pub(super) expiry: u32,
    /// The server has shortened that.
    pub(super) is_shortened: bool,
    /// The most messages that the client leaves unanswered.
    pub(super) receive_maximum: u16,
    /// How often the client must say something; zero for never.
    pub(super) keep_alive: Duration,
    /// Whether the client wants reasons in words.
    pub(super) wants_reasons: bool,
    /// The server's own proof in an enhanced log-in.
    pub(super) proof: Option<String>,
}

/// How the client proves who it is.
enum Proving {
    Password(PendingLogin),
    Enhanced(Enhanced),
}

impl Proving {
    /// The log-in, once only its outcome is missing.
    fn checking(&self) -> Option<&PendingLogin> {
        match self {
            Self::Password(login) => Some(login),
            Self::Enhanced(enhanced) => enhanced.checking(),
        }
    }
}

/// A CONNECT whose password is being checked.
pub(super) struct Connecting {
    pub(super) asked: Asked,
    mark: Mark,
    will: Option<WillMessage>,
    vhost: String,
    proving: Proving,
}

/// A client that has logged in.
pub(super) struct Entered {
    pub(super) client: Client,
    pub(super) mark: Mark,
    pub(super) will: Option<WillMessage>,
}

fn asked(connect: &Connect<'_>, shared: &Shared) -> Result<Asked, Failure> {
    let Connect { version, properties, .. } = *connect;
    let number = |id| properties.number(id);
    let is_clean = connect.clean_start;
    if connect.client_id.is_empty() && version != Version::V5 && (!is_clean || version == Version::V3_1) {
        let text = "a client without an identifier must ask for a clean session [3.1.1: MQTT-3.1.3-8]";
        return Err(Failure::new(Reason::ClientIdInvalid, text));
    }
    let wanted = match version {
        Version::V5 => number(PropertyId::SessionExpiry).unwrap_or(0),
        _ if is_clean => 0,
        _ => NEVER,
    };
    let most = shared.settings.session_expiry;
    let expiry = if most == NEVER { wanted } else { wanted.min(most) };
    let is_assigned = connect.client_id.is_empty();
    let client_id = if is_assigned { shared.broker.name("hermod-") } else { connect.client_id.to_owned() };
    // A client that says how many it takes gets as many: it may answer all of them together.
    let receive_maximum = number(PropertyId::ReceiveMaximum).map_or(shared.settings.max_inflight, |most| most as u16);
    Ok(Asked {
        accepts: Accepts {
            version,
            packet: number(PropertyId::MaximumPacketSize).unwrap_or(u32::MAX),
            aliases: number(PropertyId::TopicAliasMaximum).unwrap_or(0) as u16,
        },
        client_id,
        is_assigned,
        clean_start: is_clean,
        expiry,
        is_shortened: expiry != wanted,
        receive_maximum,
        keep_alive: Duration::from_secs(connect.keep_alive.into()),
        wants_reasons: number(PropertyId::RequestProblemInformation) != Some(0),
        proof: None,
    })
}

/// The vhost and the user of a user name: `vhost:user`, as RabbitMQ has it, or a user alone.
fn split_user<'u>(name: &'u str, shared: &Shared) -> (String, &'u str) {
    match name.rsplit_once(':') {
        Some((vhost, user)) if shared.broker.has_vhost(vhost) => (vhost.to_owned(), user),
        _ => (shared.settings.default_vhost.clone(), name),
    }
}

impl Connecting {
    /// Reads the packet and starts to check the password. A challenge is written.
    pub(super) fn start(
        connect: &Connect<'_>,
        shared: &Shared,
        entrance: Entrance<'_>,
        out: &mut Vec<u8>,
        now: Instant,
    ) -> Result<Self, Failure> {
        let asked = asked(connect, shared)?;
        if let Some(will) = connect.will {
            check_topic(will.topic)?;
            if will.qos > shared.settings.max_qos {
                return Err(Failure::new(Reason::QosNotSupported, super::QOS_2));
            }
        }
        let enhanced = Enhanced::start(connect.properties, &shared.settings.mechanisms, entrance, now)?;
        let (user, vhost, proving) = match enhanced {
            Some((enhanced, user, challenge)) => {
                write_challenge(&challenge, out);
                // A user name in CONNECT only says the virtual host.
                let (vhost, _) = split_user(connect.user.unwrap_or_default(), shared);
                (user, vhost, Proving::Enhanced(enhanced))
            }
            None => {
                let (user, vhost, login) = log_in(connect, shared, entrance, now)?;
                (user, vhost, Proving::Password(login))
            }
        };
        let mark = Mark::of(&user, &asked.client_id);
        let will = connect.will.map(|will| WillMessage::of(&will, mark));
        Ok(Self { asked, mark, will, vhost, proving })
    }

    /// Whether the client has to go on with its log-in.
    pub(super) fn is_asked(&self) -> bool {
        self.proving.checking().is_none()
    }

    /// AUTH: the client goes on with its log-in.
    pub(super) fn respond(&mut self, auth: &Notice<'_>, entrance: Entrance<'_>, now: Instant) -> Result<(), Failure> {
        match &mut self.proving {
            Proving::Enhanced(enhanced) => enhanced.respond(auth, entrance, now),
            Proving::Password(_) => Err(Failure::protocol("no enhanced log-in has begun [MQTT-4.12.0-7]")),
        }
    }

    /// The client, when the password has been checked.
    pub(super) fn finish(&mut self, entrance: Entrance<'_>) -> Option<Result<Entered, Failure>> {
        let login = self.proving.checking()?;
        let outcome = login.take(entrance)?;
        let (user, mechanism) = (login.user().to_owned(), login.mechanism().name());
        Some(match outcome {
            Ok(identity) => self.attach(identity, mechanism, entrance),
            Err(_) => {
                let text = format!("access refused for user '{user}'");
                Err(Failure::new(Reason::BadUserOrPassword, text))
            }
        })
    }

    fn attach(
        &mut self,
        identity: Identity,
        mechanism: &'static str,
        entrance: Entrance<'_>,
    ) -> Result<Entered, Failure> {
        let version = Value::Text(self.asked.accepts.version.as_str().to_owned());
        let wish = Wish {
            vhost: self.vhost.clone(),
            name: Some(self.asked.client_id.clone()),
            properties: Table(vec![("protocol_version".to_owned(), version)]),
            terms: Terms {
                mechanism,
                keep_alive: self.asked.keep_alive,
                piece_bytes: if self.asked.accepts.packet == u32::MAX { 0 } else { self.asked.accepts.packet },
                ..Terms::default()
            },
        };
        let client = entrance
            .attach(identity.spelled(Spelling::Word), wish)
            .map_err(|error| Failure::new(Reason::NotAuthorized, error.text))?;
        entrance.note_open(&client, Label::Name(Some(&self.asked.client_id)));
        Ok(Entered { client, mark: self.mark, will: self.will.take() })
    }
}

impl Connecting {
    /// What was asked for, and the server's proof.
    pub(super) fn into_asked(self) -> Asked {
        let proof = match self.proving {
            Proving::Enhanced(enhanced) => enhanced.into_proof(),
            Proving::Password(_) => None,
        };
        Asked { proof, ..self.asked }
    }
}

/// The user and the virtual host of a log-in by password, or by certificate, and its outcome.
fn log_in(
    connect: &Connect<'_>,
    shared: &Shared,
    entrance: Entrance<'_>,
    now: Instant,
) -> Result<(String, String, PendingLogin), Failure> {
    let by_certificate = shared.settings.mechanisms.contains(&Mechanism::External);
    let certified = entrance.peer.certified_user.as_deref().filter(|_| by_certificate);
    let default = shared.settings.default_login.as_ref();
    let (name, password) = match (connect.user, certified, default) {
        (Some(user), ..) => (Cow::Borrowed(user), Some(connect.password.unwrap_or_default())),
        // A token says whose it is. A password without a name is no log-in of another user.
        (None, ..) if connect.password.is_some() => (Cow::Borrowed(""), connect.password),
        (None, Some(user), _) => (Cow::Borrowed(user), None),
        (None, None, Some((user, password))) => (Cow::Borrowed(&**user), Some(password.as_bytes())),
        (None, None, None) => {
            let text = "CONNECT has no user name, and mqtt.default_user is not set";
            return Err(Failure::new(Reason::NotAuthorized, text));
        }
    };
    let (vhost, user) = split_user(&name, shared);
    // MQTT has no names for the mechanisms; these are their names in SASL.
    let login = match password {
        Some(password) => entrance.log_in(Mechanism::Plain, user, password, now),
        None => entrance.admit(Mechanism::External, user, now),
    };
    Ok((user.to_owned(), vhost, login))
}

/// Whose identifier a client claims.
pub(super) fn key_of(client: &Client, client_id: &str) -> ClientKey {
    ClientKey { vhost: client.vhost().to_owned(), user: client.user().to_owned(), client_id: client_id.to_owned() }
}
