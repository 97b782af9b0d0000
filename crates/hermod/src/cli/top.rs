//! `hermod top`: what moves in a running broker, read again and again.
//!
//! Rates are differences between two readings, so the first reading shows none.

use std::collections::HashMap;
use std::fmt::Write;
use std::io::{IsTerminal, stdout};
use std::time::{Duration, Instant};

use clap::{Arg, ArgMatches, Command};
use management::control::{Answer, Request};
use management::{Listed, Status, at};
use serde_json::Value as Json;

use crate::cli::ask::{Server, Wanted, ask, list_fields, strange};
use crate::cli::output::{Reader, show_more, show_screen};
use crate::cli::table;
use crate::config::value::size;
use crate::exit::Failure;

/// The counters of a queue and of a connection whose movement is shown.
const OF_QUEUE: [&str; 3] = ["message_stats.publish", "message_stats.deliver_get", "message_stats.ack"];
const OF_CONNECTION: [&str; 2] = ["recv_oct", "send_oct"];

/// Its arguments.
pub(crate) fn command(command: Command) -> Command {
    let number = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("N").value_parser(clap::value_parser!(u64).range(1..)).help(help)
    };
    command
        .arg(number("interval", "Seconds between readings").default_value("2"))
        .arg(number("rows", "The largest number of queues, and of connections").default_value("15"))
        .arg(number("count", "The number of readings [default: until Ctrl-C]"))
}

/// Runs `hermod top`.
pub(crate) fn run(server: &Server, given: &ArgMatches) -> Result<(), Failure> {
    let number = |name: &str| given.get_one::<u64>(name).copied();
    let interval = Duration::from_secs(number("interval").unwrap_or(2));
    let rows = usize::try_from(number("rows").unwrap_or(15)).unwrap_or(usize::MAX);
    let mut before = Reading::take(server)?;
    for _ in 0..number("count").unwrap_or(u64::MAX) {
        std::thread::sleep(interval);
        let now = Reading::take(server)?;
        let text = now.since(&before, rows);
        let reader = if stdout().is_terminal() { show_screen(&text)? } else { show_more(&(text + "\n"))? };
        if reader == Reader::Gone {
            return Ok(());
        }
        before = now;
    }
    Ok(())
}

/// What a broker says at a moment.
struct Reading {
    at: Instant,
    status: Box<Status>,
    queues: Vec<Json>,
    connections: Vec<Json>,
}

impl Reading {
    fn take(server: &Server) -> Result<Self, Failure> {
        let list = |what, fields: &[&str], counters: &[&str]| {
            let fields = fields.iter().chain(counters).map(|field| (*field).to_owned()).collect();
            list_fields(server, Wanted { what, vhost: None, fields })
        };
        let status = match ask(server, &Request::Status)? {
            Answer::Status(status) => status,
            other => return Err(strange(&other)),
        };
        let of_queue = ["vhost", "name", "messages_ready", "messages_unacknowledged", "consumers"];
        Ok(Self {
            at: Instant::now(),
            status,
            queues: list(Listed::Queues, &of_queue, &OF_QUEUE)?,
            connections: list(Listed::Connections, &["name", "user", "state"], &OF_CONNECTION)?,
        })
    }

    /// What has moved since another reading.
    fn since(&self, before: &Self, rows: usize) -> String {
        let seconds = self.at.duration_since(before.at).as_secs_f64().max(0.001);
        let (now, then) = (&self.status.messages, &before.status.messages);
        let rate = |now: u64, then: u64| rate(now.saturating_sub(then), seconds);
        let alarms = match &self.status.server.alarms[..] {
            [] => String::new(),
            alarms => format!(", alarms: {}", alarms.join(" and ")),
        };
        let mut text = String::new();
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "{}/s published, {}/s delivered, {}/s acknowledged; {} ready, {} with consumers; {} of {} queued{alarms}\n",
            rate(now.published, then.published),
            rate(now.delivered, then.delivered),
            rate(now.acknowledged, then.acknowledged),
            now.messages_ready,
            now.messages_unacked,
            size(self.status.storage.memory_used_bytes),
            size(self.status.storage.memory_limit_bytes),
        );
        let text_of = |row: &Json, name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let queues = busiest(&self.queues, &before.queues, &OF_QUEUE, rows).into_iter().map(|(row, moved)| {
            let mut cells = vec![text_of(row, "vhost"), text_of(row, "name")];
            cells.extend(["messages_ready", "messages_unacknowledged", "consumers"].map(|name| row[name].to_string()));
            cells.extend(moved.iter().map(|moved| self::rate(*moved, seconds)));
            cells
        });
        let head = ["vhost", "queue", "ready", "unacked", "consumers", "in/s", "out/s", "acked/s"];
        text += &table::text(&head, &queues.collect::<Vec<_>>());
        let connections = busiest(&self.connections, &before.connections, &OF_CONNECTION, rows);
        let connections = connections.into_iter().map(|(row, moved)| {
            let mut cells = vec![text_of(row, "name"), text_of(row, "user"), text_of(row, "state")];
            cells.extend(moved.iter().map(|moved| size((*moved as f64 / seconds) as u64)));
            cells
        });
        text += "\n";
        text += &table::text(&["peer", "user", "state", "received/s", "sent/s"], &connections.collect::<Vec<_>>());
        text
    }
}

/// The rows whose counters have moved most, with how far each has; those of equal movement in their
/// order.
fn busiest<'r>(now: &'r [Json], before: &[Json], counters: &[&str], most: usize) -> Vec<(&'r Json, Vec<u64>)> {
    let key = |row: &Json| (row["vhost"].to_string(), row["name"].to_string());
    let count = |row: &Json, path: &str| at(row, path).and_then(Json::as_u64).unwrap_or(0);
    let known: HashMap<_, _> = before.iter().map(|row| (key(row), row)).collect();
    let moved = |row: &'r Json| {
        let then = known.get(&key(row));
        // What is new has come with all that it has.
        let since = |path: &&str| count(row, path).saturating_sub(then.map_or(0, |then| count(then, path)));
        (row, counters.iter().map(since).collect::<Vec<_>>())
    };
    let mut rows: Vec<_> = now.iter().map(moved).collect();
    rows.sort_by_key(|(_, moved)| std::cmp::Reverse(moved.iter().sum::<u64>()));
    rows.truncate(most);
    rows
}

/// A number for each second, as a whole one from 10 on.
fn rate(moved: u64, seconds: f64) -> String {
    let rate = moved as f64 / seconds;
    if rate >= 10.0 || moved == 0 { format!("{rate:.0}") } else { format!("{rate:.1}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_moves_most_is_first() {
        let row =
            |name: &str, received: u64, sent: u64| json!({ "name": name, "recv_oct": received, "send_oct": sent });
        let before = [row("a", 10, 10), row("b", 0, 0), row("gone", 5, 5)];
        let now = [row("a", 11, 10), row("b", 100, 200), row("new", 7, 0), row("c", 0, 0)];
        let found = busiest(&now, &before, &OF_CONNECTION, 3);
        let found: Vec<_> =
            found.iter().map(|(row, moved)| (row["name"].as_str().unwrap(), moved.as_slice())).collect();
        assert_eq!(found, [("b", &[100, 200][..]), ("new", &[7, 0]), ("a", &[1, 0])]);
    }

    #[test]
    fn rates_are_short() {
        for (moved, seconds, expected) in [(0, 2.0, "0"), (1, 2.0, "0.5"), (19, 2.0, "9.5"), (2001, 2.0, "1000")] {
            assert_eq!(rate(moved, seconds), expected);
        }
    }
}
