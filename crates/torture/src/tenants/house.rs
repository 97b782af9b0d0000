//! The broker under attack: started by itself with little memory, with the attacker and the
//! neighbour as users, and what it takes and counts while it runs.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::peer::User;
use crate::gauge::{self, Metrics};
use crate::server::{Launch, Program, Server, Sizes};

/// The ordinary tenant: it may declare, write and read what begins with its name, and publish to
/// the default exchange.
pub(super) const LOW: User = User { name: "low", password: "low-password" };
/// The other user.
pub(super) const OTHER: User = User { name: "other", password: "other-password" };
/// The first user of a new broker, as HTTP has it.
const ADMINISTRATOR: &str = "Z3Vlc3Q6Z3Vlc3Q=";
/// How often memory is looked at.
const GLANCE: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(20);
/// What the broker counts as memory, as `hermod status` shows it, in parts. The last one is what it
/// says that nothing else counts.
const COUNTED: [&str; 6] = [
    "hermod_queued_memory_bytes",
    "hermod_arriving_memory_bytes",
    "hermod_transactions_memory_bytes",
    "hermod_bodies_memory_bytes",
    "hermod_replies_memory_bytes",
    "hermod_uncounted_memory_bytes",
];
/// What it counts beside that: it stays for as long as connections, declarations and answers do.
const KEPT: [&str; 4] = [
    "hermod_declarations_memory_bytes",
    "hermod_clients_memory_bytes",
    "hermod_http_memory_bytes",
    "hermod_strangers_memory_bytes",
];
/// Turns that took so long that others had to wait.
const LONG_TURNS: [&str; 2] =
    ["hermod_long_turns_total{kind=\"connection\"}", "hermod_long_turns_total{kind=\"housekeeping\"}"];

/// A started broker.
pub(super) struct House {
    program: Program,
    server: Server,
}

/// What the process takes and what it counts at one moment, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) resident: u64,
    pub(super) counted: u64,
    pub(super) declared: u64,
}

impl House {
    /// Starts it in `folder` and makes the users.
    pub(super) fn start(
        source: &Path,
        folder: &Path,
        threads: u64,
        settings: &[(&'static str, String)],
        tag: &str,
    ) -> Result<Self, String> {
        let program = Program::prepare(source, folder, None)?;
        let launch = Launch { threads, variables: settings.to_vec(), ..Launch::plain(Sizes::Default) };
        let mut server = program.start(&launch)?;
        server.wait_until_ready(program.ports()).map_err(|error| format!("{error}\n{}", program.log_tail()))?;
        let house = Self { program, server };
        for (user, tag, write) in [(LOW, tag, "^(low|amq[.]default)"), (OTHER, "", "^(other|amq[.]default)")] {
            let User { name, password } = user;
            house.put(&format!("users/{name}"), &format!(r#"{{"password":"{password}","tags":"{tag}"}}"#))?;
            let rights = format!(r#"{{"configure":"^{name}","write":"{write}","read":"^{name}"}}"#);
            house.put(&format!("permissions/%2F/{name}"), &rights)?;
        }
        Ok(house)
    }

    pub(super) fn amqp(&self) -> u16 {
        self.program.ports().amqp
    }

    pub(super) fn http(&self) -> u16 {
        self.program.http()
    }

    /// Why it ended, if it did.
    pub(super) fn ended(&mut self) -> Option<String> {
        self.server.ended().map(|status| format!("the broker ended by itself ({status})"))
    }

    pub(super) fn process(&self) -> u32 {
        self.server.id()
    }

    /// The lines of its log that tell of long turns.
    pub(super) fn long_turns_told(&self) -> Vec<String> {
        let told = self.program.log_tail();
        told.lines().filter(|line| line.contains("had to wait")).map(str::to_owned).collect()
    }

    fn put(&self, path: &str, document: &str) -> Result<(), String> {
        let request = format!(
            "PUT /api/{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {ADMINISTRATOR}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{document}",
            document.len()
        );
        let mut answer = String::new();
        let asked = TcpStream::connect((Ipv4Addr::LOCALHOST, self.http())).and_then(|mut stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(request.as_bytes())?;
            stream.read_to_string(&mut answer)
        });
        asked.map_err(|error| format!("PUT {path}: {error}"))?;
        match answer.get(9..12) {
            Some("201" | "204") => Ok(()),
            _ => Err(format!("PUT {path}: {answer}")),
        }
    }
}

/// Looks at the memory until `stop`.
pub(super) fn watch(process: u32, http: u16, stop: &AtomicBool, mut see: impl FnMut(Instant, Sample)) {
    while !stop.load(Ordering::SeqCst) {
        // While the broker hangs, there is no figure: what it takes is in its peak all the same.
        if let Ok(sample) = look(process, http) {
            see(Instant::now(), sample);
        }
        std::thread::sleep(GLANCE);
    }
}

fn look(process: u32, http: u16) -> Result<Sample, String> {
    let metrics = Metrics::of(http)?;
    let sum = |names: &[&str]| names.iter().map(|name| metrics.get(name)).sum::<Result<u64, String>>();
    Ok(Sample { resident: gauge::resident(process)?, counted: sum(&COUNTED)?, declared: sum(&KEPT)? })
}

/// Turns that took long so far: of connections and of the housekeeping.
pub(super) fn long_turns(http: u16) -> Result<[u64; 2], String> {
    let metrics = Metrics::of(http)?;
    Ok([metrics.get(LONG_TURNS[0])?, metrics.get(LONG_TURNS[1])?])
}

/// A folder for one run.
pub(super) fn folder(root: &Path, attack: &str, threads: u64) -> PathBuf {
    let name = format!("{attack}-{threads}-{}", std::process::id());
    crate::server::target_folder(root).join("tenants").join(name)
}
