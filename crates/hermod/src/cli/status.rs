//! `hermod status`: a summary of a running broker on one screen.

use management::control::{Answer, Request};
use management::{ConnectionStatus, FollowerRow, StandbyRow, Status, StorageStatus};

use crate::cli::ask::{Server, ask, strange};
use crate::cli::cluster;
use crate::cli::counted;
use crate::cli::output::{Form, show, show_json};
use crate::cli::table;
use crate::config::value::size;
use crate::exit::{Exit, Failure};
use crate::links::CLUSTERING;

/// Asks and prints.
pub(crate) fn run(server: &Server, form: Form) -> Result<(), Failure> {
    if let Some(row) = cluster::standby(server)? {
        return standby(&row, form);
    }
    let status = match ask(server, &Request::Status)? {
        Answer::Status(status) => status,
        other => return Err(strange(&other)),
    };
    if form == Form::Json {
        return show_json(&status);
    }
    let mut rows = lines(&status);
    if status.server.listeners.iter().any(|listener| listener.protocol == CLUSTERING) {
        rows.insert(2, ("role", role(&status.cluster.followers)));
        rows.splice(3..3, cluster::confirms(&status.cluster).map(|text| ("confirms", text)));
    }
    show_lines(rows)
}

fn show_lines(lines: Vec<(&'static str, String)>) -> Result<(), Failure> {
    let rows: Vec<_> = lines.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    show(&table::text(&["", ""], &rows))
}

/// What a standby is, and how far behind.
fn standby(row: &StandbyRow, form: Form) -> Result<(), Failure> {
    if form == Form::Json {
        let mut document = serde_json::to_value(row).map_err(|error| Exit::Bug.because(error))?;
        document["role"] = "standby".into();
        return show_json(&document);
    }
    let mut rows = vec![("role", format!("standby: {} serves no clients", row.node))];
    rows.extend(cluster::lines(row));
    show_lines(rows)
}

/// That this node leads, and how far behind those are that follow it.
fn role(followers: &[FollowerRow]) -> String {
    let behind = |row: &FollowerRow| {
        let FollowerRow { name, state, lag_entries, lag_bytes, lag_ms, .. } = row;
        let lag = format!("{}, {} behind", size(*lag_bytes), cluster::seconds(*lag_ms));
        match state.as_str() {
            "copying" => format!("{name} is sent a copy"),
            "away" => format!("{name} is away, {lag}"),
            _ => format!("{name} follows, {lag_entries} entries, {lag}"),
        }
    };
    match followers {
        [] => "leader; no node follows it".to_owned(),
        all => format!("leader; {}", all.iter().map(behind).collect::<Vec<_>>().join("; ")),
    }
}

fn lines(status: &Status) -> Vec<(&'static str, String)> {
    let Status { server, connections, objects, messages, storage, .. } = status;
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
