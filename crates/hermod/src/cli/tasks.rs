//! `hermod tasks`: long work on the messages of a queue, which the server does by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use management::control::{Answer, Request};
use management::{Change, Listed, PlannedRow, TaskChange, TaskFields, TaskTo};
use serde_json::Value as Json;

use crate::cli::arguments::{option, position, text};
use crate::cli::ask::{self, Server, ask, change, refusal, strange};
use crate::cli::counted;
use crate::cli::list::{self, listing};
use crate::cli::live::Live;
use crate::cli::output::{Form, show, show_json};
use crate::config::value;
use crate::exit::{Exit, Failure};

/// How often a task is looked at while its end is waited for.
const LOOK: Duration = Duration::from_millis(200);
/// What a task can do.
const KINDS: [&str; 6] = ["move", "copy", "redrive", "delete", "purge", "delete-queue"];
const MESSAGES: [&str; 2] = ["message", "messages"];

/// Its verbs.
pub(crate) fn command(command: Command) -> Command {
    let vhost = || option("vhost", "VHOST", "The vhost").default_value("/");
    listing(command, "List tasks that run, and the last ones that have ended")
        .subcommand(
            Command::new("start")
                .about("Move, copy, redrive or delete the ready messages of a queue")
                .arg(position("kind", "KIND", "What becomes of them").value_parser(KINDS))
                .arg(position("queue", "QUEUE", "The queue whose messages it takes"))
                .arg(vhost())
                .arg(option("to", "QUEUE", "The queue that gets them").conflicts_with("exchange"))
                .arg(option("exchange", "EXCHANGE", "The exchange that routes them"))
                .arg(option("routing-key", "KEY", "The routing key instead of their own").requires("exchange"))
                .arg(option("selector", "TEXT", "Only messages that match this selector").default_value(""))
                .arg(number("limit", "The largest number of messages").value_parser(clap::value_parser!(u64)))
                .arg(
                    number("rate", "The largest number of messages a second")
                        .value_parser(clap::value_parser!(u32).range(1..)),
                )
                .arg(keep("How long purge and delete-queue keep messages for an undo (15m)"))
                .arg(flag("dry-run", "Only count the messages"))
                .arg(flag("detach", "Do not wait for the end")),
        )
        .subcommand(
            Command::new("undo")
                .about("Bring back what purge or delete-queue has kept")
                .arg(position("name", "TASK", "The task"))
                .arg(vhost()),
        )
        .subcommand(
            Command::new("cancel")
                .about("End a task; what it has moved stays moved")
                .arg(position("name", "TASK", "The task"))
                .arg(vhost()),
        )
}

/// The option for how long messages are kept for an undo.
pub(crate) fn keep(help: &'static str) -> Arg {
    let parse = |text: &str| value::duration(text).map(|keep| u64::try_from(keep.as_millis()).unwrap_or(u64::MAX));
    option("keep", "TIME", help).value_parser(parse)
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

fn number(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("N").help(help)
}

/// Runs `hermod tasks …`.
pub(crate) fn run(server: &Server, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    match arguments.subcommand() {
        Some(("start", given)) => start(server, given, form),
        Some(("undo", given)) => {
            let (vhost, name) = (text(given, "vhost"), text(given, "name"));
            follow(server, TaskChange::Undo { vhost: vhost.clone(), name }, &vhost, form)
        }
        Some(("cancel", given)) => {
            let (vhost, name) = (text(given, "vhost"), text(given, "name"));
            change(server, Change::Tasks(TaskChange::Cancel { vhost, name })).map(drop)
        }
        Some((_, given)) => list::run(server, &list::TASKS, given, form),
        None => list::run(server, &list::TASKS, arguments, form),
    }
}

fn start(server: &Server, given: &ArgMatches, form: Form) -> Result<(), Failure> {
    let optional = |name: &str| given.get_one::<String>(name).cloned();
    let to = optional("to").map(|queue| TaskTo::Queue { queue });
    let through = |exchange| TaskTo::Exchange { exchange, routing_key: optional("routing-key") };
    let vhost = text(given, "vhost");
    let task = TaskFields {
        kind: text(given, "kind"),
        queue: text(given, "queue"),
        target: to.or_else(|| optional("exchange").map(through)),
        selector: text(given, "selector"),
        limit: given.get_one::<u64>("limit").copied(),
        rate: given.get_one::<u32>("rate").copied(),
        keep_ms: given.get_one::<u64>("keep").copied(),
        dry_run: given.get_flag("dry-run"),
    };
    if task.dry_run {
        return plan(server, vhost, task, form);
    }
    let start = TaskChange::Start { vhost: vhost.clone(), task };
    if given.get_flag("detach") {
        return show(&format!("{:x}\n", change(server, Change::Tasks(start))?));
    }
    follow(server, start, &vhost, form)
}

/// Purges or deletes a queue, and keeps its messages for an undo.
pub(crate) fn keep_messages(
    server: &Server,
    kind: &str,
    (vhost, queue): (String, String),
    keep_ms: u64,
    form: Form,
) -> Result<(), Failure> {
    let task = TaskFields {
        kind: kind.to_owned(),
        queue,
        target: None,
        selector: String::new(),
        limit: None,
        rate: None,
        keep_ms: Some(keep_ms),
        dry_run: false,
    };
    follow(server, TaskChange::Start { vhost: vhost.clone(), task }, &vhost, form)
}

/// Begins a task, waits for its end and says what it has done.
fn follow(server: &Server, begin: TaskChange, vhost: &str, form: Form) -> Result<(), Failure> {
    let name = format!("{:x}", change(server, Change::Tasks(begin))?);
    let ended = wait(server, vhost, &name)?;
    if form == Form::Json {
        return show_json(&ended);
    }
    show(&outcome(&ended))?;
    match ended["state"].as_str() {
        Some("done") => Ok(()),
        state => Err(Exit::Unavailable.because(format!(
            "task {name} was {}{}",
            state.unwrap_or("lost"),
            ended["reason"].as_str().map(|reason| format!(": {reason}")).unwrap_or_default()
        ))),
    }
}

/// Waits for the end of a task. The task goes on if this command ends before.
fn wait(server: &Server, vhost: &str, name: &str) -> Result<Json, Failure> {
    let taken = Arc::new(AtomicU64::new(0));
    let _live = Live::begin({
        let (taken, name) = (Arc::clone(&taken), name.to_owned());
        move |gone| format!("task {name}: {}, {} s", counted(taken.load(Ordering::Relaxed), MESSAGES), gone.as_secs())
    });
    loop {
        let tasks = ask::list(server, Listed::Tasks, Some(vhost))?;
        let task = tasks.into_iter().find(|task| task["name"] == name);
        let task = task.ok_or_else(|| Exit::NotFound.because(format!("task {name} is not known any more")))?;
        if task["state"] != "running" {
            return Ok(task);
        }
        taken.store(task["taken"].as_u64().unwrap_or(0), Ordering::Relaxed);
        std::thread::sleep(LOOK);
    }
}

fn plan(server: &Server, vhost: String, task: TaskFields, form: Form) -> Result<(), Failure> {
    let (kind, queue) = (task.kind.clone(), task.queue.clone());
    let planned = match ask(server, &Request::PlanTask { vhost, task })? {
        Answer::Planned(planned) => planned,
        Answer::NotChanged(refused) => return Err(refusal(refused)),
        other => return Err(strange(&other)),
    };
    if form == Form::Json {
        return show_json(&planned);
    }
    let PlannedRow { taken, alive, homeless, refused, complete } = planned;
    let mut said = format!("{queue}: {kind} would take {}\n", counted(taken, MESSAGES));
    said += &left(&queue, alive, homeless, refused);
    if !complete {
        said += "counting took too long: there are more\n";
    }
    show(&said)
}

fn outcome(task: &Json) -> String {
    let count = |name: &str| task[name].as_u64().unwrap_or(0);
    let (kind, queue) = (task["kind"].as_str().unwrap_or(""), task["queue"].as_str().unwrap_or(""));
    let mut said = format!("{queue}: {kind} took {}\n", counted(count("taken"), MESSAGES));
    if matches!(kind, "purge" | "delete-queue") {
        let of = if task["vhost"] == "/" { String::new() } else { format!(" --vhost {}", task["vhost"]) };
        let (kept, name) = (&task["target"]["queue"], &task["name"]);
        let text = |value: &Json| value.as_str().unwrap_or("").to_owned();
        said += &format!("kept in queue {}; to bring them back: hermod tasks undo {}{of}\n", text(kept), text(name));
    }
    said + &left(queue, count("alive"), count("homeless"), count("refused"))
}

/// Lines about the messages that stay.
fn left(queue: &str, alive: u64, homeless: u64, refused: u64) -> String {
    let reasons = [(alive, "never died"), (homeless, "have nowhere to go"), (refused, "found their target full")];
    let line = |(count, why)| format!("{queue}: {} stayed: they {why}\n", counted(count, MESSAGES));
    reasons.into_iter().filter(|(count, _)| *count > 0).map(line).collect()
}
