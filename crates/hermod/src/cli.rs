//! The command line: verbs and flags. Flags of settings are made from their declarations.

mod alarms;
mod arguments;
mod ask;
mod backup;
mod browse;
mod cluster;
mod config;
mod connections;
mod context;
mod convert;
mod counted;
pub(crate) mod definitions;
mod explain;
mod health;
mod licenses;
mod list;
mod live;
mod log;
mod messages;
mod migrate;
mod objects;
mod output;
mod password;
mod policies;
mod promote;
mod redrive;
mod remote;
mod repair;
mod retained;
mod service;
mod shell;
mod shovels;
mod status;
mod table;
mod tasks;
mod top;
mod trace;
mod trial;
mod upgrade;
mod usage;
mod users;
mod verify;
mod vhosts;
mod why;
mod wills;

pub(crate) use arguments::split as split_commas;
pub(crate) use ask::{Server, ask, change, list};
pub(crate) use counted::counted;
pub(crate) use password::read as read_password;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::cli::output::Form;
use crate::cli::remote::Remote;
use crate::config::{Config, describe_all};
use crate::exit::{Exit, Failure};
use crate::standby::{Replace, Wanted};

/// Settings whose flags `-h` shows; `--help` shows all.
const PROMINENT: [&str; 6] = ["bind", "data_dir", "durability", "io_threads", "port_offset", "log.level"];

/// Parses the command line and runs its command.
pub(crate) fn run() -> Result<(), Failure> {
    let matches = match command().try_get_matches() {
        Ok(matches) => matches,
        Err(message) => return explain(&message),
    };
    let Some((verb, arguments)) = matches.subcommand() else {
        return Err(Exit::Usage.because("no command; hermod --help lists them"));
    };
    // These have no use for the settings, or read them in their own way.
    if let ("config", Some(("convert", given))) = (verb, arguments.subcommand()) {
        return convert::run(given);
    }
    if let ("config", Some(("check", given))) = (verb, arguments.subcommand()) {
        let file = given.get_one::<PathBuf>("file").map(PathBuf::as_path).or(named_file(given));
        return config::check(&Config::load(&flags(given), file, &environment())?, Form::of(given));
    }
    match verb {
        "serve" => return serve(arguments),
        "standby" => return standby(arguments),
        "service" => return service::run(arguments, serve),
        "licenses" => return licenses::run(Form::of(arguments)),
        "completions" => {
            let shell = arguments.get_one::<clap_complete::Shell>("shell").copied();
            return shell.map_or(Ok(()), |shell| shell::completions(command(), shell));
        }
        "man" => return shell::man(command(), arguments.get_one::<String>("directory").map_or("", String::as_str)),
        _ => {}
    }
    let config = load(arguments)?;
    let form = || Form::of(arguments);
    match verb {
        "config" if arguments.get_flag("manual") => return config::manual(),
        "config" => return config::run(&config, form()),
        "verify" => {
            let directory = arguments.get_one::<PathBuf>("directory").map(PathBuf::as_path);
            return verify::run(&config.settings, directory, form());
        }
        "upgrade" => return upgrade::run(&config.settings, arguments, form()),
        "context" => return context::run(arguments, form()),
        _ => {}
    }
    list::refuse_misplaced(arguments)?;
    let remote = context::chosen(&matches, arguments)?.map(Remote::new).transpose()?;
    ask_broker(verb, &Server { settings: config.settings, remote }, arguments)
}

/// Runs the broker.
fn serve(arguments: &ArgMatches) -> Result<(), Failure> {
    let accept = arguments.get_one::<String>("accept-damage").map(String::as_str);
    if !arguments.get_flag("dev") {
        return crate::serve::run(load(arguments)?, || load(arguments), accept, |_, _| Ok(()));
    }
    let given = flags(arguments);
    let file = named_file(arguments);
    let trial = trial::Trial::prepare(&Config::load_apart(&given, file, &environment())?)?;
    let flags: BTreeMap<_, _> = trial.flags.clone().into_iter().chain(given).collect();
    let load = || Ok(Config::load_apart(&flags, file, &environment())?);
    crate::serve::run(load()?, load, accept, |settings, facts| output::show(&trial.welcome(settings, facts)))
}

/// Runs a node that follows another.
fn standby(arguments: &ArgMatches) -> Result<(), Failure> {
    let given = |name: &str| arguments.get_one::<String>(name).cloned();
    let replace = if arguments.get_flag("replace") { Replace::Yes } else { Replace::IfGone };
    let wanted = Wanted { from: given("from"), token: given("token"), replace };
    crate::standby::run(load(arguments)?, || load(arguments), &wanted)
}

/// Runs the commands that ask a running broker, or change its state.
fn ask_broker(verb: &str, server: &Server, arguments: &ArgMatches) -> Result<(), Failure> {
    let form = Form::of(arguments);
    match verb {
        "status" => status::run(server, form),
        "health" => health::run(server, arguments, form),
        "backup" => {
            let directory = arguments.get_one::<PathBuf>("directory").map_or(Path::new(""), PathBuf::as_path);
            backup::run(server, directory, form)
        }
        "cluster" => cluster::run(server, arguments, form),
        "promote" => promote::run(server, arguments),
        "repair" => repair::run(server, arguments, form),
        "publish" => messages::publish(server, arguments, form),
        "consume" => messages::consume(server, arguments, form),
        "top" => top::run(server, arguments),
        "browse" => browse::run(server, &Which::of(arguments), form),
        "why" => {
            let Which { vhost, queue, .. } = Which::of(arguments);
            why::run(server, &vhost, &queue, form)
        }
        "explain" => explain::run(server, arguments, form),
        "redrive" => redrive::run(server, arguments, form),
        "tasks" => tasks::run(server, arguments, form),
        "users" => users::users(server, arguments, form),
        "permissions" => users::permissions(server, arguments, form),
        "vhosts" => vhosts::run(server, arguments, form),
        "policies" => policies::run(server, arguments, form),
        "retained" => retained::run(server, arguments, form),
        "shovels" => shovels::run(server, arguments, form),
        "migrate" => migrate::run(server, arguments, form),
        "subscriptions" => objects::subscriptions(server, arguments, form),
        "wills" => wills::run(server, arguments, form),
        "losses" => list::run(server, &list::LOSSES, arguments, form),
        "log" => log::run(server, arguments, form),
        "audit" => list::run(server, &list::AUDIT, arguments, form),
        "queues" => objects::queues(server, arguments, form),
        "exchanges" => objects::exchanges(server, arguments, form),
        "bindings" => objects::bindings(server, arguments, form),
        "consumers" => list::run(server, &list::CONSUMERS, arguments, form),
        "connections" => connections::run(server, arguments, form),
        "trace" => trace::run(server, arguments, form),
        "alarms" => alarms::run(server, arguments, form),
        "export" => definitions::export(server, arguments),
        "import" => definitions::import(server, arguments, form),
        other => Err(Exit::Bug.because(format!("no code for the command {other}"))),
    }
}

/// Help and version are not errors; anything else is one line and exit code 64.
fn explain(message: &clap::Error) -> Result<(), Failure> {
    use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand as NoCommand;
    if message.use_stderr() && message.kind() != NoCommand {
        return Err(Exit::Usage.because(usage::one_line(&message.to_string())));
    }
    // If the terminal is gone, the message has no reader.
    let _ = message.print();
    match message.kind() {
        NoCommand => Err(Exit::Usage.because("no command")),
        _ => Ok(()),
    }
}

fn load(arguments: &ArgMatches) -> Result<Config, Failure> {
    Ok(Config::load(&flags(arguments), named_file(arguments), &environment())?)
}

/// The settings that flags name.
fn flags(arguments: &ArgMatches) -> BTreeMap<String, String> {
    let mut flags = BTreeMap::new();
    for setting in describe_all() {
        if let Ok(Some(values)) = arguments.try_get_many::<String>(setting.name) {
            let values: Vec<_> = values.map(String::as_str).collect();
            flags.insert(setting.name.to_owned(), values.join(","));
        }
    }
    flags
}

fn named_file(arguments: &ArgMatches) -> Option<&Path> {
    arguments.get_one::<PathBuf>("config").map(PathBuf::as_path)
}

fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

fn command() -> Command {
    let names: Vec<_> = describe_all().iter().map(|setting| setting.name).collect();
    context::arguments(Command::new("hermod"))
        .about("A message broker that speaks the protocols its users already speak")
        .version(env!("CARGO_PKG_VERSION"))
        .arg_required_else_help(true)
        .subcommand(serving_with(&names))
        .subcommand(asking("status", "Show the state of a running broker"))
        .subcommand(health::command(asking("health", "Say whether a broker serves, for probes")))
        .subcommands(administration())
        .subcommand(
            asking("backup", "Copy the data directory of a running broker").arg(
                Arg::new("directory")
                    .value_name("DIR")
                    .required(true)
                    .value_parser(clap::value_parser!(PathBuf))
                    .help("A new or empty directory on the broker's machine"),
            ),
        )
        .subcommand(standby_with(&names))
        .subcommand(promote::command(asking("promote", "Have a standby take over from the node that it follows")))
        .subcommand(cluster::command(with_settings(
            Command::new("cluster").about("Invite nodes, and show how they follow each other").arg(json()),
            &["data_dir", "nodes.listen", "nodes.address"],
        )))
        .subcommand(of_queue("why", "Show why a queue does not move, and what to do"))
        .subcommand(top::command(asking("top", "Show what moves, again and again")))
        .subcommand(messages::publish_command(asking("publish", "Publish messages, and wait for their confirms")))
        .subcommand(messages::consume_command(asking("consume", "Take messages from a queue, and print their bodies")))
        .subcommand(explain::command(asking("explain", "Explain rights, routes, policies and errors")))
        .subcommand(selecting("browse", "Show messages of a queue without taking them", "20"))
        .subcommand(
            selecting("redrive", "Move dead letters back to where they came from", "18446744073709551615").arg(
                Arg::new("dry-run").long("dry-run").action(ArgAction::SetTrue).help("Only count what would be moved"),
            ),
        )
        .subcommand(repairing())
        .subcommands([shell::completions_command(), shell::man_command()])
        .subcommand(Command::new("licenses").about("Show the licences of what the program is built from").arg(json()))
        .subcommand(context::command(
            with_settings(Command::new("context").about("Keep the URLs of brokers on other machines"), &[]).arg(json()),
        ))
        .subcommand(service::command(serving_with(&names)))
        .subcommand(verifying())
        .subcommand(upgrade::command(with_settings(
            Command::new("upgrade").about("Say what an upgrade to this version would do").arg(json()),
            &["data_dir"],
        )))
        .subcommand(
            with_settings(Command::new("config").about("Show the effective settings and where each came from"), &names)
                .arg(json())
                .arg(
                    Arg::new("manual")
                        .long("manual")
                        .action(ArgAction::SetTrue)
                        .help("Print the manual's page of settings"),
                )
                .args_conflicts_with_subcommands(true)
                .subcommand(config::check_command(Command::new("check").arg(json())))
                .subcommand(convert::command(Command::new("convert").arg(json()))),
        )
}

fn serving_with(names: &[&str]) -> Command {
    let serve = Command::new("serve")
        .about("Run the broker")
        .arg(
            Arg::new("accept-damage")
                .long("accept-damage")
                .value_name("FILE")
                .help("End the log before the damage in this file; everything after the damage is lost for good"),
        )
        .arg(
            Arg::new("dev")
                .long("dev")
                .action(ArgAction::SetTrue)
                .help("Try Hermod: free ports, and data that is removed at the end unless --data-dir names a place"),
        );
    with_settings(serve, names)
}

fn standby_with(names: &[&str]) -> Command {
    let standby = Command::new("standby")
        .about("Follow another node, and serve no client until hermod promote")
        .arg(Arg::new("from").long("from").value_name("ADDRESS").help(
            "Host and port at which the other node listens for nodes [default: that of the token, or the last one]",
        ))
        .arg(
            Arg::new("token")
                .long("token")
                .value_name("TOKEN")
                .help("What hermod cluster invite printed on the other node; needed once"),
        )
        .arg(
            Arg::new("replace")
                .long("replace")
                .action(ArgAction::SetTrue)
                .help("Begin with a new copy, which takes the place of what is in the data directory"),
        );
    with_settings(standby, names)
}

/// The commands that list objects and change them.
fn administration() -> [Command; 22] {
    [
        objects::queues_command(asking("queues", "List, declare, delete and purge queues")),
        objects::exchanges_command(asking("exchanges", "List, declare and delete exchanges")),
        objects::bindings_command(asking("bindings", "List, declare and delete bindings")),
        list::arguments(asking("consumers", "List consumers")),
        connections::command(asking("connections", "List and close connections")),
        users::users_command(asking("users", "List, add, change and delete users")),
        users::permissions_command(asking("permissions", "List, set and clear the permissions of users")),
        vhosts::command(asking("vhosts", "List, add, limit and delete vhosts")),
        policies::command(asking("policies", "List, set and clear policies")),
        retained::command(asking("retained", "List and remove retained messages")),
        shovels::command(asking("shovels", "List, set and clear shovels, which move messages between brokers")),
        migrate::command(asking("migrate", "Bring the queues of another broker here, with their messages")),
        objects::subscriptions_command(asking("subscriptions", "List and delete subscriptions, each with its queue")),
        wills::command(asking("wills", "List and remove wills")),
        list::arguments(asking("losses", "List the last messages that were dropped, and why")),
        list::arguments(asking("audit", "List who changed what since the start, and what was refused")),
        log::command(asking("log", "Show the last lines of the log, or follow it")),
        tasks::command(asking("tasks", "List, start and cancel tasks that move, copy or delete messages")),
        trace::command(asking("trace", "List traced vhosts, turn tracing on and off")),
        alarms::command(asking("alarms", "List, raise and clear alarms")),
        definitions::export_command(asking(
            "export",
            "Write users, vhosts, permissions and declarations in RabbitMQ's JSON",
        )),
        definitions::import_command(asking(
            "import",
            "Import definitions in RabbitMQ's JSON; a document with a contradiction changes nothing",
        )),
    ]
}

fn json() -> Arg {
    Arg::new("json").long("json").action(ArgAction::SetTrue).global(true).help("Print JSON instead of a table")
}

/// A command that asks a running broker, or reads its data directory.
fn asking(name: &'static str, about: &'static str) -> Command {
    with_settings(Command::new(name).about(about).arg(json()), &["data_dir"])
}

/// The messages of a queue that a command is about.
#[derive(Debug, Clone)]
pub(crate) struct Which {
    vhost: String,
    queue: String,
    selector: String,
    limit: u64,
}

impl Which {
    fn of(arguments: &ArgMatches) -> Self {
        let given = |name: &str| arguments.try_get_one::<String>(name).ok().flatten().cloned();
        let text = |name: &str| given(name).unwrap_or_default();
        let limit = arguments.try_get_one::<u64>("limit").ok().flatten().copied().unwrap_or(u64::MAX);
        Self { vhost: text("vhost"), queue: text("queue"), selector: text("selector"), limit }
    }
}

/// A command about a queue.
fn of_queue(name: &'static str, about: &'static str) -> Command {
    asking(name, about)
        .arg(Arg::new("queue").value_name("QUEUE").required(true).help("The queue"))
        .arg(Arg::new("vhost").long("vhost").value_name("VHOST").default_value("/").help("Its vhost"))
}

/// A command about some messages of a queue.
fn selecting(name: &'static str, about: &'static str, limit: &'static str) -> Command {
    let limited = Arg::new("limit").long("limit").value_name("N").value_parser(clap::value_parser!(u64));
    of_queue(name, about)
        .arg(
            Arg::new("selector")
                .long("selector")
                .value_name("TEXT")
                .default_value("")
                .hide_default_value(true)
                .help("Only messages that match this selector, such as \"color = 'red'\""),
        )
        .arg(limited.default_value(limit).hide_default_value(limit.len() > 10).help("The largest number of messages"))
}

fn repairing() -> Command {
    of_queue("repair", "Show which messages of a queue can't be read, or give them up").arg(
        Arg::new("accept-loss")
            .long("accept-loss")
            .action(ArgAction::SetTrue)
            .help("Give up the unreadable messages for good"),
    )
}

fn verifying() -> Command {
    asking("verify", "Check the whole data directory of a stopped broker, and show what is damaged").arg(
        Arg::new("directory")
            .value_name("DIR")
            .value_parser(clap::value_parser!(PathBuf))
            .help("The data directory [default: the setting data_dir]"),
    )
}

fn with_settings(command: Command, names: &[&str]) -> Command {
    let command = command.arg(
        Arg::new("config")
            .long("config")
            .short('c')
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .global(true)
            .help("Configuration file [default: $HERMOD_CONFIG, else /etc/hermod/hermod.toml if it exists]"),
    );
    describe_all().into_iter().filter(|setting| names.contains(&setting.name)).fold(command, |command, setting| {
        let shown = if setting.secret { String::new() } else { format!(" [default: {}]", setting.default) };
        let argument = Arg::new(setting.name).long(setting.flag());
        // The last of repeated flags counts, so that a script can add to the flags that it was
        // given.
        let argument = if setting.is_list() {
            argument.action(ArgAction::Append)
        } else {
            argument.action(ArgAction::Set).overrides_with(setting.name)
        };
        command.arg(
            argument
                .value_name(setting.kind.to_uppercase())
                .allow_hyphen_values(true)
                .global(true)
                .hide_short_help(!PROMINENT.contains(&setting.name))
                .help(format!("{}{shown}", setting.doc.replace('`', ""))),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn flags_become_settings_and_repeated_ones_lists_or_the_last_value() {
        let line = "hermod serve --bind 127.0.0.1 --bind ::1 --limits-frame-max 8KiB --limits-frame-max 16KiB";
        let matches = command().try_get_matches_from(line.split(' ')).unwrap();
        let config = load(matches.subcommand().unwrap().1).unwrap();
        assert_eq!(config.settings.listen.bind.len(), 2);
        assert_eq!(config.settings.limits.frame_max, 16_384);
    }

    #[test]
    fn the_manual_names_every_verb_and_every_exit_code() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/manual/command-line.md");
        let page = std::fs::read_to_string(path).unwrap();
        for verb in command().get_subcommands() {
            let name = verb.get_name();
            assert!(page.contains(&format!("`hermod {name}")), "command-line.md does not tell of hermod {name}");
        }
        for exit in Exit::ALL {
            let row = format!("| {} |", exit.code());
            assert!(page.contains(&row), "command-line.md does not tell of exit code {}", exit.code());
        }
    }
}
