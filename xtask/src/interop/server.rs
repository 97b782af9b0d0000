//! A server under test: started on free ports with its own data directory, killed, started again,
//! stopped.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a start may take.
const START_LIMIT: Duration = Duration::from_secs(60);
/// The ports that `--port-offset` shifts.
const PORTS: [u16; 6] = [AMQP, STOMP, MQTT, WEB_MQTT, 5671, 15672];
const AMQP: u16 = 5672;
const STOMP: u16 = 61613;
const MQTT: u16 = 1883;
const WEB_MQTT: u16 = 15675;
/// The largest offset that keeps every port below 65 536.
const MAX_OFFSET: u16 = 3900;

/// Where a broker listens on loopback.
#[derive(Debug, Clone, Copy)]
pub(super) struct Address {
    pub(super) amqp: u16,
    pub(super) stomp: u16,
    pub(super) mqtt: u16,
    /// MQTT over WebSocket, if that is known to be there.
    pub(super) web_mqtt: Option<u16>,
}

/// A running server. Dropping it ends the process.
pub(super) struct Server {
    program: PathBuf,
    folder: PathBuf,
    offset: u16,
    child: Child,
    flags: &'static [&'static str],
}

/// The folder that cargo builds into.
pub(crate) fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Builds the server in the profile that the tests use, and returns its path.
pub(crate) fn build(root: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--profile", "ci", "--package", "hermod"])
        .current_dir(root)
        .status()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !status.success() {
        return Err("the server does not build".to_owned());
    }
    Ok(target_folder(root).join("ci").join("hermod"))
}

/// The Python in `made` that has what `source` requires.
///
/// # Errors
/// When it can't be installed.
pub(crate) fn python(source: &Path, made: &Path) -> Result<PathBuf, String> {
    let (python, readme) = (made.join("venv/bin/python"), "interop/README.md");
    call(Command::new("python3").args(["-m", "venv"]).arg(made.join("venv")), readme)?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
    call(Command::new(&python).args(install).arg(source.join("requirements.txt")), readme)?;
    Ok(python)
}

/// Runs a program to its end. `readme` says what it needs.
///
/// # Errors
/// When it can't be started, or fails.
pub(crate) fn call(command: &mut Command, readme: &str) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("cannot run {program}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{program} failed; {readme} says what it needs")) }
}

impl Server {
    /// Starts `program` with these flags and an empty data directory in `folder`, and waits until
    /// it accepts connections.
    pub(super) fn start(program: &Path, folder: &Path, flags: &'static [&'static str]) -> Result<Self, String> {
        if folder.exists() {
            std::fs::remove_dir_all(folder).map_err(|error| format!("cannot clear {}: {error}", folder.display()))?;
        }
        std::fs::create_dir_all(folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
        let offset = free_offset()?;
        let child = spawn(program, folder, offset, flags)?;
        let mut server = Self { program: program.to_path_buf(), folder: folder.to_path_buf(), offset, child, flags };
        server.wait_until_ready()?;
        Ok(server)
    }

    pub(super) fn address(&self) -> Address {
        Address {
            amqp: AMQP + self.offset,
            stomp: STOMP + self.offset,
            mqtt: MQTT + self.offset,
            web_mqtt: Some(WEB_MQTT + self.offset),
        }
    }

    /// Ends the process without warning, as a crash would, and starts it again on the same data.
    pub(super) fn kill_and_restart(&mut self) -> Result<(), String> {
        self.kill()?;
        self.child = spawn(&self.program, &self.folder, self.offset, self.flags)?;
        self.wait_until_ready()
    }

    /// Ends the process and removes what it wrote.
    pub(super) fn stop(mut self) -> Result<(), String> {
        self.kill()?;
        std::fs::remove_dir_all(&self.folder)
            .map_err(|error| format!("cannot remove {}: {error}", self.folder.display()))
    }

    /// The end of what the server wrote, for a report of a failure.
    pub(super) fn log_tail(&self) -> String {
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(30)..].join("\n");
        format!("-- the end of {}:\n{tail}", self.folder.join("log").display())
    }

    fn kill(&mut self) -> Result<(), String> {
        let ended = self.child.kill().and_then(|()| self.child.wait());
        ended.map(|_| ()).map_err(|error| format!("cannot end the server: {error}"))
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let end = Instant::now() + START_LIMIT;
        let Address { amqp, stomp, mqtt, .. } = self.address();
        while Instant::now() < end {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the server ended while starting ({status})\n{}", self.log_tail()));
            }
            if [amqp, stomp, mqtt].iter().all(|port| TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).is_ok()) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(format!("the server does not accept connections after {START_LIMIT:?}\n{}", self.log_tail()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already, and a drop can return no error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(program: &Path, folder: &Path, offset: u16, flags: &[&str]) -> Result<Child, String> {
    let log_path = folder.join("log");
    let log = File::options().create(true).append(true).open(&log_path);
    let log = log.map_err(|error| format!("cannot open {}: {error}", log_path.display()))?;
    let second = log.try_clone().map_err(|error| format!("cannot open {}: {error}", log_path.display()))?;
    Command::new(program)
        .arg("serve")
        .args(["--port-offset", &offset.to_string()])
        .arg("--data-dir")
        .arg(folder.join("store"))
        .args(flags)
        .env("HERMOD_PORTS_WEB_MQTT", WEB_MQTT.to_string())
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(second)
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", program.display()))
}

/// An offset at which all ports are free now. Another program may take one before the server does;
/// then its start fails.
fn free_offset() -> Result<u16, String> {
    let first = 100 + (std::process::id() % 1000) as u16;
    (first..MAX_OFFSET)
        .step_by(7)
        .find(|offset| PORTS.iter().all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port + offset)).is_ok()))
        .ok_or_else(|| "no offset with free ports was found".to_owned())
}
