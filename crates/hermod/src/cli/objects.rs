//! Declarations in a running broker: `hermod queues`, `exchanges` and `bindings`.

use clap::{ArgMatches, Command};
use management::{
    BindingChange, BindingFields, Change, DestinationType, ExchangeChange, QueueChange, SubscriptionChange,
};
use serde_json::{Map, Value as Json};

use crate::cli::arguments::{ask_for, option, position, text, vhost};
use crate::cli::ask::{Server, change};
use crate::cli::counted;
use crate::cli::list::{self, listing};
use crate::cli::output::{Form, show};
use crate::cli::tasks;
use crate::exit::{Exit, Failure};

/// The verbs of `hermod queues`.
pub(crate) fn queues_command(command: Command) -> Command {
    let name = || position("name", "NAME", "The queue");
    listing(command, "List queues")
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
                .arg(ask_for("if-empty", "Only if no message waits in the queue"))
                .arg(
                    tasks::keep("Keep its messages and declaration so long for an undo")
                        .conflicts_with_all(["if-unused", "if-empty"]),
                ),
        )
        .subcommand(
            Command::new("purge")
                .about("Drop the messages that wait in a queue")
                .arg(name())
                .arg(vhost())
                .arg(tasks::keep("Keep the messages so long for an undo")),
        )
}

/// Runs `hermod queues …`.
pub(crate) fn queues(server: &Server, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    let all = |given| list::run(server, &list::QUEUES, given, form);
    let Some((verb, given)) = arguments.subcommand() else { return all(arguments) };
    let name = text(given, "name");
    if let ("purge" | "delete", Ok(Some(keep))) = (verb, given.try_get_one::<u64>("keep")) {
        let kind = if verb == "purge" { "purge" } else { "delete-queue" };
        return tasks::keep_messages(server, kind, (text(given, "vhost"), name), *keep, form);
    }
    let made = match verb {
        "declare" => {
            let mut arguments = self::arguments(given)?;
            if let Some(kind) = given.get_one::<String>("type") {
                arguments.insert("x-queue-type".to_owned(), Json::String(kind.clone()));
            }
            let (durable, auto_delete) = (!given.get_flag("transient"), given.get_flag("auto-delete"));
            change(
                server,
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
                server,
                Change::Queues(QueueChange::Delete { vhost: text(given, "vhost"), name, if_unused, if_empty }),
            )
        }
        "purge" => change(server, Change::Queues(QueueChange::Purge { vhost: text(given, "vhost"), name })),
        _ => return all(given),
    };
    let count = made?;
    if verb == "declare" { Ok(()) } else { show(&format!("{} dropped\n", counted(count, ["message", "messages"]))) }
}

/// The verbs of `hermod subscriptions`.
pub(crate) fn subscriptions_command(command: Command) -> Command {
    listing(command, "List subscriptions, each with its queue").subcommand(
        Command::new("delete")
            .about("Delete a subscription with its queue and all that this keeps")
            .arg(position("queue", "QUEUE", "Its queue"))
            .arg(vhost()),
    )
}

/// Runs `hermod subscriptions …`.
pub(crate) fn subscriptions(server: &Server, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    let all = |given| list::run(server, &list::SUBSCRIPTIONS, given, form);
    match arguments.subcommand() {
        Some(("delete", given)) => {
            let (queue, vhost) = (text(given, "queue"), text(given, "vhost"));
            let count = change(server, Change::Subscriptions(SubscriptionChange::Delete { vhost, queue }))?;
            show(&format!("{} dropped\n", counted(count, ["message", "messages"])))
        }
        Some((_, given)) => all(given),
        None => all(arguments),
    }
}

/// The verbs of `hermod exchanges`.
pub(crate) fn exchanges_command(command: Command) -> Command {
    let name = || position("name", "NAME", "The exchange");
    listing(command, "List exchanges")
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

/// Runs `hermod exchanges …`.
pub(crate) fn exchanges(server: &Server, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    let all = |given| list::run(server, &list::EXCHANGES, given, form);
    let Some((verb, given)) = arguments.subcommand() else { return all(arguments) };
    let name = text(given, "name");
    match verb {
        "declare" => change(
            server,
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
            server,
            Change::Exchanges(ExchangeChange::Delete {
                vhost: text(given, "vhost"),
                name,
                if_unused: given.get_flag("if-unused"),
            }),
        ),
        _ => return all(given),
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
    listing(command, "List bindings")
        .subcommand(ends(Command::new("declare").about("Bind a queue or an exchange to an exchange")))
        .subcommand(ends(Command::new("delete").about("Delete a binding")))
}

/// Runs `hermod bindings …`.
pub(crate) fn bindings(server: &Server, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    let all = |given| list::run(server, &list::BINDINGS, given, form);
    let (verb, given) = match arguments.subcommand() {
        None => return all(arguments),
        Some(("list", given)) => return all(given),
        Some(other) => other,
    };
    let binding = BindingFields {
        source: text(given, "source"),
        destination: text(given, "destination"),
        destination_type: match given.get_flag("to-exchange") {
            true => DestinationType::Exchange,
            false => DestinationType::Queue,
        },
        routing_key: text(given, "key"),
        arguments: self::arguments(given)?,
    };
    let vhost = text(given, "vhost");
    let bound = match verb {
        "declare" => BindingChange::Bind { vhost, binding },
        _ => BindingChange::Unbind { vhost, binding },
    };
    change(server, Change::Bindings(bound)).map(drop)
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
