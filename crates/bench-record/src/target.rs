//! A broker to be measured: `[NAME=]SCHEME://[USER:PASSWORD@]HOST:PORT[/VHOST][,pid=PID[+PID]]`, or
//! the class of a JMS client with its properties: `[NAME=]jms:CLASS?KEY=VALUE&…`.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::durability::Durability;
use crate::failure::{Context, Failure};

/// Schemes that a worker loads.
pub const JMS_SCHEMES: [&str; 7] = ["qpid-jms", "openwire", "openwire5", "artemis", "openmq", "jms", "jndi"];

/// Name of the relay that forces what it copies to a disk.
pub const LOG: &str = "log";

/// Where a broker listens, who we are there, and which processes it is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// What tables call it.
    pub name: String,
    /// The text that it was read from, an address with its options. It may hold a password.
    #[serde(skip)]
    pub text: String,
    /// The protocol: `amqp`, `amqp10`, `stomp`, `nats`, `jetstream`, `mqtt`, `mqtt5`, `kafka`,
    /// `relay`, or that of a JMS client.
    pub scheme: String,
    /// `host:port`, or the class of a JMS client's factory.
    pub address: String,
    /// Who logs in.
    pub user: String,
    /// The password of that user.
    #[serde(skip)]
    pub password: String,
    /// Virtual host.
    pub vhost: String,
    /// Processes whose trees are the broker; empty: its CPU is not measured.
    pub pids: Vec<u32>,
    /// Where it shows its counters: `HOST:PORT/PATH` of a Prometheus page.
    pub metrics: Option<String>,
    /// Where consumers connect, if not to the same broker as producers but to another of a network:
    /// `host:port`.
    pub consume_at: Option<String>,
    /// Type of its queues (`x-queue-type`), when not the broker's default.
    pub queue_type: Option<String>,
    /// Properties of a JMS client. They may be secret.
    #[serde(skip)]
    pub properties: Vec<(String, String)>,
    /// Where the jars of a JMS client are, if they are the user's own.
    pub class_path: Option<String>,
    /// What its confirms are said to promise.
    pub durability: Option<Durability>,
    /// What it is, as far as that is known.
    #[serde(flatten)]
    pub software: Software,
}

/// What a target is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Software {
    /// `PEER[/VARIANT...]`, where this program started it.
    pub peer: Option<String>,
    /// What its software says of itself.
    pub version: Option<String>,
}

impl Target {
    /// True for a JMS client that is named by a class, and whose jars are the user's.
    pub fn is_jms_class(&self) -> bool {
        is_of_class(&self.scheme)
    }

    /// True for the floors: what only copies bytes, and what forces them to a disk first.
    pub fn is_relay(&self) -> bool {
        self.scheme == "relay"
    }

    /// True for the floor that only copies bytes.
    pub fn only_copies(&self) -> bool {
        self.is_relay() && self.name != LOG
    }
}

impl std::str::FromStr for Target {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let mut parts = text.split(',');
        let first = parts.next().unwrap_or_default();
        let mut target = match first.split_once(':') {
            Some((named, rest)) if is_of_class(named.rsplit('=').next().unwrap_or(named)) => {
                Self::by_class(named, rest)?
            }
            _ => Self::by_address(first)?,
        };
        for option in parts {
            match option.split_once('=') {
                Some(("pid", list)) => {
                    for pid in list.split('+') {
                        target.pids.push(pid.parse().context(format!("{text}: pid {pid}"))?);
                    }
                }
                Some(("consume", _)) if target.scheme != "stomp" => {
                    return Err(Failure::new(format!("{text}: consumers can be elsewhere (consume=) over STOMP only")));
                }
                Some(("consume", place)) => target.consume_at = Some(with_port(place, &target.scheme)?),
                Some(("type", kind)) => target.queue_type = Some(kind.to_owned()),
                Some(("metrics", place)) => target.metrics = Some(place.trim_start_matches("http://").to_owned()),
                Some(("classpath", path)) => target.class_path = Some(path.to_owned()),
                Some(("durability", class)) => {
                    target.durability = Some(Durability::from_str(class, true).map_err(|_| {
                        Failure::new(format!("{text}: {class}: a durability class is D0, D1, D2 or D3"))
                    })?);
                }
                _ => {
                    return Err(Failure::new(format!(
                        "{text}: unknown option {option}; there are pid=PID[+PID], type=QUEUE_TYPE, durability=CLASS, \
                         consume=HOST:PORT, metrics=HOST:PORT/PATH and classpath=PATH"
                    )));
                }
            }
        }
        text.clone_into(&mut target.text);
        Ok(target)
    }
}

impl Target {
    /// `[NAME=]SCHEME://[USER:PASSWORD@]HOST:PORT[/VHOST][?PROPERTIES]`, without options.
    fn by_address(text: &str) -> Result<Self, Failure> {
        let (named, rest) = text.split_once("://").ok_or_else(|| {
            Failure::new(format!(
                "{text}: a target is [NAME=]SCHEME://[USER:PASSWORD@]HOST:PORT[/VHOST][,pid=PID[+PID]]"
            ))
        })?;
        let (name, scheme) = named.split_once('=').unwrap_or((named, named));
        let (rest, properties) = match rest.split_once('?') {
            Some((rest, query)) if JMS_SCHEMES.contains(&scheme) => (rest, query_of(query)?),
            _ => (rest, Vec::new()),
        };
        if rest.contains('@') && WITHOUT_LOGIN.contains(&scheme) {
            return Err(Failure::new(format!(
                "{scheme}: this program logs in nowhere by it yet; leave out USER:PASSWORD@"
            )));
        }
        let (login, place) = rest.rsplit_once('@').unwrap_or(("guest:guest", rest));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let (host, vhost) = place.split_once('/').unwrap_or((place, ""));
        let vhost = if vhost.is_empty() { "/".to_owned() } else { decode(vhost)? };
        let (user, password) = (decode(user)?, decode(password)?);
        Ok(Self { user, password, vhost, properties, ..Self::at(name, scheme, with_port(host, scheme)?) })
    }

    /// `[NAME=]jms:CLASS?PROPERTIES` or `[NAME=]jndi:CLASS?PROPERTIES`, without options.
    fn by_class(named: &str, rest: &str) -> Result<Self, Failure> {
        let (name, scheme) = named.split_once('=').unwrap_or((named, named));
        let (class, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut properties = query_of(query)?;
        let mut take = |wanted: &str| {
            let at = properties.iter().position(|(key, _)| key == wanted)?;
            Some(properties.swap_remove(at).1)
        };
        let (user, password) = (take("user").unwrap_or_default(), take("password").unwrap_or_default());
        Ok(Self { user, password, properties, ..Self::at(name, scheme, class.to_owned()) })
    }

    /// One of which nothing is said but where it is.
    pub fn at(name: &str, scheme: &str, address: String) -> Self {
        Self {
            name: name.to_owned(),
            text: String::new(),
            scheme: scheme.to_owned(),
            address,
            user: String::new(),
            password: String::new(),
            vhost: "/".to_owned(),
            pids: Vec::new(),
            metrics: None,
            consume_at: None,
            queue_type: None,
            properties: Vec::new(),
            class_path: None,
            durability: None,
            software: Software::default(),
        }
    }
}

/// Protocols in which this program's clients say nothing of who they are.
const WITHOUT_LOGIN: [&str; 4] = ["nats", "jetstream", "kafka", "relay"];

/// True for the schemes that a class follows, not an address.
fn is_of_class(scheme: &str) -> bool {
    matches!(scheme, "jms" | "jndi")
}

/// `KEY=VALUE&KEY=VALUE…`.
fn query_of(text: &str) -> Result<Vec<(String, String)>, Failure> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| {
        let (key, value) =
            pair.split_once('=').ok_or_else(|| Failure::new(format!("{pair}: a property is KEY=VALUE")))?;
        Ok((decode(key)?, decode(value)?))
    });
    pairs.collect()
}

/// Adds the protocol's usual port where none is given.
fn with_port(host: &str, scheme: &str) -> Result<String, Failure> {
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(before, port)| port.parse::<u16>().is_ok() && (!before.contains(':') || before.ends_with(']')));
    match scheme {
        _ if has_port => Ok(host.to_owned()),
        "amqp" | "amqp10" | "qpid-jms" => Ok(format!("{host}:5672")),
        "openwire" | "openwire5" | "artemis" => Ok(format!("{host}:61616")),
        "openmq" => Ok(format!("{host}:7676")),
        "stomp" => Ok(format!("{host}:61613")),
        "nats" | "jetstream" => Ok(format!("{host}:4222")),
        "mqtt" | "mqtt5" => Ok(format!("{host}:1883")),
        "kafka" => Ok(format!("{host}:9092")),
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

    /// Records of earlier runs have each field at the top, in this order.
    #[test]
    fn the_software_of_a_target_is_written_beside_its_address() {
        let mut target: Target = "stomp://localhost".parse().unwrap();
        target.software = Software { peer: Some("p".to_owned()), version: Some("1".to_owned()) };
        let text = serde_json::to_string(&target).unwrap();
        assert!(text.ends_with(r#","durability":null,"peer":"p","version":"1"}"#), "{text}");
        assert_eq!(serde_json::from_str::<Target>(&text).unwrap().software, target.software);
    }

    #[test]
    fn targets_are_read_with_their_defaults() {
        let target = |text: &str| text.parse::<Target>().unwrap();
        let full = target("own=amqp://me:s%40cret@127.0.0.1:5000/my%2fhost,pid=12+13,type=quorum,durability=D3");
        assert_eq!(
            (full.name.as_str(), full.scheme.as_str(), full.address.as_str()),
            ("own", "amqp", "127.0.0.1:5000")
        );
        assert_eq!((full.user.as_str(), full.password.as_str(), full.vhost.as_str()), ("me", "s@cret", "my/host"));
        assert_eq!((full.pids.as_slice(), full.queue_type.as_deref()), (&[12, 13][..], Some("quorum")));
        assert_eq!(full.durability, Some(Durability::D3));
        let short = target("stomp://localhost");
        assert_eq!(
            (short.name.as_str(), short.address.as_str(), short.vhost.as_str()),
            ("stomp", "localhost:61613", "/")
        );
        assert_eq!(target("amqp://[::1]").address, "[::1]:5672");
        assert_eq!(target("amqp://[::1]:7").address, "[::1]:7");
        assert!(target("relay://127.0.0.1:9").is_relay());
        let plain = target("amqp://me:a?b@h");
        assert_eq!((plain.password.as_str(), plain.properties.len()), ("a?b", 0));
    }

    #[test]
    fn jms_clients_have_properties_and_perhaps_a_class() {
        let target = |text: &str| text.parse::<Target>().unwrap();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let known = target("a=artemis://me:s@h?minLargeMessageSize=1&x=%26,pid=4");
        assert_eq!((known.address.as_str(), known.user.as_str(), known.pids.as_slice()), ("h:61616", "me", &[4][..]));
        assert_eq!(known.properties, [pair("minLargeMessageSize", "1"), pair("x", "&")]);
        let other = target("mq=jms:com.x.Factory?host=h&user=me&password=s%2c,classpath=/a/*:/b");
        assert_eq!(
            (other.name.as_str(), other.scheme.as_str(), other.address.as_str()),
            ("mq", "jms", "com.x.Factory")
        );
        assert_eq!((other.user.as_str(), other.password.as_str()), ("me", "s,"));
        assert_eq!(
            (other.properties.as_slice(), other.class_path.as_deref()),
            (&[pair("host", "h")][..], Some("/a/*:/b"))
        );
        let named = target("jndi:com.x.Contexts?url=tcp://h:1&cf=Factory");
        assert_eq!(named.properties, [pair("url", "tcp://h:1"), pair("cf", "Factory")]);
        assert_eq!(named.user, "");
    }

    #[test]
    fn mistakes_are_named() {
        let cases = [
            ("localhost:5672", "SCHEME://"),
            ("relay://localhost", "port is missing"),
            ("amqp://h:1,pid=x", "pid x"),
            ("amqp://h:1,speed=9", "unknown option speed=9"),
            ("amqp://h:1,durability=high", "high: a durability class"),
            ("amqp://h:1,consume=h:2", "over STOMP only"),
            ("openwire://h:1,consume=h:2", "over STOMP only"),
            ("kafka://u:p@h:1", "leave out USER:PASSWORD@"),
            ("nats://u:p@h:1", "leave out USER:PASSWORD@"),
            ("jms:a.B,consume=h:2", "over STOMP only"),
            ("amqp://a%4@h:1", "hex digits"),
            ("amqp://a%zz@h:1", "%zz"),
            ("jms:a.B?c", "c: a property is KEY=VALUE"),
        ];
        for (text, part) in cases {
            let failure = text.parse::<Target>().unwrap_err().to_string();
            assert!(failure.contains(part), "{text}: {failure}");
        }
    }
}
