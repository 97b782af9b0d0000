//! The audit of promises, on brokers whose promises are known: one that keeps confirmed messages in
//! memory and one that writes them down are both killed, and told apart.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a panic here is a failed test")]

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

const BENCH: &str = env!("CARGO_BIN_EXE_hermod-bench");

/// A simulated broker; it ends with this value.
struct Broker {
    child: Child,
    address: SocketAddr,
    command: String,
}

impl Broker {
    fn start(promise: &str) -> Self {
        // The restarted broker needs the same port: one below those that systems give to outgoing
        // connections, so that no client gets it in between.
        let mut candidates = (19_000..20_000).map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let address = candidates.find(|candidate| TcpListener::bind(candidate).is_ok()).unwrap();
        let line = format!("{BENCH} simulate --listen {address} {promise}");
        let mut words = line.split_whitespace();
        let mut child = Command::new(words.next().unwrap()).args(words).stdout(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        assert!(first.starts_with("listening on "), "{first}");
        Self { child, address, command: line }
    }

    /// Audits it with the claim that a killed broker keeps what it confirmed. Exit code and output.
    fn audit(&mut self, rounds: u32) -> (i32, String) {
        let mut bench = Command::new(BENCH);
        bench.args(["audit", "--window", "20", "--claims", "D2", "--quiet", "--patience", "30", "--settle", "0"]);
        bench.args(["--rounds", &rounds.to_string()]);
        bench.arg("--target").arg(format!("broker=amqp://{},pid={}", self.address, self.child.id()));
        let done = bench.arg("--restart").arg(&self.command).output().unwrap();
        let text = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        if let Some((_, pid)) = text.split_once("left running as process ") {
            let ended = Command::new("kill").args(["-9", pid.trim()]).status().unwrap();
            assert!(ended.success(), "{text}");
        }
        self.child.wait().unwrap();
        (done.status.code().unwrap_or(-1), text)
    }
}

#[test]
fn a_promise_that_a_kill_breaks_is_not_supported_and_one_that_it_does_not_break_is() {
    let (code, text) = Broker::start("--promise memory").audit(1);
    assert!(code == 3 && text.contains("CLAIM NOT SUPPORTED: D2"), "{code}: {text}");
    let dir = tempfile::tempdir().unwrap();
    let (code, text) = Broker::start(&format!("--promise write --dir {}", dir.path().display())).audit(2);
    assert!(
        code == 0 && text.contains("claim of D2 is supported") && text.contains("killed 2 times, 0 of"),
        "{code}: {text}"
    );
}
