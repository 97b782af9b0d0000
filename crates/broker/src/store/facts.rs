//! The facts that the broker journals: their kinds, and their bytes both ways.
//! `docs/formats/facts.md` draws them.
//!
//! Kinds are never renumbered. Each fact is complete in itself, and has the same effect when it is
//! replayed twice.

use journal::{Appender, Group, Owner};

use crate::encoding::{Malformed, Reader, write_table, write_text, write_varint};
use crate::routing::ExchangeKind;
use crate::value::Table;

/// A vhost: its name, its id.
pub(crate) const VHOST: u8 = 1;
/// An exchange: vhost, name, kind, durable is implied, flags, arguments, the user that it counts
/// for.
pub(crate) const EXCHANGE: u8 = 2;
/// A queue: vhost, name, flags, arguments, the user that it counts for.
pub(crate) const QUEUE: u8 = 3;
/// A binding to this owner: source exchange, key, arguments.
pub(crate) const BIND: u8 = 4;
/// The end of such a binding.
pub(crate) const UNBIND: u8 = 5;
/// The next sequence number and the delivery mark of a lane of a queue.
pub(crate) const POSITION: u8 = 6;
/// How often an entry came back.
pub(crate) const RETURNS: u8 = 7;
/// A user, as the authority encodes it; empty when the user was removed.
pub(crate) const USER: u8 = 8;
/// An entry whose death is decided and whose move has not happened.
pub(crate) const DYING: u8 = 9;
/// The pages of a queue that are accounted for: every number is in the log, settled, or listed by
/// an index.
pub(crate) const ACCOUNTED: u8 = 10;
/// How often entries came back, restated for many at once.
pub(crate) const RETURNS_RUNS: u8 = 11;
/// Entries whose death is decided, restated for many at once.
pub(crate) const DYING_RUNS: u8 = 12;
/// A definition of an operator: sort, vhost, name, fields.
pub(crate) const DEFINITION: u8 = 13;

/// A bucket: its queue, and its span.
pub(crate) const BUCKET: u8 = 17;

/// The due time of an entry that came back.
pub(crate) const RETRY: u8 = 18;

/// Ids of a bundle: their queue and scope. Each has its place, the number of its message, and the
/// time until which it is remembered.
pub(crate) const SEEN: u8 = 19;

/// Last-value keys of a bundle: their queue, and for each key its place and the number of its
/// message.
pub(crate) const KEYED: u8 = 20;

/// What consumers noted on an entry that they gave back.
pub(crate) const ANNOTATIONS: u8 = 21;

/// The subscription of a queue: its client, its name, whether it is shared, its selector.
pub(crate) const SUBSCRIPTION: u8 = 24;

/// The value of a topic in a bundle of them: its place, its exchange, its message; or that a place
/// has none.
pub(crate) const RETAINED: u8 = 27;

/// How far messages have come that a client and the broker hand over exactly once.
pub(crate) const EXACTLY_ONCE: u8 = 28;

/// A will: its vhost, its user and client, when it is due, its message.
pub(crate) const WILL: u8 = 29;

/// A declared exchange, as logged.
#[derive(Debug, Clone)]
pub(crate) struct ExchangeFact {
    pub(crate) vhost: Owner,
    pub(crate) name: String,
    pub(crate) kind: ExchangeKind,
    pub(crate) auto_delete: bool,
    pub(crate) internal: bool,
    pub(crate) arguments: Table,
    /// The user that its memory counts for.
    pub(crate) declared_by: Option<String>,
}

impl ExchangeFact {
    /// An exchange that is neither auto-delete nor internal, without arguments.
    pub(crate) fn plain(vhost: Owner, name: &str, kind: ExchangeKind) -> Self {
        let (name, arguments) = (name.to_owned(), Table::default());
        Self { vhost, name, kind, auto_delete: false, internal: false, arguments, declared_by: None }
    }
}

/// A declared queue, as logged.
#[derive(Debug, Clone)]
pub(crate) struct QueueFact {
    pub(crate) vhost: Owner,
    pub(crate) name: String,
    pub(crate) auto_delete: bool,
    pub(crate) arguments: Table,
    /// The user that its memory counts for.
    pub(crate) declared_by: Option<String>,
}

impl ExchangeFact {
    /// Logs that it is this owner's.
    pub(crate) fn log(&self, appender: &mut Appender<'_>, group: Option<Group>, exchange: Owner) {
        let mut bytes = Vec::new();
        write_varint(&mut bytes, self.vhost);
        write_text(&mut bytes, &self.name);
        write_text(&mut bytes, self.kind.name());
        bytes.push(self.auto_delete.into());
        bytes.push(self.internal.into());
        table_bytes(&mut bytes, &self.arguments);
        write_declarer(&mut bytes, self.declared_by.as_deref());
        appender.fact(group, exchange, EXCHANGE, &[&bytes]);
    }
}

impl QueueFact {
    /// Logs that it is this owner's.
    pub(crate) fn log(&self, appender: &mut Appender<'_>, group: Option<Group>, queue: Owner) {
        let mut bytes = Vec::new();
        write_varint(&mut bytes, self.vhost);
        write_text(&mut bytes, &self.name);
        bytes.push(self.auto_delete.into());
        table_bytes(&mut bytes, &self.arguments);
        write_declarer(&mut bytes, self.declared_by.as_deref());
        appender.fact(group, queue, QUEUE, &[&bytes]);
    }
}

/// Writes the last part of a declaration: the user that it counts for, or nothing.
fn write_declarer(into: &mut Vec<u8>, user: Option<&str>) {
    if let Some(user) = user {
        write_text(into, user);
    }
}

/// Reads that.
fn read_declarer(reader: &mut Reader<'_>) -> Result<Option<String>, Malformed> {
    if reader.is_empty() { Ok(None) } else { Ok(Some(reader.text()?.to_owned())) }
}

pub(crate) fn table_bytes(into: &mut Vec<u8>, table: &Table) {
    let written = write_table(into, table);
    // Only tables that nest too deeply can't be written, and declarations refuse those before they
    // are logged.
    debug_assert!(written.is_ok(), "a table that was accepted can't be stored");
}

/// Logs a vhost by its record's owner and by its id, whose log is its home.
pub(crate) fn log_vhost(appender: &mut Appender<'_>, group: Option<Group>, (record, id): (Owner, Owner), name: &str) {
    let mut bytes = Vec::new();
    write_text(&mut bytes, name);
    write_varint(&mut bytes, id);
    appender.fact(group, record, VHOST, &[&bytes]);
}

/// The name of a vhost, and its id; none if that is its record's owner.
pub(crate) fn read_vhost(bytes: &[u8]) -> Result<(String, Option<Owner>), Malformed> {
    let mut reader = Reader::new(bytes);
    let name = reader.text()?.to_owned();
    let id = if reader.is_empty() { None } else { Some(reader.varint()?) };
    reader.end()?;
    Ok((name, id))
}

pub(crate) fn read_exchange(bytes: &[u8]) -> Result<ExchangeFact, Malformed> {
    let mut reader = Reader::new(bytes);
    let vhost = reader.varint()?;
    let name = reader.text()?.to_owned();
    let kind = ExchangeKind::parse(reader.text()?).ok_or_else(|| reader.malformed("unknown kind of exchange"))?;
    let fact = ExchangeFact {
        vhost,
        name,
        kind,
        auto_delete: reader.bool()?,
        internal: reader.bool()?,
        arguments: reader.table()?,
        declared_by: read_declarer(&mut reader)?,
    };
    reader.end()?;
    Ok(fact)
}

pub(crate) fn read_queue(bytes: &[u8]) -> Result<QueueFact, Malformed> {
    let mut reader = Reader::new(bytes);
    let fact = QueueFact {
        vhost: reader.varint()?,
        name: reader.text()?.to_owned(),
        auto_delete: reader.bool()?,
        arguments: reader.table()?,
        declared_by: read_declarer(&mut reader)?,
    };
    reader.end()?;
    Ok(fact)
}

pub(crate) fn log_pair(appender: &mut Appender<'_>, owner: Owner, kind: u8, first: u64, second: u64) {
    let mut bytes = Vec::with_capacity(20);
    write_varint(&mut bytes, first);
    write_varint(&mut bytes, second);
    appender.fact(None, owner, kind, &[&bytes]);
}

pub(crate) fn log_position(appender: &mut Appender<'_>, queue: Owner, next_seq: u64, mark: u64) {
    log_pair(appender, queue, POSITION, next_seq, mark);
}

pub(crate) fn log_retry(appender: &mut Appender<'_>, queue: Owner, seq: u64, due: u64) {
    log_pair(appender, queue, RETRY, seq, due);
}

pub(crate) fn log_accounted(
    appender: &mut Appender<'_>,
    group: Option<Group>,
    queue: Owner,
    next_seq: u64,
    pages: &[(u64, u64)],
) {
    let mut bytes = Vec::with_capacity(10 + 8 * pages.len());
    write_varint(&mut bytes, next_seq);
    write_varint(&mut bytes, pages.len() as u64);
    pages.iter().flat_map(|(first, count)| [first, count]).for_each(|number| write_varint(&mut bytes, *number));
    appender.fact(group, queue, ACCOUNTED, &[&bytes]);
}

/// Reads an accounted fact: the next sequence number, and pages in runs.
pub(crate) fn read_accounted(bytes: &[u8]) -> Result<(u64, Vec<(u64, u64)>), Malformed> {
    let mut reader = Reader::new(bytes);
    let (next_seq, count) = (reader.varint()?, reader.varint()?);
    let pages = (0..count).map(|_| Ok((reader.varint()?, reader.varint()?))).collect::<Result<_, _>>()?;
    reader.end()?;
    Ok((next_seq, pages))
}

/// Reads a position, returns or dying fact.
pub(crate) fn read_pair(bytes: &[u8]) -> Result<(u64, u64), Malformed> {
    let mut reader = Reader::new(bytes);
    let pair = (reader.varint()?, reader.varint()?);
    reader.end()?;
    Ok(pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declaration_is_read_with_and_without_its_user_and_a_cut_is_noticed() {
        let (queue, exchange) = (b"\x05\x01q\0\0\x05alice", b"\x05\x01e\x06fanout\0\0\0\x05alice");
        let declarer = |bytes: &[u8]| match bytes.get(2) {
            Some(b'e') => read_exchange(bytes).ok().map(|fact| fact.declared_by),
            _ => read_queue(bytes).ok().map(|fact| fact.declared_by),
        };
        for (bytes, without) in [(&queue[..], 5), (&exchange[..], 13)] {
            for end in 0..=bytes.len() {
                let expected = match end {
                    end if end == without => Some(None),
                    end if end == bytes.len() => Some(Some("alice".to_owned())),
                    _ => None,
                };
                assert_eq!(declarer(&bytes[..end]), expected, "cut at {end}");
            }
        }
    }
}
