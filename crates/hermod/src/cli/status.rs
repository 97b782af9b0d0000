//! `hermod status`: a summary of a running broker on one screen.

use management::control::{Answer, Request};
use management::{ConnectionStatus, Status, StorageStatus};

use crate::cli::ask::{Server, ask, strange};
use crate::cli::counted;
use crate::cli::output::{Form, show, show_json};
use crate::cli::table;
use crate::config::value::size;
use crate::exit::Failure;

/// Asks and prints.
pub(crate) fn run(server: &Server, form: Form) -> Result<(), Failure> {
    let status = match ask(server, &Request::Status)? {
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
    let Status { server, connections, objects, messages, storage } = status;
    let alarms = if server.alarms.is_empty() {
        "none".to_owned()
    } else {
        format!("low on {}; publishers are stopped", server.alarms.join(" and "))
    };
    let listeners: Vec<_> = server
        .listeners
        .iter()
        .map(|listener| format!("{} {}{}", listener.protocol, listener.address, listener.terms()))
        .collect();
    vec![
        ("version", format!("{}, process {}", server.version, server.pid)),
        ("up for", uptime(server.uptime_seconds)),
        ("data directory", server.data_dir.clone()),
        ("durability", server.durability.clone()),
        ("listeners", listeners.join(", ")),
        ("alarms", alarms),
        (
            "connections",
            format!(
                "{} of {}, {}; {} refused since the start",
                connections.connections,
                counted(connections.sockets, ["socket", "sockets"]),
                counted(objects.sessions, ["session", "sessions"]),
                connections.refused_connections
            ),
        ),
        ("shares", shares(status)),
        (
            "objects",
            format!(
                "{}{}, {}, {}, {}",
                counted(objects.queues, ["queue", "queues"]),
                if objects.damaged_queues > 0 {
                    format!(" ({} damaged)", objects.damaged_queues)
                } else {
                    String::new()
                },
                counted(objects.exchanges, ["exchange", "exchanges"]),
                counted(objects.bindings, ["binding", "bindings"]),
                counted(objects.consumers, ["consumer", "consumers"])
            ),
        ),
        ("messages", format!("{} ready, {} with consumers", messages.messages_ready, messages.messages_unacked)),
        (
            "since the start",
            format!(
                "{} published, {} confirmed, {} delivered, {} acknowledged, {} unroutable",
                messages.published, messages.confirmed, messages.delivered, messages.acknowledged, messages.unroutable
            ),
        ),
        ("memory", memory(storage)),
        ("journal", journal(storage)),
        ("segments", segments(status)),
    ]
}

fn journal(storage: &StorageStatus) -> String {
    let mut text = format!(
        "{} of {}, {} free on its disk",
        size(storage.journal_used_bytes),
        size(storage.journal_max_bytes),
        size(storage.disk_free_bytes)
    );
    if storage.disk_free_limit_bytes > 0 {
        text += &format!(" of which {} must stay", size(storage.disk_free_limit_bytes));
    }
    if storage.disk_limit_bytes > 0 {
        text += &format!("; log and segments may take {}", size(storage.disk_limit_bytes));
    }
    text
}

fn memory(storage: &StorageStatus) -> String {
    let uncounted = match storage.memory_uncounted_bytes {
        0 => String::new(),
        bytes => format!(", {} that nothing counts", size(bytes)),
    };
    format!(
        "{} of {}{uncounted}, and {} of connections and declarations",
        size(storage.memory_used_bytes),
        size(storage.memory_limit_bytes),
        size(storage.memory_kept_bytes)
    )
}

fn shares(status: &Status) -> String {
    let ConnectionStatus { vhost_share, user_share, reserved_connections, max_connections, .. } = &status.connections;
    format!(
        "one vhost {vhost_share} % of all there may be, one user {user_share} % of connections; the last {reserved_connections} of \
         {max_connections} connections are for administrators"
    )
}

fn segments(status: &Status) -> String {
    let damaged = match status.storage.damaged_segments {
        0 => String::new(),
        count => format!(", {count} of them damaged: the log names them"),
    };
    format!(
        "{} in {}{damaged}",
        size(status.storage.segment_bytes),
        counted(status.storage.segments, ["file", "files"])
    )
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
