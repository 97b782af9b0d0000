//! The examples of the manual, run as they are written: everything that a page tells readers to
//! type must work.
//!
//! Each page has an empty broker of its own, and its examples declare what they need. A shell runs,
//! in order, the commands of its fenced blocks. Ports, and folders outside the data directory, are
//! the test's own. `fences` says what is not run, and why.

mod fences;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::api::GUEST;
use crate::server::{Server, hermod, run};

/// Pages without a command that could run here, and why.
const WITHOUT: [(&str, &str); 24] = [
    ("README", "a table of contents"),
    ("amqp10-lost", "what clients see"),
    ("arguments", "its tables are tested by themselves"),
    ("clients", "its programs are in interop"),
    ("clients-celery", "its program is in interop"),
    ("clients-mqtt", "its programs are run by interop/quickstart-mqtt"),
    ("clients-node", "its program is in interop"),
    ("clients-others", "their programs are in interop"),
    ("clients-spring", "its programs are in interop"),
    ("errors", "a table"),
    ("faq", "its answers lead to other pages"),
    ("how-migrate", "its program is in interop"),
    ("install", "cargo xtask package installs and starts what it names"),
    ("login", "settings of a start"),
    ("login-elsewhere", "settings of a start"),
    ("mqtt", "its programs are in interop"),
    ("settings", "written from the settings themselves"),
    ("standby", "its commands are run by the tests of standbys, which need two nodes"),
    ("standby-confirms", "settings of a start, of two nodes"),
    ("standby-damage", "what a node does by itself"),
    ("standby-http", "two nodes, of names that are examples"),
    ("stomp", "frames"),
    ("tls", "settings of a start"),
    ("transactions", "of protocols"),
];
/// Pages that assume queues of the reader, and those queues.
const GIVEN: [(&str, &str); 4] =
    [("damage", "orders"), ("tasks", "orders"), ("tasks", "orders-old"), ("tasks", "dead-orders")];
/// Names in the manual that look like metrics: RabbitMQ's, which Hermod has not, and a package.
const NO_METRICS: [&str; 3] = ["hermod_version", "hermod_headers", "hermod_0"];
/// How the names of pages about the benchmark begin.
const BENCHMARK: [&str; 2] = ["bench", "suite"];
/// Runs a page's commands. Returns the first one that failed, and its output.
fn try_out(title: &str, commands: &[String]) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| -> PathBuf { dir.path().join(name) };
    for folder in ["bin", "home", "srv/backup", "work"] {
        std::fs::create_dir_all(path(folder)).unwrap();
    }
    // The reader's own settings, which may be none.
    std::fs::write(path("work/hermod.toml"), "").unwrap();
    drop(Server::start(&path("srv/hermod"), &[]));
    let server = Server::start(&path("data"), &[]);
    for (_, queue) in GIVEN.iter().filter(|(page, _)| *page == title) {
        assert_eq!(run(hermod("queues", &path("data")).args(["declare", queue])).0, 0);
    }
    std::os::unix::fs::symlink(hermod("", dir.path()).get_program(), path("bin/hermod")).unwrap();
    let show = |path: PathBuf| path.display().to_string();
    for command in commands {
        let own = command
            .replace("localhost:15672", &format!("127.0.0.1:{}", server.ports.http))
            .replace("/usr/local/bin", &show(path("bin")))
            .replace("/srv/", &show(path("srv/")));
        // The password that readers type.
        let own = if own.starts_with("hermod context add") { format!("echo guest | {own}") } else { own };
        let script = format!("curl() {{ command curl --silent --show-error --fail \"$@\"; }}\n{own}\n");
        let (code, stdout, stderr) = run(&mut shell(&script, dir.path()));
        if code != 0 {
            return Err(format!("{command}\nended with {code}: {stdout}{stderr}"));
        }
    }
    Ok(())
}

/// A shell that finds our programs first, and whose settings name the data directory of the broker.
fn shell(script: &str, dir: &Path) -> Command {
    let mut command = Command::new("sh");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HERMOD_")) {
        command.env_remove(name);
    }
    let path = format!("{}:{}", dir.join("bin").display(), std::env::var("PATH").unwrap());
    command.args(["-euc", script]).current_dir(dir.join("work"));
    command.env("PATH", path).env("HERMOD_DATA_DIR", dir.join("data"));
    // Contexts are kept below these.
    command.env("HOME", dir.join("home")).env_remove("XDG_CONFIG_HOME");
    command
}

/// The pages about the broker: their names and their texts.
fn pages() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/manual");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    assert!(paths.len() > 20);
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    paths.retain(|path| !BENCHMARK.iter().any(|start| name(path).starts_with(start)));
    paths.iter().map(|path| (name(path), std::fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn what_the_manual_tells_people_to_type_works() {
    for (name, page) in &pages() {
        let commands = fences::to_run(name, page);
        let is_without = WITHOUT.iter().any(|(without, _)| without == name);
        assert_eq!(commands.is_empty(), is_without, "{name}: WITHOUT lists the pages with nothing to run");
        if is_without {
            continue;
        }
        if let Err(failure) = try_out(name, &commands).map_err(|failure| format!("{name}: {failure}")) {
            panic!("{failure}");
        }
    }
}

#[test]
fn no_line_of_the_manual_is_passed_over_without_a_reason() {
    let faults = fences::faults(&pages());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn documents_and_settings_in_the_manual_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut count = 0;
    for (name, page) in &pages() {
        for text in fences::to_check(name, page, "json") {
            serde_json::from_str::<serde_json::Value>(&text).unwrap_or_else(|error| panic!("{name}: {error}: {text}"));
            count += 1;
        }
        for text in fences::to_check(name, page, "toml") {
            let file = dir.path().join("hermod.toml");
            std::fs::write(&file, &text).unwrap();
            let mut check = Command::new(hermod("", dir.path()).get_program());
            let (code, _, stderr) = run(check.args(["config", "check"]).arg(&file));
            assert_eq!(code, 0, "{name}: {stderr}{text}");
            count += 1;
        }
    }
    assert!(count > 2, "{count}");
}

/// The words of a text that may name metrics, or their labels.
fn names_of_metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    words
        .filter(|word| (word.starts_with("hermod_") || word.starts_with("rabbitmq_")) && !word.ends_with('_'))
        .collect()
}

#[test]
fn the_metrics_that_the_manual_names_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let text = server.get("/metrics").1 + &server.ask("GET", "/metrics/per-object", GUEST).1;
    let there = names_of_metrics(&text);
    assert!(NO_METRICS.iter().all(|name| !there.contains(name)), "{text}");
    for (page, said) in &pages() {
        for name in names_of_metrics(said) {
            // Only Linux has these figures of the process.
            let elsewhere = !cfg!(target_os = "linux") && name.starts_with("rabbitmq_process_");
            // A node that follows has metrics of its own; a test beside them has their names.
            let of_standby = name.starts_with("hermod_standby_");
            let there = there.contains(name) || NO_METRICS.contains(&name) || elsewhere || of_standby;
            assert!(there, "{page}: there is no {name}");
        }
    }
}

/// The text of the last string in the arguments of a macro; `None` if that is all made of values.
fn message(arguments: &str) -> Option<String> {
    let joined = arguments.replace("\\\"", "'");
    let text = joined.split('"').skip(1).step_by(2).last()?;
    let text: Vec<_> = text.split("\\\n").map(|part| part.trim_start()).collect();
    let mut shown = String::new();
    let mut inside = false;
    for char in text.concat().chars() {
        match char {
            '{' => inside = true,
            '}' => {
                inside = false;
                shown.push('…');
            }
            other if !inside => shown.push(other),
            _ => {}
        }
    }
    shown.chars().any(|char| char.is_ascii_alphabetic()).then_some(shown)
}

/// The messages of the log lines in a source file, at the levels from INFO on.
fn messages(source: &str) -> Vec<String> {
    let product = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut found = Vec::new();
    for level in ["tracing::info!(", "tracing::warn!(", "tracing::error!("] {
        for (place, _) in product.match_indices(level) {
            let (mut depth, mut quoted) = (1, false);
            let body = &product[place + level.len()..];
            let end = body.find(|char| {
                quoted ^= char == '"';
                depth += i32::from(!quoted && char == '(') - i32::from(!quoted && char == ')');
                depth == 0
            });
            found.extend(message(&body[..end.unwrap()]));
        }
    }
    found
}

/// Whether a text of the page, with `…` for what differs, stands for a message.
fn stands_for(told: &str, message: &str) -> bool {
    let mut rest = message;
    let mut parts = told.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(after) = rest.strip_prefix(first) else { return false };
    rest = after;
    let mut parts: Vec<_> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(place) = rest.find(part) else { return false };
        rest = &rest[place + part.len()..];
    }
    rest.ends_with(last)
}

/// The manual's list of log lines is held against the source, in both directions.
#[test]
fn the_manual_lists_every_line_of_the_log_and_no_other() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let page = std::fs::read_to_string(root.join("docs/manual/log.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `")).filter_map(|line| line.split(" | ").next());
    let told: Vec<&str> = rows.flat_map(|row| row.split('`').skip(1).step_by(2)).collect();
    let mut written = Vec::new();
    let crates = [
        "amqp091",
        "amqp10",
        "auth",
        "backends",
        "broker",
        "front",
        "hermod",
        "management",
        "mqtt",
        "net",
        "nodes",
        "stomp",
    ];
    let mut folders: Vec<PathBuf> = crates.iter().map(|name| root.join("crates").join(name).join("src")).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs")
                && path.file_stem().is_none_or(|name| name != "tests")
            {
                written.extend(messages(&std::fs::read_to_string(path).unwrap()));
            }
        }
    }
    // What the protocols call their connections comes from tables.
    let words = [
        "login refused",
        "STOMP login refused",
        "connection refused",
        "STOMP session refused",
        "connection open",
        "STOMP session opened",
        "MQTT login refused",
        "MQTT connection refused",
        "MQTT connection opened",
    ];
    written.extend(words.map(str::to_owned));
    assert!(written.len() > 60, "{written:?}");
    for message in &written {
        assert!(told.iter().any(|told| stands_for(told, message)), "docs/manual/log.md does not list: {message}");
    }
    for told in told {
        assert!(written.iter().any(|message| stands_for(told, message)), "the log has no such line: {told}");
    }
}
