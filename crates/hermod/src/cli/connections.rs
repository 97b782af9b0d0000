//! `hermod connections`: lists and closes connections of a running broker.

use clap::{Arg, ArgMatches, Command};
use management::{Change, ConnectionChange};

use crate::cli::arguments::{ask_for, option, text};
use crate::cli::ask::{Server, change};
use crate::cli::list::{self, listing};
use crate::cli::output::Form;
use crate::exit::{Exit, Failure};

/// Its verbs.
pub(crate) fn command(command: Command) -> Command {
    let reason = option("reason", "TEXT", "The reason that the client is given").default_value("closed by an operator");
    let strangers = Command::new("strangers").about("List connections that have not logged in yet");
    let ended = Command::new("ended").about("List the last connections that ended, the oldest first, and why");
    let command = listing(command, "List connections");
    command.subcommand(list::arguments(strangers)).subcommand(list::arguments(ended)).subcommand(
        Command::new("close")
            .about("Close one connection, or all that match")
            .arg(
                Arg::new("id")
                    .value_name("ID")
                    .help("Number of the connection, or both its addresses as listed under peer"),
            )
            .arg(ask_for("all", "All connections"))
            .arg(option("user", "USER", "Connections of this user"))
            .arg(option("vhost", "VHOST", "Connections in this vhost"))
            .arg(reason),
    )
}

/// Runs `hermod connections …`.
pub(crate) fn run(server: &Server, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    match arguments.subcommand() {
        Some(("close", given)) => close(server, given),
        Some(("strangers", given)) => list::run(server, &list::STRANGERS, given, form),
        Some(("ended", given)) => list::run(server, &list::ENDINGS, given, form),
        Some((_, given)) => list::run(server, &list::CONNECTIONS, given, form),
        None => list::run(server, &list::CONNECTIONS, arguments, form),
    }
}

fn close(server: &Server, given: &ArgMatches) -> Result<(), Failure> {
    let option = |name| given.get_one::<String>(name).cloned();
    let (id, vhost, user) = (option("id"), option("vhost"), option("user"));
    if id.is_none() && vhost.is_none() && user.is_none() && !given.get_flag("all") {
        return Err(Exit::Usage.because("which connections? Give a number, --user, --vhost or --all"));
    }
    let number = id.as_ref().and_then(|id| id.parse().ok());
    let name = id.clone().filter(|_| number.is_none());
    let reason = text(given, "reason");
    let closed =
        change(server, Change::Connections(ConnectionChange::Close { id: number, name, vhost, user, reason }))?;
    match id {
        Some(id) if closed == 0 => Err(Exit::NotFound.because(format!("there is no connection {id}"))),
        _ => Ok(()),
    }
}
