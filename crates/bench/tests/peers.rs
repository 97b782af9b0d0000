//! A run whose target is a peer: it is started for the run and ends with it, however the run ends. The peer is this
//! program's own relay, under a description of the user's.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
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
    let mut run = bench(dir.path(), "run --target floor --duration 600 --quiet").stdout(Stdio::null()).spawn().unwrap();
    let note = dir.path().join("run/floor.json");
    becomes("started", || fs::read_to_string(&note).is_ok_and(|text| !text.contains("\"ready_seconds\": null")));
    run.kill().unwrap();
    run.wait().unwrap();
    becomes("ended", || !note.exists());
}
