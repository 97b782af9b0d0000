//! `hermod migrate`: the queues of a running broker, with their messages, brought into this one.
//!
//! What is declared comes by an import. The messages come by shovels, one for each queue, whose
//! names begin with [`PREFIX`]. They are ordinary shovels of the broker, so a migration goes on
//! without this command, outlives restarts of either side, and is resumed by starting it again.

use std::time::{Duration, Instant};

use clap::{Arg, ArgMatches, Command};
use management::control::{Answer, Request};
use management::{Change, Extent, Imported, Listed, QueueChange, ShovelChange, percent_encoded};
use serde_json::{Map, Value as Json, json};

use crate::cli::arguments::{count, option, text, words};
use crate::cli::ask::{self, Server, ask, change, refusal, strange};
use crate::cli::counted;
use crate::cli::output::{Form, show, show_json};
use crate::cli::remote::{Address, Remote};
use crate::cli::table;
use crate::exit::{Exit, Failure};

/// What the names of the shovels begin with.
const PREFIX: &str = "migrate.";
/// How often a cut-over looks.
const LOOK: Duration = Duration::from_secs(1);
/// A source counts as empty when it is seen so that often, one look after the other.
const SEEN_EMPTY: u32 = 3;
/// Messages on their way for each queue.
const PREFETCH: u32 = 500;
/// The longest pause of a shovel that has failed, in seconds.
const RECONNECT: u32 = 10;
const QUEUES: [&str; 2] = ["queue", "queues"];
const MESSAGES: [&str; 2] = ["message", "messages"];
/// The variable with the password for the other broker.
const PASSWORD: &str = "HERMOD_FROM_PASSWORD";

/// Its verbs.
pub(crate) fn command(command: Command) -> Command {
    let from = |command: Command| {
        command
            .arg(
                option(
                    "from",
                    "URL",
                    "The other broker, such as amqp://host:5672; its password is in HERMOD_FROM_PASSWORD",
                )
                .required(true),
            )
            .arg(option("from-user", "USER", "The user to log in there as").default_value("guest"))
            .arg(option(
                "api",
                "URL",
                "Its HTTP API, such as http://host:15672: tells what is declared, and which queues there are",
            ))
            .arg(option("ca-file", "FILE", "Trust these certificates alone when asking its HTTP API"))
            .arg(
                option("protocol", "NAME", "How it is spoken to")
                    .value_parser(["amqp091", "amqp10"])
                    .default_value("amqp091"),
            )
            .arg(option("vhost", "VHOST", "Only this vhost; the one of the queues if there is no --api"))
            .arg(
                Arg::new("queue")
                    .long("queue")
                    .value_name("NAME")
                    .action(clap::ArgAction::Append)
                    .help("Only this queue; may be given again. Needed if there is no --api"),
            )
    };
    command
        .subcommand_required(true)
        .subcommand(from(Command::new("plan").about("Show what would be declared and moved; nothing is changed")))
        .subcommand(from(
            Command::new("start").about("Declare what is declared there, and move the messages of each queue"),
        ))
        .subcommand(Command::new("status").about("Show how far each queue is"))
        .subcommand(
            Command::new("cut-over")
                .about("Wait until the other broker's queues are empty, and end the migration")
                .arg(count("timeout", "Give up after so many seconds; what is moved stays moved")),
        )
}

/// Runs `hermod migrate …`.
pub(crate) fn run(server: &Server, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    match arguments.subcommand() {
        Some(("plan", given)) => begin(server, &Origin::of(given)?, Extent::DryRun),
        Some(("start", given)) => begin(server, &Origin::of(given)?, Extent::Whole),
        Some(("cut-over", given)) => {
            let timeout = given.get_one::<u32>("timeout").map(|seconds| Duration::from_secs((*seconds).into()));
            cut_over(server, timeout, form)
        }
        _ => status(server, form),
    }
}

/// The other broker.
struct Origin {
    /// With credentials, and without a vhost.
    uri: (String, String),
    protocol: String,
    api: Option<Remote>,
    vhost: Option<String>,
    /// All if there are none.
    queues: Vec<String>,
}

/// A queue of the other broker.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Queue {
    vhost: String,
    name: String,
    /// Its messages, if that is known.
    messages: Option<u64>,
}

impl Origin {
    fn of(given: &ArgMatches) -> Result<Self, Failure> {
        let optional = |name: &str| given.get_one::<String>(name).cloned();
        let (from, user) = (text(given, "from"), text(given, "from-user"));
        let password = std::env::var(PASSWORD).unwrap_or_else(|_| "guest".to_owned());
        let uri = address(&from, &user, &password)?;
        let api = optional("api").map(|url| {
            let address = Address { url: Address::url(&url)?, user, password, ca_file: optional("ca-file") };
            Remote::new(address)
        });
        let origin = Self {
            uri,
            protocol: text(given, "protocol"),
            api: api.transpose()?,
            vhost: optional("vhost"),
            queues: words(given, "queue"),
        };
        if origin.api.is_none() && origin.queues.is_empty() {
            return Err(Exit::Usage.because("name the queues by --queue, or the HTTP API that lists them by --api"));
        }
        Ok(origin)
    }

    /// The queues to move, and lines about those that are left.
    fn queues(&self) -> Result<(Vec<Queue>, Vec<String>), Failure> {
        let Some(api) = &self.api else {
            let vhost = self.vhost.clone().unwrap_or_else(|| "/".to_owned());
            let named = |name: &String| Queue { vhost: vhost.clone(), name: name.clone(), messages: None };
            return Ok((self.queues.iter().map(named).collect(), Vec::new()));
        };
        let path = self
            .vhost
            .as_deref()
            .map_or_else(|| "/api/queues".to_owned(), |vhost| format!("/api/queues/{}", percent_encoded(vhost)));
        let rows: Vec<Json> = api.fetch(&path)?;
        let (mut queues, mut left) = (Vec::new(), Vec::new());
        for row in rows {
            let text = |field: &str| row[field].as_str().unwrap_or_default().to_owned();
            let (vhost, name) = (text("vhost"), text("name"));
            if !self.queues.is_empty() && !self.queues.contains(&name) {
                continue;
            }
            if row["exclusive"] == true {
                left.push(format!("queue '{name}' in vhost '{vhost}' belongs to a connection"));
            } else if row["type"] == "stream" {
                left.push(format!("queue '{name}' in vhost '{vhost}' is a stream: Hermod has none yet"));
            } else {
                queues.push(Queue { vhost, name, messages: row["messages"].as_u64() });
            }
        }
        Ok((queues, left))
    }

    /// What is declared there, without the shovels that would run twice; and lines about these.
    fn definitions(&self) -> Result<Option<(String, Vec<String>)>, Failure> {
        let Some(api) = &self.api else { return Ok(None) };
        let path = self.vhost.as_deref().map_or_else(
            || "/api/definitions".to_owned(),
            |vhost| format!("/api/definitions/{}", percent_encoded(vhost)),
        );
        let mut document: Json = api.fetch(&path)?;
        let mut left = Vec::new();
        if let Some(parameters) = document["parameters"].as_array_mut() {
            parameters.retain(|parameter| {
                let is_shovel = parameter["component"] == "shovel";
                if is_shovel {
                    left.push(format!("shovel {} runs there: set it here once it does not", parameter["name"]));
                }
                !is_shovel
            });
        }
        Ok(Some((document.to_string(), left)))
    }

    /// The definition of the shovel for a queue.
    fn shovel(&self, queue: &Queue) -> Map<String, Json> {
        let (head, tail) = &self.uri;
        let uri = format!("{head}/{}{tail}", percent_encoded(&queue.vhost));
        let mut definition = json!({
            "src-uri": uri,
            "src-protocol": self.protocol,
            "src-prefetch-count": PREFETCH,
            "dest-uri": "amqp://",
            "dest-queue": queue.name,
            "dest-predeclared": true,
            "reconnect-delay": RECONNECT,
        });
        match self.protocol.as_str() {
            "amqp10" => definition["src-address"] = json!(queue.name),
            _ => {
                definition["src-queue"] = json!(queue.name);
                definition["src-predeclared"] = json!(true);
            }
        }
        definition.as_object().cloned().unwrap_or_default()
    }
}

/// A URI with credentials, in two parts: what stands before the vhost, and its parameters.
fn address(from: &str, user: &str, password: &str) -> Result<(String, String), Failure> {
    let wrong = |why: &str| Exit::Usage.because(format!("'{from}' {why}; write it such as amqp://host:5672"));
    let (scheme, rest) = from.split_once("://").ok_or_else(|| wrong("is no URL"))?;
    if rest.contains('@') {
        return Err(wrong("has a user in it, and other users of this machine can read a command line"));
    }
    let (host, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let host = host.trim_end_matches('/');
    if !["amqp", "amqps"].contains(&scheme) || host.is_empty() || host.contains('/') {
        return Err(wrong("is not the URL of a broker without a vhost"));
    }
    let parameters = if parameters.is_empty() { String::new() } else { format!("?{parameters}") };
    Ok((format!("{scheme}://{}:{}@{host}", percent_encoded(user), percent_encoded(password)), parameters))
}

/// Declares what is declared there, and sets the shovels; or only says what that would be.
fn begin(server: &Server, origin: &Origin, extent: Extent) -> Result<(), Failure> {
    let (queues, mut left) = origin.queues()?;
    match origin.definitions()? {
        None => declare(server, &queues, extent)?,
        Some((document, shovels)) => {
            left.extend(shovels);
            let imported = import(server, document, origin.vhost.clone(), extent)?;
            let skipped = imported.skipped.iter().map(|line| format!("left out: {line}\n"));
            let notes = imported.notes.iter().map(|line| format!("note: {line}\n"));
            show(&skipped.chain(notes).collect::<String>())?;
            let declared = if extent == Extent::Whole { "are declared" } else { "would be declared" };
            show(&format!("{} definitions {declared}\n", imported.taken))?;
        }
    }
    show(&left.iter().map(|line| format!("left there: {line}\n")).collect::<String>())?;
    let messages: u64 = queues.iter().filter_map(|queue| queue.messages).sum();
    let what = format!("{} with {}", counted(queues.len() as u64, QUEUES), counted(messages, MESSAGES));
    if extent == Extent::DryRun {
        return show(&format!("{what} would be moved; nothing has changed\n"));
    }
    for queue in &queues {
        let (vhost, name) = (queue.vhost.clone(), format!("{PREFIX}{}", queue.name));
        let definition = origin.shovel(queue);
        change(server, Change::Shovels(ShovelChange::Set { vhost, name, definition }))?;
    }
    show(&format!("{what} are being moved; hermod migrate status says how far, hermod migrate cut-over ends it\n"))
}

fn import(server: &Server, document: String, vhost: Option<String>, extent: Extent) -> Result<Imported, Failure> {
    match ask(server, &Request::Import { document, skip_unsupported: true, vhost, extent })? {
        Answer::Imported(imported) => Ok(imported),
        Answer::NotChanged(refused) => Err(refusal(refused)),
        other => Err(strange(&other)),
    }
}

/// Declares queues that are not there, durable, where no document says how.
fn declare(server: &Server, queues: &[Queue], extent: Extent) -> Result<(), Failure> {
    for queue in queues {
        let there = ask::list(server, Listed::Queues, Some(&queue.vhost))?;
        if extent == Extent::DryRun || there.iter().any(|row| row["name"] == queue.name.as_str()) {
            continue;
        }
        let (vhost, name) = (queue.vhost.clone(), queue.name.clone());
        let declare = QueueChange::Declare { vhost, name, durable: true, auto_delete: false, arguments: Map::new() };
        change(server, Change::Queues(declare))?;
    }
    Ok(())
}

/// How the shovels of the migration are doing.
fn states(server: &Server) -> Result<Vec<Json>, Failure> {
    let mut states = ask::list(server, Listed::ShovelStates, None)?;
    states.retain(|state| state["name"].as_str().is_some_and(|name| name.starts_with(PREFIX)));
    Ok(states)
}

fn status(server: &Server, form: Form) -> Result<(), Failure> {
    let states = states(server)?;
    if form == Form::Json {
        return show_json(&states);
    }
    if states.is_empty() {
        return show("no migration runs here\n");
    }
    show(&shown(&states))
}

fn shown(states: &[Json]) -> String {
    let text = |value: &Json| match value {
        Json::Null => "?".to_owned(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    let row = |state: &Json| {
        let queue = state["name"].as_str().unwrap_or_default().trim_start_matches(PREFIX).to_owned();
        let why = if state["phase"] == "waiting" { text(&state["reason"]) } else { String::new() };
        let cells = ["vhost", "phase", "left", "pending", "forwarded"].map(|field| text(&state[field]));
        let [vhost, phase, left, pending, moved] = cells;
        vec![vhost, queue, phase, left, pending, moved, why]
    };
    let rows: Vec<_> = states.iter().map(row).collect();
    table::text(&["vhost", "queue", "state", "left there", "on its way", "moved", "reason"], &rows)
}

/// Waits until all sources are empty, and clears the shovels.
fn cut_over(server: &Server, timeout: Option<Duration>, form: Form) -> Result<(), Failure> {
    let (begun, mut seen_empty) = (Instant::now(), 0);
    let last = loop {
        let states = states(server)?;
        if states.is_empty() {
            return Err(Exit::NotFound.because("no migration runs here: hermod migrate start begins one"));
        }
        let is_empty = |state: &Json| state["phase"] == "running" && state["left"] == 0 && state["pending"] == 0;
        seen_empty = if states.iter().all(is_empty) { seen_empty + 1 } else { 0 };
        if seen_empty >= SEEN_EMPTY {
            break states;
        }
        if timeout.is_some_and(|timeout| begun.elapsed() >= timeout) {
            show(&shown(&states))?;
            return Err(
                Exit::TryAgain.because("the other broker's queues are not empty; do clients still publish there?")
            );
        }
        std::thread::sleep(LOOK);
    };
    for state in &last {
        let text = |field: &str| state[field].as_str().unwrap_or_default().to_owned();
        change(server, Change::Shovels(ShovelChange::Clear { vhost: text("vhost"), name: text("name") }))?;
    }
    if form == Form::Json {
        return show_json(&last);
    }
    let moved: u64 = last.iter().filter_map(|state| state["forwarded"].as_u64()).sum();
    show(&format!(
        "{}done: {} empty there, {} moved since the broker started\n",
        shown(&last),
        if last.len() == 1 { "1 queue is".to_owned() } else { format!("{} queues are", last.len()) },
        counted(moved, MESSAGES)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_the_other_broker_has_no_credentials_of_its_own() {
        let (head, tail) = address("amqps://host:5671/?cacertfile=/x", "a", "p/@").unwrap();
        assert_eq!((head.as_str(), tail.as_str()), ("amqps://a:p%2F%40@host:5671", "?cacertfile=/x"));
        for (text, words) in [
            ("host", "no URL"),
            ("http://host", "without a vhost"),
            ("amqp://host/v", "without a vhost"),
            ("amqp://u:p@host", "has a user in it"),
            ("amqp://", "without a vhost"),
        ] {
            assert!(address(text, "u", "p").unwrap_err().text.contains(words), "{text}");
        }
    }

    #[test]
    fn a_shovel_of_a_migration_is_one_that_the_broker_takes() {
        for protocol in ["amqp091", "amqp10"] {
            let uri = address("amqp://host", "u", "p").unwrap();
            let origin = Origin { uri, protocol: protocol.to_owned(), api: None, vhost: None, queues: Vec::new() };
            let definition = origin.shovel(&Queue { vhost: "/".into(), name: "q".into(), messages: None });
            let spec = shovel::parse(&definition, shovel::About { vhost: "/", name: "n", cluster: "" }).unwrap();
            assert_eq!(spec.source.uris[0].vhost(), Some("/"));
        }
    }
}
