//! `hermod serve --dev`: a broker to try things on. Its data is in a directory of its own, which
//! goes with it; it takes the next free ports; and it prints where it is and how to send the first
//! message.
//!
//! What is named by a flag, a variable or a file that was asked for is used as it is: a data
//! directory that is named stays. The system's file is not read, since it is that of a service.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};

use management::Facts;
use tempfile::TempDir;

use crate::config::{Config, Origin, Settings, TakenPort};
use crate::exit::{Exit, Failure};

/// All ports are shifted by a multiple of this, up to [`FARTHEST`].
const STEP: u16 = 1000;
/// Farther away are ports that systems use for outgoing connections.
const FARTHEST: u16 = 15_000;

/// What such a broker has besides its settings.
pub(crate) struct Trial {
    /// Removed at the end; `None` if the directory is named.
    directory: Option<TempDir>,
    /// Values of settings, as if flags had given them.
    pub(crate) flags: BTreeMap<String, String>,
}

impl Trial {
    /// Chooses what the settings leave open.
    pub(crate) fn prepare(config: &Config) -> Result<Self, Failure> {
        let open = |name: &str| config.described.iter().any(|one| one.name == name && one.origin == Origin::Default);
        let mut flags = BTreeMap::new();
        let mut directory = None;
        if open("data_dir") {
            let made = tempfile::Builder::new().prefix("hermod-dev-").tempdir().map_err(|error| {
                Exit::CannotCreate
                    .because(format!("a directory for the data cannot be made: {error}; name one with --data-dir"))
            })?;
            flags.insert("data_dir".to_owned(), made.path().display().to_string());
            directory = Some(made);
        }
        if open("port_offset") {
            let needed = config.settings.listen.all.iter().filter(|one| one.taken == TakenPort::Refused);
            let addresses: Vec<_> = needed.flat_map(|one| &one.addresses).copied().collect();
            flags.insert("port_offset".to_owned(), free_offset(&addresses, is_taken).to_string());
        }
        Ok(Self { directory, flags })
    }

    /// What is printed once the broker serves.
    pub(crate) fn welcome(&self, settings: &Settings, facts: &Facts) -> String {
        let mut text = format!("Hermod {} runs until Ctrl-C. ", facts.version);
        text += &match &self.directory {
            Some(_) => format!("Its data is in {}, and goes with it.\n\n", facts.data_dir),
            None => format!("Its data is in {}, and stays there.\n\n", facts.data_dir),
        };
        let (user, password) = (&settings.users.name, &settings.users.password);
        let known = user == "guest" && password == "guest";
        let console = url(facts, "http").map(|place| format!("http://{place}/"));
        if let Some(console) = &console {
            let log_in = if known { "user guest, password guest" } else { "log in as a user of this broker" };
            text += &format!("  console  {console}   {log_in}\n");
        }
        let secret = if known { "guest:guest@" } else { "" };
        for (protocol, scheme) in [("amqp", "amqp"), ("mqtt", "mqtt"), ("stomp", "stomp")] {
            if let Some(place) = url(facts, protocol) {
                text += &format!("  {:<8} {scheme}://{secret}{place}\n", protocol.to_uppercase());
            }
        }
        let place = match (cfg!(unix), console) {
            (false, Some(console)) => {
                format!("set HERMOD_URL={console}\n  set HERMOD_USER={user}\n  set HERMOD_PASSWORD=...")
            }
            _ => format!("export HERMOD_DATA_DIR={}", quoted(&facts.data_dir)),
        };
        text += &format!(
            "\nThe first message, in another terminal:\n\n  {place}\n  hermod queues declare hello\n  hermod publish \
             hello 'first message'\n  hermod consume hello\n\n"
        );
        text
    }
}

/// Host and port of the first listener of `protocol` that has no TLS.
fn url(facts: &Facts, protocol: &str) -> Option<String> {
    let of_it = |name: &str| name.split('/').any(|one| one == protocol);
    let listener = facts.listeners.iter().find(|one| of_it(&one.protocol) && one.terms.is_empty())?;
    let address: SocketAddr = listener.address.parse().ok()?;
    let ip = address.ip();
    Some(if ip.is_unspecified() || ip.is_loopback() {
        format!("localhost:{}", address.port())
    } else {
        address.to_string()
    })
}

/// A path as a shell reads it.
fn quoted(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    if path.bytes().all(plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

/// The smallest shift with which none of the addresses is taken; none if there is no such.
fn free_offset(addresses: &[SocketAddr], taken: impl Fn(SocketAddr) -> bool) -> u16 {
    let shifted = |offset: u16| {
        addresses.iter().map(move |address| {
            let port = address.port().checked_add(offset)?;
            Some(SocketAddr::new(address.ip(), port))
        })
    };
    let free = |offset: &u16| shifted(*offset).all(|address| address.is_some_and(|address| !taken(address)));
    (0..=FARTHEST).step_by(STEP.into()).find(free).unwrap_or(0)
}

fn is_taken(address: SocketAddr) -> bool {
    TcpListener::bind(address).is_err_and(|error| error.kind() == std::io::ErrorKind::AddrInUse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_shift_that_frees_all_ports_is_taken() {
        let addresses = ["127.0.0.1:5672", "[::1]:15672"].map(|text| text.parse().unwrap());
        let with = |taken: &[u16]| free_offset(&addresses, |address| taken.contains(&address.port()));
        assert_eq!([with(&[]), with(&[5672]), with(&[15672, 6672]), with(&[5673])], [0, 1000, 2000, 0]);
        assert_eq!(free_offset(&addresses, |_| true), 0);
    }

    #[test]
    fn a_path_is_quoted_where_a_shell_would_read_it_otherwise() {
        assert_eq!([quoted("/tmp/a-b"), quoted("/tmp/a b'c")], ["/tmp/a-b", r"'/tmp/a b'\''c'"]);
    }
}
