//! `hermod vhosts`: the virtual hosts of a running broker, and their limits.

use clap::{ArgMatches, Command};
use management::{Change, LimitChange, VhostChange};

use crate::cli::arguments::{count, option, position, split, text};
use crate::cli::ask::{Server, change};
use crate::cli::list::{self, listing};
use crate::cli::output::Form;
use crate::exit::Failure;

/// Its verbs.
pub(crate) fn command(command: Command) -> Command {
    let name = || position("name", "NAME", "The vhost");
    listing(command, "List vhosts")
        .subcommand(
            Command::new("add")
                .about("Add a vhost, in which no user has permissions yet, or change the given fields of one")
                .arg(name())
                .arg(option("description", "TEXT", "Description of the vhost"))
                .arg(option("tags", "TAG,…", "Tags of the vhost"))
                .arg(option("default-queue-type", "TYPE", "classic or quorum: the type of queues that name none")),
        )
        .subcommand(
            Command::new("delete").about("Delete a vhost with everything in it, including messages").arg(name()),
        )
        .subcommand(
            Command::new("limit")
                .about("Set the limits of a vhost; a limit that is not given is removed")
                .arg(name())
                .arg(count("max-connections", "Connections at the same time"))
                .arg(count("max-queues", "Queues")),
        )
        .subcommand(list::arguments(Command::new("limits").about("List the limits of vhosts")))
}

/// Runs `hermod vhosts …`.
pub(crate) fn run(server: &Server, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    let all = |kind, given| list::run(server, kind, given, form);
    let Some((verb, given)) = arguments.subcommand() else { return all(&list::VHOSTS, arguments) };
    let name = text(given, "name");
    match verb {
        "add" => {
            let given = |name| given.get_one::<String>(name).cloned();
            let tags = given("tags").map(|tags| split(&tags));
            let (description, default_queue_type) = (given("description"), given("default-queue-type"));
            change(server, Change::Vhosts(VhostChange::Put { name, description, tags, default_queue_type }))
        }
        "delete" => change(server, Change::Vhosts(VhostChange::Delete { name })),
        "limit" => {
            let limit = |name| given.get_one::<u32>(name).copied().map(u64::from);
            let (connections, queues) = (limit("max-connections"), limit("max-queues"));
            change(server, Change::Limits(LimitChange::OfVhost { name, connections, queues }))
        }
        "limits" => return all(&list::VHOST_LIMITS, given),
        _ => return all(&list::VHOSTS, given),
    }
    .map(drop)
}
