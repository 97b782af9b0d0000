//! Declarations in a running broker: `hermod queues`, `exchanges`, `bindings` and `consumers`,
//! except for the list of queues.

use clap::{ArgMatches, Command};
use management::{BindingChange, BindingFields, Change, DestinationType, ExchangeChange, Listed, QueueChange};
use serde_json::{Map, Value as Json};

use crate::cli::arguments::{ask_for, option, position, text, vhost};
use crate::cli::ask::{change, list};
use crate::cli::counted;
use crate::cli::output::{Form, show};
use crate::cli::rows;
use crate::config::Settings;
use crate::exit::{Exit, Failure};

/// The verbs of `hermod queues`.
pub(crate) fn queues_command(command: Command) -> Command {
    let name = || position("name", "NAME", "The queue");
    command
        .subcommand(Command::new("list").about("List queues"))
        .subcommand(
            declaring("declare", "Declare a queue; if it exists, check that it is the same").arg(name()).arg(option(
                "type",
                "TYPE",
                "classic or quorum",
            )),
        )
        .subcommand(
            Command::new("delete")
                .about("Delete a queue with its messages")
                .arg(name())
                .arg(vhost())
                .arg(ask_for("if-unused", "Only if the queue has no consumers"))
                .arg(ask_for("if-empty", "Only if no message waits in the queue")),
        )
        .subcommand(Command::new("purge").about("Drop the messages that wait in a queue").arg(name()).arg(vhost()))
}

/// Runs `hermod queues VERB …`.
pub(crate) fn queues(settings: &Settings, verb: &str, given: &ArgMatches) -> Result<(), Failure> {
    let name = text(given, "name");
    let made = match verb {
        "declare" => {
            let mut arguments = arguments(given)?;
            if let Some(kind) = given.get_one::<String>("type") {
                arguments.insert("x-queue-type".to_owned(), Json::String(kind.clone()));
            }
            let (durable, auto_delete) = (!given.get_flag("transient"), given.get_flag("auto-delete"));
            change(
                settings,
                Change::Queues(QueueChange::Declare {
                    vhost: text(given, "vhost"),
                    name,
                    durable,
                    auto_delete,
                    arguments,
                }),
            )
        }
        "delete" => {
            let (if_unused, if_empty) = (given.get_flag("if-unused"), given.get_flag("if-empty"));
            change(
                settings,
                Change::Queues(QueueChange::Delete { vhost: text(given, "vhost"), name, if_unused, if_empty }),
            )
        }
        _ => change(settings, Change::Queues(QueueChange::Purge { vhost: text(given, "vhost"), name })),
    };
    let count = made?;
    if verb == "declare" { Ok(()) } else { show(&format!("{} dropped\n", counted(count, ["message", "messages"]))) }
}

/// The verbs of `hermod exchanges`.
pub(crate) fn exchanges_command(command: Command) -> Command {
    let name = || position("name", "NAME", "The exchange");
    command
        .subcommand(Command::new("list").about("List exchanges"))
        .subcommand(
            declaring("declare", "Declare an exchange; if it exists, check that it is the same")
                .arg(name())
                .arg(option("type", "TYPE", "direct, fanout, topic, headers, …").default_value("direct"))
                .arg(ask_for("internal", "Clients can't publish to the exchange")),
        )
        .subcommand(
            Command::new("delete")
                .about("Delete an exchange with its bindings")
                .arg(name())
                .arg(vhost())
                .arg(ask_for("if-unused", "Only if nothing is bound to the exchange")),
        )
}

/// The field with the names of arguments that have no effect.
const WITHOUT_EFFECT: &str = "arguments_without_effect";

/// Runs `hermod exchanges …`.
pub(crate) fn exchanges(settings: &Settings, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    let columns = ["vhost", "name", "type", "durable", "auto_delete", "internal", "arguments", WITHOUT_EFFECT];
    let all = || {
        let rows = list(settings, Listed::Exchanges, None)?;
        // The column is left out if it is empty, as in most brokers.
        let has_idle = |row: &Json| row[WITHOUT_EFFECT].as_array().is_some_and(|names| !names.is_empty());
        let shown = columns.len() - usize::from(!rows.iter().any(has_idle));
        rows::print(&rows, &columns[..shown], form)
    };
    let Some((verb, given)) = arguments.subcommand() else { return all() };
    let name = text(given, "name");
    match verb {
        "declare" => change(
            settings,
            Change::Exchanges(ExchangeChange::Declare {
                vhost: text(given, "vhost"),
                name,
                kind: text(given, "type"),
                durable: !given.get_flag("transient"),
                auto_delete: given.get_flag("auto-delete"),
                internal: given.get_flag("internal"),
                arguments: self::arguments(given)?,
            }),
        ),
        "delete" => change(
            settings,
            Change::Exchanges(ExchangeChange::Delete {
                vhost: text(given, "vhost"),
                name,
                if_unused: given.get_flag("if-unused"),
            }),
        ),
        _ => return all(),
    }
    .map(drop)
}

/// The verbs of `hermod bindings`.
pub(crate) fn bindings_command(command: Command) -> Command {
    let ends = |command: Command| {
        command
            .arg(position("source", "SOURCE", "The exchange that messages come from"))
            .arg(position("destination", "DESTINATION", "The queue or exchange that messages go to"))
            .arg(option("key", "KEY", "The routing key or pattern").default_value(""))
            .arg(ask_for("to-exchange", "The destination is an exchange"))
            .arg(option("arguments", "JSON", "An object of arguments").default_value("{}"))
            .arg(vhost())
    };
    command
        .subcommand(Command::new("list").about("List bindings"))
        .subcommand(ends(Command::new("declare").about("Bind a queue or an exchange to an exchange")))
        .subcommand(ends(Command::new("delete").about("Delete a binding")))
}

/// Runs `hermod bindings …`.
pub(crate) fn bindings(settings: &Settings, given: &ArgMatches, form: Form) -> Result<(), Failure> {
    let columns = ["vhost", "source", "destination", "destination_type", "routing_key", "arguments"];
    let all = || rows::print(&list(settings, Listed::Bindings, None)?, &columns, form);
    let Some((verb, given)) = given.subcommand().filter(|(verb, _)| *verb != "list") else { return all() };
    let binding = BindingFields {
        source: text(given, "source"),
        destination: text(given, "destination"),
        destination_type: match given.get_flag("to-exchange") {
            true => DestinationType::Exchange,
            false => DestinationType::Queue,
        },
        routing_key: text(given, "key"),
        arguments: arguments(given)?,
    };
    let vhost = text(given, "vhost");
    let bound = match verb {
        "declare" => BindingChange::Bind { vhost, binding },
        _ => BindingChange::Unbind { vhost, binding },
    };
    change(settings, Change::Bindings(bound)).map(drop)
}

/// Runs `hermod consumers`.
pub(crate) fn consumers(settings: &Settings, form: Form) -> Result<(), Failure> {
    let columns = ["vhost", "queue_name", "connection", "consumer_tag", "ack_required", "prefetch_count", "exclusive"];
    rows::print(&list(settings, Listed::Consumers, None)?, &columns, form)
}

fn declaring(name: &'static str, about: &'static str) -> Command {
    Command::new(name)
        .about(about)
        .arg(vhost())
        .arg(ask_for("transient", "Not durable: a restart deletes it"))
        .arg(ask_for("auto-delete", "Delete it when it is no longer used"))
        .arg(option("arguments", "JSON", "An object of arguments").default_value("{}"))
}

fn arguments(given: &ArgMatches) -> Result<Map<String, Json>, Failure> {
    serde_json::from_str(&text(given, "arguments"))
        .map_err(|error| Exit::Usage.because(format!("--arguments is no JSON object: {error}")))
}
