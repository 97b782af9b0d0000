//! The settings of users and log-ins, declared once like all others.

use std::path::PathBuf;

use auth::sasl::Mechanism;

use super::ConfigError;
use super::first_user::FirstRights;
use super::reader::{Reader, declare};
use super::value::{self, at_least, between, optional_path};

/// The first user, and how users log in.
#[derive(Clone)]
pub(crate) struct Users {
    pub(crate) name: String,
    pub(crate) password: String,
    pub(crate) name_file: Option<PathBuf>,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) loopback: Vec<String>,
    pub(crate) first: FirstRights,
    pub(crate) login_threads: u64,
    pub(crate) mechanisms: Vec<Mechanism>,
    pub(crate) anonymous: Option<String>,
}

impl std::fmt::Debug for Users {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Users").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The limits of peers that have not logged in.
#[derive(Debug, Clone)]
pub(crate) struct Strangers {
    pub(crate) pending: u64,
    pub(crate) connects_per_address: u64,
    pub(crate) failed_logins_per_address: u64,
    pub(crate) failed_logins_per_user: u64,
}

impl Users {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let name = reader.get(
            declare(
                "default_user",
                "text",
                "guest",
                "Name of the administrator that a new data directory starts with. Later changes have no effect.",
            ),
            value::text,
        )?;
        let password = reader.secret(declare("default_pass", "text", "guest", "Password of `default_user`."))?;
        let name_file = reader.get(
            declare("default_user_file", "path", "", "File whose first line is `default_user`, for mounted secrets."),
            optional_path,
        )?;
        let password_file = reader.get(
            declare("default_pass_file", "path", "", "File whose first line is `default_pass`, for mounted secrets."),
            optional_path,
        )?;
        let first = FirstRights::read(reader)?;
        let loopback = reader.get(
            declare(
                "loopback_users",
                "names",
                "guest",
                "Users that may log in from this machine only, whatever the server listens on. SIGHUP changes it for \
                 later log-ins.",
            ),
            value::names,
        )?;
        let login_threads = reader.get(
            declare(
                "login_threads",
                "number",
                "1",
                "How many passwords are checked at the same time. Each takes about 20 ms of a core and 19 MiB.",
            ),
            |text| at_least(text, value::count, 1),
        )?;
        let mechanisms = reader.get(
            declare(
                "auth_mechanisms",
                "names",
                "PLAIN, AMQPLAIN, ANONYMOUS",
                "SASL mechanisms by which AMQP clients may log in, in the order in which the server offers them: \
                 `PLAIN`, `AMQPLAIN`, `SCRAM-SHA-256` (new passwords are then also stored for it), `EXTERNAL` (by a \
                 certificate, see `tls.login_from`; also for STOMP and MQTT), `ANONYMOUS` (offered only with \
                 `anonymous_user`).",
            ),
            mechanisms,
        )?;
        let anonymous = reader.get(
            declare(
                "anonymous_user",
                "text",
                "",
                "User of AMQP clients that log in by ANONYMOUS, without a password. If it is not set, no client can.",
            ),
            |text| Ok(Some(value::text(text)?).filter(|name| !name.is_empty())),
        )?;
        Ok(Self { name, password, name_file, password_file, first, loopback, login_threads, mechanisms, anonymous })
    }
}

impl Strangers {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let mut number = |name, default, doc, least| {
            reader
                .get(declare(name, "number", default, doc), |text| between(text, value::count, least, u32::MAX.into()))
        };
        let pending = number(
            "limits.pending",
            "1000",
            "Connections that have not authenticated yet, from all addresses together. They are counted in addition \
             to `limits.connections`. They are at most a quarter of the connections that the system's limit of open \
             files allows.",
            1,
        )?;
        let connects_per_address = number(
            "limits.connects_per_address",
            "500",
            "New connections from one address within a second. More are refused. Connections from this machine are \
             not counted. 0: no limit.",
            0,
        )?;
        let failed_logins_per_address = number(
            "limits.failed_logins_per_address",
            "200",
            "Log-ins with a wrong password from one address within a minute (IPv6: from one network of 64 bits). \
             Further log-ins from there are refused, whatever the password. 0: no limit.",
            0,
        )?;
        let failed_logins_per_user = number(
            "limits.failed_logins_per_user",
            "20",
            "Log-ins of one user with a wrong password from one address within a minute. Further ones are refused, \
             whatever the password. 0: no limit.",
            0,
        )?;
        Ok(Self { pending, connects_per_address, failed_logins_per_address, failed_logins_per_user })
    }
}

fn mechanisms(text: &str) -> Result<Vec<Mechanism>, String> {
    let names = || Mechanism::ALL.map(Mechanism::name).join(", ");
    let listed: Vec<_> = value::names(text)?
        .iter()
        .map(|name| Mechanism::parse(name).ok_or_else(|| format!("'{name}' is none of {}", names())))
        .collect::<Result<_, _>>()?;
    if listed.is_empty() { Err(format!("nobody could log in; write some of {}", names())) } else { Ok(listed) }
}
