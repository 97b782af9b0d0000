//! The verbs of `rabbitmqctl` that are no lists.

use std::time::{Duration, Instant};

use management::control::{Answer, Request};
use management::{Change, ObjectChange, Secret};

use super::call::Call;
use super::{DATA, NO_USER, Output, Refusal, SOFTWARE, lists, policies};
use crate::cli::{ask, change, split_commas};
use crate::config::Settings;
use crate::exit::{Exit, Failure};
use crate::machine;

/// How long `await_startup` waits if nobody says.
const STARTUP_SECONDS: u64 = 300;
/// How often it looks.
const STARTUP_PERIOD: Duration = Duration::from_millis(200);
/// `set_vm_memory_high_watermark` is as exact as this: less is nothing, and raises the alarm.
const WATERMARK_STEP: u64 = 1 << 20;
/// A share of the memory that no broker's process fits into, which is how the alarm is raised on purpose.
const LEAST_SHARE: u64 = 16 << 20;

type Verb = fn(&Call, &Settings) -> Result<(String, Output), Refusal>;

const VERBS: [(&str, Verb); 44] = [
    ("add_user", add_user),
    ("add_vhost", add_vhost),
    ("authenticate_user", authenticate_user),
    ("await_startup", await_startup),
    ("change_password", change_password),
    ("check_alarms", check_alarms),
    ("check_local_alarms", check_alarms),
    ("check_running", ping),
    ("clear_operator_policy", policies::clear_operator),
    ("clear_password", clear_password),
    ("clear_permissions", clear_permissions),
    ("clear_policy", policies::clear),
    ("clear_topic_permissions", clear_topic_permissions),
    ("clear_user_limits", clear_user_limits),
    ("clear_vhost_limits", clear_vhost_limits),
    ("close_all_connections", close_all_connections),
    ("close_all_user_connections", close_all_user_connections),
    ("close_connection", close_connection),
    ("delete_queue", delete_queue),
    ("delete_user", delete_user),
    ("delete_vhost", delete_vhost),
    ("enable_feature_flag", enable_feature_flag),
    ("eval", eval),
    ("export_definitions", export_definitions),
    ("import_definitions", import_definitions),
    ("list_user_limits", list_user_limits),
    ("list_vhost_limits", list_vhost_limits),
    ("ping", ping),
    ("purge_queue", purge_queue),
    ("set_operator_policy", policies::set_operator),
    ("set_permissions", set_permissions),
    ("set_policy", policies::set),
    ("set_topic_permissions", set_topic_permissions),
    ("set_user_limits", set_user_limits),
    ("set_user_tags", set_user_tags),
    ("set_vhost_limits", set_vhost_limits),
    ("set_vm_memory_high_watermark", set_watermark),
    ("shutdown", stop),
    ("status", status),
    ("stop", stop),
    ("trace_off", trace_off),
    ("trace_on", trace_on),
    ("update_vhost_metadata", update_vhost_metadata),
    ("wait", await_startup),
];

/// All of them.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    VERBS.iter().map(|(name, _)| *name)
}

/// The refusal of a verb that there is not.
pub(super) fn unknown(verb: &str) -> Refusal {
    Refusal::usage(format!("Hermod has nothing for `rabbitmqctl {verb}`; `rabbitmqctl help` lists what there is"))
}

/// Does what was asked. The text is what it says before its output.
pub(super) fn run(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let (_, verb) = VERBS.iter().find(|(name, _)| *name == call.verb).ok_or_else(|| unknown(&call.verb))?;
    verb(call, settings)
}

pub(super) fn words<const N: usize>(call: &Call) -> Result<[&str; N], Refusal> {
    call.exactly().map_err(Refusal::usage)
}

pub(super) fn done(settings: &Settings, banner: String, what: Change) -> Result<(String, Output), Refusal> {
    change(settings, what)?;
    Ok((banner, Output::Nothing))
}

/// The second word, else what is typed or written to standard input.
fn secret(call: &Call) -> Result<Secret, Refusal> {
    let word = call.words.get(1).cloned();
    if call.words.is_empty() || call.words.len() > 2 {
        return Err(Refusal::usage("not enough or too many arguments."));
    }
    let text = crate::cli::read_password(word.as_ref())
        .map_err(|_| Refusal::new(DATA, "Password is not provided via argument or stdin"))?;
    if !call.flag("pre-hashed-password") {
        return Ok(Secret::Password(text));
    }
    let hash = auth::PasswordHash::import("", &text).map_err(|error| Refusal::new(DATA, error.to_string()))?;
    Ok(Secret::Hash(hash.as_str().to_owned()))
}

fn add_user(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let secret = secret(call)?;
    let name = call.words[0].clone();
    let banner = format!("Adding user \"{name}\" ...");
    done(settings, banner, Change::AddUser { name, secret, tags: Vec::new() })
}

fn change_password(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let secret = secret(call)?;
    let name = call.words[0].clone();
    done(settings, format!("Changing password for user \"{name}\" ..."), Change::ChangePassword { name, secret })
}

fn clear_password(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let [name] = words(call)?;
    let change = Change::ChangePassword { name: name.to_owned(), secret: Secret::None };
    done(settings, format!("Clearing password for user \"{name}\" ..."), change)
}

fn authenticate_user(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let password = secret(call)?;
    let user = call.words[0].clone();
    let banner = format!("Authenticating user \"{user}\" ...");
    match ask(settings, &Request::Authenticate { user: user.clone(), password })? {
        Answer::Authenticated(true) => Ok((banner, Output::Text("Success\n".to_owned()))),
        _ => Err(Refusal::new(DATA, format!("failed to authenticate user \"{user}\""))),
    }
}

fn delete_user(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let [name] = words(call)?;
    done(settings, format!("Deleting user \"{name}\" ..."), Change::DeleteUser { name: name.to_owned() })
}

fn set_user_tags(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let (name, tags) = call.words.split_first().ok_or_else(|| Refusal::usage("not enough arguments."))?;
    let tags: Vec<String> = tags.iter().flat_map(|tag| split_commas(tag)).collect();
    let banner = format!("Setting tags for user \"{name}\" to [{}] ...", tags.join(", "));
    done(settings, banner, Change::SetTags { name: name.clone(), tags })
}

fn set_permissions(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let [user, configure, write, read] = words(call)?.map(str::to_owned);
    let vhost = call.vhost().to_owned();
    let banner = format!("Setting permissions for user \"{user}\" in vhost \"{vhost}\" ...");
    done(settings, banner, Change::SetPermission { user, vhost, configure, write, read })
}

fn clear_permissions(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let [user] = words(call)?.map(str::to_owned);
    let vhost = call.vhost().to_owned();
    let banner = format!("Clearing permissions for user \"{user}\" in vhost \"{vhost}\" ...");
    done(settings, banner, Change::ClearPermission { user, vhost })
}

fn set_topic_permissions(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let [user, exchange, write, read] = words(call)?.map(str::to_owned);
    let vhost = call.vhost().to_owned();
    let banner = format!("Setting topic permissions on \"{exchange}\" for user \"{user}\" in vhost \"{vhost}\" ...");
    done(settings, banner, Change::SetTopicPermission { user, vhost, exchange, write, read })
}

fn clear_topic_permissions(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let (user, exchange) = match &call.words[..] {
        [user] => (user.clone(), None),
        [user, exchange] => (user.clone(), Some(exchange.clone())),
        _ => return Err(Refusal::usage("not enough or too many arguments.")),
    };
    let vhost = call.vhost().to_owned();
    let banner = format!("Clearing topic permissions for user \"{user}\" in vhost \"{vhost}\" ...");
    done(settings, banner, Change::ClearTopicPermission { user, vhost, exchange })
}

fn add_vhost(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let [name] = words(call)?;
    done(settings, format!("Adding vhost \"{name}\" ..."), described(call, name))
}

fn update_vhost_metadata(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let [name] = words(call)?;
    let known = crate::cli::list(settings, management::Listed::Vhosts, None)?;
    if !known.iter().any(|vhost| vhost["name"] == name) {
        return Err(Refusal::new(DATA, format!("Virtual host '{name}' does not exist")));
    }
    done(settings, format!("Updating metadata of vhost \"{name}\" ..."), described(call, name))
}

fn described(call: &Call, name: &str) -> Change {
    Change::PutVhost {
        name: name.to_owned(),
        description: call.option("description").map(str::to_owned),
        tags: call.option("tags").map(split_commas),
        default_queue_type: call.option("default-queue-type").map(str::to_owned),
    }
}

fn trace_on(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let ([], vhost) = (words(call)?, call.vhost().to_owned());
    let said = Output::Text(format!("Trace enabled for vhost {vhost}\n"));
    let banner = format!("Starting tracing for vhost \"{vhost}\" ...");
    done(settings, banner, Change::Trace { vhost, on: true }).map(|(banner, _)| (banner, said))
}

fn trace_off(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let ([], vhost) = (words(call)?, call.vhost().to_owned());
    let said = Output::Text(format!("Trace disabled for vhost {vhost}\n"));
    let banner = format!("Stopping tracing for vhost \"{vhost}\" ...");
    done(settings, banner, Change::Trace { vhost, on: false }).map(|(banner, _)| (banner, said))
}

fn delete_vhost(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let [name] = words(call)?;
    done(settings, format!("Deleting vhost \"{name}\" ..."), Change::DeleteVhost { name: name.to_owned() })
}

/// A limit of RabbitMQ's JSON, where a negative one is none.
fn limits<const N: usize>(json: &str, names: [&str; N]) -> Result<[Option<u64>; N], Refusal> {
    let wrong =
        |what: &dyn std::fmt::Display| Refusal::new(DATA, format!("the limits are no JSON object of numbers: {what}"));
    let given: std::collections::BTreeMap<String, i64> = serde_json::from_str(json).map_err(|error| wrong(&error))?;
    if let Some(strange) = given.keys().find(|name| !names.contains(&name.as_str())) {
        return Err(Refusal::new(DATA, format!("there is no limit {strange}, only {}", names.join(" and "))));
    }
    Ok(names.map(|name| given.get(name).and_then(|limit| u64::try_from(*limit).ok())))
}

fn set_vhost_limits(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let [json] = words(call)?;
    let [connections, queues] = limits(json, ["max-connections", "max-queues"])?;
    let name = call.vhost().to_owned();
    let banner = format!("Setting vhost limits to \"{json}\" for vhost \"{name}\" ...");
    done(settings, banner, Change::LimitVhost { name, connections, queues })
}

fn clear_vhost_limits(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let [] = words(call)?;
    let name = call.vhost().to_owned();
    let banner = format!("Clearing vhost \"{name}\" limits ...");
    done(settings, banner, Change::LimitVhost { name, connections: None, queues: None })
}

fn set_user_limits(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let [name, json] = words(call)?;
    let [connections, sessions] = limits(json, ["max-connections", "max-channels"])?
        .map(|limit| limit.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX - 1)));
    let banner = format!("Setting user limits to \"{json}\" for user \"{name}\" ...");
    done(settings, banner, Change::LimitUser { name: name.to_owned(), connections, sessions })
}

fn clear_user_limits(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let [name, which] = words(call)?;
    if which != "all" {
        return Err(Refusal::new(DATA, "limits of a user are cleared together: say 'all'"));
    }
    let banner = format!("Clearing user \"{name}\" limits ...");
    done(settings, banner, Change::LimitUser { name: name.to_owned(), connections: None, sessions: None })
}

fn list_vhost_limits(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let vhost = (!call.flag("global")).then(|| call.vhost());
    let rows = crate::cli::list(settings, management::Listed::VhostLimits, vhost)?;
    Ok(("Listing limits for vhosts ...".to_owned(), limit_rows("vhost", rows)))
}

fn list_user_limits(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let mut rows = crate::cli::list(settings, management::Listed::UserLimits, None)?;
    if let Some(user) = call.option("user") {
        rows.retain(|row| row["user"] == user);
    }
    Ok(("Listing limits for users ...".to_owned(), limit_rows("user", rows)))
}

fn limit_rows(whose: &str, rows: Vec<serde_json::Value>) -> Output {
    let row = |row: serde_json::Value| vec![row[whose].clone(), row["value"].to_string().into()];
    Output::Rows { columns: vec![whose.to_owned(), "limits".to_owned()], rows: rows.into_iter().map(row).collect() }
}

fn delete_queue(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let [name] = words(call)?.map(str::to_owned);
    let vhost = call.vhost().to_owned();
    let banner = format!("Deleting queue '{name}' on vhost '{vhost}' ...");
    let (if_unused, if_empty) = (call.flag("if-unused"), call.flag("if-empty"));
    let what = ObjectChange::DeleteQueue { name, if_unused, if_empty };
    let count = change(settings, Change::Objects { vhost, change: what })?;
    Ok((banner, Output::Text(format!("Queue was successfully deleted with {count} ready messages\n"))))
}

fn purge_queue(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let [name] = words(call)?.map(str::to_owned);
    let vhost = call.vhost().to_owned();
    let banner = format!("Purging queue '{name}' in vhost '{vhost}' ...");
    done(settings, banner, Change::Objects { vhost, change: ObjectChange::PurgeQueue { name } })
}

fn close(
    settings: &Settings,
    banner: String,
    id: Option<u64>,
    vhost: Option<&str>,
    user: Option<&str>,
    reason: &str,
) -> Result<(String, Output), Refusal> {
    let text = |text: Option<&str>| text.map(str::to_owned);
    let (vhost, user, reason) = (text(vhost), text(user), reason.to_owned());
    let closed = change(settings, Change::CloseConnections { id, name: None, vhost, user, reason })?;
    if id.is_some() && closed == 0 {
        return Err(Refusal::new(SOFTWARE, "there is no such connection"));
    }
    Ok((banner, Output::Text(format!("Closed {closed} connections\n"))))
}

fn close_connection(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let [pid, reason] = words(call)?;
    let number = lists::connection_number(pid)
        .ok_or_else(|| Refusal::new(DATA, format!("{pid} is not what list_connections prints as pid")))?;
    close(settings, format!("Closing connection {pid}, reason: {reason}..."), Some(number), None, None, reason)
}

fn close_all_connections(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let [reason] = words(call)?;
    let banner = format!("Closing all connections, reason: {reason}...");
    close(settings, banner, None, call.option("vhost"), None, reason)
}

fn close_all_user_connections(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let [user, reason] = words(call)?;
    let banner = format!("Closing connections of user \"{user}\", reason: {reason}...");
    if !crate::cli::list(settings, management::Listed::Users, None)?.iter().any(|known| known["name"] == user) {
        return Err(Refusal::new(NO_USER, format!("User \"{user}\" does not exist")));
    }
    close(settings, banner, None, None, Some(user), reason)
}

fn set_watermark(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let wrong = |text: &str| Refusal::new(DATA, format!("'{text}' is no fraction of the memory between 0 and 1"));
    let bytes = match &call.words[..] {
        [absolute, size] if absolute == "absolute" => {
            crate::config::parse_size(size).map_err(|error| Refusal::new(DATA, format!("'{size}': {error}")))?
        }
        [fraction] => {
            let share: f64 = fraction.parse().map_err(|_| wrong(fraction))?;
            if !(0.0..=1.0).contains(&share) {
                return Err(wrong(fraction));
            }
            share_of(machine::memory(), share)
        }
        _ => return Err(Refusal::usage("not enough or too many arguments.")),
    };
    let bytes = bytes / WATERMARK_STEP * WATERMARK_STEP;
    done(settings, format!("Setting memory threshold to {bytes} bytes ..."), Change::MemoryLimit { bytes })
}

fn share_of(memory: u64, share: f64) -> u64 {
    // At most the memory of the machine.
    let bytes = (share * memory as f64) as u64;
    if bytes < LEAST_SHARE { 0 } else { bytes }
}

fn export_definitions(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let [file] = words(call)?;
    crate::cli::definitions::write(settings, Some(file))?;
    Ok((String::new(), Output::Nothing))
}

fn import_definitions(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let file = call.words.first().map_or("-", String::as_str);
    let imported = crate::cli::definitions::read(settings, file, Default::default())?;
    let banner = format!("Importing definitions in JSON from a file at \"{file}\" ...");
    Ok((banner, Output::Text(format!("Successfully started definition import: {} taken over\n", imported.taken))))
}

/// There is no Erlang here: what suites write to raise and clear alarms is known by its text.
fn eval(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let [expression] = words(call)?;
    let plain: String = expression.chars().filter(|letter| !letter.is_whitespace()).collect();
    for resource in ["disk", "memory"] {
        let set = format!("rabbit_alarm:set_alarm({{{{resource_limit,{resource},node()}},[]}}).");
        let clear = format!("rabbit_alarm:clear_alarm({{resource_limit,{resource},node()}}).");
        if plain == set || plain == clear {
            change(settings, Change::Alarm { resource: resource.to_owned(), up: plain == set })?;
            return Ok((String::new(), Output::Text("ok\n".to_owned())));
        }
    }
    Err(Refusal::usage(format!("Hermod runs no Erlang, and knows no other command for: {expression}")))
}

/// What it has is always on.
fn enable_feature_flag(call: &Call, _: &Settings) -> Result<(String, Output), Refusal> {
    match words(call)? {
        ["all"] => Ok(("Enabling all feature flags ...".to_owned(), Output::Nothing)),
        [name] => Err(Refusal::usage(format!("Hermod has no feature flag \"{name}\": there are none to enable"))),
    }
}

fn told(settings: &Settings) -> Result<Box<management::Status>, Failure> {
    match ask(settings, &Request::Status)? {
        Answer::Status(status) => Ok(status),
        other => Err(Exit::Bug.because(format!("the server answered another question: {other:?}"))),
    }
}

fn ping(_: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    told(settings)?;
    Ok(("Will ping Hermod ...".to_owned(), Output::Text("Ping succeeded\n".to_owned())))
}

fn status(_: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let status = told(settings)?;
    let alarms = if status.alarms.is_empty() { "(none)".to_owned() } else { status.alarms.join("\n") };
    let listeners: String = status
        .listeners
        .iter()
        .map(|listener| format!("Interface: {}, protocol: {}\n", listener.address, listener.protocol))
        .collect();
    let text = format!(
        "Runtime\n\nOS PID: {}\nUptime (seconds): {}\nHermod version: {}\nData directory: {}\n\nAlarms\n\n{alarms}\n\n\
         Totals\n\nConnection count: {}\nQueue count: {}\n\nListeners\n\n{listeners}",
        status.pid, status.uptime_seconds, status.version, status.data_dir, status.connections, status.queues
    );
    Ok(("Status of Hermod ...".to_owned(), Output::Text(text)))
}

fn check_alarms(_: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let status = told(settings)?;
    if !status.alarms.is_empty() {
        return Err(Refusal::new(SOFTWARE, format!("alarms are up: {}", status.alarms.join(", "))));
    }
    Ok(("Asking Hermod for alarms ...".to_owned(), Output::Text("Hermod reported no alarms\n".to_owned())))
}

fn await_startup(call: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    let seconds = call.option("timeout").and_then(|text| text.parse().ok()).unwrap_or(STARTUP_SECONDS);
    let end = Instant::now() + Duration::from_secs(seconds);
    loop {
        match told(settings) {
            Ok(_) => return Ok(("Waiting for startup ...".to_owned(), Output::Nothing)),
            Err(failure) if Instant::now() >= end => return Err(failure.into()),
            Err(_) => std::thread::sleep(STARTUP_PERIOD),
        }
    }
}

#[cfg(unix)]
fn stop(_: &Call, settings: &Settings) -> Result<(String, Output), Refusal> {
    use rustix::process::{Pid, Signal, kill_process};

    let pid = i32::try_from(told(settings)?.pid).ok().and_then(Pid::from_raw);
    let stopped = pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok());
    if !stopped {
        return Err(Refusal::new(SOFTWARE, "the server's process can't be told to stop"));
    }
    Ok(("Stopping and halting Hermod ...".to_owned(), Output::Nothing))
}

#[cfg(not(unix))]
fn stop(_: &Call, _: &Settings) -> Result<(String, Output), Refusal> {
    Err(Refusal::new(SOFTWARE, "a server is stopped by Ctrl-C on this system"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_that_no_broker_fits_into_is_nothing() {
        let memory = 24 << 30;
        assert_eq!([0.0, 0.0001, 0.5, 1.0].map(|share| share_of(memory, share)), [0, 0, memory / 2, memory]);
    }

    #[test]
    fn verbs_are_in_order_and_once() {
        assert!(VERBS.is_sorted_by(|one, other| one.0 < other.0));
    }

    #[test]
    fn limits_are_read_from_json() {
        let names = ["max-connections", "max-queues"];
        let read = |json| limits(json, names).map_err(|refusal| (refusal.code, refusal.text));
        assert_eq!(read(r#"{"max-queues": 3, "max-connections": -1}"#), Ok([None, Some(3)]));
        assert_eq!(read("{}"), Ok([None, None]));
        assert!(read("3").unwrap_err().1.contains("no JSON object"));
        assert!(read(r#"{"max-colours": 3}"#).unwrap_err().1.contains("max-colours"));
    }
}
