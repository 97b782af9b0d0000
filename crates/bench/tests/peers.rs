//! A run whose target is a peer: it is started for the run and ends with it, however the run ends. The peer is this
//! program's own relay, under a description of the user's.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_hermod-bench");

const RECIPE: &str = r#"
about = "a relay"
durability = "d0"
because = "it keeps nothing"
ports = ["relay"]
uris = ["relay://127.0.0.1:{{port.relay}}"]
[[source]]
from = "program"
program = "hermod-bench"
variable = "RELAY_PROGRAM"
[[process]]
command = ["{{opt}}/hermod-bench", "relay", "--listen", "127.0.0.1:{{port.relay}}"]
ready = { port = "relay" }
"#;

fn bench(dir: &Path, words: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(words.split_whitespace()).env("HERMOD_BENCH_PEERS", dir).env("RELAY_PROGRAM", PROGRAM);
    command
}

fn said(mut command: Command) -> String {
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("recipes")).unwrap();
    fs::write(dir.path().join("recipes/floor.toml"), RECIPE).unwrap();
    dir
}

fn becomes(what: &str, is: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_secs(30), "never {what}");
        sleep(Duration::from_millis(10));
    }
}

/// A run that a failing test does not leave behind.
struct Running(Child);

impl Running {
    fn start(mut command: Command) -> Self {
        Self(command.stdout(Stdio::null()).spawn().unwrap())
    }

    fn kill(&mut self) {
        // It has ended already where this fails.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether the peer of this note, which may be written just now, takes connections.
fn is_ready(note: &Path) -> bool {
    fs::read_to_string(note).is_ok_and(|text| text.ends_with('}') && !text.contains("\"ready_seconds\": null"))
}

#[test]
fn a_peer_goes_through_all_verbs() {
    let dir = place();
    let bench = |words: &str| said(bench(dir.path(), words));
    assert!(bench("peers list").lines().any(|line| line.starts_with("floor ") && line.contains("installed")));
    assert!(bench("peers install floor").starts_with(concat!("floor ", env!("CARGO_PKG_VERSION"))));
    assert!(bench("peers start floor").contains("relay://127.0.0.1:"));
    assert!(bench("peers status").contains("floor"));
    assert_eq!(bench("peers stop floor"), "floor is down\n");
    assert_eq!(bench("peers status"), "");
}

#[test]
fn a_peer_named_as_a_target_lives_as_long_as_the_run() {
    let dir = place();
    let json = dir.path().join("run.json");
    let words = format!("run --target one=floor --messages 2000 --size 64 --quiet --json {}", json.display());
    // Whether the machine was quiet enough is not what is asked here.
    let done = bench(dir.path(), &words).output().unwrap();
    assert!(matches!(done.status.code(), Some(0 | 3)), "{}", String::from_utf8_lossy(&done.stderr));
    let record = fs::read_to_string(json).unwrap();
    for part in [r#""peer": "floor""#, r#""durability": "d0""#, r#""all_received": 2000"#] {
        assert!(record.contains(part), "{part} is missing in {record}");
    }
    assert_eq!(fs::read_dir(dir.path().join("run")).unwrap().count(), 0, "it still runs");
}

#[test]
fn a_peer_ends_when_the_run_is_killed() {
    let dir = place();
    let mut run = Running::start(bench(dir.path(), "run --target floor --duration 600 --quiet"));
    let note = dir.path().join("run/floor.json");
    becomes("started", || is_ready(&note));
    run.kill();
    becomes("ended", || !note.exists());
}

/// The network namespace of a process.
fn namespace(pid: &str) -> Option<String> {
    Some(fs::read_link(format!("/proc/{pid}/ns/net")).ok()?.display().to_string())
}

/// Whether this system lets us make network namespaces.
fn namespaces_can_be_made() -> bool {
    let ways = [&["--net", "true"][..], &["--user", "--map-root-user", "--net", "true"][..]];
    let made = |way: &&[&str]| Command::new("unshare").args(*way).output().is_ok_and(|done| done.status.success());
    ways.iter().any(made) && Command::new("ip").arg("-V").output().is_ok()
}

#[test]
fn a_peer_is_loaded_over_a_network_of_which_nothing_is_left() {
    let dir = place();
    let json = dir.path().join("run.json");
    let words =
        format!("run --netns --target floor --relay --messages 2000 --size 64 --quiet --json {}", json.display());
    let done = bench(dir.path(), &words).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    if !namespaces_can_be_made() {
        assert!(done.status.code() == Some(1) && said.contains("--netns"), "{said}");
        return;
    }
    assert!(matches!(done.status.code(), Some(0 | 3)), "{said}");
    let record = fs::read_to_string(json).unwrap();
    for part in [r#""network": "two network namespaces joined by veth, MTU 1500""#, r#""all_received": 2000"#] {
        assert!(record.contains(part), "{part} is missing in {record}");
    }

    let mut run = Running::start(bench(dir.path(), "run --netns --target floor --duration 600 --quiet"));
    let note = dir.path().join("run/floor.json");
    becomes("started", || is_ready(&note));
    let text = fs::read_to_string(&note).unwrap();
    let (_, pid) = text.split_once("\"pid\": ").unwrap();
    let (near, far) = (namespace(&run.0.id().to_string()), namespace(pid.split(',').next().unwrap()));
    let all = [namespace("self"), near.clone(), far.clone()];
    assert!(all.iter().all(Option::is_some) && all[0] != near && all[0] != far && near != far, "{all:?}");
    run.kill();
    let processes = || fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    becomes("gone", || {
        !note.exists() && !processes().filter_map(|pid| namespace(&pid)).any(|used| all[1..].contains(&Some(used)))
    });
}

#[test]
fn what_is_elsewhere_is_not_loaded_over_the_network_of_a_run() {
    if !namespaces_can_be_made() {
        return;
    }
    let dir = place();
    said(bench(dir.path(), "peers start floor"));
    let cases =
        [("amqp://127.0.0.1:1", "--netns is for peers"), ("floor", "is up already"), ("rabbitmq", "peers install")];
    let refused = cases.map(|(target, why)| {
        let done = bench(dir.path(), &format!("run --netns --target {target}")).output().unwrap();
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        (done.status.code() == Some(1) && text.contains(why), text)
    });
    said(bench(dir.path(), "peers stop floor"));
    for (right, text) in refused {
        assert!(right, "{text}");
    }
}
