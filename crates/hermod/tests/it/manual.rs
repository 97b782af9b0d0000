//! The examples of the manual, run as they are written: everything that a page tells readers to
//! type must work.
//!
//! Each page has an empty broker of its own, and its examples declare what they need. A shell runs,
//! in order, the lines of its fenced blocks that call our programs or curl. Ports, and folders
//! outside the data directory, are the test's own. Lines that would run another broker are left
//! out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::api::GUEST;
use crate::server::{Server, hermod, run};

/// Pages without an example that could run here, and why.
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
    ("command-line", "its examples run brokers, and its tables lead to other pages"),
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
/// How the lines that are run begin.
const PROGRAMS: [&str; 8] =
    ["hermod ", "curl ", "ln ", "rabbitmqctl ", "rabbitmq-diagnostics ", "openssl ", "cp ", "echo "];

/// The commands in a page's fenced blocks, each with its continuation lines.
fn commands(page: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let (mut fenced, mut goes_on) = (false, false);
    for line in page.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
            goes_on = false;
        } else if fenced && goes_on {
            let command = commands.last_mut().unwrap();
            command.push('\n');
            command.push_str(line);
            goes_on = line.ends_with('\\');
        } else if fenced && PROGRAMS.iter().any(|program| line.starts_with(program)) {
            commands.push(line.to_owned());
            goes_on = line.ends_with('\\');
        }
    }
    commands.retain(|command| !command.starts_with("hermod serve"));
    commands
}

/// Runs a page's commands. Returns the first one that failed, and its output.
fn try_out(title: &str, commands: &[String]) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| -> PathBuf { dir.path().join(name) };
    for folder in ["bin", "srv/backup", "work"] {
        std::fs::create_dir_all(path(folder)).unwrap();
    }
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
        if WITHOUT.iter().any(|(without, _)| without == name) {
            continue;
        }
        let commands = commands(page);
        assert!(!commands.is_empty(), "{name} has no example that can be run");
        if let Err(failure) = try_out(name, &commands).map_err(|failure| format!("{name}: {failure}")) {
            panic!("{failure}");
        }
    }
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

#[test]
fn commands_are_found() {
    let page = "hermod no\n```\nhermod a\nsaid\ncurl b \\\n  c\nhermod serve\n```\nhermod no\n";
    assert_eq!(commands(page), ["hermod a", "curl b \\\n  c"]);
}
