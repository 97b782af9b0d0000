//! The verbs of `rabbitmqctl` that are not lists.

use std::time::{Duration, Instant};

use management::control::{Answer, Request};
use management::{
    Change, ConnectionChange, NodeChange, PermissionChange, QueueChange, Secret, UserChange, VhostChange,
};

use super::call::Call;
use super::{DATA, NO_USER, Output, Refusal, SOFTWARE, done, limits, lists, node, parameters, policies, told, words};
use crate::cli::Server;
use crate::cli::{ask, change, split_commas};
use crate::machine;

/// How long `await_startup` waits by default.
const STARTUP_SECONDS: u64 = 300;
/// How often it asks.
const STARTUP_PERIOD: Duration = Duration::from_millis(200);
/// `set_vm_memory_high_watermark` rounds down to this step. A smaller size is 0, which raises the
/// alarm.
const WATERMARK_STEP: u64 = 1 << 20;
/// A smaller share of memory counts as 0. No broker fits into it, so scripts use it to raise the
/// alarm.
const LEAST_SHARE: u64 = 16 << 20;

type Verb = fn(&Call, &Server) -> Result<(String, Output), Refusal>;

const VERBS: [(&str, Verb); 65] = [
    ("add_user", add_user),
    ("add_vhost", add_vhost),
    ("authenticate_user", authenticate_user),
    ("await_startup", await_startup),
    ("change_password", change_password),
    ("check_alarms", check_alarms),
    ("check_if_node_is_mirror_sync_critical", node::check_members),
    ("check_if_node_is_quorum_critical", node::check_members),
    ("check_local_alarms", check_alarms),
    ("check_port_connectivity", node::check_connectivity),
    ("check_port_listener", node::check_port),
    ("check_running", ping),
    ("check_virtual_hosts", node::check_vhosts),
    ("clear_global_parameter", parameters::clear_global),
    ("clear_operator_policy", policies::clear_operator),
    ("clear_parameter", parameters::clear),
    ("clear_password", clear_password),
    ("clear_permissions", clear_permissions),
    ("clear_policy", policies::clear),
    ("clear_topic_permissions", clear_topic_permissions),
    ("clear_user_limits", limits::clear_user),
    ("clear_vhost_limits", limits::clear_vhost),
    ("close_all_connections", close_all_connections),
    ("close_all_user_connections", close_all_user_connections),
    ("close_connection", close_connection),
    ("cluster_status", node::cluster_status),
    ("delete_queue", delete_queue),
    ("delete_shovel", parameters::delete_shovel),
    ("delete_user", delete_user),
    ("delete_vhost", delete_vhost),
    ("enable_feature_flag", enable_feature_flag),
    ("eval", eval),
    ("export_definitions", export_definitions),
    ("import_definitions", import_definitions),
    ("is_booting", node::is_booting),
    ("is_running", node::is_running),
    ("list_feature_flags", node::feature_flags),
    ("list_global_parameters", parameters::list_global),
    ("list_parameters", parameters::list),
    ("list_user_limits", limits::list_user),
    ("list_vhost_limits", limits::list_vhost),
    ("ping", ping),
    ("purge_queue", purge_queue),
    ("server_version", node::server_version),
    ("set_cluster_name", parameters::set_cluster_name),
    ("set_disk_free_limit", set_disk_free_limit),
    ("set_global_parameter", parameters::set_global),
    ("set_operator_policy", policies::set_operator),
    ("set_parameter", parameters::set),
    ("set_permissions", set_permissions),
    ("set_policy", policies::set),
    ("set_topic_permissions", set_topic_permissions),
    ("set_user_limits", limits::set_user),
    ("set_user_tags", set_user_tags),
    ("set_vhost_limits", limits::set_vhost),
    ("set_vm_memory_high_watermark", set_watermark),
    ("shovel_status", parameters::shovel_status),
    ("shutdown", stop),
    ("status", node::status),
    ("stop", stop),
    ("trace_off", trace_off),
    ("trace_on", trace_on),
    ("update_vhost_metadata", update_vhost_metadata),
    ("version", node::version),
    ("wait", await_startup),
];

/// All verbs.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    VERBS.iter().map(|(name, _)| *name)
}

/// The refusal of an unknown verb.
pub(super) fn unknown(verb: &str) -> Refusal {
    Refusal::usage(format!("Hermod has nothing for `rabbitmqctl {verb}`; `rabbitmqctl help` lists what there is"))
}

/// Runs the verb. Returns the text before its output, and the output.
pub(super) fn run(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let (_, verb) = VERBS.iter().find(|(name, _)| *name == call.verb).ok_or_else(|| unknown(&call.verb))?;
    verb(call, server)
}

/// The second word, or else a password that is typed or written to standard input.
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

fn add_user(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let secret = secret(call)?;
    let name = call.words[0].clone();
    let banner = format!("Adding user \"{name}\" ...");
    done(server, banner, Change::Users(UserChange::Add { name, secret, tags: Vec::new() }))
}

fn change_password(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let secret = secret(call)?;
    let name = call.words[0].clone();
    done(
        server,
        format!("Changing password for user \"{name}\" ..."),
        Change::Users(UserChange::ChangePassword { name, secret }),
    )
}

fn clear_password(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let [name] = words(call)?;
    let change = Change::Users(UserChange::ChangePassword { name: name.to_owned(), secret: Secret::None });
    done(server, format!("Clearing password for user \"{name}\" ..."), change)
}

fn authenticate_user(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let password = secret(call)?;
    let user = call.words[0].clone();
    let banner = format!("Authenticating user \"{user}\" ...");
    match ask(server, &Request::Authenticate { user: user.clone(), password })? {
        Answer::Authenticated(true) => Ok((banner, Output::Text("Success\n".to_owned()))),
        _ => Err(Refusal::new(DATA, format!("failed to authenticate user \"{user}\""))),
    }
}

fn delete_user(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let [name] = words(call)?;
    done(server, format!("Deleting user \"{name}\" ..."), Change::Users(UserChange::Delete { name: name.to_owned() }))
}

fn set_user_tags(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let (name, tags) = call.words.split_first().ok_or_else(|| Refusal::usage("not enough arguments."))?;
    let tags: Vec<String> = tags.iter().flat_map(|tag| split_commas(tag)).collect();
    let banner = format!("Setting tags for user \"{name}\" to [{}] ...", tags.join(", "));
    done(server, banner, Change::Users(UserChange::SetTags { name: name.clone(), tags }))
}

fn set_permissions(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let [user, configure, write, read] = words(call)?.map(str::to_owned);
    let vhost = call.vhost().to_owned();
    let banner = format!("Setting permissions for user \"{user}\" in vhost \"{vhost}\" ...");
    done(server, banner, Change::Permissions(PermissionChange::Set { user, vhost, configure, write, read }))
}

fn clear_permissions(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let [user] = words(call)?.map(str::to_owned);
    let vhost = call.vhost().to_owned();
    let banner = format!("Clearing permissions for user \"{user}\" in vhost \"{vhost}\" ...");
    done(server, banner, Change::Permissions(PermissionChange::Clear { user, vhost }))
}

fn set_topic_permissions(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let [user, exchange, write, read] = words(call)?.map(str::to_owned);
    let vhost = call.vhost().to_owned();
    let banner = format!("Setting topic permissions on \"{exchange}\" for user \"{user}\" in vhost \"{vhost}\" ...");
    done(server, banner, Change::Permissions(PermissionChange::SetTopic { user, vhost, exchange, write, read }))
}

fn clear_topic_permissions(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let (user, exchange) = match &call.words[..] {
        [user] => (user.clone(), None),
        [user, exchange] => (user.clone(), Some(exchange.clone())),
        _ => return Err(Refusal::usage("not enough or too many arguments.")),
    };
    let vhost = call.vhost().to_owned();
    let banner = format!("Clearing topic permissions for user \"{user}\" in vhost \"{vhost}\" ...");
    done(server, banner, Change::Permissions(PermissionChange::ClearTopic { user, vhost, exchange }))
}

fn add_vhost(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let [name] = words(call)?;
    done(server, format!("Adding vhost \"{name}\" ..."), described(call, name))
}

fn update_vhost_metadata(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let [name] = words(call)?;
    let known = crate::cli::list(server, management::Listed::Vhosts, None)?;
    if !known.iter().any(|vhost| vhost["name"] == name) {
        return Err(Refusal::new(DATA, format!("Virtual host '{name}' does not exist")));
    }
    done(server, format!("Updating metadata of vhost \"{name}\" ..."), described(call, name))
}

fn described(call: &Call, name: &str) -> Change {
    Change::Vhosts(VhostChange::Put {
        name: name.to_owned(),
        description: call.option("description").map(str::to_owned),
        tags: call.option("tags").map(split_commas),
        default_queue_type: call.option("default-queue-type").map(str::to_owned),
    })
}

fn trace_on(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let ([], vhost) = (words(call)?, call.vhost().to_owned());
    let said = Output::Text(format!("Trace enabled for vhost {vhost}\n"));
    let banner = format!("Starting tracing for vhost \"{vhost}\" ...");
    done(server, banner, Change::Vhosts(VhostChange::Trace { vhost, on: true })).map(|(banner, _)| (banner, said))
}

fn trace_off(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let ([], vhost) = (words(call)?, call.vhost().to_owned());
    let said = Output::Text(format!("Trace disabled for vhost {vhost}\n"));
    let banner = format!("Stopping tracing for vhost \"{vhost}\" ...");
    done(server, banner, Change::Vhosts(VhostChange::Trace { vhost, on: false })).map(|(banner, _)| (banner, said))
}

fn delete_vhost(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let [name] = words(call)?;
    done(
        server,
        format!("Deleting vhost \"{name}\" ..."),
        Change::Vhosts(VhostChange::Delete { name: name.to_owned() }),
    )
}

fn delete_queue(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let [name] = words(call)?.map(str::to_owned);
    let vhost = call.vhost().to_owned();
    let banner = format!("Deleting queue '{name}' on vhost '{vhost}' ...");
    let (if_unused, if_empty) = (call.flag("if-unused"), call.flag("if-empty"));
    let what = Change::Queues(QueueChange::Delete { vhost, name, if_unused, if_empty });
    let count = change(server, what)?;
    Ok((banner, Output::Text(format!("Queue was successfully deleted with {count} ready messages\n"))))
}

fn purge_queue(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let [name] = words(call)?.map(str::to_owned);
    let vhost = call.vhost().to_owned();
    let banner = format!("Purging queue '{name}' in vhost '{vhost}' ...");
    done(server, banner, Change::Queues(QueueChange::Purge { vhost, name }))
}

fn close(
    server: &Server,
    banner: String,
    id: Option<u64>,
    vhost: Option<&str>,
    user: Option<&str>,
    reason: &str,
) -> Result<(String, Output), Refusal> {
    let text = |text: Option<&str>| text.map(str::to_owned);
    let (vhost, user, reason) = (text(vhost), text(user), reason.to_owned());
    let closed = change(server, Change::Connections(ConnectionChange::Close { id, name: None, vhost, user, reason }))?;
    if id.is_some() && closed == 0 {
        return Err(Refusal::new(SOFTWARE, "there is no such connection"));
    }
    Ok((banner, Output::Text(format!("Closed {closed} connections\n"))))
}

fn close_connection(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let [pid, reason] = words(call)?;
    let number = lists::connection_number(pid)
        .ok_or_else(|| Refusal::new(DATA, format!("{pid} is not what list_connections prints as pid")))?;
    close(server, format!("Closing connection {pid}, reason: {reason}..."), Some(number), None, None, reason)
}

fn close_all_connections(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let [reason] = words(call)?;
    let banner = format!("Closing all connections, reason: {reason}...");
    close(server, banner, None, call.option("vhost"), None, reason)
}

fn close_all_user_connections(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let [user, reason] = words(call)?;
    let banner = format!("Closing connections of user \"{user}\", reason: {reason}...");
    if !crate::cli::list(server, management::Listed::Users, None)?.iter().any(|known| known["name"] == user) {
        return Err(Refusal::new(NO_USER, format!("User \"{user}\" does not exist")));
    }
    close(server, banner, None, None, Some(user), reason)
}

fn set_watermark(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let wrong = |text: &str| Refusal::new(DATA, format!("'{text}' is no fraction of the memory between 0 and 1"));
    let bytes = match &call.words[..] {
        [absolute, size] if absolute == "absolute" => size_of(size)?,
        [fraction] | [_, fraction] if call.words.len() == 1 || call.words[0] == "relative" => {
            let share: f64 = fraction.parse().map_err(|_| wrong(fraction))?;
            if !(0.0..=1.0).contains(&share) {
                return Err(wrong(fraction));
            }
            share_of(machine::memory(), share)
        }
        _ => return Err(Refusal::usage("not enough or too many arguments.")),
    };
    let bytes = bytes / WATERMARK_STEP * WATERMARK_STEP;
    done(
        server,
        format!("Setting memory threshold to {bytes} bytes ..."),
        Change::Node(NodeChange::MemoryLimit { bytes }),
    )
}

fn set_disk_free_limit(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let bytes = match &call.words[..] {
        [relative, times] if relative == "mem_relative" => match times.parse::<f64>() {
            Ok(times) if (0.0..=1000.0).contains(&times) => multiple_of(machine::memory(), times),
            _ => return Err(Refusal::new(DATA, format!("'{times}' is no multiple of the memory, as 1.5"))),
        },
        [size] => size_of(size)?,
        _ => return Err(Refusal::usage("not enough or too many arguments.")),
    };
    done(
        server,
        format!("Setting disk free limit to {bytes} bytes ..."),
        Change::Node(NodeChange::DiskFreeLimit { bytes }),
    )
}

/// Units of RabbitMQ's sizes, in lower case. Units of one letter are powers of two.
const UNITS: [(&str, u64); 12] = [
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("kb", 1000),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("mb", 1_000_000),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("gb", 1_000_000_000),
    ("t", 1 << 40),
    ("tib", 1 << 40),
    ("tb", 1_000_000_000_000),
];

/// A size in RabbitMQ's syntax, or in the syntax of Hermod's settings.
fn size_of(text: &str) -> Result<u64, Refusal> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = (text[..digits].parse::<u64>(), text[digits..].trim().to_lowercase());
    let unit = UNITS.iter().find(|(name, _)| *name == unit);
    if let (Ok(number), Some((_, bytes))) = (number, unit) {
        return Ok(number.saturating_mul(*bytes));
    }
    crate::config::parse_size(text).map_err(|error| Refusal::new(DATA, format!("'{text}': {error}")))
}

fn multiple_of(memory: u64, times: f64) -> u64 {
    // At most a thousand times the memory of the machine.
    (times * memory as f64) as u64
}

fn share_of(memory: u64, share: f64) -> u64 {
    // At most the memory of the machine.
    let bytes = (share * memory as f64) as u64;
    if bytes < LEAST_SHARE { 0 } else { bytes }
}

fn export_definitions(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let [file] = words(call)?;
    crate::cli::definitions::write(server, Some(file))?;
    Ok((String::new(), Output::Nothing))
}

fn import_definitions(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let file = call.words.first().map_or("-", String::as_str);
    let imported = crate::cli::definitions::read(server, file, Default::default())?;
    let banner = format!("Importing definitions in JSON from a file at \"{file}\" ...");
    Ok((banner, Output::Text(format!("Successfully started definition import: {} taken over\n", imported.taken))))
}

/// Hermod runs no Erlang. The expressions by which test suites raise and clear alarms are
/// recognised by their text.
fn eval(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let [expression] = words(call)?;
    let plain: String = expression.chars().filter(|letter| !letter.is_whitespace()).collect();
    for resource in ["disk", "memory"] {
        let set = format!("rabbit_alarm:set_alarm({{{{resource_limit,{resource},node()}},[]}}).");
        let clear = format!("rabbit_alarm:clear_alarm({{resource_limit,{resource},node()}}).");
        if plain == set || plain == clear {
            change(server, Change::Node(NodeChange::Alarm { resource: resource.to_owned(), up: plain == set }))?;
            return Ok((String::new(), Output::Text("ok\n".to_owned())));
        }
    }
    Err(Refusal::usage(format!("Hermod runs no Erlang, and knows no other command for: {expression}")))
}

/// All feature flags that exist are always enabled.
fn enable_feature_flag(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let [name] = words(call)?;
    if name == "all" {
        return Ok(("Enabling all feature flags ...".to_owned(), Output::Nothing));
    }
    if management::feature_flags(&told(server)?.server.product).any(|(known, _)| known == name) {
        return Ok((format!("Enabling feature flag \"{name}\" ..."), Output::Nothing));
    }
    Err(Refusal::usage(format!("Hermod has no feature flag \"{name}\"; list_feature_flags shows those that it has")))
}

fn ping(_: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    told(server)?;
    Ok(("Will ping Hermod ...".to_owned(), Output::Text("Ping succeeded\n".to_owned())))
}

fn check_alarms(_: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let status = told(server)?;
    if !status.server.alarms.is_empty() {
        return Err(Refusal::new(SOFTWARE, format!("alarms are up: {}", status.server.alarms.join(", "))));
    }
    Ok(("Asking Hermod for alarms ...".to_owned(), Output::Text("Hermod reported no alarms\n".to_owned())))
}

fn await_startup(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let seconds = call.option("timeout").and_then(|text| text.parse().ok()).unwrap_or(STARTUP_SECONDS);
    let end = Instant::now() + Duration::from_secs(seconds);
    loop {
        match told(server) {
            Ok(_) => return Ok(("Waiting for startup ...".to_owned(), Output::Nothing)),
            Err(failure) if Instant::now() >= end => return Err(failure.into()),
            Err(_) => std::thread::sleep(STARTUP_PERIOD),
        }
    }
}

#[cfg(unix)]
fn stop(_: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    use rustix::process::{Pid, Signal, kill_process};

    let pid = i32::try_from(told(server)?.server.pid).ok().and_then(Pid::from_raw);
    let stopped = pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok());
    if !stopped {
        return Err(Refusal::new(SOFTWARE, "the server's process can't be told to stop"));
    }
    Ok(("Stopping and halting Hermod ...".to_owned(), Output::Nothing))
}

#[cfg(not(unix))]
fn stop(_: &Call, _: &Server) -> Result<(String, Output), Refusal> {
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
    fn sizes_are_read_as_rabbitmq_reads_them() {
        let read = |text| size_of(text).map_err(|refusal| refusal.code);
        for (text, expected) in [
            ("4G", Ok(4 << 30)),
            ("512k", Ok(512 << 10)),
            ("100M", Ok(100 << 20)),
            ("1MiB", Ok(1 << 20)),
            ("2GB", Ok(2_000_000_000)),
            ("7kB", Ok(7000)),
            ("1073741824", Ok(1 << 30)),
            ("512 MiB", Ok(512 << 20)),
            ("4X", Err(DATA)),
            ("", Err(DATA)),
            ("-1", Err(DATA)),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn verbs_are_in_order_and_once() {
        assert!(VERBS.is_sorted_by(|one, other| one.0 < other.0));
    }
}
