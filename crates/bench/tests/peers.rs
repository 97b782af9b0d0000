//! A run whose target is a peer: it is started for the run and ends with it, however the run ends.
//! The peers are this program's own relay and its simulated broker, under descriptions of the
//! user's.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
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

/// A broker that writes what it confirms. It is not measured by the protocol that most verbs speak.
const SIMULATED: &str = r#"
about = "a simulated broker"
durability = "d2"
because = "it writes before it confirms"
ports = ["amqp"]
uris = ["relay://127.0.0.1:{{port.amqp}}", "amqp://guest:guest@127.0.0.1:{{port.amqp}}"]
[[source]]
from = "program"
program = "hermod-bench"
variable = "RELAY_PROGRAM"
[[process]]
command = [
  "{{opt}}/hermod-bench", "simulate", "--listen", "127.0.0.1:{{port.amqp}}", "--promise", "{{promise}}", "--dir", "{{dir}}/store",
]
ready = { port = "amqp", log = "listening on" }
[values]
promise = "write"
[variant.forgetful]
about = "confirms what is in its memory"
durability = "d1"
because = "it writes nothing"
values = { promise = "memory" }
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

/// A directory of peers. Those of two directories know nothing of each other's ports before they
/// listen, so that one test after the other has one.
struct Place {
    dir: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Place {
    fn path(&self) -> &Path {
        self.dir.path()
    }
}

fn place() -> Place {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("recipes")).unwrap();
    for (name, recipe) in [("floor", RECIPE), ("simulated", SIMULATED)] {
        fs::write(dir.path().join("recipes").join(name).with_extension("toml"), recipe).unwrap();
    }
    Place { dir, _turn }
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

/// Every verb that loads, on peers, with what it must say and the codes that it may end with.
const LOADS: [(&str, &str, &[i32]); 8] = [
    ("saturate --target simulated,via=amqp --size 64 --duration 0.2 --warmup 0.1 --precision 50%", "sustains", &[0, 3]),
    ("curve --target floor --full 500 --size 64 --duration 0.1 --warmup 0.1", "105 %", &[0, 3]),
    ("backlog --target one=simulated --messages 2000 --size 64 --quiet", "drain", &[0]),
    ("queues --target simulated --count 20 --quiet", "20 durable queues", &[0]),
    ("connections --target simulated --count 6 --processes 2 --idle 0.01 --probes 2 --quiet", "came back", &[0]),
    ("audit --target simulated --claims D2 --restart --settle 0 --rounds 2 --quiet", "claim of D2 is supported", &[0]),
    (
        "audit --target simulated/forgetful --claims D2 --restart --settle 0 --rounds 1 --quiet",
        "CLAIM NOT SUPPORTED",
        &[3],
    ),
    // What can't be done ends the peer too.
    ("queues --target floor --count 5", "use amqp://", &[1]),
];

#[test]
fn every_load_takes_peers_and_ends_them() {
    let dir = place();
    for (words, part, codes) in LOADS {
        let done = bench(dir.path(), words).output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code().is_some_and(|code| codes.contains(&code)) && said.contains(part), "{words}: {said}");
        assert_eq!(fs::read_dir(dir.path().join("run")).unwrap().count(), 0, "{words}: it still runs");
    }
}

const STUDY: &str = r#"
id = "small"
title = "t"
gist = "g"
citation = "c"
environment = "e"
faults = []
platforms = { A = { title = "a" } }
rows = [{ id = "R", title = "r", metric = "messages_per_second" }]
load = { messages = 200, persistent = true, ack = "each", window = 10 }
"#;

#[test]
fn a_suite_audits_the_peers_that_it_starts() {
    let dir = place();
    let [study, json, html] = ["small.toml", "r.json", "r.html"].map(|name| dir.path().join(name));
    fs::write(&study, STUDY).unwrap();
    let suite = |more: &str| {
        let words = format!("suite {} --audit --seconds 0.4 --json {}", study.display(), json.display());
        let targets = "--target sim=simulated,via=amqp --target floor";
        bench(dir.path(), &format!("{words} {targets} --html {} {more}", html.display())).output().unwrap()
    };
    let out = dir.path().join("out");
    let done = suite(&format!("--out {}", out.display()));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(matches!(done.status.code(), Some(0 | 3)), "{said}");
    for part in ["audit of sim: [3/3] killed after", "audit of floor: left out, for it speaks none of amqp"] {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
    let record = fs::read_to_string(&json).unwrap();
    for part in [r#""supports": "d"#, "killed 3 times, 0 of", r#""start_s": 0"#] {
        assert!(record.contains(part), "{part} is missing in {record}");
    }
    assert_eq!(fs::read_dir(dir.path().join("run")).unwrap().count(), 0, "a peer still runs");
    let again = suite(&format!("--resume {}", out.display()));
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(matches!(again.status.code(), Some(0 | 3)) && !said.contains("killed after"), "{said}");
    assert!(fs::read_to_string(&json).unwrap().contains("killed 3 times, 0 of"));
}

#[test]
fn only_what_was_started_for_an_audit_is_killed_and_started_again() {
    let dir = place();
    let refused = |words: &str, part: &str| {
        let done = bench(dir.path(), words).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(1) && said.contains(part), "{words}: {said}");
    };
    refused("audit --target simulated --restart true", "without a command");
    refused("audit --target amqp://127.0.0.1:1,pid=1 --restart", "the command that starts the broker");
    said(bench(dir.path(), "peers start simulated"));
    refused("audit --target simulated --restart", "was up before");
    assert!(said(bench(dir.path(), "peers status")).contains("ready after"));
    said(bench(dir.path(), "peers stop simulated"));
}

#[test]
fn a_peer_ends_when_a_load_is_interrupted() {
    let dir = place();
    let load = Running::start(bench(dir.path(), "connections --target simulated --count 1 --idle 600 --quiet"));
    let note = dir.path().join("run/simulated.json");
    becomes("started", || is_ready(&note));
    // Not SIGINT: what a shell starts in the background, as some run tests, ignores that from the
    // beginning. The keeper of the peer is told first, as by `pkill hermod-bench`: once it left the
    // peer behind.
    let pid = load.0.id().to_string();
    for (program, words) in [("pkill", ["-TERM", "-P"]), ("kill", ["-TERM", "--"])] {
        assert!(Command::new(program).args(words).arg(&pid).status().unwrap().success(), "{program}");
    }
    becomes("ended", || !note.exists());
}

/// `timeout` sends its signal to its child, and to the group of its child. The second of them once
/// ended a run on the spot, without a report, and left its peer to end while the next run took it
/// for one that was up.
#[test]
fn a_request_to_terminate_that_comes_twice_is_one() {
    let dir = place();
    let json = dir.path().join("run.json");
    let words = format!("run --target simulated,via=amqp --duration 600 --size 64 --quiet --json {}", json.display());
    let mut load = Running::start(bench(dir.path(), &words));
    let note = dir.path().join("run/simulated.json");
    becomes("started", || is_ready(&note));
    let pid = load.0.id().to_string();
    for _ in 0..2 {
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    }
    let ended = load.0.wait().unwrap();
    assert!(!note.exists(), "its peer is up");
    assert!(matches!(ended.code(), Some(0 | 3)) && json.exists(), "{ended}");
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
