//! Which names the header `Host` may contain.
//!
//! A page can let its own name lead to this server (DNS rebinding). A browser then takes the page
//! for one of the server's, and on the server's own machine `guest` could log in. So a request from
//! this machine must use an address, `localhost`, the machine's name, or a name that is set.
//! Requests from other machines may use any name, unless names are set.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The names that are allowed besides the machine's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Names {
    /// None are set. Other machines may know this one by names that it does not know.
    Unset,
    /// These, in lower case, for all machines.
    Set(Vec<String>),
    /// Any.
    Any,
}

/// See the module.
#[derive(Debug)]
pub struct Hosts {
    machine: String,
    names: Names,
}

impl Hosts {
    /// The machine's name, and the names that are set.
    #[must_use]
    pub fn new(machine: &str, names: Names) -> Self {
        Self { machine: machine.to_ascii_lowercase(), names }
    }

    /// Whether a request from `peer` may be for `host`: a name or an address, perhaps with a port.
    #[must_use]
    pub fn admits(&self, host: &str, peer: IpAddr) -> bool {
        let set = match &self.names {
            Names::Any => return true,
            Names::Unset if !peer.to_canonical().is_loopback() => return true,
            Names::Unset => &[][..],
            Names::Set(names) => names,
        };
        let Some(name) = name(host) else { return false };
        let (machine, short) = (&self.machine, self.machine.split('.').next().unwrap_or_default());
        is_address(&name)
            || name == "localhost"
            || name.ends_with(".localhost")
            || (!name.is_empty() && (name == *machine || name == short))
            || set.contains(&name)
    }
}

/// The name in lower case, without port and final dot; `None` if it is neither a name nor an
/// address.
fn name(host: &str) -> Option<String> {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port),
        _ => (host, ""),
    };
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
    is_port.then(|| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase())
}

fn is_address(name: &str) -> bool {
    match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => name.parse::<Ipv4Addr>().is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_this_machine_only_names_count_that_no_page_can_have() {
        let hosts = |names| Hosts::new("Web1.example", names);
        let (here, mapped, there) = ("127.0.0.1", "::ffff:127.0.0.1", "10.0.0.9");
        let set = || Names::Set(vec!["mq.example".to_owned()]);
        for (host, from, unset, with_set) in [
            ("localhost", here, true, true),
            ("LOCALHOST:15672", here, true, true),
            ("localhost.", here, true, true),
            ("a.localhost", here, true, true),
            ("127.0.0.1:15672", here, true, true),
            ("192.168.1.4", here, true, true),
            ("[::1]:15672", here, true, true),
            ("[::1]", "::1", true, true),
            ("web1.example", here, true, true),
            ("WEB1:15672", here, true, true),
            ("mq.example", here, false, true),
            ("mq.example:443", there, true, true),
            ("evil.example", here, false, false),
            ("evil.example:15672", mapped, false, false),
            ("evil.example", "::1", false, false),
            ("evil.example", there, true, false),
            ("localhost.evil.example", here, false, false),
            ("web1.example.evil.example", here, false, false),
            ("127.0.0.1.evil.example", here, false, false),
            ("2130706433", here, false, false),
            ("guest@localhost", here, false, false),
            ("localhost:x", here, false, false),
            ("::1", here, false, false),
            ("", here, false, false),
        ] {
            let from = from.parse().unwrap();
            assert_eq!(hosts(Names::Unset).admits(host, from), unset, "{host} from {from}");
            assert_eq!(hosts(set()).admits(host, from), with_set, "{host} from {from}, with a name");
            assert!(hosts(Names::Any).admits(host, from));
        }
    }
}
