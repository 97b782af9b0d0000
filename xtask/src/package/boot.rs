//! Starts what was packed: a broker that takes a message, ends when it is told to, and has the
//! message when it is started again.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{capture, folder, text};

/// How long a start or an end may take.
const LIMIT: Duration = Duration::from_secs(60);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// A program where it was put, and how it is run there.
pub(super) struct Installed {
    /// What stands before the program, such as `chroot` and a folder.
    pub(super) before: Vec<String>,
    pub(super) program: String,
    /// The flags of `serve` besides its ports, and of all other verbs.
    pub(super) flags: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    /// Where its log is written.
    pub(super) log: PathBuf,
}

/// A running broker. It is killed when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // If it has ended, there is nothing to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts it twice, with a message in between; what it took, for the report.
pub(super) fn twice(installed: &Installed) -> Result<String, String> {
    let ports = ports()?;
    let (broker, took) = installed.start(&ports)?;
    installed.ask(&["queues", "declare", "packed"])?;
    installed.ask(&["publish", "packed", "a message"])?;
    let resident = resident(broker.0.id());
    installed.stop(broker)?;
    let (broker, _) = installed.start(&ports)?;
    let message = installed.ask(&["consume", "packed"])?;
    installed.stop(broker)?;
    if message != "a message\n" {
        return Err(format!("{}: the message came back as {message:?}", installed.program));
    }
    Ok(format!("started twice: up after {} ms, {resident}", took.as_millis()))
}

impl Installed {
    /// A program that lies in a folder, with its data in another.
    pub(super) fn plain(program: &Path, data: &Path) -> Self {
        Self {
            before: Vec::new(),
            program: program.display().to_string(),
            flags: vec![format!("--data-dir={}", data.display())],
            environment: Vec::new(),
            log: data.with_extension("log"),
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let words: Vec<_> = self.before.iter().chain([&self.program]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(arguments).args(&self.flags).stdin(Stdio::null());
        // Nothing that is set here may reach the program.
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts the broker, and waits until it is healthy.
    fn start(&self, ports: &[String]) -> Result<(Running, Duration), String> {
        self.log.parent().map_or(Ok(()), folder)?;
        let log = File::create(&self.log).map_err(|error| format!("{}: {error}", self.log.display()))?;
        let mut serve = self.command(&["serve"]);
        let begun = Instant::now();
        let child = serve.args(ports).stdout(Stdio::null()).stderr(log).spawn();
        let mut running = Running(child.map_err(|error| format!("cannot start {}: {error}", self.program))?);
        let mut healthy = Err("it was not asked".to_owned());
        while begun.elapsed() < LIMIT {
            healthy = self.ask(&["health"]);
            if healthy.is_ok() {
                return Ok((running, begun.elapsed()));
            }
            if running.0.try_wait().is_ok_and(|ended| ended.is_some()) {
                break;
            }
            std::thread::sleep(LOOK);
        }
        let log = text(&self.log).unwrap_or_default();
        Err(format!("{} does not serve: {}\n{log}", self.program, healthy.err().unwrap_or_default()))
    }

    /// What a verb prints.
    fn ask(&self, arguments: &[&str]) -> Result<String, String> {
        capture(&mut self.command(arguments))
    }

    /// Ends the broker as a service manager does.
    fn stop(&self, mut running: Running) -> Result<(), String> {
        capture(Command::new("kill").args(["-s", "TERM", &running.0.id().to_string()]))?;
        let begun = Instant::now();
        while begun.elapsed() < LIMIT {
            match running.0.try_wait() {
                Ok(None) => std::thread::sleep(LOOK),
                Ok(Some(status)) if status.success() => return Ok(()),
                other => return Err(format!("{} ended with {other:?}", self.program)),
            }
        }
        Err(format!("{} does not end", self.program))
    }
}

/// Flags that name free ports on loopback.
fn ports() -> Result<Vec<String>, String> {
    let mut flags = vec!["--bind=127.0.0.1".to_owned()];
    let mut held = Vec::new();
    for name in ["amqp", "stomp", "mqtt", "http"] {
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| format!("no free port: {error}"))?;
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        flags.push(format!("--ports-{name}={port}"));
        held.push(listener);
    }
    Ok(flags)
}

/// The memory that a process has, in words.
fn resident(process: u32) -> String {
    let status = text(Path::new(&format!("/proc/{process}/status"))).unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
    kib.map_or_else(|| "memory unknown".to_owned(), |kib: u64| format!("{} MiB resident", kib / 1024))
}
