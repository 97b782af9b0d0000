//! When a broker that lives on is at rest: no connection of the load is left, and no queue has
//! anything out with a consumer.

use std::ffi::OsStr;
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::history::Event;
use crate::server::Program;
use crate::stage::Stage;

/// How long the ends of connections may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often that is looked at.
const GLANCE: Duration = Duration::from_millis(20);

/// Waits until the connections of the load are gone, with what they had sent, and what their
/// consumers held is back.
pub(crate) fn wait(program: &Program, stage: &Stage) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        // Connections first: while one lives its consumers may still get something.
        let connections = list(program, "connections")?.iter().filter(|row| !is_shovel(row)).count();
        let out = list(program, "queues")?.iter().map(unsettled).sum::<u64>();
        if (connections, out) == (0, 0) {
            stage.tell(&[Event::AtRest]);
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            return Err(format!(
                "all clients have left, but after {PATIENCE:?} there are {connections} connections and {out} messages with consumers"
            ));
        }
        std::thread::sleep(GLANCE);
    }
}

/// Whether a connection is one of the broker's own shovels, which stay.
fn is_shovel(row: &Value) -> bool {
    let named = row["user_provided_name"].as_str().or(row["client_id"].as_str());
    named.is_some_and(|name| name.starts_with("shovel"))
}

/// How many messages of a queue are with consumers.
fn unsettled(queue: &Value) -> u64 {
    queue["messages_unacknowledged"].as_u64().unwrap_or(u64::MAX)
}

/// What a verb of the program lists.
fn list(program: &Program, verb: &str) -> Result<Vec<Value>, String> {
    let words = [verb, "--json"].map(OsStr::new);
    let Output { status, stdout, stderr } = (program.ask(&words)?.wait_with_output())
        .map_err(|error| format!("cannot wait for `hermod {verb}`: {error}"))?;
    if !status.success() {
        return Err(format!("`hermod {verb}` ended with {status}: {}", String::from_utf8_lossy(&stderr)));
    }
    serde_json::from_slice(&stdout)
        .map_err(|error| format!("`hermod {verb}` said {}: {error}", String::from_utf8_lossy(&stdout)))
}
