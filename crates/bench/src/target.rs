//! A broker to be measured: `[NAME=]SCHEME://[USER:PASSWORD@]HOST:PORT[/VHOST][,pid=PID[+PID]]`.

use serde::{Deserialize, Serialize};

use crate::failure::{Context, Failure};

/// Where a broker listens, who we are there, and which processes it is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Target {
    /// What tables call it.
    pub(crate) name: String,
    /// The protocol: `amqp`, `stomp` or `relay`.
    pub(crate) scheme: String,
    /// `host:port`.
    pub(crate) address: String,
    pub(crate) user: String,
    #[serde(skip)]
    pub(crate) password: String,
    /// Virtual host.
    pub(crate) vhost: String,
    /// Processes whose trees are the broker; empty: its CPU is not measured.
    pub(crate) pids: Vec<u32>,
    /// Where it shows its counters: `HOST:PORT/PATH` of a Prometheus page.
    pub(crate) metrics: Option<String>,
    /// Type of its queues (`x-queue-type`), when not the broker's default.
    pub(crate) queue_type: Option<String>,
}

impl Target {
    /// True for the floor that only copies bytes.
    pub(crate) fn is_relay(&self) -> bool {
        self.scheme == "relay"
    }
}

impl std::str::FromStr for Target {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let mut parts = text.split(',');
        let first = parts.next().unwrap_or_default();
        let (named, rest) = first.split_once("://").ok_or_else(|| {
            Failure::new(format!(
                "{text}: a target is [NAME=]SCHEME://[USER:PASSWORD@]HOST:PORT[/VHOST][,pid=PID[+PID]]"
            ))
        })?;
        let (name, scheme) = named.split_once('=').unwrap_or((named, named));
        let (login, place) = rest.rsplit_once('@').unwrap_or(("guest:guest", rest));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let (host, vhost) = place.split_once('/').unwrap_or((place, ""));
        let address = with_port(host, scheme)?;
        let vhost = if vhost.is_empty() { "/".to_owned() } else { decode(vhost)? };
        let (mut pids, mut queue_type, mut metrics) = (Vec::new(), None, None);
        for option in parts {
            match option.split_once('=') {
                Some(("pid", list)) => {
                    for pid in list.split('+') {
                        pids.push(pid.parse().context(format!("{text}: pid {pid}"))?);
                    }
                }
                Some(("type", kind)) => queue_type = Some(kind.to_owned()),
                Some(("metrics", place)) => metrics = Some(place.trim_start_matches("http://").to_owned()),
                _ => {
                    return Err(Failure::new(format!(
                        "{text}: unknown option {option}; there are pid=PID[+PID], type=QUEUE_TYPE and metrics=HOST:PORT/PATH"
                    )));
                }
            }
        }
        let own = str::to_owned;
        let (user, password) = (decode(user)?, decode(password)?);
        Ok(Self { name: own(name), scheme: own(scheme), address, user, password, vhost, pids, metrics, queue_type })
    }
}

/// Adds the protocol's usual port where none is given.
fn with_port(host: &str, scheme: &str) -> Result<String, Failure> {
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(before, port)| port.parse::<u16>().is_ok() && (!before.contains(':') || before.ends_with(']')));
    match scheme {
        _ if has_port => Ok(host.to_owned()),
        "amqp" => Ok(format!("{host}:5672")),
        "stomp" => Ok(format!("{host}:61613")),
        _ => Err(Failure::new(format!("{scheme}://{host}: a port is missing"))),
    }
}

/// Undoes %XX.
fn decode(text: &str) -> Result<String, Failure> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let (digits, after) =
                rest.split_at_checked(2).ok_or_else(|| Failure::new(format!("{text}: % needs two hex digits")))?;
            let digits = std::str::from_utf8(digits).context(text)?;
            bytes.push(u8::from_str_radix(digits, 16).context(format!("{text}: %{digits}"))?);
            rest = after;
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).context(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_with_their_defaults() {
        let target = |text: &str| text.parse::<Target>().unwrap();
        let full = target("own=amqp://me:s%40cret@127.0.0.1:5000/my%2fhost,pid=12+13,type=quorum");
        assert_eq!(
            (full.name.as_str(), full.scheme.as_str(), full.address.as_str()),
            ("own", "amqp", "127.0.0.1:5000")
        );
        assert_eq!((full.user.as_str(), full.password.as_str(), full.vhost.as_str()), ("me", "s@cret", "my/host"));
        assert_eq!((full.pids.as_slice(), full.queue_type.as_deref()), (&[12, 13][..], Some("quorum")));
        let short = target("stomp://localhost");
        assert_eq!(
            (short.name.as_str(), short.address.as_str(), short.vhost.as_str()),
            ("stomp", "localhost:61613", "/")
        );
        assert_eq!(target("amqp://[::1]").address, "[::1]:5672");
        assert_eq!(target("amqp://[::1]:7").address, "[::1]:7");
        assert!(target("relay://127.0.0.1:9").is_relay());
    }

    #[test]
    fn mistakes_are_named() {
        let cases = [
            ("localhost:5672", "SCHEME://"),
            ("relay://localhost", "port is missing"),
            ("amqp://h:1,pid=x", "pid x"),
            ("amqp://h:1,speed=9", "unknown option speed=9"),
            ("amqp://a%4@h:1", "hex digits"),
            ("amqp://a%zz@h:1", "%zz"),
        ];
        for (text, part) in cases {
            let failure = text.parse::<Target>().unwrap_err().to_string();
            assert!(failure.contains(part), "{text}: {failure}");
        }
    }
}
