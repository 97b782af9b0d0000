//! `hermod policies`: arguments for the queues and exchanges of a running broker whose names match.

use broker::PolicyKind;
use clap::{ArgMatches, Command};
use management::{Change, PolicyChange, PolicyFields};

use crate::cli::arguments::{ask_for, option, position, text, vhost};
use crate::cli::ask::{Server, change};
use crate::cli::list;
use crate::cli::output::Form;
use crate::exit::{Exit, Failure};

/// Its verbs.
pub(crate) fn command(command: Command) -> Command {
    let name = || position("name", "NAME", "The policy");
    let operator =
        || ask_for("operator", "An operator policy, which bounds what other policies and arguments may ask for");
    list::arguments(command)
        .subcommand(list::arguments(Command::new("list").about("List policies")).arg(operator()))
        .subcommand(
            Command::new("set")
                .about("Set a policy: arguments for all queues and exchanges whose names match")
                .arg(name())
                .arg(position("pattern", "PATTERN", "A regular expression that is searched for in names"))
                .arg(position("definition", "JSON", "An object of arguments, without x- before their names"))
                .arg(
                    option(
                        "priority",
                        "NUMBER",
                        "If several policies match, the one with the highest priority applies",
                    )
                    .default_value("0")
                    .allow_hyphen_values(true),
                )
                .arg(
                    option("apply-to", "WHAT", "all, queues, classic_queues, quorum_queues or exchanges")
                        .default_value("all"),
                )
                .arg(vhost())
                .arg(operator()),
        )
        .subcommand(Command::new("clear").about("Clear a policy").arg(name()).arg(vhost()).arg(operator()))
}

/// Runs `hermod policies …`.
pub(crate) fn run(server: &Server, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    let all = |kind, given| list::run(server, kind, given, form);
    let Some((verb, given)) = arguments.subcommand() else { return all(&list::POLICIES, arguments) };
    let operator = given.get_flag("operator");
    let (vhost, name) = (|| text(given, "vhost"), || text(given, "name"));
    let kind = if operator { PolicyKind::Operator } else { PolicyKind::User };
    match verb {
        "set" => {
            let policy = PolicyFields {
                vhost: vhost(),
                name: name(),
                pattern: text(given, "pattern"),
                apply_to: text(given, "apply-to"),
                priority: number(&text(given, "priority"))?,
                definition: serde_json::from_str(&text(given, "definition"))
                    .map_err(|error| Exit::Usage.because(format!("the definition is no JSON object: {error}")))?,
            };
            change(server, Change::Policies(PolicyChange::Set { kind, policy }))
        }
        "clear" => change(server, Change::Policies(PolicyChange::Clear { kind, vhost: vhost(), name: name() })),
        _ => return all(if operator { &list::OPERATOR_POLICIES } else { &list::POLICIES }, given),
    }
    .map(drop)
}

fn number(text: &str) -> Result<i64, Failure> {
    text.parse().map_err(|_| Exit::Usage.because(format!("the priority '{text}' is no whole number")))
}
