//! `hermod shovels`: what moves messages between brokers for as long as it is set.

use clap::{ArgMatches, Command};
use management::{Change, ShovelChange};

use crate::cli::arguments::{position, text, vhost};
use crate::cli::ask::{Server, change};
use crate::cli::list;
use crate::cli::output::Form;
use crate::exit::{Exit, Failure};

/// Its verbs.
pub(crate) fn command(command: Command) -> Command {
    let name = || position("name", "NAME", "The shovel");
    list::listing(command, "List shovels, and how each is doing")
        .subcommand(
            Command::new("set")
                .about("Set a shovel; it replaces the one of its name")
                .arg(name())
                .arg(position(
                    "definition",
                    "JSON",
                    "RabbitMQ's fields, such as src-uri; - reads them from standard input",
                ))
                .arg(vhost()),
        )
        .subcommand(
            Command::new("clear")
                .about("End a shovel; what it has on its way arrives, or stays where it was")
                .arg(name())
                .arg(vhost()),
        )
}

/// Runs `hermod shovels …`.
pub(crate) fn run(server: &Server, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    let (vhost, name) = match arguments.subcommand() {
        Some((_, given)) => (text(given, "vhost"), text(given, "name")),
        None => Default::default(),
    };
    let what = match arguments.subcommand() {
        Some(("set", given)) => ShovelChange::Set { vhost, name, definition: definition(&text(given, "definition"))? },
        Some(("clear", _)) => ShovelChange::Clear { vhost, name },
        Some((_, given)) => return list::run(server, &list::SHOVELS, given, form),
        None => return list::run(server, &list::SHOVELS, arguments, form),
    };
    change(server, Change::Shovels(what)).map(drop)
}

/// A definition. Other users of the machine can read a command line, so one with a password comes
/// by standard input.
fn definition(text: &str) -> Result<serde_json::Map<String, serde_json::Value>, Failure> {
    let read = match text {
        "-" => serde_json::from_reader(std::io::stdin()),
        text => serde_json::from_str(text),
    };
    read.map_err(|error| Exit::Usage.because(format!("the definition is no JSON object: {error}")))
}
