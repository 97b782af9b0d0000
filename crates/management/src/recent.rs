//! The last lines of the log, the last entries of the audit log, and the last connections that
//! ended, in memory: what the console, the API and `hermod log` show.
//!
//! All are bounded in number and in the bytes of each line, so that a peer that causes many lines
//! pushes out old ones and takes no more memory. Audit entries and endings have rings of their own,
//! so that other lines don't push them out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Target of the audit log's events.
pub const AUDIT: &str = "audit";

/// What the log says of the end of a connection that had logged in.
const ENDED: &str = "connection closed";
/// What it says before that of an error, or of an operator, that ends one.
const CAUSES: [&str; 5] = [
    "closing after an error",
    "closing a connection",
    "STOMP connection closed with an error",
    "MQTT connection closed with an error",
    "connection closed with an error",
];
/// Lines before the end of a connection among which its cause is looked for.
const BEFORE: usize = 64;
/// The field that an ending gets from its cause.
const TOLD: &str = "told";

/// Lines that are kept of each kind.
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

/// A connection that has ended: whose it was, which side ended it, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) number: u64,
    /// Milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) user: String,
    pub(crate) vhost: String,
    pub(crate) peer: String,
    pub(crate) protocol: String,
    /// `protocol`, `client`, `broker` or `network`.
    pub(crate) by: String,
    pub(crate) reason: String,
    /// What its client was told; empty if it was told nothing.
    pub(crate) told: String,
    /// The last thing that it asked for.
    pub(crate) last: String,
    /// Bytes.
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) seconds: u64,
}

impl Ending {
    fn of(line: &LogLine) -> Self {
        let text = |name| line.field(&[name]).to_owned();
        let number = |name| line.field(&[name]).parse().unwrap_or_default();
        let error = match line.field(&["error"]) {
            "" => String::new(),
            error => format!(": {error}"),
        };
        Self {
            number: line.number,
            at: line.at,
            user: text("user"),
            vhost: text("vhost"),
            peer: text("peer"),
            protocol: text("protocol"),
            by: text("by"),
            reason: text("reason") + &error,
            told: text(TOLD),
            last: text("last"),
            received: number("received"),
            sent: number("sent"),
            seconds: number("seconds"),
        }
    }
}

/// What the client of a connection was told that ends here; empty if it was told nothing.
fn told(log: &VecDeque<Arc<LogLine>>, ending: &LogLine) -> String {
    let peer = ending.field(&["peer"]);
    let is_cause = |line: &&Arc<LogLine>| {
        CAUSES.contains(&&*line.text)
            && line.field(&["peer"]) == peer
            // An error of a channel ends that alone.
            && matches!(line.field(&["channel"]), "" | "0")
    };
    let Some(cause) = log.iter().rev().take(BEFORE).find(is_cause) else { return String::new() };
    let [code, text] = [&["code", "condition", "reason"][..], &["text", "error"]].map(|names| cause.field(names));
    if code.is_empty() || text.starts_with(code) { text.to_owned() } else { format!("{code} {text}") }
}

/// See the module.
#[derive(Debug, Default)]
pub struct RecentLog(Mutex<Rings>);

#[derive(Debug, Default)]
struct Rings {
    count: u64,
    log: VecDeque<Arc<LogLine>>,
    audit: VecDeque<Arc<LogLine>>,
    /// With what the client was told.
    endings: VecDeque<Arc<LogLine>>,
}

impl RecentLog {
    /// Keeps a line, which gets its number here.
    pub fn keep(&self, mut line: LogLine) {
        line.cut();
        let mut rings = self.lock();
        rings.count += 1;
        line.number = rings.count;
        if line.text == ENDED {
            let mut ending = line.clone();
            ending.fields.push((TOLD, told(&rings.log, &line)));
            push(&mut rings.endings, &Arc::new(ending));
        }
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

    /// The endings that are kept, the oldest first.
    pub(crate) fn endings(&self) -> Vec<Ending> {
        let lines: Vec<_> = self.lock().endings.iter().cloned().collect();
        lines.iter().map(|line| Ending::of(line)).collect()
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
    fn an_ending_says_whose_it_was_and_what_the_client_was_told() {
        let recent = RecentLog::default();
        let close = |peer: &str, by: &str| {
            let fields = [
                ("peer", peer),
                ("protocol", "amqp091"),
                ("user", "ada"),
                ("vhost", "/"),
                ("by", by),
                ("reason", "the socket failed"),
                ("error", if by == "network" { "reset" } else { "" }),
                ("last", "basic.ack"),
                ("received", "12"),
                ("seconds", "3"),
            ];
            recent.keep(line("net::drive", ENDED, &fields));
        };
        let cause = |text: &str, fields: &[(&'static str, &str)]| recent.keep(line("amqp091", text, fields));
        cause(CAUSES[0], &[("peer", "a:1"), ("channel", "0"), ("code", "501"), ("text", "FRAME_ERROR - x")]);
        // Of another peer, and of a channel alone.
        cause(CAUSES[0], &[("peer", "b:1"), ("channel", "0"), ("code", "530"), ("text", "NOT_ALLOWED")]);
        cause(CAUSES[0], &[("peer", "a:1"), ("channel", "7"), ("code", "406"), ("text", "PRECONDITION_FAILED")]);
        close("a:1", "protocol");
        close("c:1", "network");
        cause(CAUSES[3], &[("peer", "d:1"), ("reason", "not_authorized"), ("error", "no right")]);
        close("d:1", "protocol");
        // It is too long ago to belong to this end.
        (0..BEFORE).for_each(|_| recent.keep(line("net", "other", &[("peer", "b:1")])));
        close("b:1", "protocol");
        let all = recent.endings();
        assert_eq!(
            all.iter().map(|ending| [&*ending.peer, &ending.reason, &ending.told].join("|")).collect::<Vec<_>>(),
            [
                "a:1|the socket failed|501 FRAME_ERROR - x",
                "c:1|the socket failed: reset|",
                "d:1|the socket failed|not_authorized no right",
                "b:1|the socket failed|",
            ]
        );
        let first = &all[0];
        assert_eq!((&*first.user, &*first.by, &*first.last), ("ada", "protocol", "basic.ack"));
        assert_eq!((first.number, first.received, first.sent, first.seconds), (4, 12, 0, 3));
        (0..KEPT).for_each(|_| recent.keep(line("net", "other", &[])));
        assert_eq!(recent.endings().len(), 4);
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
