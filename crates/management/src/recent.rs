//! The last lines of the log, and the last entries of the audit log, in memory: what the console,
//! the API and `hermod log` show.
//!
//! Both are bounded in number and in the bytes of each line, so that a peer that causes many lines
//! pushes out old ones and takes no more memory. Audit entries have a ring of their own, so that
//! other lines don't push them out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Target of the audit log's events.
pub const AUDIT: &str = "audit";

/// Lines that are kept of each of the two.
const KEPT: usize = 1000;
/// Bytes of the text and the fields of a line that are kept.
const LONGEST: usize = 2048;

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Counts all lines since the start, from 1.
    pub number: u64,
    /// Milliseconds since 1970.
    pub at: u64,
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub level: &'static str,
    /// The part of the program that wrote it.
    pub part: String,
    /// What it says.
    pub text: String,
    /// Names and values of its fields, in their order.
    pub fields: Vec<(&'static str, String)>,
}

impl LogLine {
    /// Its first field of one of these names; empty without one.
    fn field(&self, names: &[&str]) -> &str {
        let found = names.iter().find_map(|name| self.fields.iter().find(|(its, _)| its == name));
        found.map_or("", |(_, value)| value)
    }

    /// Its fields as `name=value`.
    pub fn said(&self) -> String {
        self.fields.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }

    /// Cuts what is longer than is kept.
    fn cut(&mut self) {
        let mut room = LONGEST;
        let texts = std::iter::once(&mut self.text).chain(self.fields.iter_mut().map(|(_, value)| value));
        for text in texts {
            if text.len() > room {
                text.truncate(text.floor_char_boundary(room));
                text.push('…');
            }
            room = room.saturating_sub(text.len());
        }
        self.text.shrink_to_fit();
    }
}

/// An entry of the audit log: who did what to what, from where, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuditEntry {
    pub(crate) number: u64,
    /// Milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) who: String,
    /// `http`, `command line` or `client`.
    pub(crate) via: &'static str,
    pub(crate) from: String,
    pub(crate) action: String,
    pub(crate) vhost: String,
    /// The name of the object.
    pub(crate) object: String,
    /// `done` or `refused`.
    pub(crate) outcome: &'static str,
    /// Why it was refused; empty if it was not.
    pub(crate) why: String,
    /// The other fields, as `name=value`.
    pub(crate) about: String,
}

/// Fields that have a place of their own in an entry.
const PLACED: [&str; 13] = [
    "who", "user", "from", "peer", "action", "vhost", "name", "queue", "exchange", "outcome", "why", "reason",
    "stranger",
];

impl AuditEntry {
    fn of(line: &LogLine) -> Self {
        let text = |names: &[&str]| line.field(names).to_owned();
        let action = match line.field(&["action"]) {
            "" => &line.text,
            action => action,
        };
        let others = line.fields.iter().filter(|(name, value)| !PLACED.contains(name) && !value.is_empty());
        let about =
            others.map(|(name, value)| if *name == "about" { value.clone() } else { format!("{name}={value}") });
        let from = line.field(&["from", "peer"]);
        Self {
            number: line.number,
            at: line.at,
            who: text(&["who", "user"]),
            via: via(from),
            from: from.to_owned(),
            action: action.to_owned(),
            vhost: text(&["vhost"]),
            object: text(&["name", "queue", "exchange"]),
            outcome: if line.level == "info" { "done" } else { "refused" },
            why: text(&["why", "reason"]),
            about: about.collect::<Vec<_>>().join(" "),
        }
    }
}

/// The way of a request, by the form of its origin: a client's has both ends of its connection, and
/// one of HTTP the peer's address.
fn via(from: &str) -> &'static str {
    match from {
        _ if from.contains(" -> ") => "client",
        _ if from.parse::<std::net::SocketAddr>().is_ok() => "http",
        _ => "command line",
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct RecentLog(Mutex<Rings>);

#[derive(Debug, Default)]
struct Rings {
    count: u64,
    log: VecDeque<Arc<LogLine>>,
    audit: VecDeque<Arc<LogLine>>,
}

impl RecentLog {
    /// Keeps a line, which gets its number here.
    pub fn keep(&self, mut line: LogLine) {
        line.cut();
        let mut rings = self.lock();
        rings.count += 1;
        line.number = rings.count;
        let line = Arc::new(line);
        if line.part == AUDIT {
            push(&mut rings.audit, &line);
        }
        push(&mut rings.log, &line);
    }

    /// The lines that are kept, the oldest first.
    pub(crate) fn lines(&self) -> Vec<Arc<LogLine>> {
        self.lock().log.iter().cloned().collect()
    }

    /// A copy of the lines that are kept, the oldest first.
    pub fn copy(&self) -> Vec<LogLine> {
        self.lines().iter().map(|line| LogLine::clone(line)).collect()
    }

    /// The audit entries that are kept, the oldest first.
    pub(crate) fn audit(&self) -> Vec<AuditEntry> {
        let lines: Vec<_> = self.lock().audit.iter().cloned().collect();
        lines.iter().map(|line| AuditEntry::of(line)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Rings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn push(ring: &mut VecDeque<Arc<LogLine>>, line: &Arc<LogLine>) {
    if ring.len() >= KEPT {
        ring.pop_front();
    }
    ring.push_back(Arc::clone(line));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(part: &str, text: &str, fields: &[(&'static str, &str)]) -> LogLine {
        let fields = fields.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        LogLine { number: 0, at: 7, level: "info", part: part.to_owned(), text: text.to_owned(), fields }
    }

    #[test]
    fn old_lines_go_and_audit_entries_are_not_pushed_out_by_others() {
        let recent = RecentLog::default();
        recent.keep(line(AUDIT, "administrative change", &[("who", "ada"), ("action", "purge_queue")]));
        for number in 0..KEPT + 5 {
            recent.keep(line("net", &number.to_string(), &[]));
        }
        let lines = recent.lines();
        assert_eq!((lines.len(), &*lines[0].text), (KEPT, "5"));
        assert_eq!(lines[KEPT - 1].number, KEPT as u64 + 6);
        assert_eq!(recent.audit().len(), 1);
    }

    #[test]
    fn a_long_line_is_cut_in_all_its_fields_together() {
        let recent = RecentLog::default();
        let long = "ö".repeat(4000);
        recent.keep(line("net", &long, &[("name", &long), ("peer", "x")]));
        let kept = recent.lines();
        let bytes = kept[0].text.len() + kept[0].fields.iter().map(|(_, value)| value.len()).sum::<usize>();
        assert!(bytes < LONGEST + 16 && kept[0].text.ends_with('…'), "{bytes}");
    }

    #[test]
    fn an_entry_says_who_did_what_to_what_and_what_came_of_it() {
        let recent = RecentLog::default();
        let done = [
            ("who", "ada"),
            ("from", "127.0.0.1:4711"),
            ("action", "purge_queue"),
            ("vhost", "/"),
            ("name", "orders"),
            ("about", ""),
            ("count", "3"),
            ("outcome", "done"),
        ];
        recent.keep(line(AUDIT, "administrative change", &done));
        let refused = [("peer", "10.0.0.1:5 -> 127.0.0.1:5672"), ("user", "eve"), ("reason", "wrong password")];
        recent.keep(LogLine { level: "warn", ..line(AUDIT, "AMQP login refused", &refused) });
        recent.keep(line(
            AUDIT,
            "messages browsed",
            &[("who", "op"), ("from", "uid 0"), ("queue", "q"), ("count", "2")],
        ));
        let all = recent.audit();
        let shown = |entry: &AuditEntry| {
            let AuditEntry { who, via, action, vhost, object, outcome, why, about, .. } = entry;
            [who, *via, action, vhost, object, outcome, why, about].join("|")
        };
        assert_eq!(
            all.iter().map(shown).collect::<Vec<_>>(),
            [
                "ada|http|purge_queue|/|orders|done||count=3",
                "eve|client|AMQP login refused|||refused|wrong password|",
                "op|command line|messages browsed||q|done||count=2",
            ]
        );
        assert_eq!(recent.lines()[0].said().split(' ').count(), 8);
    }
}
