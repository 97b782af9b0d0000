//! The facts that the broker journals: their kinds, and their bytes both ways.
//! `docs/formats/facts.md` draws them.
//!
//! Kinds are never renumbered. Each fact is complete in itself, and has the same effect when it is
//! replayed twice.

use std::sync::Arc;

use journal::{Appender, Group, Owner};

use crate::catalog::Exchange;
use crate::catalog::definitions::{DefinitionKey, Sort};
use crate::encoding::{Malformed, Reader, write_bool, write_bytes, write_table, write_text, write_varint};
use crate::error::Error;
use crate::queue::{
    Bound, Keyed, Queue, Reason, Remains, RememberedId, Returns, SETTLED_BEFORE, Span, Waiters, reason_code,
};
use crate::routing::ExchangeKind;
use crate::store::runs::log_valued;
use crate::value::Table;

/// A vhost: its name.
pub(crate) const VHOST: u8 = 1;
/// An exchange: vhost, name, kind, durable is implied, flags, arguments.
pub(crate) const EXCHANGE: u8 = 2;
/// A queue: vhost, name, flags, arguments.
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

/// Ids or keys in one fact at most, in the restatement of a bundle.
const IDS_TOGETHER: usize = 128;

/// A declared exchange, as replayed.
#[derive(Debug)]
pub(crate) struct ExchangeFact {
    pub(crate) vhost: Owner,
    pub(crate) name: String,
    pub(crate) kind: ExchangeKind,
    pub(crate) auto_delete: bool,
    pub(crate) internal: bool,
    pub(crate) arguments: Table,
}

/// A declared queue, as replayed.
#[derive(Debug)]
pub(crate) struct QueueFact {
    pub(crate) vhost: Owner,
    pub(crate) name: String,
    pub(crate) auto_delete: bool,
    pub(crate) arguments: Table,
}

fn table_bytes(into: &mut Vec<u8>, table: &Table) {
    let written = write_table(into, table);
    // Only tables that nest too deeply can't be written, and declarations refuse those before they
    // are logged.
    debug_assert!(written.is_ok(), "a table that was accepted can't be stored");
}

pub(crate) fn log_vhost(appender: &mut Appender<'_>, group: Option<Group>, id: Owner, name: &str) {
    let mut bytes = Vec::new();
    write_text(&mut bytes, name);
    appender.fact(group, id, VHOST, &[&bytes]);
}

pub(crate) fn log_exchange(appender: &mut Appender<'_>, vhost: Owner, exchange: &Exchange) {
    let mut bytes = Vec::new();
    write_varint(&mut bytes, vhost);
    write_text(&mut bytes, &exchange.name);
    write_text(&mut bytes, exchange.kind.name());
    write_bool(&mut bytes, exchange.auto_delete);
    write_bool(&mut bytes, exchange.internal);
    table_bytes(&mut bytes, &exchange.arguments);
    appender.fact(None, exchange.id, EXCHANGE, &[&bytes]);
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
    };
    reader.end()?;
    Ok(fact)
}

pub(crate) fn log_queue(appender: &mut Appender<'_>, vhost: Owner, queue: &Queue) {
    let mut bytes = Vec::new();
    write_varint(&mut bytes, vhost);
    write_text(&mut bytes, &queue.name);
    write_bool(&mut bytes, queue.auto_delete);
    table_bytes(&mut bytes, &queue.declared);
    appender.fact(None, queue.id, QUEUE, &[&bytes]);
}

pub(crate) fn read_queue(bytes: &[u8]) -> Result<QueueFact, Malformed> {
    let mut reader = Reader::new(bytes);
    let fact = QueueFact {
        vhost: reader.varint()?,
        name: reader.text()?.to_owned(),
        auto_delete: reader.bool()?,
        arguments: reader.table()?,
    };
    reader.end()?;
    Ok(fact)
}

/// Logs a binding to `destination`, or its end.
pub(crate) fn log_binding(appender: &mut Appender<'_>, destination: Owner, kind: u8, bound: &Bound) {
    let mut bytes = Vec::new();
    write_varint(&mut bytes, bound.exchange);
    write_text(&mut bytes, &bound.key);
    table_bytes(&mut bytes, &bound.arguments);
    appender.fact(None, destination, kind, &[&bytes]);
}

pub(crate) fn read_binding(bytes: &[u8]) -> Result<Bound, Malformed> {
    let mut reader = Reader::new(bytes);
    let bound = Bound { exchange: reader.varint()?, key: reader.text()?.to_owned(), arguments: reader.table()? };
    reader.end()?;
    Ok(bound)
}

fn log_pair(appender: &mut Appender<'_>, owner: Owner, kind: u8, first: u64, second: u64) {
    let mut bytes = Vec::with_capacity(20);
    write_varint(&mut bytes, first);
    write_varint(&mut bytes, second);
    appender.fact(None, owner, kind, &[&bytes]);
}

pub(crate) fn log_position(appender: &mut Appender<'_>, queue: Owner, next_seq: u64, mark: u64) {
    log_pair(appender, queue, POSITION, next_seq, mark);
}

pub(crate) fn log_returns(appender: &mut Appender<'_>, queue: Owner, seq: u64, returns: Returns) {
    if let Some(both) = returns.both() {
        log_pair(appender, queue, RETURNS, seq, both);
    }
    log_pair(appender, queue, RETURNS, seq, returns.counted().into());
}

pub(crate) fn log_retry(appender: &mut Appender<'_>, queue: Owner, seq: u64, due: u64) {
    log_pair(appender, queue, RETRY, seq, due);
}

pub(crate) fn log_dying(appender: &mut Appender<'_>, queue: Owner, seq: u64, reason: Reason) {
    log_pair(appender, queue, DYING, seq, reason_code(reason).into());
}

fn log_accounted(appender: &mut Appender<'_>, group: Option<Group>, queue: Owner, next_seq: u64, pages: &[(u64, u64)]) {
    let mut bytes = Vec::with_capacity(10 + 8 * pages.len());
    write_varint(&mut bytes, next_seq);
    write_varint(&mut bytes, pages.len() as u64);
    pages.iter().flat_map(|(first, count)| [first, count]).for_each(|number| write_varint(&mut bytes, *number));
    appender.fact(group, queue, ACCOUNTED, &[&bytes]);
}

/// Logs the bucket `owner` of a queue.
pub(crate) fn log_bucket(appender: &mut Appender<'_>, owner: Owner, queue: Owner, span: Span) {
    let mut bytes = Vec::with_capacity(21);
    [queue, span.begins, span.exponent.into()].into_iter().for_each(|number| write_varint(&mut bytes, number));
    appender.fact(None, owner, BUCKET, &[&bytes]);
}

/// Reads the queue of a bucket, and its span.
pub(crate) fn read_bucket(bytes: &[u8]) -> Result<(Owner, Span), Malformed> {
    let mut reader = Reader::new(bytes);
    let (queue, begins, exponent) = (reader.varint()?, reader.varint()?, reader.varint()?);
    let exponent = u32::try_from(exponent).ok().filter(|exponent| *exponent < u64::BITS);
    let exponent = exponent.ok_or_else(|| reader.malformed("a span that is too long"))?;
    reader.end()?;
    Ok((queue, Span { begins, exponent }))
}

/// Logs ids of a bundle, each with its place, that a queue remembers for a scope.
pub(crate) fn log_seen(
    appender: &mut Appender<'_>,
    group: Option<Group>,
    bundle: Owner,
    (queue, scope): (Owner, Owner),
    ids: &[(u64, &RememberedId)],
) {
    for part in ids.chunks(IDS_TOGETHER) {
        let mut bytes = Vec::with_capacity(32 + part.iter().map(|(_, kept)| 24 + kept.id.len()).sum::<usize>());
        [queue, scope].into_iter().for_each(|number| write_varint(&mut bytes, number));
        for (place, kept) in part {
            [*place, kept.number, kept.until].into_iter().for_each(|number| write_varint(&mut bytes, number));
            write_bytes(&mut bytes, &kept.id);
        }
        appender.fact(group, bundle, SEEN, &[&bytes]);
    }
}

/// Ids of a bundle, as logged.
pub(crate) struct SeenFact {
    pub(crate) queue: Owner,
    pub(crate) scope: Owner,
    /// Each with its place.
    pub(crate) ids: Vec<(u64, RememberedId)>,
}

/// Reads ids of a bundle.
pub(crate) fn read_seen(bytes: &[u8]) -> Result<SeenFact, Malformed> {
    let mut reader = Reader::new(bytes);
    let (queue, scope, mut ids) = (reader.varint()?, reader.varint()?, Vec::new());
    while !reader.is_empty() {
        let (place, number, until) = (reader.varint()?, reader.varint()?, reader.varint()?);
        ids.push((place, RememberedId { id: reader.bytes()?.into(), number, until, durable: true }));
    }
    Ok(SeenFact { queue, scope, ids })
}

/// Logs keys of a bundle, each with its place.
pub(crate) fn log_keyed(
    appender: &mut Appender<'_>,
    group: Option<Group>,
    bundle: Owner,
    queue: Owner,
    keys: &[(u64, &Keyed)],
) {
    for part in keys.chunks(IDS_TOGETHER) {
        appender.fact(group, bundle, KEYED, &[&keyed_bytes(queue, part)]);
    }
}

fn keyed_bytes(queue: Owner, keys: &[(u64, &Keyed)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(10 + keys.iter().map(|(_, keyed)| 20 + keyed.key.len()).sum::<usize>());
    write_varint(&mut bytes, queue);
    for (place, keyed) in keys {
        [*place, keyed.number].into_iter().for_each(|number| write_varint(&mut bytes, number));
        write_bytes(&mut bytes, &keyed.key);
    }
    bytes
}

/// Reads keys of a bundle: the queue, and each key with its place.
pub(crate) fn read_keyed(bytes: &[u8]) -> Result<(Owner, Vec<(u64, Keyed)>), Malformed> {
    let mut reader = Reader::new(bytes);
    let (queue, mut keys) = (reader.varint()?, Vec::new());
    while !reader.is_empty() {
        let (place, number) = (reader.varint()?, reader.varint()?);
        keys.push((place, Keyed { key: reader.bytes()?.into(), number, durable: true }));
    }
    Ok((queue, keys))
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

/// The bytes of a definition.
///
/// # Errors
/// For fields that are nested too deeply.
pub(crate) fn definition_bytes(key: &DefinitionKey, value: &Table) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    write_text(&mut bytes, key.sort.name());
    write_varint(&mut bytes, key.vhost);
    write_text(&mut bytes, &key.name);
    write_table(&mut bytes, value)?;
    Ok(bytes)
}

pub(crate) fn read_definition(bytes: &[u8]) -> Result<(DefinitionKey, Table), Malformed> {
    let mut reader = Reader::new(bytes);
    let sort = Sort::parse(reader.text()?).ok_or_else(|| reader.malformed("unknown sort of definition"))?;
    let key = DefinitionKey { sort, vhost: reader.varint()?, name: reader.text()?.to_owned() };
    let value = reader.table()?;
    reader.end()?;
    Ok((key, value))
}

pub(crate) fn read_name(bytes: &[u8]) -> Result<String, Malformed> {
    let mut reader = Reader::new(bytes);
    let name = reader.text()?.to_owned();
    reader.end()?;
    Ok(name)
}

/// The facts of one lane of a queue in a restatement.
#[derive(Debug)]
pub(crate) struct LaneFacts {
    /// The next sequence number, and the delivery mark.
    pub(crate) position: (u64, u64),
    /// The pages that are accounted for, in runs.
    pub(crate) accounted: Vec<(u64, u64)>,
    /// The numbers that are settled, in runs.
    pub(crate) settled: Vec<(u64, u64)>,
}

impl LaneFacts {
    fn log(&self, appender: &mut Appender<'_>, queue: Owner) {
        log_position(appender, queue, self.position.0, self.position.1);
        let both = !self.accounted.is_empty() && !self.settled.is_empty();
        // The two belong together: numbers that the log no longer says to be settled would be
        // missed.
        let group = both.then(|| appender.begin_group());
        if !self.accounted.is_empty() {
            // Before the settled numbers: those of pages about which nothing is known are dropped.
            log_accounted(appender, group, queue, self.position.0, &self.accounted);
        }
        if !self.settled.is_empty() {
            appender.settle_counted(group, queue, SETTLED_BEFORE, &self.settled, &mut std::iter::empty());
        }
        if let Some(group) = group {
            appender.end_group(group);
        }
    }
}

/// Logs everything about a queue except its entries.
pub(crate) fn log_whole_queue(
    appender: &mut Appender<'_>,
    vhost: Owner,
    queue: &Arc<Queue>,
    bound: &[Bound],
    lanes: &[LaneFacts],
    remains: &Remains<'_>,
) {
    match &queue.bucket {
        None => log_queue(appender, vhost, queue),
        Some(bucket) => log_bucket(appender, queue.id, bucket.owner, bucket.span),
    }
    for lane in lanes {
        lane.log(appender, queue.id);
    }
    for bound in bound {
        log_binding(appender, queue.id, BIND, bound);
    }
    // In front of the numbers that an earlier version reads alone.
    let both = remains.returns.iter().filter_map(|(seq, returns)| Some((*seq, returns.both()?)));
    log_valued(appender, queue.id, RETURNS_RUNS, both);
    let counted = remains.returns.iter().map(|(seq, returns)| (*seq, u64::from(returns.counted())));
    log_valued(appender, queue.id, RETURNS_RUNS, counted);
    let decided = remains.decided.iter().map(|(seq, reason)| (*seq, u64::from(reason_code(*reason))));
    log_valued(appender, queue.id, DYING_RUNS, decided);
    for (seq, due) in remains.waiting.into_iter().flat_map(Waiters::iter) {
        log_retry(appender, queue.id, seq, due);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    #[test]
    fn a_definition_is_stored_in_these_bytes_and_every_cut_is_noticed() {
        let mut value = Table::default();
        value.set("max-queues", Value::I64(3));
        let key = DefinitionKey::new(Sort::VhostLimits, 300, "n");
        let bytes = definition_bytes(&key, &value).unwrap();
        assert_eq!(bytes, b"\x0cvhost-limits\xac\x02\x01n\x01\x0amax-queues\x09\x03\0\0\0\0\0\0\0");
        for end in 0..bytes.len() {
            assert!(read_definition(&bytes[..end]).is_err(), "cut at {end}");
        }
        assert_eq!(read_definition(&bytes).unwrap(), (key, value));
        assert!(read_definition(&[&bytes[..], b"\0"].concat()).is_err());
        assert!(read_definition(b"\x05storm\0\0\0").is_err());
    }

    #[test]
    fn keys_are_stored_in_these_bytes_and_a_cut_within_one_is_noticed() {
        let keyed = |key: &str, number| Keyed { key: key.as_bytes().into(), number, durable: true };
        let keys = [(0, keyed("a", 1)), (300, keyed("longer", (1 << 48) + 5))];
        let bytes = keyed_bytes(7, &keys.each_ref().map(|(place, keyed)| (*place, keyed)));
        assert_eq!(bytes, b"\x07\0\x01\x01a\xac\x02\x85\x80\x80\x80\x80\x80\x40\x06longer");
        // The log has the length of the fact, and keys go to its end.
        let whole = [(1, 0), (5, 1), (bytes.len(), 2)];
        for end in 0..=bytes.len() {
            let expected = whole.iter().find(|(at, _)| *at == end).map(|(_, count)| (7, keys[..*count].to_vec()));
            assert_eq!(read_keyed(&bytes[..end]).ok(), expected, "cut at {end}");
        }
    }
}
