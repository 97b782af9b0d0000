//! What there is besides the load of promotions: clients that are connected, and a backlog of small
//! messages.

use std::net::TcpStream;

use super::load::Client;

/// The queue with the backlog.
const BACKLOG: &str = "backlog";
/// Messages that are sent at once, of which the last one is confirmed.
const AT_ONCE: u64 = 1000;

/// How much there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Size {
    pub(super) connections: u64,
    pub(super) messages: u64,
}

impl Size {
    pub(super) const NONE: Self = Self { connections: 0, messages: 0 };

    /// The settings of both nodes: without anything besides the load, a log that is recycled all
    /// the time; else what a user gets who sets nothing.
    pub(super) fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::NONE => &[
                ("HERMOD_JOURNAL_MAX_BYTES", "16MiB"),
                ("HERMOD_JOURNAL_FILE_BYTES", "512KiB"),
                ("HERMOD_LIMITS_MAX_MESSAGE_SIZE", "256KiB"),
                ("HERMOD_SHUTDOWN_TIMEOUT", "200ms"),
            ],
            _ => &[],
        }
    }
}

/// Clients that are connected, as long as this lives.
pub(super) struct Crowd {
    _clients: Vec<Client>,
}

impl Crowd {
    /// Connects as many as there are, one after the other. Each consumes from a queue of its own.
    pub(super) fn gather(size: Size, connect: impl Fn() -> Result<TcpStream, String>) -> Result<Self, String> {
        let one = |number: u64| -> Result<Client, String> {
            let failed = |error: std::io::Error| format!("client {number}: {error}");
            let mut client = Client::connect(connect()?).map_err(failed)?;
            let subscribe = format!("SUBSCRIBE\nid:0\ndestination:/queue/of-{number}\nack:client\nreceipt:s\n\n");
            client.ask(&subscribe).map_err(failed)?;
            Ok(client)
        };
        (0..size.connections).map(one).collect::<Result<_, _>>().map(|clients| Self { _clients: clients })
    }
}

/// Makes the backlog. All of it is confirmed.
pub(super) fn fill(socket: TcpStream, messages: u64) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("the backlog: {error}");
    let mut client = Client::connect(socket).map_err(failed)?;
    for first in (0..messages).step_by(AT_ONCE as usize) {
        let last = messages.min(first + AT_ONCE) - 1;
        let mut frames = String::new();
        for number in first..=last {
            let receipt = if number == last { "receipt:b\n" } else { "" };
            frames += &format!("SEND\ndestination:/queue/{BACKLOG}\npersistent:true\n{receipt}\n{number:016}\0");
        }
        client.ask(frames.trim_end_matches('\0')).map_err(failed)?;
    }
    Ok(())
}

/// How many messages of the backlog are ready, in the list of all queues.
pub(super) fn ready(queues: &serde_json::Value) -> Option<u64> {
    let backlog = queues.as_array()?.iter().find(|queue| queue["name"] == BACKLOG)?;
    backlog["messages_ready"].as_u64()
}
