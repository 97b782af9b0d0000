//! `hermod connections`: lists and closes connections of a running broker.

use clap::{Arg, ArgMatches, Command};
use management::control::{Answer, Request};
use management::{Change, ConnectionChange, ConnectionRow};

use crate::cli::arguments::{ask_for, option, text};
use crate::cli::ask::{ask, change, strange};
use crate::cli::output::{Form, show, show_json};
use crate::cli::table;
use crate::config::Settings;
use crate::config::value::size;
use crate::exit::{Exit, Failure};

/// Its verbs.
pub(crate) fn command(command: Command) -> Command {
    let reason = option("reason", "TEXT", "The reason that the client is given").default_value("closed by an operator");
    command.subcommand(Command::new("list").about("List connections")).subcommand(
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
pub(crate) fn run(settings: &Settings, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    match arguments.subcommand() {
        Some(("close", given)) => close(settings, given),
        _ => list(settings, form),
    }
}

fn close(settings: &Settings, given: &ArgMatches) -> Result<(), Failure> {
    let option = |name| given.get_one::<String>(name).cloned();
    let (id, vhost, user) = (option("id"), option("vhost"), option("user"));
    if id.is_none() && vhost.is_none() && user.is_none() && !given.get_flag("all") {
        return Err(Exit::Usage.because("which connections? Give a number, --user, --vhost or --all"));
    }
    let number = id.as_ref().and_then(|id| id.parse().ok());
    let name = id.clone().filter(|_| number.is_none());
    let reason = text(given, "reason");
    let closed =
        change(settings, Change::Connections(ConnectionChange::Close { id: number, name, vhost, user, reason }))?;
    match id {
        Some(id) if closed == 0 => Err(Exit::NotFound.because(format!("there is no connection {id}"))),
        _ => Ok(()),
    }
}

fn list(settings: &Settings, form: Form) -> Result<(), Failure> {
    let connections = match ask(settings, &Request::Connections)? {
        Answer::Connections(connections) => connections,
        other => return Err(strange(&other)),
    };
    if form == Form::Json {
        return show_json(&connections);
    }
    let rows: Vec<_> = connections.iter().map(row).collect();
    let head = [
        "id",
        "user",
        "vhost",
        "protocol",
        "peer",
        "name",
        "sessions",
        "consumers",
        "state",
        "received",
        "sent",
        "held",
    ];
    show(&table::text(&head, &rows))
}

fn row(connection: &ConnectionRow) -> Vec<String> {
    vec![
        connection.id.map_or_else(|| "-".to_owned(), |id| id.to_string()),
        connection.user.clone(),
        connection.vhost.clone(),
        connection.protocol.clone(),
        connection.peer.clone(),
        connection.name.clone(),
        connection.sessions.to_string(),
        connection.consumers.to_string(),
        connection.state.clone(),
        size(connection.bytes_in),
        size(connection.bytes_out),
        size(connection.held_bytes),
    ]
}
