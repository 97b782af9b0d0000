//! Starts and stops the program under test. Dropping its handle kills a server that a failed test
//! left behind.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Nothing here takes longer, unless it hangs.
pub(crate) const HANG: Duration = Duration::from_secs(30);

/// A running server.
pub(crate) struct Server {
    child: Child,
    log: Receiver<String>,
    /// Log lines until the end of the start.
    pub(crate) start: Vec<String>,
    pub(crate) ports: Ports,
}

/// Its ports on 127.0.0.1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) amqp: u16,
    pub(crate) stomp: u16,
    pub(crate) mqtt: u16,
    pub(crate) http: u16,
    /// Opened only with a certificate.
    pub(crate) amqps: u16,
    pub(crate) stomps: u16,
    pub(crate) https: u16,
}

impl Ports {
    /// Seven free ports. They are below the range that systems use for outgoing connections, of
    /// which other tests open many at the same time. A free port of that range could be taken
    /// before the server binds it.
    pub(crate) fn free() -> Self {
        let [amqp, stomp, mqtt, http, amqps, stomps, https] = [(); 7].map(|()| free_port());
        Self { amqp, stomp, mqtt, http, amqps, stomps, https }
    }
}

/// A free port that no other test of this process gets.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(20_000);
    loop {
        let port = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(port < 32_000, "no free port is left for tests");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// The program, without settings from this environment.
pub(crate) fn hermod(verb: &str, data_dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hermod"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HERMOD_")) {
        command.env_remove(name);
    }
    command.arg(verb).arg("--data-dir").arg(data_dir);
    command
}

/// `hermod serve` on `ports`. The ports over TLS are left out, because they can't be set without a
/// certificate.
pub(crate) fn serve(data_dir: &Path, ports: Ports) -> Command {
    let mut command = hermod("serve", data_dir);
    command.args(["--bind", "127.0.0.1"]);
    let ports = [("amqp", ports.amqp), ("stomp", ports.stomp), ("mqtt", ports.mqtt), ("http", ports.http)];
    for (name, port) in ports {
        command.arg(format!("--ports-{name}")).arg(port.to_string());
    }
    command
}

/// Runs `command` to its end; returns exit code, stdout and stderr.
pub(crate) fn run(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

impl Server {
    /// Starts a server and waits until it serves.
    pub(crate) fn start(data_dir: &Path, flags: &[&str]) -> Self {
        Self::start_on(Ports::free(), data_dir, flags)
    }

    /// The same on these ports.
    pub(crate) fn start_on(ports: Ports, data_dir: &Path, flags: &[&str]) -> Self {
        Self::spawn(serve(data_dir, ports).args(flags), ports)
    }

    /// The same by this command, which names the ports.
    pub(crate) fn spawn(command: &mut Command, ports: Ports) -> Self {
        let mut child = command.stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let log = follow(child.stderr.take().unwrap());
        let mut start = Vec::new();
        while !start.last().is_some_and(|line: &String| line.contains("Server startup complete")) {
            match log.recv_timeout(HANG) {
                Ok(line) => start.push(line),
                Err(_) => panic!("no start: {start:?}, {:?}", child.try_wait()),
            }
        }
        Self { child, log, start, ports }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The log line with this text, from the start or after it. Work in the background, like the
    /// scrub, may have written it before the server was ready.
    pub(crate) fn until_logged(&self, text: &str) -> String {
        if let Some(line) = self.start.iter().find(|line| line.contains(text)) {
            return line.clone();
        }
        loop {
            match self.log.recv_timeout(HANG) {
                Ok(line) if line.contains(text) => return line,
                Ok(_) => {}
                Err(error) => panic!("no line with {text}: {error}"),
            }
        }
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.pid().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Waits for the end. Returns the exit code, if it was not killed, and the log lines since the
    /// start.
    pub(crate) fn wait(mut self) -> (Option<i32>, Vec<String>) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < HANG, "the server does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        (status.code(), self.log.iter().collect())
    }

    /// The status and the body of a GET.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        self.ask("GET", path, "")
    }

    /// The status and the body of a request with these header lines, each with its line break.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &str) -> (u16, String) {
        let reply = self.send(method, path, headers, "");
        (reply.status, reply.body)
    }

    /// The status and the body of a request with these header lines and this document.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &str, document: &str) -> Reply {
        let mut socket = TcpStream::connect(("127.0.0.1", self.ports.http)).unwrap();
        socket.set_read_timeout(Some(HANG)).unwrap();
        let length = document.len();
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n");
        // A server that refuses a document need not read all of it.
        let _ = socket.write_all(format!("{head}{headers}\r\n{document}").as_bytes());
        let mut text = Vec::new();
        let ended = socket.read_to_end(&mut text);
        let text = String::from_utf8(text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer to {path}: {ended:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { status, head: head.to_owned(), body: body.to_owned() }
    }
}

/// An answer over HTTP.
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Reply {
    /// The value of a header line; empty if there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).next().unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads log lines as they come, so that the server never waits for its log to be read.
fn follow(stderr: ChildStderr) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Waits until `reached` is true.
pub(crate) fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let start = Instant::now();
    while !reached() {
        assert!(start.elapsed() < HANG, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(5));
    }
}
