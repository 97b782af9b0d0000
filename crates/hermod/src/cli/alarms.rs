//! `hermod alarms`: the alarms that stop publishers, raised and cleared by hand; and whether
//! confirms miss the standby that they should wait for.

use std::io::{IsTerminal, stdout};

use clap::{Arg, ArgMatches, Command};
use management::control::{Answer, Request};
use management::{Change, NodeChange};

use crate::cli::arguments::{position, text};
use crate::cli::ask::{Server, ask, change, strange};
use crate::cli::output::{Form, show, show_json};
use crate::config::parse_size;
use crate::exit::{Exit, Failure};

/// Its verbs.
pub(crate) fn command(command: Command) -> Command {
    let resource = || Arg::new("resource").value_name("RESOURCE").required(true).value_parser(["memory", "disk"]);
    command
        .subcommand(Command::new("list").about("List the alarms that are active"))
        .subcommand(
            Command::new("set").about("Raise an alarm until it is cleared").arg(resource().help("memory or disk")),
        )
        .subcommand(
            Command::new("clear")
                .about("Clear an alarm that was raised by hand")
                .arg(resource().help("memory or disk")),
        )
        .subcommand(Command::new("memory-limit").about("Set memory.limit until the next start").arg(position(
            "size",
            "SIZE",
            "Bytes of queued messages, such as 2GiB; 0 keeps the alarm active",
        )))
        .subcommand(Command::new("disk-free-limit").about("Set disk.free_limit until the next start").arg(position(
            "size",
            "SIZE",
            "Bytes that must stay free on the disk, such as 2GiB; 0 sets none",
        )))
}

/// Runs `hermod alarms …`.
pub(crate) fn run(server: &Server, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    let Some((verb, given)) = arguments.subcommand() else { return list(server, form) };
    match verb {
        "set" | "clear" => {
            let (resource, up) = (text(given, "resource"), verb == "set");
            change(server, Change::Node(NodeChange::Alarm { resource, up })).map(drop)
        }
        "memory-limit" => change(server, Change::Node(NodeChange::MemoryLimit { bytes: size(given)? })).map(drop),
        "disk-free-limit" => change(server, Change::Node(NodeChange::DiskFreeLimit { bytes: size(given)? })).map(drop),
        _ => list(server, form),
    }
}

fn size(given: &ArgMatches) -> Result<u64, Failure> {
    let size = text(given, "size");
    parse_size(&size).map_err(|error| Exit::Usage.because(format!("'{size}': {error}")))
}

fn list(server: &Server, form: Form) -> Result<(), Failure> {
    let status = match ask(server, &Request::Status)? {
        Answer::Status(status) => status,
        other => return Err(strange(&other)),
    };
    let mut alarms = status.server.alarms.clone();
    // This one stops no publisher, or only by making its confirms wait.
    alarms.extend(status.cluster.alarm().map(|_| "standby".to_owned()));
    if form == Form::Json {
        return show_json(&alarms);
    }
    if alarms.is_empty() && stdout().is_terminal() {
        return show("no alarms\n");
    }
    show(&alarms.iter().map(|alarm| format!("{alarm}\n")).collect::<String>())
}
