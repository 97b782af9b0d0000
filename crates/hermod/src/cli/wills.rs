//! `hermod wills`: what clients of a running broker left for the ends of their connections.

use clap::{ArgMatches, Command};
use management::{Change, WillChange};

use crate::cli::arguments::{position, text, vhost};
use crate::cli::ask::{Server, change};
use crate::cli::list::{self, listing};
use crate::cli::output::Form;
use crate::exit::Failure;

/// Its verbs.
pub(crate) fn command(command: Command) -> Command {
    listing(command, "List wills").subcommand(
        Command::new("remove")
            .about("Remove a will; it is not published")
            .arg(position("user", "USER", "The user that left it"))
            .arg(position("client", "CLIENT", "What its client is called"))
            .arg(vhost()),
    )
}

/// Runs `hermod wills …`.
pub(crate) fn run(server: &Server, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    match arguments.subcommand() {
        Some(("remove", given)) => {
            let (user, client, vhost) = (text(given, "user"), text(given, "client"), text(given, "vhost"));
            change(server, Change::Wills(WillChange::Remove { vhost, user, client })).map(drop)
        }
        Some((_, given)) => list::run(server, &list::WILLS, given, form),
        None => list::run(server, &list::WILLS, arguments, form),
    }
}
