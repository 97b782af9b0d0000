//! `hermod retained`: the last values of topics in a running broker.

use clap::{ArgMatches, Command};
use management::{Change, RetainedChange};

use crate::cli::arguments::{position, text, vhost};
use crate::cli::ask::{Server, change};
use crate::cli::list::{self, listing};
use crate::cli::output::Form;
use crate::exit::Failure;

/// Its verbs.
pub(crate) fn command(command: Command) -> Command {
    listing(command, "List retained messages").subcommand(
        Command::new("remove")
            .about("Remove a retained message; its subscribers are not told")
            .arg(position("exchange", "EXCHANGE", "The exchange that it was published to"))
            .arg(position("topic", "TOPIC", "Its routing key"))
            .arg(vhost()),
    )
}

/// Runs `hermod retained …`.
pub(crate) fn run(server: &Server, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    match arguments.subcommand() {
        Some(("remove", given)) => {
            let (exchange, topic) = (text(given, "exchange"), text(given, "topic"));
            let vhost = text(given, "vhost");
            change(server, Change::Retained(RetainedChange::Remove { vhost, exchange, topic })).map(drop)
        }
        Some((_, given)) => list::run(server, &list::RETAINED, given, form),
        None => list::run(server, &list::RETAINED, arguments, form),
    }
}
