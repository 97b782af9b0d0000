//! `hermod users` and `hermod permissions`: the users of a running broker, and their permissions.

use clap::{Arg, ArgMatches, Command};
use management::control::{Answer, Request};
use management::{Change, LimitChange, PermissionChange, Secret, UserChange};

use crate::cli::arguments::{ask_for, count, list_of, option, position, text, vhost, words};
use crate::cli::ask::{Server, ask, change, strange};
use crate::cli::list::{self, listing};
use crate::cli::output::Form;
use crate::cli::password;
use crate::exit::{Exit, Failure};

/// The verbs of `hermod users`.
pub(crate) fn users_command(command: Command) -> Command {
    let password = || option("password", "TEXT", "The password [default: typed, or the first line of standard input]");
    let name = || position("name", "NAME", "The user");
    listing(command, "List users and their tags")
        .subcommand(
            Command::new("add")
                .about("Add a user, which has no permissions yet")
                .arg(name())
                .arg(password())
                .arg(ask_for("no-password", "The user can't log in by password"))
                .arg(option("tags", "TAG,…", "Tags, such as administrator or monitoring")),
        )
        .subcommand(Command::new("delete").about("Delete a user and close its connections").arg(name()))
        .subcommand(Command::new("change-password").about("Change the password of a user").arg(name()).arg(password()))
        .subcommand(Command::new("authenticate").about("Check the password of a user").arg(name()).arg(password()))
        .subcommand(
            Command::new("set-tags")
                .about("Replace the tags of a user")
                .arg(name())
                .arg(Arg::new("tags").value_name("TAG").num_args(0..).help("All tags of the user")),
        )
        .subcommand(
            Command::new("set-roles")
                .about("Replace the roles of a user: users whose permissions it has, too")
                .arg(name())
                .arg(Arg::new("roles").value_name("ROLE").num_args(0..).help("All roles of the user")),
        )
        .subcommand(
            Command::new("limit")
                .about("Set the limits of a user; a limit that is not given is removed")
                .arg(name())
                .arg(count("max-connections", "Connections"))
                .arg(count("max-channels", "Channels on all connections together")),
        )
}

/// Runs `hermod users …`.
pub(crate) fn users(server: &Server, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    let Some((verb, given)) = arguments.subcommand() else {
        return list::run(server, &list::USERS, arguments, form);
    };
    let name = || text(given, "name");
    let secret = || password::read(given.get_one::<String>("password")).map(Secret::Password);
    match verb {
        "add" => {
            let secret = if given.get_flag("no-password") { Secret::None } else { secret()? };
            change(server, Change::Users(UserChange::Add { name: name(), secret, tags: list_of(given, "tags") }))
        }
        "delete" => change(server, Change::Users(UserChange::Delete { name: name() })),
        "change-password" => {
            change(server, Change::Users(UserChange::ChangePassword { name: name(), secret: secret()? }))
        }
        "authenticate" => authenticate(server, name(), secret()?),
        "set-tags" => change(server, Change::Users(UserChange::SetTags { name: name(), tags: words(given, "tags") })),
        "set-roles" => {
            change(server, Change::Users(UserChange::SetRoles { name: name(), roles: words(given, "roles") }))
        }
        "limit" => {
            let limit = |name| given.get_one::<u32>(name).copied();
            let (connections, sessions) = (limit("max-connections"), limit("max-channels"));
            change(server, Change::Limits(LimitChange::OfUser { name: name(), connections, sessions }))
        }
        _ => return list::run(server, &list::USERS, given, form),
    }
    .map(drop)
}

fn authenticate(server: &Server, user: String, password: Secret) -> Result<u64, Failure> {
    match ask(server, &Request::Authenticate { user: user.clone(), password })? {
        Answer::Authenticated(true) => Ok(0),
        Answer::Authenticated(false) => {
            Err(Exit::NoPermission.because(format!("there is no user '{user}', or that is not its password")))
        }
        other => Err(strange(&other)),
    }
}

/// The verbs of `hermod permissions`.
pub(crate) fn permissions_command(command: Command) -> Command {
    let user = || position("user", "USER", "The user");
    let exchange = || position("exchange", "EXCHANGE", "The topic exchange");
    let pattern = |name: &'static str, value: &'static str, help: &'static str| {
        position(name, value, help).allow_hyphen_values(true)
    };
    listing(command, "List the permissions of users")
        .subcommand(
            Command::new("set")
                .about("Set the permissions of a user in a vhost: three regular expressions, searched for in names")
                .arg(user())
                .arg(pattern("configure", "CONFIGURE", "Names that the user may declare and delete"))
                .arg(pattern("write", "WRITE", "Names that the user may write messages to"))
                .arg(pattern("read", "READ", "Names that the user may read messages from"))
                .arg(vhost()),
        )
        .subcommand(Command::new("clear").about("Clear all permissions of a user in a vhost").arg(user()).arg(vhost()))
        .subcommand(
            Command::new("set-topic")
                .about("Set which routing keys of a topic exchange a user may use")
                .arg(user())
                .arg(exchange())
                .arg(pattern("write", "WRITE", "Routing keys that the user may publish with"))
                .arg(pattern("read", "READ", "Routing keys that the user may bind with"))
                .arg(vhost()),
        )
        .subcommand(
            Command::new("clear-topic")
                .about("Clear the topic permissions of a user, so that it may use any routing key")
                .arg(user())
                .arg(exchange().required(false).help("The topic exchange [default: all]"))
                .arg(vhost()),
        )
        .subcommand(list::arguments(Command::new("list-topic").about("List the topic permissions of users")))
}

/// Runs `hermod permissions …`.
pub(crate) fn permissions(server: &Server, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    let all = |given| list::run(server, &list::PERMISSIONS, given, form);
    let Some((verb, given)) = arguments.subcommand() else { return all(arguments) };
    let text = |name| text(given, name);
    match verb {
        "set" => change(
            server,
            Change::Permissions(PermissionChange::Set {
                user: text("user"),
                vhost: text("vhost"),
                configure: text("configure"),
                write: text("write"),
                read: text("read"),
            }),
        ),
        "clear" => {
            change(server, Change::Permissions(PermissionChange::Clear { user: text("user"), vhost: text("vhost") }))
        }
        "set-topic" => change(
            server,
            Change::Permissions(PermissionChange::SetTopic {
                user: text("user"),
                vhost: text("vhost"),
                exchange: text("exchange"),
                write: text("write"),
                read: text("read"),
            }),
        ),
        "clear-topic" => change(
            server,
            Change::Permissions(PermissionChange::ClearTopic {
                user: text("user"),
                vhost: text("vhost"),
                exchange: given.get_one::<String>("exchange").cloned(),
            }),
        ),
        "list-topic" => return list::run(server, &list::TOPIC_PERMISSIONS, given, form),
        _ => return all(given),
    }
    .map(drop)
}
