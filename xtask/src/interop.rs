//! Other people's clients against a fresh server: each runs its tutorial's patterns, then survives
//! the server's death.
//!
//! For every client a server is started with an empty data directory on free ports. The client
//! publishes with confirms, the server is killed, started again on the same data, and the client
//! must get everything back.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

mod clients;
pub(crate) mod server;

use clients::{CLIENTS, Client};
use server::{Address, Server};

/// How long one phase of one client may take.
const PHASE_LIMIT: Duration = Duration::from_secs(180);

/// What to run, and against what.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Clients by the names of their folders in interop/; all of them if none is named.
    names: Vec<String>,
    /// Use a broker that listens here already instead of starting one (then nothing is killed).
    #[arg(long)]
    amqp_port: Option<u16>,
    /// The STOMP port of that broker.
    #[arg(long, default_value_t = 61613)]
    stomp_port: u16,
    /// The MQTT port of that broker.
    #[arg(long, default_value_t = 1883)]
    mqtt_port: u16,
    /// Also run what RabbitMQ has beyond the protocols: short for `--also extensions`.
    #[arg(long)]
    extensions: bool,
    /// Also run this phase of the clients that have it: transactions, topics.
    #[arg(long, value_name = "PHASE")]
    also: Vec<String>,
    /// The server to start; built if not given.
    #[arg(long)]
    server: Option<PathBuf>,
}

/// Runs the clients and prints a table of results.
///
/// # Errors
/// When a client fails or cannot be prepared, or the server cannot be built.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    let chosen = choose(&options.names)?;
    let scratch = server::target_folder(root).join("interop");
    let program = match (&options.server, options.amqp_port) {
        (Some(program), _) => Some(program.clone()),
        (None, Some(_)) => None,
        (None, None) => Some(server::build(root)?),
    };
    let also = also(options)?;
    let mut results = Vec::new();
    for client in chosen {
        println!("== {}", client.name);
        let live: Vec<&str> = ["patterns"].into_iter().chain(also.iter().copied().filter(has(client))).collect();
        let start = Instant::now();
        let verdict = client.prepare(root, &scratch).and_then(|()| match (&program, options.amqp_port) {
            (Some(program), None) => against_a_fresh_server(client, root, &scratch, program, &live),
            (_, port) => {
                let (stomp, mqtt) = (options.stomp_port, options.mqtt_port);
                let address = Address { amqp: port.unwrap_or(5672), stomp, mqtt, web_mqtt: None };
                let phases = live.iter().chain(&["store", "fetch"]);
                phases.into_iter().try_for_each(|phase| client.run(root, &scratch, phase, address, PHASE_LIMIT))
            }
        });
        if let Err(error) = &verdict {
            println!("{error}");
        }
        results.push((client.name, start.elapsed(), verdict.is_ok()));
    }
    summarise(&results)
}

/// The phases to run beside the usual ones.
fn also(options: &Options) -> Result<Vec<&str>, String> {
    let extensions = options.extensions.then_some("extensions");
    let wanted: Vec<&str> = extensions.into_iter().chain(options.also.iter().map(String::as_str)).collect();
    match wanted.iter().find(|phase| !CLIENTS.iter().any(|client| client.further.contains(phase))) {
        Some(unknown) => Err(format!("no client has a phase {unknown}; there are extensions, transactions, topics")),
        None => Ok(wanted),
    }
}

/// Whether a client has a phase.
fn has(client: &Client) -> impl Fn(&&str) -> bool {
    |phase| client.further.contains(phase)
}

fn choose(names: &[String]) -> Result<Vec<&'static Client>, String> {
    if names.is_empty() {
        return Ok(CLIENTS.iter().collect());
    }
    let find = |name: &String| {
        CLIENTS.iter().find(|client| client.name == name).ok_or_else(|| {
            let known: Vec<&str> = CLIENTS.iter().map(|client| client.name).collect();
            format!("there is no client {name}; there are {}", known.join(", "))
        })
    };
    names.iter().map(find).collect()
}

/// Runs the phases `live`, then lets the client's stored messages survive the death of the server.
fn against_a_fresh_server(
    client: &Client,
    root: &Path,
    scratch: &Path,
    program: &Path,
    live: &[&str],
) -> Result<(), String> {
    let folder = scratch.join(format!("server-{}-{}", client.name, std::process::id()));
    let mut server = Server::start(program, &folder, client.server)?;
    let run = |phase: &str, address| client.run(root, scratch, phase, address, PHASE_LIMIT);
    let outcome = live
        .iter()
        .try_for_each(|phase| run(phase, server.address()))
        .and_then(|()| run("store", server.address()))
        .and_then(|()| server.kill_and_restart())
        .and_then(|()| run("fetch", server.address()));
    match outcome {
        Ok(()) => server.stop(),
        Err(error) => Err(format!("{error}\n{}", server.log_tail())),
    }
}

fn summarise(results: &[(&str, Duration, bool)]) -> Result<(), String> {
    println!("\n{:<14} {:>8}  result", "client", "seconds");
    for (name, time, passed) in results {
        println!("{name:<14} {:>8.1}  {}", time.as_secs_f64(), if *passed { "passed" } else { "FAILED" });
    }
    let failed: Vec<&str> = results.iter().filter(|(_, _, passed)| !passed).map(|(name, _, _)| *name).collect();
    println!("interop: {} passed, {} failed", results.len() - failed.len(), failed.len());
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_chosen_by_name() {
        assert_eq!(choose(&[]).unwrap().len(), CLIENTS.len());
        assert_eq!(choose(&["pika".to_owned()]).unwrap()[0].name, "pika");
        assert!(choose(&["pica".to_owned()]).err().unwrap().contains("amqp091-go, "));
    }

    #[test]
    fn phases_are_run_by_the_clients_that_have_them() {
        let options = |names: &[&str]| Options {
            names: Vec::new(),
            amqp_port: None,
            stomp_port: 0,
            mqtt_port: 0,
            extensions: true,
            also: names.iter().map(|name| (*name).to_owned()).collect(),
            server: None,
        };
        let (known, unknown) = (options(&["topics"]), options(&["tropics"]));
        let known = also(&known).unwrap();
        let run = |name: &str| {
            let client = CLIENTS.iter().find(|client| client.name == name).unwrap();
            known.iter().copied().filter(has(client)).collect::<Vec<_>>()
        };
        assert_eq!((run("pika"), run("qpid-jms")), (vec!["extensions"], vec!["topics"]));
        assert!(also(&unknown).unwrap_err().contains("no client has a phase tropics"));
    }

    #[test]
    fn every_client_has_its_folder() {
        let root = crate::root().unwrap();
        for client in &CLIENTS {
            assert!(root.join("interop").join(client.name).is_dir(), "{}", client.name);
        }
    }
}
