//! The addresses of brokers, as RabbitMQ writes them (<https://www.rabbitmq.com/docs/uri-spec>,
//! <https://www.rabbitmq.com/docs/uri-query-parameters>).
//!
//! A URI holds a password. It is shown without it everywhere, also by `Debug`; only
//! [`Uri::password`] has it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use url::Url;

/// The ports of AMQP, plain and within TLS.
const PORTS: [u16; 2] = [5672, 5671];
/// How long it may take to connect, if the URI does not say.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Seconds between signs of life, if the URI does not say.
const HEARTBEAT: u16 = 10;

/// Why a URI without a host has nothing else.
const HERE: &str = "a URI without a host means this broker, to which it needs neither a user nor TLS";

/// The address of a broker, with the credentials for it.
#[derive(Clone, PartialEq, Eq)]
pub struct Uri {
    host: Option<String>,
    port: u16,
    user: String,
    password: String,
    /// `None` if the URI has none.
    vhost: Option<String>,
    tls: Option<Tls>,
    timeout: Duration,
    heartbeat: u16,
}

/// How the other side is known within TLS.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Tls {
    /// A file of the authorities that are trusted; `None` for the system's.
    pub(crate) authorities: Option<PathBuf>,
    /// The name that the certificate must have; `None` for the host.
    pub(crate) name: Option<String>,
}

/// A URI that can't be used. The text names no part that may hold a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadUri(pub String);

impl fmt::Display for BadUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadUri {}

impl Uri {
    /// Reads a URI: `amqp://user:password@host:port/vhost`, or `amqps://` for TLS. Without a host
    /// it means this broker.
    ///
    /// # Errors
    /// For another scheme, a part that can't be read, or a parameter that is not supported.
    pub fn parse(text: &str) -> Result<Self, BadUri> {
        let bad = |what: &str| BadUri(what.to_owned());
        let secure = match text.split_once("://") {
            Some(("amqp", _)) => false,
            Some(("amqps", _)) => true,
            _ => return Err(bad("a URI begins with amqp:// or amqps://")),
        };
        let bare = text.split_once("://").map_or("", |(_, rest)| rest);
        if bare.rsplit_once('@').is_some_and(|(_, place)| place.is_empty() || place.starts_with(['/', ':'])) {
            return Err(bad(HERE));
        }
        let url = Url::parse(text).map_err(|error| BadUri(format!("the URI can't be read: {error}")))?;
        let decoded = |part: &str| {
            let text = percent_decode_str(part).decode_utf8();
            text.map(|text| text.into_owned()).map_err(|_| bad("a part of the URI is not UTF-8"))
        };
        let host = url.host_str().filter(|host| !host.is_empty()).map(decoded).transpose()?;
        let host = host.map(|host| host.trim_start_matches('[').trim_end_matches(']').to_owned());
        let has_user = !url.username().is_empty() || url.password().is_some();
        if host.is_none() && (has_user || secure) {
            return Err(bad(HERE));
        }
        let (user, password) = match has_user {
            true => (decoded(url.username())?, decoded(url.password().unwrap_or_default())?),
            false => ("guest".to_owned(), "guest".to_owned()),
        };
        let path = url.path().strip_prefix('/').filter(|path| !path.is_empty());
        if path.is_some_and(|path| path.contains('/')) {
            return Err(bad("a vhost with a slash is written with %2F"));
        }
        let mut uri = Self {
            host,
            port: url.port().unwrap_or(PORTS[usize::from(secure)]),
            user,
            password,
            vhost: path.map(decoded).transpose()?,
            tls: secure.then(Tls::default),
            timeout: CONNECTION_TIMEOUT,
            heartbeat: HEARTBEAT,
        };
        url.query_pairs().try_for_each(|(name, value)| uri.take_parameter(&name, &value))?;
        Ok(uri)
    }

    fn take_parameter(&mut self, name: &str, value: &str) -> Result<(), BadUri> {
        let wrong = |what: &str| Err(BadUri(format!("the parameter '{name}' of the URI {what}")));
        match (name, &mut self.tls) {
            ("heartbeat", _) => match value.parse() {
                Ok(seconds) => self.heartbeat = seconds,
                Err(_) => return wrong("is a number of seconds from 0 to 65535"),
            },
            ("connection_timeout", _) => match value.parse() {
                Ok(1..=300_000) => self.timeout = Duration::from_millis(value.parse().unwrap_or_default()),
                _ => return wrong("is a number of milliseconds from 1 to 300000"),
            },
            ("verify", _) if value == "verify_peer" => {}
            ("verify", _) => {
                return wrong(
                    "can only be verify_peer: the other side is always verified; name its authority by cacertfile",
                );
            }
            ("cacertfile", Some(tls)) => tls.authorities = Some(value.into()),
            ("server_name_indication", Some(tls)) if value != "disable" => tls.name = Some(value.to_owned()),
            ("cacertfile" | "server_name_indication", None) => return wrong("needs amqps://"),
            ("auth_mechanism", _) if value.eq_ignore_ascii_case("plain") => {}
            ("auth_mechanism", _) => return wrong("can only be plain"),
            _ => return wrong("is not supported"),
        }
        Ok(())
    }

    /// Whether it means the broker that this runs in.
    pub fn is_local(&self) -> bool {
        self.host.is_none()
    }

    /// The host; `None` for this broker.
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The user to log in as.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Its password: never to be shown.
    pub(crate) fn password(&self) -> &str {
        &self.password
    }

    /// The vhost, if it has one.
    pub fn vhost(&self) -> Option<&str> {
        self.vhost.as_deref()
    }

    /// The file of authorities that it names, if it does.
    pub fn authorities(&self) -> Option<&std::path::Path> {
        self.tls.as_ref()?.authorities.as_deref()
    }

    pub(crate) fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Seconds; 0 for none.
    pub(crate) fn heartbeat(&self) -> u16 {
        self.heartbeat
    }

    /// The same with this vhost, if it has none.
    #[must_use]
    pub fn in_vhost(mut self, vhost: &str) -> Self {
        self.vhost.get_or_insert_with(|| vhost.to_owned());
        self
    }
}

/// Without user and password, as RabbitMQ shows it.
impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "amqps" } else { "amqp" };
        write!(f, "{scheme}://")?;
        if let Some(host) = &self.host {
            let is_v6 = host.contains(':');
            let (open, close) = if is_v6 { ("[", "]") } else { ("", "") };
            write!(f, "{open}{host}{close}:{}", self.port)?;
        }
        if let Some(vhost) = &self.vhost {
            write!(f, "/{}", percent_encoding::utf8_percent_encode(vhost, percent_encoding::NON_ALPHANUMERIC))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uri({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_read_as_rabbitmq_writes_them() {
        let read = |text: &str| {
            let uri = Uri::parse(text).unwrap();
            let vhost = uri.vhost.clone();
            (uri.host.clone().unwrap_or_default(), uri.port, uri.user.clone(), uri.password.clone(), vhost)
        };
        let all = |host: &str, port, user: &str, password: &str, vhost: Option<&str>| {
            (host.to_owned(), port, user.to_owned(), password.to_owned(), vhost.map(str::to_owned))
        };
        for (text, expected) in [
            ("amqp://", all("", 5672, "guest", "guest", None)),
            ("amqp:///v", all("", 5672, "guest", "guest", Some("v"))),
            ("amqp://h", all("h", 5672, "guest", "guest", None)),
            ("amqps://h", all("h", 5671, "guest", "guest", None)),
            ("amqp://u:p%40@h:1/%2Fx", all("h", 1, "u", "p@", Some("/x"))),
            ("amqp://u:p@[::1]:7/%2f", all("::1", 7, "u", "p", Some("/"))),
            ("amqp://us%65r@h", all("h", 5672, "user", "", None)),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        for (text, part) in [
            ("http://h", "begins with amqp://"),
            ("amqp://h/a/b", "%2F"),
            ("amqp://u:p@/v", "neither a user"),
            ("amqps://", "neither a user"),
            ("amqps://h?verify=verify_none", "'verify'"),
            ("amqps://h?certfile=x", "'certfile' of the URI is not supported"),
            ("amqp://h?cacertfile=x", "needs amqps"),
            ("amqp://h?heartbeat=x", "'heartbeat'"),
            ("amqp://h?auth_mechanism=external", "plain"),
            ("amqp://h?connection_timeout=0", "milliseconds"),
        ] {
            let refused = Uri::parse(text).unwrap_err().to_string();
            assert!(refused.contains(part), "{text}: {refused}");
        }
    }

    #[test]
    fn no_password_is_shown() {
        let uri = Uri::parse("amqps://someone:hidden@[::1]:7/a%2Fb?heartbeat=5").unwrap();
        assert_eq!(uri.to_string(), "amqps://[::1]:7/a%2Fb");
        assert!(!format!("{uri:?}").contains("hidden"));
        let refused = Uri::parse("amqp://someone:hid den@h:x").unwrap_err();
        assert!(!refused.to_string().contains("den"), "{refused}");
    }
}
