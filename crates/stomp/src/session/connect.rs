//! CONNECT: version, virtual host, user and heart-beats, before anything else can be reached.
//!
//! Checking a password takes a while, and the connection is not read meanwhile. A refused client is
//! told only that it was refused; the log has the reason.

use std::borrow::Cow;
use std::time::Instant;

use auth::sasl::Mechanism;
use broker::{Table, Terms};
use front::{Entrance, Label, PendingLogin, Wish};
use wire::Output;

use super::Shared;
use super::error::{Failure, VERSIONS};
use super::heart_beat;
use super::open::Session;
use crate::codec::{Command, Frame, FrameWriter, HeartBeat, Spoken, Version};

/// A CONNECT whose password is being checked.
pub(super) struct Connecting {
    version: Version,
    pub(super) heart_beat: HeartBeat,
    vhost: String,
    /// The name that the client gives itself, if it does.
    name: Option<String>,
    login: PendingLogin,
}

/// A frame other than CONNECT came first.
pub(super) fn log_in_first() -> Failure {
    Failure::new("Illegal command", "You must log in using CONNECT first")
}

/// The newest version that both sides support.
fn negotiate(accepted: Option<&str>) -> Result<Version, Failure> {
    let Some(accepted) = accepted else {
        return Ok(Version::V1_0);
    };
    accepted
        .split(',')
        .filter_map(Version::parse)
        .max()
        .ok_or_else(|| Failure::new("Version mismatch", format!("Supported versions are {VERSIONS}, not '{accepted}'")))
}

impl Connecting {
    /// Reads the frame and starts to check the password.
    pub(super) fn start(
        frame: &Frame<'_>,
        shared: &Shared,
        entrance: Entrance<'_>,
        now: Instant,
    ) -> Result<Self, Failure> {
        if !matches!(frame.command, Command::Connect | Command::Stomp) {
            return Err(log_in_first());
        }
        let version = negotiate(frame.headers.get("accept-version").as_deref())?;
        let header = |name: &str| {
            let value = frame.headers.get(name)?;
            // Clients of STOMP 1.0 put a blank after the colon.
            Some(if version == Version::V1_0 { Cow::Owned(value.trim_start().to_owned()) } else { value })
        };
        let heart_beat = match header("heart-beat") {
            None => HeartBeat::default(),
            Some(text) => HeartBeat::parse(&text).ok_or_else(|| {
                Failure::invalid("heart-beat", "two numbers of milliseconds as in 10000,10000", &text)
            })?,
        };
        let default = shared.settings.default_login.as_ref();
        let certified = entrance.peer.certified_user.as_deref().filter(|_| shared.settings.certificate_login);
        let (user, passcode) = match (header("login"), certified, default) {
            (Some(user), ..) => (user, Some(header("passcode").unwrap_or_default())),
            (None, Some(user), _) => (Cow::Borrowed(user), None),
            (None, None, Some((user, passcode))) => (Cow::Borrowed(&**user), Some(Cow::Borrowed(&**passcode))),
            (None, None, None) => return Err(Failure::missing(frame.command, "login")),
        };
        // STOMP has no names for the mechanisms; these are their names in SASL.
        let login = match passcode {
            Some(passcode) => entrance.log_in(Mechanism::Plain, &user, passcode.as_bytes(), now),
            None => entrance.admit(Mechanism::External, &user, now),
        };
        Ok(Self {
            version,
            heart_beat,
            vhost: choose_vhost(header("host"), shared),
            name: header("client-id").map(Cow::into_owned),
            login,
        })
    }

    /// The session, when the password has been checked; its CONNECTED frame is in `output`.
    pub(super) fn finish(
        &self,
        shared: &Shared,
        entrance: Entrance<'_>,
        output: &mut Output,
    ) -> Option<Result<Session, Failure>> {
        let outcome = self.login.take(entrance)?;
        Some(match outcome {
            Ok(identity) => self.attach(identity, shared, entrance, output),
            Err(_) => Err(Failure::new("Bad CONNECT", format!("Access refused for user '{}'", self.login.user()))),
        })
    }

    fn attach(
        &self,
        identity: auth::Identity,
        shared: &Shared,
        entrance: Entrance<'_>,
        output: &mut Output,
    ) -> Result<Session, Failure> {
        let wish = Wish {
            vhost: self.vhost.clone(),
            name: self.name.clone(),
            properties: Table::default(),
            terms: Terms {
                mechanism: self.login.mechanism().name(),
                keep_alive: heart_beat::interval(self.heart_beat),
                ..Terms::default()
            },
        };
        let refused = |error: broker::Error| Failure::new("Bad CONNECT", error.text);
        let mut client = entrance.attach(identity, wish).map_err(refused)?;
        entrance.admit_session(&client).map_err(refused)?;
        self.name.iter().for_each(|name| client.name_client(name));
        let name = shared.broker.name("");
        let spoken = Spoken { version: self.version, trailer: shared.settings.trailer };
        let mut frame = FrameWriter::for_peer(output.tail(), Command::Connected, spoken);
        frame
            .header("version", self.version.as_str())
            .header("session", &name)
            .header("heart-beat", &heart_beat::answer(self.heart_beat).to_string())
            .header("server", &shared.settings.server);
        frame.finish();
        entrance.note_open(&client, Label::Session(&name));
        let mut session = Session::new(client, shared.broker.dialects().clone(), spoken, &name);
        session.client_id.clone_from(&self.name);
        Ok(session)
    }
}

/// The virtual host that the client means. Many clients put the name of the machine into `host`, as
/// the specification suggests. So a name that is not a virtual host means the default one.
fn choose_vhost(host: Option<Cow<'_, str>>, shared: &Shared) -> String {
    match host {
        Some(host) if shared.settings.strict_host || shared.broker.has_vhost(&host) => host.into_owned(),
        _ => shared.settings.default_vhost.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_common_version_is_spoken() {
        for (accepted, expected) in [
            (None, Some(Version::V1_0)),
            (Some("1.0"), Some(Version::V1_0)),
            (Some("1.2,1.1,1.0"), Some(Version::V1_2)),
            (Some("1.0, 1.1"), Some(Version::V1_1)),
            (Some("1.1,1.3"), Some(Version::V1_1)),
            (Some("2.0"), None),
            (Some(""), None),
        ] {
            assert_eq!(negotiate(accepted).ok(), expected, "{accepted:?}");
        }
    }
}
