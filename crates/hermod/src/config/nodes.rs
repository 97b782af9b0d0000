//! The settings of connections between nodes, and of what is kept for those that follow.

use std::net::SocketAddr;

use super::ConfigError;
use super::reader::{Reader, declare};
use super::value;

/// Where other nodes connect.
#[derive(Debug, Clone)]
pub(crate) struct Nodes {
    /// `None`: nowhere.
    pub(crate) listen: Option<SocketAddr>,
    /// What other nodes are told of that, if it is something else.
    pub(crate) address: String,
    /// Bytes of the journal that are kept for a node that follows; `None`: half of it.
    pub(crate) keep: Option<u64>,
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
            value::text,
        )?;
        let keep = reader.get(
            declare(
                "nodes.keep",
                "size",
                "",
                "Bytes of the journal that are kept for a node that follows and is behind, or away. Beyond that the \
                 journal goes on without it, and it begins with a new copy. Empty: half of `journal.max_bytes`. With \
                 more than `journal.max_bytes`, publishers wait until a node that is connected has got on.",
            ),
            keep,
        )?;
        Ok(Self { listen, address, keep })
    }

    /// Where others reach this node; empty if they can't.
    pub(crate) fn reached_at(&self) -> String {
        match self.listen {
            Some(listen) if self.address.is_empty() => listen.to_string(),
            _ => self.address.clone(),
        }
    }
}

fn keep(text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() { Ok(None) } else { value::bytes(text).map(Some) }
}

fn listen(text: &str) -> Result<Option<SocketAddr>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse()
        .map(Some)
        .map_err(|_| format!("'{text}' is no address with a port; write one such as 127.0.0.1:5679 or [::]:5679"))
}
