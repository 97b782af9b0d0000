//! The settings of HTTP: the names of the server, and access without a password.

use management::{Names, PerObject};

use super::ConfigError;
use super::reader::{Reader, declare};
use super::value;

#[derive(Debug, Clone)]
pub(crate) struct Http {
    /// Names that the server may be called by in `Host`.
    pub(crate) hosts: Names,
    /// Who may read the figures of each queue.
    pub(crate) per_object: PerObject,
}

impl Http {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let hosts = reader.get(
            declare(
                "http.hosts",
                "names",
                "auto",
                "Host names that HTTP requests and WebSocket pages may use for the server; `*` for any. Its \
                 addresses, `localhost` and the machine's name are always allowed. A request with another name is \
                 answered 421. With `auto`, requests from this machine are restricted to the names that are always \
                 allowed, and other machines may use any name.",
            ),
            |text| value::names(text).and_then(hosts),
        )?;
        let open = reader.get(
            declare(
                "http.open_metrics",
                "true, false",
                "false",
                "Shows `/metrics/per-object` without a password. That page contains the names of queues and vhosts.",
            ),
            value::flag,
        )?;
        Ok(Self { hosts, per_object: if open { PerObject::Everybody } else { PerObject::Users } })
    }
}

fn hosts(names: Vec<String>) -> Result<Names, String> {
    match names.as_slice() {
        [only] if only == "auto" => Ok(Names::Unset),
        [only] if only == "*" => Ok(Names::Any),
        _ => names.into_iter().map(host).collect::<Result<_, _>>().map(Names::Set),
    }
}

fn host(name: String) -> Result<String, String> {
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'));
    if is_name { Ok(name.to_ascii_lowercase()) } else { Err(format!("'{name}' is no name of a host; write no port")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names_without_ports() {
        let read = |text: &str| value::names(text).and_then(hosts);
        let set = |names: &[&str]| Ok(Names::Set(names.iter().map(|name| (*name).to_owned()).collect()));
        assert_eq!(read("auto"), Ok(Names::Unset));
        assert_eq!(read("*"), Ok(Names::Any));
        assert_eq!(read(""), set(&[]));
        assert_eq!(read("MQ.example, mq2"), set(&["mq.example", "mq2"]));
        for wrong in ["mq.example:15672", "https://mq.example", "mq.example, *"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
