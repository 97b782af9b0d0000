//! A relay of this run's own, in a process of its own so that its CPU can be measured like a
//! broker's.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use bench_record::failure::{Context, Failure};
use bench_record::target::{LOG, Target};
use machine::netns;

/// What a relay prints before its address once it listens.
pub(crate) const LISTENING: &str = "listening on ";

/// A relay process; it ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct OwnRelay {
    child: Child,
    address: String,
    /// `relay`, or [`LOG`].
    name: &'static str,
}

/// The floors that are asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Floors {
    /// A relay that only copies.
    pub(crate) relay: bool,
    /// One that forces what it copies to a disk.
    pub(crate) log: bool,
}

impl Floors {
    /// Starts them; the one that forces writes to the disk of `dir`.
    pub(crate) fn start(self, dir: &Path) -> Result<Vec<OwnRelay>, Failure> {
        let wanted = [self.relay.then_some(None), self.log.then_some(Some(dir))];
        wanted.into_iter().flatten().map(OwnRelay::start).collect()
    }
}

impl OwnRelay {
    /// Starts this program again as a relay on a free port, which forces what it copies to the disk
    /// of `log` where one is named. It also ends by itself when its standard input closes.
    pub(crate) fn start(log: Option<&Path>) -> Result<Self, Failure> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut command = netns::beside_brokers(&program);
        command.args(["relay", "--listen", "127.0.0.1:0", "--with-parent"]);
        command.args(log.iter().flat_map(|dir| [OsStr::new("--log"), dir.as_os_str()]));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("starting a relay")?;
        let mut line = String::new();
        let name = if log.is_some() { LOG } else { "relay" };
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line).context("reading the relay's address")?;
        }
        let relay = Self { child, address: line.trim().trim_start_matches(LISTENING).to_owned(), name };
        if relay.address.is_empty() {
            return Err(Failure::new("the relay did not start"));
        }
        Ok(relay)
    }

    /// The relay as a target.
    pub(crate) fn target(&self) -> Target {
        Target { pids: vec![self.child.id()], ..Target::at(self.name, "relay", self.address.clone()) }
    }
}

impl Drop for OwnRelay {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
