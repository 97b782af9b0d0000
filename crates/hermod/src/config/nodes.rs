//! The settings of connections between nodes, and of what is kept for those that follow.

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use nodes::Waits;

use super::reader::{Reader, declare};
use super::{ConfigError, value};

/// Where other nodes connect.
#[derive(Debug, Clone)]
pub(crate) struct Nodes {
    /// `None`: nowhere.
    pub(crate) listen: Option<SocketAddr>,
    /// What other nodes are told of that, if it is something else.
    pub(crate) address: String,
    /// Bytes of the journal that are kept for a node that follows; `None`: half of it.
    pub(crate) keep: Option<u64>,
    /// How long confirms wait for a node that follows.
    pub(crate) confirms_wait: Waits,
}

impl Nodes {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let listen = reader.get(
            declare(
                "nodes.listen",
                "address",
                "",
                "Address and port at which other nodes of the cluster connect, such as `127.0.0.1:5679`: a standby, or \
                 the node that took the place of this one. Empty: none can. All is TLS with certificates of the \
                 cluster's own authority. `port_offset` does not move it.",
            ),
            listen,
        )?;
        let address = reader.get(
            declare(
                "nodes.address",
                "text",
                "",
                "Host and port by which other nodes reach this one, such as `mq1.example:5679`. It is written into \
                 tokens. Empty: what `nodes.listen` says.",
            ),
            reached,
        )?;
        let keep = reader.get(
            declare(
                "nodes.keep",
                "size",
                "auto",
                "Bytes of the journal that are kept for a node that follows and is behind, or away. Beyond that the \
                 journal goes on without it, and it begins with a new copy. `auto`: half of `journal.max_bytes`. With \
                 more than `journal.max_bytes`, publishers wait until a node that is connected has got on.",
            ),
            |text| value::or_auto(text, value::bytes),
        )?;
        let confirms_wait = reader.get(
            declare(
                "nodes.confirms_wait",
                "time",
                "never",
                "How long confirms, and replies that promise something, wait until a node that follows has flushed, too: \
                 `never`; a time from `100 ms` on, such as `10 s`, after which this node goes on alone until another has \
                 caught up; or `always`. It holds for all virtual hosts, and needs `nodes.listen` and `durability` \
                 `fsync`.",
            ),
            confirms_wait,
        )?;
        Ok(Self { listen, address, keep, confirms_wait })
    }

    /// Where others reach this node; empty if they can't.
    pub(crate) fn reached_at(&self) -> String {
        match self.listen {
            Some(listen) if self.address.is_empty() => listen.to_string(),
            _ => self.address.clone(),
        }
    }
}

fn confirms_wait(text: &str) -> Result<Waits, String> {
    match text {
        "never" => Ok(Waits::Never),
        "always" => Ok(Waits::Always),
        time => match value::duration(time) {
            Ok(most) if most >= Duration::from_millis(100) => Ok(Waits::For(most)),
            _ => Err(format!("'{time}' is none of never, always, and times from 100 ms on, such as 10 s")),
        },
    }
}

/// A host and a port, which other nodes dial.
fn reached(text: &str) -> Result<String, String> {
    let is_host = |host: &str| {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        match bare {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => {
                let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
                !host.is_empty() && host.bytes().all(is_letter)
            }
        }
    };
    let is_right = match text.rsplit_once(':') {
        Some((host, port)) => is_host(host) && port.parse::<u16>().is_ok_and(|port| port > 0),
        None => text.is_empty(),
    };
    match is_right {
        true => Ok(text.to_owned()),
        false => Err(format!("'{text}' is no host with a port; write one such as mq1.example:5679 or [::1]:5679")),
    }
}

fn listen(text: &str) -> Result<Option<SocketAddr>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse()
        .map(Some)
        .map_err(|_| format!("'{text}' is no address with a port; write one such as 127.0.0.1:5679 or [::]:5679"))
}
