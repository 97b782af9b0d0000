//! The broker under test: built once, started on the same data again and again, and killed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a start may take.
const START_LIMIT: Duration = Duration::from_secs(180);
/// How long the first byte of an answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);
/// How often a start is looked at.
const GLANCE: Duration = Duration::from_millis(1);
const AMQP: u16 = 5672;
const STOMP: u16 = 61613;
const MQTT: u16 = 1883;
const HTTP: u16 = 15672;
const NODES: u16 = 5679;
/// The largest offset that keeps every port below 65 536.
const MAX_OFFSET: u16 = 3900;
/// How long a log-in may take: on a machine that compiles besides, the check of a password takes
/// longer than the default allows, and that is no fault of the broker.
pub(crate) const LOGIN: (&str, &str) = ("HERMOD_LIMITS_HANDSHAKE_TIMEOUT", "120s");
/// Lines of the log that a report shows.
const LOG_LINES: usize = 30;

/// Where the broker listens on loopback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ports {
    pub(crate) amqp: u16,
    pub(crate) stomp: u16,
}

/// The sizes of the journal while some cycles last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sizes {
    /// What a user gets who sets nothing.
    Default,
    /// So small that files are recycled all the time.
    Small,
}

impl Sizes {
    fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Default => &[],
            Self::Small => &[
                ("HERMOD_JOURNAL_MAX_BYTES", "8MiB"),
                ("HERMOD_JOURNAL_FILE_BYTES", "256KiB"),
                ("HERMOD_LIMITS_MAX_MESSAGE_SIZE", "128KiB"),
            ],
        }
    }
}

/// How a server is started.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) sizes: Sizes,
    /// Threads that serve connections.
    pub(crate) threads: u64,
    /// A program and its arguments that becomes the server, with the server's command line behind
    /// them.
    pub(crate) wrapper: Vec<String>,
    /// Settings, as variables of the environment; they win over those of `sizes` and over the
    /// patience with slow log-ins.
    pub(crate) variables: Vec<(&'static str, String)>,
}

impl Launch {
    /// The server as it is.
    pub(crate) fn plain(sizes: Sizes) -> Self {
        Self { sizes, threads: 1, wrapper: Vec::new(), variables: Vec::new() }
    }
}

/// What came of a start.
#[derive(Debug)]
pub(crate) enum Started {
    /// Connections are accepted, so long after the start.
    Ready(Duration),
    /// It ended.
    Ended(ExitStatus),
    /// Neither, for as long as a start may take.
    Silent,
}

/// What to start, and where.
#[derive(Debug)]
pub(crate) struct Program {
    /// The executable.
    path: PathBuf,
    /// Where it and its log lie, and its data directory unless that is elsewhere.
    folder: PathBuf,
    data: PathBuf,
    offset: u16,
    /// The fault that a build for it is told to have.
    sabotage: Option<String>,
}

impl Program {
    /// A copy of the executable `source`, so that a later build does not change it under a run, to
    /// be run in `folder`.
    pub(crate) fn prepare(source: &Path, folder: &Path, sabotage: Option<&str>) -> Result<Self, String> {
        if folder.exists() {
            std::fs::remove_dir_all(folder).map_err(|error| format!("cannot clear {}: {error}", folder.display()))?;
        }
        std::fs::create_dir_all(folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
        let path = folder.join("hermod");
        std::fs::copy(source, &path).map_err(|error| format!("cannot copy {}: {error}", source.display()))?;
        let (data, sabotage) = (folder.join("data"), sabotage.map(str::to_owned));
        Ok(Self { path, folder: folder.into(), data, offset: free_offset(0)?, sabotage })
    }

    /// Has the data directory elsewhere. It need not be there.
    pub(crate) fn with_data(mut self, data: PathBuf) -> Self {
        self.data = data;
        self
    }

    pub(crate) fn ports(&self) -> Ports {
        Ports { amqp: AMQP + self.offset, stomp: STOMP + self.offset }
    }

    /// The port of MQTT.
    pub(crate) fn mqtt(&self) -> u16 {
        MQTT + self.offset
    }

    /// The port of its metrics.
    pub(crate) fn http(&self) -> u16 {
        HTTP + self.offset
    }

    /// The data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.data.clone()
    }

    /// Starts it without waiting for anything.
    pub(crate) fn start(&self, launch: &Launch) -> Result<Server, String> {
        let path = self.folder.join("log");
        let log = File::options().create(true).append(true).open(&path);
        let log = log.and_then(|log| Ok((log.try_clone()?, log)));
        let (out, errors) = log.map_err(|error| format!("cannot open {}: {error}", path.display()))?;
        let words = launch.wrapper.iter().map(OsStr::new).chain([self.path.as_os_str()]);
        let words: Vec<&OsStr> = words.collect();
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .args(["serve", "--bind", "127.0.0.1", "--port-offset", &self.offset.to_string(), "--data-dir"])
            .arg(self.data())
            .envs([LOGIN])
            .envs(launch.sizes.variables().iter().copied())
            .env("HERMOD_IO_THREADS", launch.threads.to_string())
            .envs(launch.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(errors);
        if let Some(fault) = &self.sabotage {
            command.env("HERMOD_SABOTAGE", fault);
        }
        let child = command.spawn().map_err(|error| format!("cannot start {}: {error}", self.path.display()))?;
        Ok(Server { child, started: Instant::now() })
    }

    /// Runs another verb of the program, which asks the server about its data directory.
    pub(crate) fn ask(&self, words: &[&OsStr]) -> Result<Child, String> {
        let mut command = Command::new(&self.path);
        command.args(words).arg("--data-dir").arg(self.data()).stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        child.map_err(|error| format!("cannot start {}: {error}", self.path.display()))
    }

    /// The end of what the server wrote, for a report of a failure.
    pub(crate) fn log_tail(&self) -> String {
        let path = self.folder.join("log");
        let log = std::fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        format!("the end of {}:\n{}", path.display(), lines[lines.len().saturating_sub(LOG_LINES)..].join("\n"))
    }
}

/// A started server. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    started: Instant,
}

impl Server {
    /// Waits until it accepts connections or ends.
    pub(crate) fn wait(&mut self, ports: Ports) -> Started {
        while self.started.elapsed() < START_LIMIT {
            if let Some(status) = self.ended() {
                return Started::Ended(status);
            }
            if answers(ports.amqp) && TcpStream::connect((Ipv4Addr::LOCALHOST, ports.stomp)).is_ok() {
                return Started::Ready(self.started.elapsed());
            }
            std::thread::sleep(GLANCE);
        }
        Started::Silent
    }

    /// Waits until it accepts connections, and says how long after its start that was.
    pub(crate) fn wait_until_ready(&mut self, ports: Ports) -> Result<Duration, String> {
        match self.wait(ports) {
            Started::Ready(time) => Ok(time),
            Started::Ended(status) => Err(format!("the broker ended while starting ({status})")),
            Started::Silent => Err(format!("the broker does not accept connections after {START_LIMIT:?}")),
        }
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Ends the process without warning and waits until it is gone.
    pub(crate) fn kill(&mut self) -> Result<(), String> {
        let ended = self.child.kill().and_then(|()| self.child.wait());
        ended.map(|_| ()).map_err(|error| format!("cannot kill the broker: {error}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already, and a drop can return no error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether the first bytes of AMQP are answered: the port of a broker that was just killed may
/// still take a connection, and drops it.
fn answers(port: u16) -> bool {
    let answer = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).and_then(|mut stream| {
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        stream.write_all(b"AMQP\x00\x00\x09\x01")?;
        stream.read(&mut [0])
    });
    answer.is_ok_and(|count| count > 0)
}

/// Where this tool keeps what it builds and writes.
pub(crate) fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Clears up behind a run. What can't be removed is only in the way.
pub(crate) fn remove(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder)
        && folder.exists()
    {
        eprintln!("cannot remove {}: {error}", folder.display());
    }
}

/// Builds the server in the profile of the tests and returns its path. For a deliberate fault it
/// has the feature that makes faults possible.
pub(crate) fn build(root: &Path, sabotage: Option<&str>) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--profile", "ci", "--package", "hermod"]).current_dir(root);
    if sabotage.is_some() {
        command.args(["--features", "sabotage"]);
    }
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !status.success() {
        return Err("the broker does not build".to_owned());
    }
    Ok(target_folder(root).join("ci").join("hermod"))
}

/// An offset at which all ports are free now. Another program may take one before the server does;
/// then its start fails.
/// It is above `after`, and the port of nodes is free, too.
pub(crate) fn free_offset(after: u16) -> Result<u16, String> {
    let first = (1500 + (std::process::id() % 1000) as u16).max(after + 1);
    let free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    (first..MAX_OFFSET)
        .step_by(7)
        .find(|offset| [AMQP, STOMP, MQTT, HTTP, NODES].iter().all(|port| free(port + offset)))
        .ok_or_else(|| "no offset with free ports was found".to_owned())
}
