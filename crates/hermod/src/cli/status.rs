//! `hermod status`: a summary of a running broker on one screen.

use management::Status;
use management::control::{Answer, Request};

use crate::cli::ask::{ask, strange};
use crate::cli::counted;
use crate::cli::output::{Form, show, show_json};
use crate::cli::table;
use crate::config::Settings;
use crate::config::value::size;
use crate::exit::Failure;

/// Asks and prints.
pub(crate) fn run(settings: &Settings, form: Form) -> Result<(), Failure> {
    let status = match ask(settings, &Request::Status)? {
        Answer::Status(status) => status,
        other => return Err(strange(&other)),
    };
    if form == Form::Json {
        return show_json(&status);
    }
    let rows: Vec<_> = lines(&status).into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    show(&table::text(&["", ""], &rows))
}

fn lines(status: &Status) -> Vec<(&'static str, String)> {
    let alarms = if status.alarms.is_empty() {
        "none".to_owned()
    } else {
        format!("low on {}; publishers are stopped", status.alarms.join(" and "))
    };
    let listeners: Vec<_> =
        status.listeners.iter().map(|listener| format!("{} {}", listener.protocol, listener.address)).collect();
    vec![
        ("version", format!("{}, process {}", status.version, status.pid)),
        ("up for", uptime(status.uptime_seconds)),
        ("data directory", status.data_dir.clone()),
        ("durability", status.durability.clone()),
        ("listeners", listeners.join(", ")),
        ("alarms", alarms),
        (
            "connections",
            format!(
                "{} of {}, {}; {} refused since the start",
                status.connections,
                counted(status.sockets, ["socket", "sockets"]),
                counted(status.sessions, ["session", "sessions"]),
                status.refused_connections
            ),
        ),
        ("shares", shares(status)),
        (
            "objects",
            format!(
                "{}{}, {}, {}, {}",
                counted(status.queues, ["queue", "queues"]),
                if status.damaged_queues > 0 { format!(" ({} damaged)", status.damaged_queues) } else { String::new() },
                counted(status.exchanges, ["exchange", "exchanges"]),
                counted(status.bindings, ["binding", "bindings"]),
                counted(status.consumers, ["consumer", "consumers"])
            ),
        ),
        ("messages", format!("{} ready, {} with consumers", status.messages_ready, status.messages_unacked)),
        (
            "since the start",
            format!(
                "{} published, {} confirmed, {} delivered, {} acknowledged, {} unroutable",
                status.published, status.confirmed, status.delivered, status.acknowledged, status.unroutable
            ),
        ),
        (
            "memory",
            format!(
                "{} of {}, and {} of connections and declarations",
                size(status.memory_used_bytes),
                size(status.memory_limit_bytes),
                size(status.memory_kept_bytes)
            ),
        ),
        (
            "journal",
            format!(
                "{} of {}, {} free on its disk",
                size(status.journal_used_bytes),
                size(status.journal_max_bytes),
                size(status.disk_free_bytes)
            ),
        ),
        ("segments", segments(status)),
    ]
}

fn shares(status: &Status) -> String {
    let Status { vhost_share, user_share, reserved_connections, max_connections, .. } = status;
    format!(
        "one vhost {vhost_share} % of all there may be, one user {user_share} % of connections; the last {reserved_connections} of \
         {max_connections} connections are for administrators"
    )
}

fn segments(status: &Status) -> String {
    let damaged = match status.damaged_segments {
        0 => String::new(),
        count => format!(", {count} of them damaged: the log names them"),
    };
    format!("{} in {}{damaged}", size(status.segment_bytes), counted(status.segments, ["file", "files"]))
}

fn uptime(seconds: u64) -> String {
    match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, seconds) => format!("{seconds} s"),
        (0, 0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (0, hours, minutes, _) => format!("{hours} h {minutes} min"),
        (days, hours, _, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_for_people() {
        for (seconds, expected) in
            [(5, "5 s"), (65, "1 min 5 s"), (3_700, "1 h 1 min"), (90_061, "1 d 1 h"), (0, "0 s")]
        {
            assert_eq!(uptime(seconds), expected);
        }
    }
}
