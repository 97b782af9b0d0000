//! `hermod trace`: turns copies of published and delivered messages on and off.

use clap::{ArgMatches, Command};
use management::{Change, VhostChange};

use crate::cli::arguments::{text, vhost};
use crate::cli::ask::{Server, change};
use crate::cli::list::{self, listing};
use crate::cli::output::Form;
use crate::exit::Failure;

/// Its verbs.
pub(crate) fn command(command: Command) -> Command {
    let on = "Copy all published and delivered messages to amq.rabbitmq.trace, until the next start";
    listing(command, "List vhosts and whether they are traced")
        .subcommand(Command::new("on").about(on).arg(vhost()))
        .subcommand(Command::new("off").about("Turn tracing off").arg(vhost()))
}

/// Runs `hermod trace …`.
pub(crate) fn run(server: &Server, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    match arguments.subcommand() {
        Some((verb @ ("on" | "off"), given)) => {
            change(server, Change::Vhosts(VhostChange::Trace { vhost: text(given, "vhost"), on: verb == "on" }))
                .map(drop)
        }
        Some((_, given)) => list::run(server, &list::TRACED, given, form),
        None => list::run(server, &list::TRACED, arguments, form),
    }
}
