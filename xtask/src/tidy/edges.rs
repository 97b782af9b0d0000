//! Which crate may depend on which, checked against every `Cargo.toml`. Dependencies only point
//! down.
//!
//! A new edge, or a new place for a heavy dependency, is a decision: change the table together with
//! a record in docs/decisions.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::Finding;

/// One crate's wall.
struct Wall {
    name: &'static str,
    /// Crates of this workspace that it may depend on.
    allowed: &'static [&'static str],
    /// Those that it may depend on in its `session` feature only, so that its codec stands without
    /// them.
    behind_session: &'static [&'static str],
    /// Those that its tests need besides, to put a broker together.
    in_tests: &'static [&'static str],
}

const fn wall(name: &'static str, allowed: &'static [&'static str]) -> Wall {
    Wall { name, allowed, behind_session: &[], in_tests: &[] }
}

const fn protocol(name: &'static str) -> Wall {
    Wall { name, allowed: &["wire"], behind_session: &["auth", "broker", "front"], in_tests: &["journal"] }
}

const ALL: &[&str] = &[
    "amqp091",
    "amqp10",
    "auth",
    "backends",
    "book",
    "broker",
    "journal",
    "management",
    "moving",
    "mqtt",
    "net",
    "nodes",
    "selector",
    "shovel",
    "stomp",
    "testkit",
    "wire",
];

/// The walls, lowest level first.
const WALLS: &[Wall] = &[
    wall("wire", &[]),
    // Counts log-ins by the network that they come from, as sockets are counted.
    wall("auth", &["wire"]),
    // Asks programs elsewhere who a user is: it must not know the broker.
    wall("backends", &["auth"]),
    wall("journal", &[]),
    // Reads what other brokers were told: it must not know this one.
    wall("moving", &[]),
    // Carries what one journal has to another: it must not know what that stands for.
    Wall { name: "nodes", allowed: &["journal", "wire"], behind_session: &[], in_tests: &["broker"] },
    wall("selector", &[]),
    // Its tests follow one broker over the messages of nodes.
    Wall { name: "broker", allowed: &["auth", "journal", "selector"], behind_session: &[], in_tests: &["nodes"] },
    // What the server sides of protocols do alike: it must know none of them.
    wall("front", &["auth", "broker", "wire"]),
    protocol("amqp091"),
    protocol("amqp10"),
    protocol("mqtt"),
    protocol("stomp"),
    // Is a client of two brokers: it must not know the one that it runs in.
    wall("shovel", &["amqp091", "amqp10"]),
    // Moves bytes and wakes connections: it must not know the broker.
    wall("net", &["wire"]),
    // Checks the definitions of shovels, and shows how they are doing.
    wall("management", &["auth", "broker", "shovel", "wire"]),
    // Takes any protocol as a boxed connection, so it names none. Has one of its own.
    wall("testkit", &["auth", "broker", "front", "journal", "wire"]),
    // Renders the manual: plain files, for the broker's build and for a folder.
    wall("book", &[]),
    wall("hermod", ALL),
    // What a run is and what came of it, as plain data: under everything of the benchmark.
    wall("bench-record", &[]),
    // Draws records: it must never know a socket.
    wall("bench-report", &["bench-record"]),
    // Asks the operating system: it must know no broker and no protocol.
    wall("machine", &["bench-record"]),
    // Gets, starts and ends other brokers: it must not know how they are loaded.
    wall("peers", &["bench-record", "machine"]),
    // As honest with a peer as with Hermod: codecs and clients, never the broker.
    wall("bench", &["amqp091", "amqp10", "bench-record", "bench-report", "machine", "mqtt", "peers", "stomp", "wire"]),
    // The entries of fuzzers: every decoder of bytes from outside.
    wall(
        "fuzzing",
        &["amqp091", "amqp10", "auth", "broker", "journal", "moving", "mqtt", "nodes", "selector", "stomp", "wire"],
    ),
    // Breaks things under a broker from outside, and judges it by what clients see.
    wall("torture", &["amqp091", "amqp10", "mqtt", "stomp", "wire"]),
    // Reads files and starts programs: it builds in seconds.
    wall("xtask", &["book"]),
];

/// Heavy dependencies and the crates that may have them.
const HEAVY: [(&str, &[&str]); 13] = [
    ("tokio", &["net", "management", "hermod", "backends", "shovel"]),
    ("axum", &["management"]),
    ("hyper", &["management"]),
    ("clap", &["hermod", "bench-record", "bench-report", "peers", "bench", "torture", "xtask"]),
    ("toml", &["hermod", "moving", "peers", "bench", "xtask"]),
    (
        "serde_json",
        &[
            "backends",
            "management",
            "moving",
            "shovel",
            "hermod",
            "bench-record",
            "bench-report",
            "peers",
            "bench",
            "torture",
            "xtask",
        ],
    ),
    ("roxmltree", &["moving"]),
    ("argon2", &["auth"]),
    ("rustls", &["backends", "net", "nodes", "management", "hermod", "shovel"]),
    ("tokio-rustls", &["net", "management", "shovel"]),
    ("x509-cert", &["hermod"]),
    ("rcgen", &["nodes", "testkit"]),
    ("fuser", &["torture"]),
];

/// Dependencies that tests may have anywhere.
const TEST_ONLY: [&str; 3] = ["proptest", "tempfile", "testkit"];

/// Checks every manifest of the workspace.
pub(super) fn check(root: &Path, findings: &mut Vec<Finding>) -> Result<(), String> {
    for path in manifests(root)? {
        let shown = path.strip_prefix(root).unwrap_or(&path).to_path_buf();
        let text =
            std::fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", shown.display()))?;
        let manifest: Table = text.parse().map_err(|error| format!("{} is not TOML: {error}", shown.display()))?;
        for finding in check_manifest(&manifest) {
            findings.push(Finding::new(&shown, 0, finding));
        }
    }
    Ok(())
}

/// The manifests of the workspace's members.
fn manifests(root: &Path) -> Result<Vec<PathBuf>, String> {
    let folder = root.join("crates");
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    let mut found = vec![root.join("xtask/Cargo.toml")];
    for entry in entries {
        let entry = entry.map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
        let manifest = entry.path().join("Cargo.toml");
        if manifest.is_file() {
            found.push(manifest);
        }
    }
    Ok(found)
}

fn check_manifest(manifest: &Table) -> Vec<String> {
    let name = manifest.get("package").and_then(|package| package.get("name")).and_then(Value::as_str).unwrap_or("");
    let Some(wall) = WALLS.iter().find(|wall| wall.name == name) else {
        return vec![format!("the crate `{name}` has no entry in xtask/src/tidy/edges.rs")];
    };
    let mut found = Vec::new();
    if manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(Value::as_bool) != Some(true) {
        found.push("`[lints] workspace = true` is missing".to_owned());
    }
    for (section, dependency, value) in dependencies(manifest) {
        let for_tests = section == "dev-dependencies";
        if for_tests && TEST_ONLY.contains(&dependency) {
            continue;
        }
        let optional = value.get("optional").and_then(Value::as_bool) == Some(true);
        let is_ours = WALLS.iter().any(|wall| wall.name == dependency);
        let allowed = wall.allowed.contains(&dependency)
            || (wall.behind_session.contains(&dependency) && (optional || for_tests))
            || (wall.in_tests.contains(&dependency) && for_tests);
        if is_ours && !allowed {
            found.push(format!("`{name}` must not depend on `{dependency}`: dependencies only point down"));
        }
        let heavy = HEAVY.iter().find(|(heavy, _)| *heavy == dependency);
        if !for_tests && heavy.is_some_and(|(_, places)| !places.contains(&name)) {
            found.push(format!("`{name}` must not depend on `{dependency}`; a few crates at the edge do"));
        }
        if value.get("version").is_some() || value.is_str() {
            found.push(format!("the version of `{dependency}` belongs into the workspace's Cargo.toml"));
        }
    }
    found
}

/// All dependencies of a manifest with the name of their section.
fn dependencies(manifest: &Table) -> Vec<(&'static str, &str, &Value)> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let targets = targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    let mut found = Vec::new();
    for table in std::iter::once(manifest).chain(targets) {
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let entries = table.get(section).and_then(Value::as_table);
            let entries = entries.into_iter().flatten();
            found.extend(entries.map(|(name, value)| (section, name.as_str(), value)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges() {
        for (name, rest, expected) in [
            ("broker", "[dependencies]\njournal.workspace = true", ""),
            ("broker", "[dependencies]\nwire.workspace = true", "must not depend on `wire`"),
            ("broker", "[dependencies]\ntokio.workspace = true", "must not depend on `tokio`"),
            ("net", "[target.'cfg(unix)'.dependencies]\nbroker.workspace = true", "must not depend on `broker`"),
            ("stomp", "[dependencies]\nbroker = { workspace = true, optional = true }", ""),
            ("stomp", "[dependencies]\nbroker.workspace = true", "must not depend on `broker`"),
            ("stomp", "[dev-dependencies]\nproptest.workspace = true\njournal.workspace = true", ""),
            ("stomp", "[dependencies]\njournal.workspace = true", "must not depend on `journal`"),
            ("bench", "[dependencies]\nbytes = \"1\"", "belongs into the workspace"),
            ("bench-report", "[dependencies]\nmachine.workspace = true", "must not depend on `machine`"),
            ("nova", "", "has no entry"),
        ] {
            let text = format!("[package]\nname = \"{name}\"\n[lints]\nworkspace = true\n{rest}");
            let found = check_manifest(&text.parse().unwrap());
            match expected {
                "" => assert!(found.is_empty(), "{text}: {found:?}"),
                _ => assert!(found.len() == 1 && found[0].contains(expected), "{text}: {found:?}"),
            }
        }
        assert_eq!(check_manifest(&"[package]\nname = \"auth\"".parse().unwrap()).len(), 1);
    }

    #[test]
    fn no_wall_has_an_edge_upwards() {
        for (position, wall) in WALLS.iter().enumerate() {
            for below in wall.allowed.iter().chain(wall.behind_session) {
                assert!(WALLS[..position].iter().any(|other| other.name == *below), "{} -> {below}", wall.name);
            }
        }
    }
}
