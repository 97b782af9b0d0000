//! `hermod serve --dev`: what it prints is followed to the letter.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::server::{Ports, hermod, run};

/// A broker that was started to try it, and what it printed.
struct Trial {
    child: Child,
    printed: String,
}

impl Trial {
    fn start(directory: Option<&Path>, ports: Ports) -> Self {
        let mut command = match directory {
            Some(directory) => hermod("serve", directory),
            None => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_hermod"));
                for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HERMOD_")) {
                    command.env_remove(name);
                }
                command.arg("serve");
                command
            }
        };
        command.args(["--dev", "--bind", "127.0.0.1"]);
        for (name, port) in [("amqp", ports.amqp), ("stomp", ports.stomp), ("mqtt", ports.mqtt), ("http", ports.http)] {
            command.arg(format!("--ports-{name}")).arg(port.to_string());
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).stdin(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut printed = String::new();
        while !printed.contains("hermod consume") && lines.read_line(&mut printed).unwrap() > 0 {}
        Self { child, printed }
    }

    /// The first word after `label`.
    fn after(&self, label: &str) -> String {
        let rest = self.printed.split_once(label).unwrap_or_else(|| panic!("no {label} in {}", self.printed)).1;
        rest.split_whitespace().next().unwrap().trim_end_matches(',').to_owned()
    }

    fn end(mut self) {
        assert!(Command::new("kill").args(["-s", "INT", &self.child.id().to_string()]).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        // If it has ended, there is nothing to kill.
        let _ = self.child.kill();
    }
}

#[test]
fn what_it_prints_leads_to_the_console_and_the_first_message_and_its_data_go() {
    let ports = Ports::free();
    // A port that is taken moves all of them.
    let _taken = TcpListener::bind(("127.0.0.1", ports.stomp)).unwrap();
    let trial = Trial::start(None, ports);
    let console = trial.after("console ");
    let port: u16 = console.strip_prefix("http://localhost:").unwrap().trim_end_matches('/').parse().unwrap();
    let shift = port - ports.http;
    assert!(shift > 0 && shift.is_multiple_of(1000), "{console}");
    assert!(trial.printed.contains("user guest, password guest"), "{}", trial.printed);
    assert_eq!(trial.after("AMQP "), format!("amqp://guest:guest@localhost:{}", ports.amqp + shift));
    let page = ureq::get(&console).call().unwrap();
    assert_eq!(page.status(), 200);
    let data = trial.after("HERMOD_DATA_DIR=");
    let said: Vec<_> = trial.printed.lines().filter_map(|line| line.trim().strip_prefix("hermod ")).collect();
    assert_eq!(said.len(), 3, "{}", trial.printed);
    let mut last = String::new();
    for line in said {
        let (verb, rest) = line.split_once(' ').unwrap();
        let mut words = rest.split('\'').map(str::trim).filter(|word| !word.is_empty());
        let (code, out, err) = run(hermod(verb, Path::new(&data)).args(words.next().unwrap().split(' ')).args(words));
        assert_eq!(code, 0, "{line}: {err}");
        last = out;
    }
    assert_eq!(last, "first message\n");
    trial.end();
    assert!(!Path::new(&data).exists(), "{data}");
}

#[test]
fn verbs_that_ask_no_broker_need_no_settings() {
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man");
    let hermod = |words: &[&str]| run(Command::new(env!("CARGO_BIN_EXE_hermod")).args(words));
    for shell in ["bash", "zsh", "fish"] {
        let (code, out, err) = hermod(&["completions", shell]);
        assert!(code == 0 && out.contains("publish"), "{shell}: {err}");
    }
    let (code, _, err) = hermod(&["man", pages.to_str().unwrap()]);
    assert!(code == 0 && pages.join("hermod-serve.1").exists(), "{err}");
    let (code, out, _) = hermod(&["licenses"]);
    assert!(code == 0 && out.contains("\ntokio\t") && out.contains("\n=== Apache-2.0 ===\n"));
    let (code, out, _) = hermod(&["licenses", "--json"]);
    assert!(code == 0 && out.starts_with("[{"), "{out}");
    let (code, _, err) = hermod(&["service", "install"]);
    assert!(code == 64 && err.contains("on Windows only"), "{code} {err}");
}

#[test]
fn a_directory_that_is_named_stays() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("kept");
    let trial = Trial::start(Some(&data), Ports::free());
    assert!(trial.printed.contains("stays there"), "{}", trial.printed);
    let (code, out, _) = run(hermod("health", &data).arg("writable"));
    assert_eq!((code, out.as_str()), (0, "writable\n"));
    trial.end();
    assert!(data.join("FORMAT").exists());
    let (code, _, err) = run(&mut hermod("health", &data));
    assert_eq!(code, 69, "{err}");
}
