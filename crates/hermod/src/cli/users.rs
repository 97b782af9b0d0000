//! `hermod users` and `hermod permissions`: the users of a running broker, and their permissions.

use clap::{Arg, ArgMatches, Command};
use management::control::{Answer, Request};
use management::{Change, LimitChange, Listed, PermissionChange, Secret, UserChange};

use crate::cli::arguments::{ask_for, count, list_of, option, position, text, vhost, words};
use crate::cli::ask::{ask, change, list, strange};
use crate::cli::output::Form;
use crate::cli::{password, rows};
use crate::config::Settings;
use crate::exit::{Exit, Failure};

/// The verbs of `hermod users`.
pub(crate) fn users_command(command: Command) -> Command {
    let password = || option("password", "TEXT", "The password [default: typed, or the first line of standard input]");
    let name = || position("name", "NAME", "The user");
    command
        .subcommand(Command::new("list").about("List users and their tags"))
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
            Command::new("limit")
                .about("Set the limits of a user; a limit that is not given is removed")
                .arg(name())
                .arg(count("max-connections", "Connections"))
                .arg(count("max-channels", "Channels on all connections together")),
        )
}

/// Runs `hermod users …`.
pub(crate) fn users(settings: &Settings, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    let Some((verb, given)) = arguments.subcommand() else { return list_users(settings, form) };
    let name = || text(given, "name");
    let secret = || password::read(given.get_one::<String>("password")).map(Secret::Password);
    match verb {
        "add" => {
            let secret = if given.get_flag("no-password") { Secret::None } else { secret()? };
            change(settings, Change::Users(UserChange::Add { name: name(), secret, tags: list_of(given, "tags") }))
        }
        "delete" => change(settings, Change::Users(UserChange::Delete { name: name() })),
        "change-password" => {
            change(settings, Change::Users(UserChange::ChangePassword { name: name(), secret: secret()? }))
        }
        "authenticate" => authenticate(settings, name(), secret()?),
        "set-tags" => change(settings, Change::Users(UserChange::SetTags { name: name(), tags: words(given, "tags") })),
        "limit" => {
            let limit = |name| given.get_one::<u32>(name).copied();
            let (connections, sessions) = (limit("max-connections"), limit("max-channels"));
            change(settings, Change::Limits(LimitChange::OfUser { name: name(), connections, sessions }))
        }
        _ => return list_users(settings, form),
    }
    .map(drop)
}

fn list_users(settings: &Settings, form: Form) -> Result<(), Failure> {
    rows::print(&list(settings, Listed::Users, None)?, &["name", "tags", "limits", "held_bytes"], form)
}

fn authenticate(settings: &Settings, user: String, password: Secret) -> Result<u64, Failure> {
    match ask(settings, &Request::Authenticate { user: user.clone(), password })? {
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
    command
        .subcommand(Command::new("list").about("List the permissions of users").arg(option(
            "vhost",
            "VHOST",
            "Only in this vhost",
        )))
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
        .subcommand(Command::new("list-topic").about("List the topic permissions of users"))
}

/// Runs `hermod permissions …`.
pub(crate) fn permissions(settings: &Settings, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    const COLUMNS: [&str; 5] = ["user", "vhost", "configure", "write", "read"];
    let all = |vhost: Option<&str>| rows::print(&list(settings, Listed::Permissions, vhost)?, &COLUMNS, form);
    let Some((verb, given)) = arguments.subcommand() else { return all(None) };
    let text = |name| text(given, name);
    match verb {
        "set" => change(
            settings,
            Change::Permissions(PermissionChange::Set {
                user: text("user"),
                vhost: text("vhost"),
                configure: text("configure"),
                write: text("write"),
                read: text("read"),
            }),
        ),
        "clear" => {
            change(settings, Change::Permissions(PermissionChange::Clear { user: text("user"), vhost: text("vhost") }))
        }
        "set-topic" => change(
            settings,
            Change::Permissions(PermissionChange::SetTopic {
                user: text("user"),
                vhost: text("vhost"),
                exchange: text("exchange"),
                write: text("write"),
                read: text("read"),
            }),
        ),
        "clear-topic" => change(
            settings,
            Change::Permissions(PermissionChange::ClearTopic {
                user: text("user"),
                vhost: text("vhost"),
                exchange: given.get_one::<String>("exchange").cloned(),
            }),
        ),
        "list-topic" => {
            let columns = ["user", "vhost", "exchange", "write", "read"];
            return rows::print(&list(settings, Listed::TopicPermissions, None)?, &columns, form);
        }
        _ => return all(given.get_one::<String>("vhost").map(String::as_str)),
    }
    .map(drop)
}
