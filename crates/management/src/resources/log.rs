//! The last lines of the log and the last entries of the audit log, for administrators; and the
//! last connections that ended, each for its user.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde_json::{Value as Json, json};

use crate::listing::{Collection, Part, Rights};
use crate::recent::{AuditEntry, Ending, LogLine};
use crate::source::Source;

/// Lines of the log, the oldest first.
pub(crate) struct Log;

/// Entries of the audit log, the oldest first.
pub(crate) struct Audit;

/// Connections that have ended, the oldest first.
pub(crate) struct Endings;

impl Collection for Endings {
    fn rights(&self) -> Rights {
        Rights::Owner
    }

    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        part.of_whole(source.facts.recent.endings().iter().map(ending_row))
    }
}

impl Collection for Log {
    fn rights(&self) -> Rights {
        Rights::Administrators
    }

    fn rows(&self, source: &Source, _: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        source.facts.recent.lines().iter().map(|line| line_row(line)).collect()
    }
}

impl Collection for Audit {
    fn rights(&self) -> Rights {
        Rights::Administrators
    }

    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        part.of_whole(source.facts.recent.audit().iter().map(entry_row))
    }
}

fn line_row(line: &LogLine) -> Json {
    json!({
        "number": line.number,
        "at": time(line.at),
        "level": line.level,
        "part": line.part,
        "text": line.text,
        "fields": line.said(),
    })
}

fn ending_row(ending: &Ending) -> Json {
    json!({
        "number": ending.number,
        "at": time(ending.at),
        "user": ending.user,
        "vhost": ending.vhost,
        "peer": ending.peer,
        "protocol": ending.protocol,
        "by": ending.by,
        "reason": ending.reason,
        "told": ending.told,
        "last": ending.last,
        "received": ending.received,
        "sent": ending.sent,
        "seconds": ending.seconds,
    })
}

fn entry_row(entry: &AuditEntry) -> Json {
    json!({
        "number": entry.number,
        "at": time(entry.at),
        "who": entry.who,
        "via": entry.via,
        "from": entry.from,
        "action": entry.action,
        "vhost": entry.vhost,
        "object": entry.object,
        "outcome": entry.outcome,
        "why": entry.why,
        "about": entry.about,
    })
}

/// A time in milliseconds since 1970, as `2026-11-27T10:00:00.000Z`.
fn time(milliseconds: u64) -> Json {
    let time = i64::try_from(milliseconds).ok().and_then(|time| Timestamp::from_millisecond(time).ok());
    time.map_or(Json::Null, |time| json!(format!("{time:.3}")))
}
