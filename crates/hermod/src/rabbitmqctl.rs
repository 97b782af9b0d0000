//! The program under the names of RabbitMQ's tools: `rabbitmqctl`, `rabbitmq-diagnostics`,
//! `rabbitmq-plugins`.
//!
//! This is for scripts and test suites that call these tools. It has the verbs that make sense for
//! Hermod, with RabbitMQ's output and exit codes. Other verbs are refused by name. The settings
//! locate the broker, as for the other commands.

mod call;
mod format;
mod limits;
mod lists;
mod node;
mod parameters;
mod plugins;
mod policies;
mod terms;
mod verbs;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use management::Change;
use management::control::{Answer, Request};
use serde_json::Value as Json;

use crate::cli::{Server, ask, change};
use crate::config::Config;
use crate::exit::{Exit, Failure};
use call::Call;
use format::Format;
use lists::{LISTS, List};

/// Names under which the program acts as one of RabbitMQ's tools.
const NAMES: [&str; 3] = ["rabbitmqctl", "rabbitmq-diagnostics", "rabbitmq-plugins"];

/// RabbitMQ's exit code for invalid data.
const DATA: u8 = 65;
/// RabbitMQ's exit code for a user that does not exist.
const NO_USER: u8 = 67;
/// RabbitMQ's exit code for most failures.
const SOFTWARE: u8 = 70;

/// Why it ends without having done its task.
struct Refusal {
    code: u8,
    text: String,
}

impl Refusal {
    fn new(code: u8, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    fn usage(text: impl Into<String>) -> Self {
        Self::new(Exit::Usage.code(), text)
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        let code = match failure.exit {
            Exit::NotFound if failure.text.starts_with("user ") => NO_USER,
            Exit::NotFound => DATA,
            Exit::CannotCreate => SOFTWARE,
            Exit::NoPermission => DATA,
            other => other.code(),
        };
        Self::new(code, failure.lines())
    }
}

/// What a verb prints.
enum Output {
    Nothing,
    Text(String),
    /// An object, as JSON and as text.
    Object {
        document: Json,
        text: String,
    },
    Rows {
        columns: Vec<String>,
        rows: Vec<Vec<Json>>,
    },
}

/// All words of a call of a verb that takes exactly so many.
fn words<const N: usize>(call: &Call) -> Result<[&str; N], Refusal> {
    call.exactly().map_err(Refusal::usage)
}

/// Makes a change of which nothing but `banner` is printed.
fn done(server: &Server, banner: String, what: Change) -> Result<(String, Output), Refusal> {
    change(server, what)?;
    Ok((banner, Output::Nothing))
}

/// What the broker says of itself.
fn told(server: &Server) -> Result<Box<management::Status>, Failure> {
    match ask(server, &Request::Status)? {
        Answer::Status(status) => Ok(status),
        other => Err(Exit::Bug.because(format!("the server answered another question: {other:?}"))),
    }
}

/// Runs as one of RabbitMQ's tools, if the program was called by such a name.
pub(crate) fn run() -> Option<ExitCode> {
    let mut line = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let program = line.next()?;
    let name = Path::new(&program).file_name()?.to_str()?;
    let name = *NAMES.iter().find(|known| **known == name)?;
    let line: Vec<String> = line.collect();
    Some(match answer(name, &line) {
        Ok(text) => {
            // If the reader is gone, it has all that it wanted.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(refusal) => {
            eprintln!("Error:\n{}", refusal.text);
            ExitCode::from(refusal.code)
        }
    })
}

fn answer(name: &str, line: &[String]) -> Result<String, Refusal> {
    let call = Call::parse(line).map_err(Refusal::usage)?;
    if call.flag("help") || ["", "help"].contains(&call.verb.as_str()) {
        return if name == "rabbitmq-plugins" { Ok(plugins::help()) } else { help(&call) };
    }
    if name == "rabbitmq-plugins" {
        return plugins::run(&call);
    }
    let format = Format::of(&call)?;
    let environment: BTreeMap<_, _> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let settings = Config::load(&BTreeMap::new(), None, &environment).map_err(Failure::from)?.settings;
    let server = Server { settings, remote: None };
    let (banner, output) = match LISTS.iter().find(|list| list.verb == call.verb) {
        Some(list) => (list.banner(&call), listed(list, &call, &server)?),
        None => verbs::run(&call, &server)?,
    };
    Ok(format::shown(&call, format, &banner, output))
}

fn help(call: &Call) -> Result<String, Refusal> {
    let known = || LISTS.iter().map(|list| list.verb).chain(verbs::names());
    let verb = call.words.first().filter(|_| call.verb == "help").unwrap_or(&call.verb);
    if verb.is_empty() || verb == "help" {
        let list: String = known().map(|verb| format!("    {verb}\n")).collect();
        return Ok(format!("What Hermod has of rabbitmqctl:\n{list}"));
    }
    match known().find(|known| known == verb) {
        Some(verb) => Ok(format!("{verb}: as RabbitMQ documents it\n")),
        None => Err(verbs::unknown(verb)),
    }
}

fn listed(list: &List, call: &Call, server: &Server) -> Result<Output, Refusal> {
    let vhost = list.in_vhost.then(|| call.vhost());
    let mut rows = crate::cli::list(server, list.what, vhost)?;
    if let Some(vhost) = vhost {
        // An empty vhost differs from one that does not exist.
        let vhosts = crate::cli::list(server, management::Listed::Vhosts, None)?;
        if !vhosts.iter().any(|known| known["name"] == vhost) {
            return Err(Refusal::new(DATA, format!("Virtual host '{vhost}' does not exist")));
        }
    }
    if let Some(user) = list.of_user(call) {
        call.exactly::<1>().map_err(Refusal::usage)?;
        let users = crate::cli::list(server, management::Listed::Users, None)?;
        if !users.iter().any(|known| known["name"] == user) {
            return Err(Refusal::new(NO_USER, format!("User \"{user}\" does not exist")));
        }
        rows.retain(|row| row["user"] == user);
    }
    let columns = list.columns(call, &rows).map_err(Refusal::usage)?;
    let rows = rows.iter().map(|row| columns.iter().map(|column| list.cell(row, column)).collect()).collect();
    Ok(Output::Rows { columns, rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(line: &str) -> Call {
        Call::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn verbs_that_are_not_there_are_refused_by_name() {
        for line in ["rename_cluster_node --help", "help rename_cluster_node"] {
            let refusal = help(&call(line)).err().unwrap();
            assert_eq!(refusal.code, 64);
            assert!(refusal.text.contains("rename_cluster_node"), "{}", refusal.text);
        }
        assert!(help(&call("add_user --help")).is_ok());
    }
}
